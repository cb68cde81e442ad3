// SPDX-License-Identifier: MIT
#include "gpu/program_decoder.hpp"

#include <fmt/format.h>
#include <linux/bpf.h>

#include <limits>
#include <optional>

#include "gpu/stages/program_code.h"

namespace xdpgpu::gpu::programs {
namespace {

template <class T>
using Result = tl::expected<T, std::string>;

// One instruction's words.
struct Words {
  u32 flags = 0, what = 0;
  u64 immediate = 0;
};

u64 extended(std::int32_t value) { return static_cast<u64>(std::int64_t{value}); }

u32 log2_of(u8 opcode) {
  switch (BPF_SIZE(opcode)) {
    case BPF_B:
      return 0;
    case BPF_H:
      return 1;
    case BPF_W:
      return 2;
    default:
      return 3;
  }
}

std::optional<u32> arithmetic_of(u8 operation) {
  switch (operation) {
    case BPF_ADD:
      return XG_PROGRAM_ADD;
    case BPF_SUB:
      return XG_PROGRAM_SUB;
    case BPF_MUL:
      return XG_PROGRAM_MUL;
    case BPF_DIV:
      return XG_PROGRAM_DIV;
    case BPF_MOD:
      return XG_PROGRAM_MOD;
    case BPF_OR:
      return XG_PROGRAM_OR;
    case BPF_AND:
      return XG_PROGRAM_AND;
    case BPF_XOR:
      return XG_PROGRAM_XOR;
    case BPF_LSH:
      return XG_PROGRAM_LSH;
    case BPF_RSH:
      return XG_PROGRAM_RSH;
    case BPF_ARSH:
      return XG_PROGRAM_ARSH;
    case BPF_MOV:
      return XG_PROGRAM_MOV;
    case BPF_NEG:
      return XG_PROGRAM_NEG;
    default:
      return std::nullopt;
  }
}

std::optional<u32> condition_of(u8 operation) {
  switch (operation) {
    case BPF_JEQ:
      return XG_PROGRAM_JEQ;
    case BPF_JNE:
      return XG_PROGRAM_JNE;
    case BPF_JGT:
      return XG_PROGRAM_JGT;
    case BPF_JGE:
      return XG_PROGRAM_JGE;
    case BPF_JLT:
      return XG_PROGRAM_JLT;
    case BPF_JLE:
      return XG_PROGRAM_JLE;
    case BPF_JSET:
      return XG_PROGRAM_JSET;
    case BPF_JSGT:
      return XG_PROGRAM_JSGT;
    case BPF_JSGE:
      return XG_PROGRAM_JSGE;
    case BPF_JSLT:
      return XG_PROGRAM_JSLT;
    case BPF_JSLE:
      return XG_PROGRAM_JSLE;
    default:
      return std::nullopt;
  }
}

std::optional<u32> helper_of(std::int32_t number) {
  switch (number) {
    case BPF_FUNC_map_lookup_elem:
      return XG_PROGRAM_LOOK_UP;
    case BPF_FUNC_map_update_elem:
      return XG_PROGRAM_UPDATE;
    case BPF_FUNC_map_delete_elem:
      return XG_PROGRAM_ERASE;
    case BPF_FUNC_xdp_adjust_head:
      return XG_PROGRAM_ADJUST_HEAD;
    case BPF_FUNC_xdp_adjust_meta:
      return XG_PROGRAM_ADJUST_META;
    case BPF_FUNC_xdp_adjust_tail:
      return XG_PROGRAM_ADJUST_TAIL;
    case BPF_FUNC_csum_diff:
      return XG_PROGRAM_CSUM_DIFF;
    case BPF_FUNC_ktime_get_ns:
      return XG_PROGRAM_TIME;
    case BPF_FUNC_get_prandom_u32:
      return XG_PROGRAM_RANDOM;
    case BPF_FUNC_get_smp_processor_id:
      return XG_PROGRAM_QUEUE;
    case BPF_FUNC_redirect:
      return XG_PROGRAM_REDIRECT;
    case BPF_FUNC_redirect_map:
      return XG_PROGRAM_REDIRECT_MAP;
    case BPF_FUNC_tail_call:
      return XG_PROGRAM_TAIL_CALL;
    case BPF_FUNC_loop:
      return XG_PROGRAM_LOOP;
    case BPF_FUNC_perf_event_output:
      return XG_PROGRAM_PERF_OUTPUT;
    case BPF_FUNC_ringbuf_output:
      return XG_PROGRAM_RING_OUTPUT;
    case BPF_FUNC_ringbuf_reserve:
      return XG_PROGRAM_RESERVE;
    case BPF_FUNC_ringbuf_submit:
      return XG_PROGRAM_SUBMIT;
    case BPF_FUNC_ringbuf_discard:
      return XG_PROGRAM_DISCARD;
    case BPF_FUNC_fib_lookup:
      return XG_PROGRAM_FIB_LOOKUP;
    default:
      return std::nullopt;
  }
}

class Decoder {
 public:
  // `first`: its first instruction's place among those of the set.
  Decoder(const Program& program, u32 first, std::span<const u32> tables, const Counts* counts)
      : program_(program), first_(first), tables_(tables), counts_(counts) {}

