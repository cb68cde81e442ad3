// SPDX-License-Identifier: MIT
#include "userspace/compiler/programs/check.hpp"

#include <fmt/format.h>
#include <linux/bpf.h>

#include <algorithm>

namespace xdpgpu::programs {
namespace {

// Not in the header of every kernel that this is built on.
constexpr int kMemorySigned = 0x80;  // BPF_MEMSX
constexpr int kConditional = 0xe0;   // BPF_JCOND, which RFC 9669 has not
constexpr int kModeMask = 0xe0, kOperationMask = 0xf0, kSizeMask = 0x18;

using Error = tl::unexpected<std::string>;

constexpr const char* kNoName = "longer than 256 bytes, or not of printable ASCII alone";

bool is_printable(char c) { return c >= ' ' && c <= '~'; }

// Instructions are looked at one by one, and with their places: targets are known in the end.
class Instructions {
 public:
  explicit Instructions(const Program& program)
      : program_(program), all_(program.instructions), second_(all_.size()), begins_(all_.size()) {}

  Result<void> check() {
    if (all_.empty()) return Error("the program has no instructions");
    if (all_.size() > kMostInstructions)
      return Error(fmt::format("the program has {} instructions, of which there may be {}", all_.size(),
                               kMostInstructions));
    begins_[0] = true;
    for (at_ = 0; at_ < all_.size(); at_++) {
      const Instruction& one = all_[at_];
      if (const char* const why = wrong(one); why != nullptr)
        return Error(fmt::format("instruction {} (opcode {:#04x}) {}", at_, one.opcode, why));
      if (one.opcode == (BPF_LD | BPF_IMM | BPF_DW)) second_[++at_] = true;
    }
    return check_targets();
  }

 private:
  struct Jump {
    u32 from, to;
  };

  // Targets: that is what the second halves of instructions are not.
  Result<void> check_targets() {
    for (const auto& [from, to] : calls_)
      if (second_[to])
        return Error(fmt::format("instruction {} is of a function that begins within {}", from, to - 1));
    // Of which function an instruction is: jumps are in order of their places.
    std::vector<u32> starts;
    for (u32 i = 0; i < all_.size(); i++)
      if (begins_[i]) starts.push_back(i);
    std::size_t function = 0;
    const auto end = [&] {
      return function + 1 < starts.size() ? starts[function + 1] : static_cast<u32>(all_.size());
    };
    for (const auto& [from, to] : jumps_) {
      while (from >= end()) function++;
      if (to < starts[function] || to >= end())
        return Error(fmt::format("instruction {} jumps out of its function, to {}", from, to));
      if (second_[to]) return Error(fmt::format("instruction {} jumps into instruction {}", from, to - 1));
    }
    for (function = 0; function < starts.size(); function++) {
      const u32 last = end() - 1;
      const u8 opcode = all_[last].opcode;
      const bool goes =
          opcode == (BPF_JMP | BPF_EXIT) || opcode == (BPF_JMP | BPF_JA) || opcode == (BPF_JMP32 | BPF_JA);
      if (second_[last] || !goes)
        return Error(fmt::format("behind instruction {} its function has no end", last));
    }
    return {};
  }

  // nullptr: where it is right.
  const char* wrong(const Instruction& one) {
    if (one.destination > 10 || one.source > 10) return "names a register that there is not";
    switch (one.opcode & 7) {
      case BPF_LD:
        return wrong_constant(one);
      case BPF_LDX:
      case BPF_ST:
      case BPF_STX:
        return wrong_memory(one);
      case BPF_ALU:
      case BPF_ALU64:
        return wrong_arithmetic(one);
      default:
        return wrong_jump(one);
    }
  }

  const char* wrong_constant(const Instruction& one) {
    if (one.opcode != (BPF_LD | BPF_IMM | BPF_DW)) return "is none that XDP programs have";
    if (at_ + 1 >= all_.size()) return "has no second half";
    const Instruction& half = all_[at_ + 1];
    if (half.opcode != 0 || half.destination != 0 || half.source != 0 || half.offset != 0)
      return "has a second half that is none";
    if (one.offset != 0) return "has an offset";
    if (one.destination == 10) return "writes the frame pointer";
    if (one.source == 0) return nullptr;
    if (one.source == BPF_PSEUDO_FUNC) return half.immediate != 0 ? kUsesMore : wrong_function(one.immediate);
    if (one.source == BPF_PSEUDO_BTF_ID) return "loads the address of a variable of the kernel";
    if (one.source != BPF_PSEUDO_MAP_IDX && one.source != BPF_PSEUDO_MAP_IDX_VALUE)
      return "loads what is not known here";
    if (one.immediate < 0 || static_cast<u32>(one.immediate) >= program_.maps.size())
      return "names a map that there is not";
    const Map& map = program_.maps[static_cast<u32>(one.immediate)];
    if (one.source == BPF_PSEUDO_MAP_IDX) return half.immediate != 0 ? kUsesMore : nullptr;
    if (map.type != BPF_MAP_TYPE_ARRAY || map.entries != 1)
      return "is of a value of a map that has not exactly one";
    if (static_cast<u32>(half.immediate) >= map.value_bytes) return "is beyond its map's value";
    return nullptr;
  }