  Result<std::vector<u32>> decode() {
    const auto& all = program_.instructions;
    // The second half of a number of 64 bits is nobody's place to go to, and does nothing.
    std::vector<bool> is_second(all.size());
    for (std::size_t at = 0; at < all.size(); ++at)
      if (all[at].opcode == (BPF_LD | BPF_IMM | BPF_DW) && at + 1 < all.size()) is_second[++at] = true;
    if (all.empty()) return tl::unexpected(std::string("the program has no instruction"));
    std::vector<u32> code;
    code.reserve(all.size() * 4);
    for (at_ = 0; at_ < all.size(); ++at_) {
      const Instruction& i = all[at_];
      auto words = is_second[at_] ? std::optional(Words{.flags = XG_PROGRAM_NONE}) : one(i);
      if (words && counts_ != nullptr) count(*words);
      if (!words) return tl::unexpected(why(i));
      const u32 operation = words->flags & 0xff;
      const bool goes = operation >= XG_PROGRAM_JEQ && operation <= XG_PROGRAM_JA;
      const bool points = operation == XG_PROGRAM_NUMBER && i.source == BPF_PSEUDO_FUNC;
      if (goes || points || operation == XG_PROGRAM_CALL) {
        const u32 to = points ? static_cast<u32>(words->immediate) : words->what;
        if (to >= all.size() || is_second[to])
          return tl::unexpected(fmt::format("instruction {} goes to {}, where there is none", at_, to));
        if (points)
          words->immediate = xg_program_pointer(XG_PROGRAM_FUNCTION, first_ + to);
        else
          words->what = first_ + to;
      }
      code.insert(code.end(), {words->flags, words->what, static_cast<u32>(words->immediate),
                               static_cast<u32>(words->immediate >> 32)});
    }
    const u8 last = all.back().opcode;
    if (last != (BPF_JMP | BPF_EXIT) && last != (BPF_JMP | BPF_JA) && last != (BPF_JMP32 | BPF_JA))
      return tl::unexpected(std::string("the program goes on behind its last instruction"));
    return code;
  }

 private:
  // What counts is another operation for devices.
  void count(Words& words) const {
    const auto is_now = [&](u32 operation, u64 place) {
      words.flags = (words.flags & ~0xffu) | operation;
      words.immediate = place;
    };
    const u32 at = static_cast<u32>(at_), operation = words.flags & 0xff;
    if (const auto found = counts_->loads.find(at);
        found != counts_->loads.end() && operation == XG_PROGRAM_LOAD)
      is_now(XG_PROGRAM_LOAD_COUNT, found->second);
    if (const auto found = counts_->stores.find(at);
        found != counts_->stores.end() && operation == XG_PROGRAM_STORE)
      is_now(XG_PROGRAM_ADD_UP, found->second);
    if (counts_->atomics.contains(at) && operation == XG_PROGRAM_ATOMIC) is_now(XG_PROGRAM_ADD_TO, 0);
  }

  std::string why(const Instruction& i) const {
    if (i.opcode == (BPF_JMP | BPF_CALL) && i.source == 0)
      return fmt::format("instruction {} calls helper {}, which devices do not have", at_, i.immediate);
    return fmt::format("instruction {} (opcode {:#04x}) is none that devices know", at_, i.opcode);
  }

  static u32 registers(const Instruction& i) { return u32{i.destination} << 8 | u32{i.source} << 12; }

  std::optional<Words> one(const Instruction& i) const {
    if (i.destination > 10 || i.source > 10) return std::nullopt;
    const u8 kind = BPF_CLASS(i.opcode);
    const bool writes = kind == BPF_ALU || kind == BPF_ALU64 || kind == BPF_LDX || kind == BPF_LD;
    if (writes && i.destination == 10) return std::nullopt;
    switch (kind) {
      case BPF_ALU:
      case BPF_ALU64:
        return arithmetic(i);
      case BPF_JMP:
      case BPF_JMP32:
        return jump(i);
      case BPF_LDX:
        return load(i);
      case BPF_ST:
      case BPF_STX:
        return store(i);
      default:
        return number(i);
    }
  }

  // With what an operand needs: the register, or the immediate; what is not used is 0.
  static std::optional<Words> with_operand(const Instruction& i, u32 operation) {
    const bool is_register = BPF_SRC(i.opcode) == BPF_X;
    if (is_register ? i.immediate != 0 : i.source != 0) return std::nullopt;
    return Words{.flags = operation | registers(i) | (is_register ? XG_PROGRAM_X : 0),
                 .what = 0,
                 .immediate = extended(i.immediate)};
  }

  static std::optional<Words> arithmetic(const Instruction& i) {
    const bool wide = BPF_CLASS(i.opcode) == BPF_ALU64, is_register = BPF_SRC(i.opcode) == BPF_X;
    const u8 operation = BPF_OP(i.opcode);
    if (operation == BPF_END) {
      if ((i.immediate != 16 && i.immediate != 32 && i.immediate != 64) || i.source != 0 || i.offset != 0)
        return std::nullopt;
      if (wide && is_register) return std::nullopt;
      return Words{.flags = (wide || is_register ? XG_PROGRAM_SWAP : XG_PROGRAM_CUT) | registers(i),
                   .what = static_cast<u32>(i.immediate)};
    }
    const auto known = arithmetic_of(operation);
    auto words = known ? with_operand(i, *known) : std::nullopt;
    if (!words) return std::nullopt;
    if (!wide) words->flags |= XG_PROGRAM_32;
    if (operation == BPF_DIV || operation == BPF_MOD) {
      if (i.offset != 0 && i.offset != 1) return std::nullopt;
      if (i.offset == 1) words->flags |= XG_PROGRAM_SIGNED;
    } else if (operation == BPF_MOV) {
      const bool extends = i.offset == 8 || i.offset == 16 || (i.offset == 32 && wide);
      if (i.offset != 0 && (!extends || !is_register)) return std::nullopt;
      words->what = i.offset == 0 ? 64 : static_cast<u32>(i.offset);
    } else if (i.offset != 0 || (operation == BPF_NEG && (is_register || i.immediate != 0))) {
      return std::nullopt;
    }
    return words;
  }

  u32 place(std::int64_t by) const {
    const std::int64_t to = static_cast<std::int64_t>(at_) + 1 + by;
    return to < 0 || to > std::numeric_limits<u32>::max() ? ~0u : static_cast<u32>(to);
  }

  std::optional<Words> jump(const Instruction& i) const {
    switch (i.opcode) {
      case BPF_JMP | BPF_JA:
        return Words{.flags = XG_PROGRAM_JA, .what = place(i.offset)};
      case BPF_JMP32 | BPF_JA:
        return Words{.flags = XG_PROGRAM_JA, .what = place(i.immediate)};
      case BPF_JMP | BPF_EXIT:
        return Words{.flags = XG_PROGRAM_EXIT};
      case BPF_JMP | BPF_CALL: {
        if (i.source == BPF_PSEUDO_CALL) return Words{.flags = XG_PROGRAM_CALL, .what = place(i.immediate)};
        const auto helper = i.source == 0 ? helper_of(i.immediate) : std::nullopt;
        return helper ? std::optional(Words{.flags = *helper}) : std::nullopt;
      }
      default:
        break;
    }
    const auto known = condition_of(BPF_OP(i.opcode));
    auto words = known ? with_operand(i, *known) : std::nullopt;
    if (!words) return std::nullopt;
    if (BPF_CLASS(i.opcode) == BPF_JMP32) words->flags |= XG_PROGRAM_32;
    words->what = place(i.offset);
    return words;
  }