  static const char* wrong_memory(const Instruction& one) {
    const int kind = one.opcode & 7, mode = one.opcode & kModeMask, size = one.opcode & kSizeMask;
    const bool loads = kind == BPF_LDX;
    if (loads && one.destination == 10) return "writes the frame pointer";
    if (kind == BPF_ST ? one.source != 0 : one.immediate != 0 && mode != BPF_ATOMIC) return kUsesMore;
    if (mode == BPF_MEM) return nullptr;
    if (mode == kMemorySigned && loads && size != BPF_DW) return nullptr;
    if (mode != BPF_ATOMIC || kind != BPF_STX || (size != BPF_W && size != BPF_DW)) return kNone;
    switch (one.immediate) {
      case BPF_ADD:
      case BPF_OR:
      case BPF_AND:
      case BPF_XOR:
      case BPF_CMPXCHG:
        return nullptr;
      case BPF_ADD | BPF_FETCH:
      case BPF_OR | BPF_FETCH:
      case BPF_AND | BPF_FETCH:
      case BPF_XOR | BPF_FETCH:
      case BPF_XCHG:
        return one.source == 10 ? "writes the frame pointer" : nullptr;
      default:
        return "is an atomic operation that there is not";
    }
  }

  static const char* wrong_arithmetic(const Instruction& one) {
    const bool wide = (one.opcode & 7) == BPF_ALU64, by_register = (one.opcode & BPF_X) != 0;
    const int operation = one.opcode & kOperationMask, offset = one.offset;
    if (one.destination == 10) return "writes the frame pointer";
    if (operation > BPF_END) return kNone;
    if (operation == BPF_END) {
      if (one.source != 0 || offset != 0) return kUsesMore;
      if (wide && by_register) return kNone;
      return one.immediate == 16 || one.immediate == 32 || one.immediate == 64 ? nullptr : "has no such size";
    }
    if (operation == BPF_NEG)
      return by_register ? kNone : one.source != 0 || offset != 0 || one.immediate != 0 ? kUsesMore : nullptr;
    if (by_register ? one.immediate != 0 : one.source != 0) return kUsesMore;
    bool offset_is_known = offset == 0;
    if (operation == BPF_DIV || operation == BPF_MOD) offset_is_known |= offset == 1;  // signed
    if (operation == BPF_MOV && by_register)  // sign extension, from so many bits
      offset_is_known |= offset == 8 || offset == 16 || (wide && offset == 32);
    if (!offset_is_known) return "has an offset that there is not";
    const bool shifts = operation == BPF_LSH || operation == BPF_RSH || operation == BPF_ARSH;
    if (shifts && !by_register && (one.immediate < 0 || one.immediate >= (wide ? 64 : 32)))
      return "shifts by more than there is";
    return nullptr;
  }

  const char* wrong_jump(const Instruction& one) {
    const bool wide = (one.opcode & 7) == BPF_JMP, by_register = (one.opcode & BPF_X) != 0;
    const int operation = one.opcode & kOperationMask;
    if (operation == BPF_EXIT || operation == BPF_CALL) {
      if (!wide || by_register) return kNone;
      if (one.destination != 0 || one.offset != 0) return kUsesMore;
      if (operation == BPF_EXIT) return one.source != 0 || one.immediate != 0 ? kUsesMore : nullptr;
      if (one.source == BPF_PSEUDO_CALL) return wrong_function(one.immediate);
      if (one.source == BPF_PSEUDO_KFUNC_CALL) return "calls a function of the kernel (a kfunc)";
      if (one.source != 0) return "calls what is not known here";
      return one.immediate <= 0 ? "calls a helper that there is not" : nullptr;
    }
    if (operation >= kConditional) return kNone;
    if (operation == BPF_JA) {
      if (by_register) return kNone;
      if (one.destination != 0 || one.source != 0 || (wide ? one.immediate != 0 : one.offset != 0))
        return kUsesMore;
      return jump(wide ? one.offset : one.immediate);
    }
    if (by_register ? one.immediate != 0 : one.source != 0) return kUsesMore;
    return jump(one.offset);
  }

  const char* jump(std::int64_t by) {
    const std::int64_t to = static_cast<std::int64_t>(at_) + 1 + by;
    if (to < 0 || to >= static_cast<std::int64_t>(all_.size())) return "jumps out of the program";
    jumps_.push_back({static_cast<u32>(at_), static_cast<u32>(to)});
    return nullptr;
  }

  const char* wrong_function(std::int64_t by) {
    const std::int64_t to = static_cast<std::int64_t>(at_) + 1 + by;
    if (to < 0 || to >= static_cast<std::int64_t>(all_.size()))
      return "is of a function that is not in the program";
    begins_[static_cast<std::size_t>(to)] = true;
    calls_.push_back({static_cast<u32>(at_), static_cast<u32>(to)});
    return nullptr;
  }

  static constexpr const char* kNone = "is none that RFC 9669 has";
  static constexpr const char* kUsesMore = "has something in a field that it does not use";

  const Program& program_;
  const std::vector<Instruction>& all_;
  std::vector<bool> second_;  // the second half of another one
  std::vector<bool> begins_;  // a function
  std::vector<Jump> jumps_, calls_;
  std::size_t at_ = 0;
};

bool is_of_maps(const Map& map) {
  return map.type == BPF_MAP_TYPE_ARRAY_OF_MAPS || map.type == BPF_MAP_TYPE_HASH_OF_MAPS;
}

Result<void> check_maps(const std::vector<Map>& maps) {
  if (maps.size() > kMostMaps)
    return Error(fmt::format("the program has {} maps, of which there may be {}", maps.size(), kMostMaps));
  u64 bytes = 0;
  for (const Map& map : maps) {
    if (!is_name(map.name)) return Error(fmt::format("a map has a name that is {}", kNoName));
    const auto wrong = [&](const char* why) { return Error(fmt::format("map {} {}", map.name, why)); };
    if (map.key_bytes > kMostKeyBytes) return wrong("has keys of more than 512 bytes");
    // No product below is beyond 64 bits.
    if (map.value_bytes > kMostMapBytes) return wrong("has values of more than 1 GiB");
    const u64 values = u64{map.value_bytes} * map.entries;
    // Entries of a type without keys and values are bytes (ringbuf).
    bytes += std::max(u64{map.key_bytes} + map.value_bytes, u64{1}) * map.entries;
    if (bytes > kMostMapBytes) return wrong("takes the program's maps beyond 1 GiB: give it fewer entries");
    if (map.contents.size() > values) return wrong("begins with more than it can have");
    if (!map.contents.empty() && map.type != BPF_MAP_TYPE_ARRAY)
      return wrong("begins with something, and is no array");
    // There are values: else it would begin with more than it can have.
    if (!map.contents.empty() && (map.contents.size() - 1) / map.value_bytes >= kMostFilledEntries)
      return wrong("begins with more than 65536 values");
    if (map.constant &&
        (map.type != BPF_MAP_TYPE_ARRAY || map.entries != 1 || (map.flags & BPF_F_RDONLY_PROG) == 0))
      return wrong("is one of constants, and not as those are");
    if (is_of_maps(map) != (map.inner >= 0)) return wrong("does not say what maps are in it");
    if (map.inner < -1 || (map.inner >= 0 && static_cast<u32>(map.inner) >= maps.size()))
      return wrong("has maps in it like one that there is not");
    if (map.inner >= 0 && is_of_maps(maps[static_cast<u32>(map.inner)]))
      return wrong("has maps of maps in it");
  }
  return {};
}

}  // namespace

bool is_name(std::string_view text) {
  return text.size() <= kMostNameBytes && std::all_of(text.begin(), text.end(), is_printable);
}

std::string printable(std::string_view text, std::size_t most) {
  std::string shown(text.substr(0, most));
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return !is_printable(c); }, '?');
  return shown;
}

std::vector<u32> function_starts(const Program& program) {
  const auto& all = program.instructions;
  std::vector<u32> starts{0};
  for (std::size_t i = 0; i < all.size(); i++) {
    const bool call = all[i].opcode == (BPF_JMP | BPF_CALL) && all[i].source == BPF_PSEUDO_CALL;
    const bool address = all[i].opcode == (BPF_LD | BPF_IMM | BPF_DW) && all[i].source == BPF_PSEUDO_FUNC;
    if (call || address)
      starts.push_back(static_cast<u32>(static_cast<std::int64_t>(i) + 1 + all[i].immediate));
  }
  std::sort(starts.begin(), starts.end());
  starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
  return starts;
}

Result<void> check(const Program& program) {
  if (!is_name(program.name) || !is_name(program.license))
    return Error(fmt::format("the program has a name or a license that is {}", kNoName));
  if (auto right = check_maps(program.maps); !right) return right;
  if (program.tails.size() > kMostTails)
    return Error(fmt::format("the program goes on with {} others, of which there may be {}",
                             program.tails.size(), kMostTails));
  for (const Program& part : gpu::programs::parts_of(program)) {
    if (!is_name(part.name))
      return Error(fmt::format("a program that it goes on with has a name that is {}", kNoName));
    if (auto right = Instructions(part).check(); !right) return right;
  }
  return {};
}

}  // namespace xdpgpu::programs