  static u32 offset_of(const Instruction& i) { return static_cast<u32>(std::int32_t{i.offset}); }

  static std::optional<Words> load(const Instruction& i) {
    const bool with_sign = BPF_MODE(i.opcode) == 0x80;  // MEMSX
    const u32 size = log2_of(i.opcode);
    if ((BPF_MODE(i.opcode) != BPF_MEM && !with_sign) || (with_sign && size == 3) || i.immediate != 0)
      return std::nullopt;
    return Words{.flags = XG_PROGRAM_LOAD | registers(i) | size << 16 | (with_sign ? XG_PROGRAM_SIGNED : 0),
                 .what = offset_of(i)};
  }

  static std::optional<Words> store(const Instruction& i) {
    const bool is_register = BPF_CLASS(i.opcode) == BPF_STX;
    const u32 size = log2_of(i.opcode);
    Words words{.flags = registers(i) | size << 16, .what = offset_of(i), .immediate = extended(i.immediate)};
    if (BPF_MODE(i.opcode) == BPF_ATOMIC && is_register && size >= 2) {
      const std::int32_t plain = i.immediate & ~BPF_FETCH;
      const bool known = plain == BPF_ADD || plain == BPF_OR || plain == BPF_AND || plain == BPF_XOR ||
                         i.immediate == BPF_XCHG || i.immediate == BPF_CMPXCHG;
      const bool to_stack_pointer = i.source == 10 && i.immediate != plain && i.immediate != BPF_CMPXCHG;
      if (!known || to_stack_pointer) return std::nullopt;
      words.flags |= XG_PROGRAM_ATOMIC;
      return words;
    }
    if (BPF_MODE(i.opcode) != BPF_MEM || (is_register ? i.immediate != 0 : i.source != 0))
      return std::nullopt;
    words.flags |= XG_PROGRAM_STORE | (is_register ? XG_PROGRAM_X : 0);
    return words;
  }

  std::optional<Words> number(const Instruction& i) const {
    if (i.opcode != (BPF_LD | BPF_IMM | BPF_DW) || at_ + 1 >= program_.instructions.size() || i.offset != 0)
      return std::nullopt;
    const Instruction& second = program_.instructions[at_ + 1];
    if (second.opcode != 0 || second.destination != 0 || second.source != 0 || second.offset != 0)
      return std::nullopt;
    const u32 low = static_cast<u32>(i.immediate), high = static_cast<u32>(second.immediate);
    Words words{
        .flags = XG_PROGRAM_NUMBER | u32{i.destination} << 8, .what = 0, .immediate = u64{high} << 32 | low};
    if (i.source == 0) return words;
    if (i.source == BPF_PSEUDO_FUNC) {
      words.immediate = place(i.immediate);
      return words;
    }
    if (low >= program_.maps.size()) return std::nullopt;
    const Map& map = program_.maps[low];
    if (i.source == BPF_PSEUDO_MAP_IDX)
      words.immediate = xg_program_pointer(XG_PROGRAM_MAPS + low, 0);
    else if (i.source == BPF_PSEUDO_MAP_IDX_VALUE && map.type == BPF_MAP_TYPE_ARRAY && map.entries == 1)
      words.immediate = xg_program_pointer(XG_PROGRAM_VALUES + first_value(low), 0) + high;
    else
      return std::nullopt;
    return words;
  }

  u32 first_value(u32 map) const {
    return tables_[tables_[XG_PROGRAM_TABLE_RECORDS] + map * XG_PROGRAM_MAP_WORDS + XG_PROGRAM_MAP_FIRST];
  }

  const Program& program_;
  u32 first_;
  std::span<const u32> tables_;
  const Counts* counts_;
  std::size_t at_ = 0;
};

}  // namespace

tl::expected<std::vector<u32>, std::string> decoded(const Program& program, u32 first,
                                                    std::span<const u32> tables, const Counts* counts) {
  return Decoder(program, first, tables, counts).decode();
}

}  // namespace xdpgpu::gpu::programs
