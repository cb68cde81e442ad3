// SPDX-License-Identifier: MIT
#include "userspace/kernel/verifier.hpp"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <linux/bpf.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>

#include "userspace/kernel/kernel.hpp"
#include "userspace/kernel/logging.hpp"

namespace xdpgpu::kernel {
namespace {

using gpu::programs::Instruction;
using gpu::programs::Map;
using gpu::programs::Program;
using Said = Verdict::Said;

// What the verifier asks of maps that are no arrays is what keys and values are like.
constexpr u32 kEntries = 1024;
// Of what the verifier writes, the end of which says why. Kernels before 6.4 write no more than there is
// room.
constexpr std::size_t kLogBytes = std::size_t{16} << 20;
constexpr std::size_t kLinesTold = 3, kMostTold = 600;

// Names of maps and programs are of letters, digits, "_" and ".".
std::string kernel_name(std::string_view name) {
  std::string allowed;
  for (const char c : name.substr(0, BPF_OBJ_NAME_LEN - 1)) {
    const bool is = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.';
    allowed += is ? c : '_';
  }
  return allowed;
}

Verdict failed(const std::string& what, int error) {
  if (error == EPERM)
    return {Said::not_asked, "this needs CAP_BPF and CAP_NET_ADMIN: run it as root to have the kernel asked"};
  return {Said::refuses, fmt::format("{}: {}", what, std::strerror(error))};
}

class Maps {
 public:
  explicit Maps(const Program& program) : all_(program.maps), made_(all_.size()) {}

  // Those that are in others are first.
  Verdict make() {
    if (const u64 needed = bytes(); needed > kMostVerifiedBytes)
      return {Said::not_asked,
              fmt::format("its maps take {} MiB here, more than the {} MiB that are spent on asking: give "
                          "them fewer entries",
                          needed >> 20, kMostVerifiedBytes >> 20)};
    for (const bool of_maps : {false, true})
      for (std::size_t i = 0; i < all_.size(); i++)
        if ((all_[i].inner >= 0) == of_maps)
          if (auto verdict = make(i); verdict.said != Said::takes) return verdict;
    return {Said::takes, {}};
  }
  std::vector<int> descriptors() const {
    std::vector<int> fds;
    for (const Fd& one : made_) fds.push_back(one.get());
    return fds;
  }

 private:
  Verdict make(std::size_t number) {
    const Map& map = all_[number];
    bpf_map_create_opts how{};
    how.sz = sizeof(how);
    how.map_flags = map.flags;
    if (map.inner >= 0) how.inner_map_fd = static_cast<u32>(made_[static_cast<std::size_t>(map.inner)].get());
    made_[number] = Fd(bpf_map_create(static_cast<bpf_map_type>(map.type), kernel_name(map.name).c_str(),
                                      map.key_bytes, map.value_bytes, entries(map), &how));
    if (!made_[number]) return failed(fmt::format("it refuses to make the map {}", map.name), errno);
    if (map.type != BPF_MAP_TYPE_ARRAY) return {Said::takes, {}};
    const int fd = made_[number].get();
    const std::size_t bytes = map.value_bytes;
    for (u32 key = 0; bytes != 0 && key * bytes < map.contents.size(); key++) {
      std::vector<u8> value(bytes);
      std::memcpy(value.data(), map.contents.data() + key * bytes,
                  std::min(bytes, map.contents.size() - key * bytes));
      if (bpf_map_update_elem(fd, &key, value.data(), BPF_ANY) != 0)
        return failed(fmt::format("it refuses what the map {} begins with", map.name), errno);
    }
    // Constants are known to the verifier where nobody can change them any more.
    if ((map.flags & BPF_F_RDONLY_PROG) != 0 && bpf_map_freeze(fd) != 0)
      return failed(fmt::format("it does not freeze the map {}", map.name), errno);
    return {Said::takes, {}};
  }

  // No sum is beyond 64 bits: without processors a program's maps are within bounds.
  u64 bytes() const {
    const auto processors = static_cast<u64>(std::max(libbpf_num_possible_cpus(), 1));
    u64 sum = 0;
    for (const Map& map : all_) {
      const bool of_each = map.type == BPF_MAP_TYPE_PERCPU_ARRAY || map.type == BPF_MAP_TYPE_PERCPU_HASH ||
                           map.type == BPF_MAP_TYPE_LRU_PERCPU_HASH;
      sum += u64{map.value_bytes} * entries(map) * (of_each ? processors : 1);
    }
    return sum;
  }

  static u32 entries(const Map& map) {
    switch (map.type) {
      case BPF_MAP_TYPE_HASH:
      case BPF_MAP_TYPE_PERCPU_HASH:
      case BPF_MAP_TYPE_LRU_HASH:
      case BPF_MAP_TYPE_LRU_PERCPU_HASH:
      case BPF_MAP_TYPE_LPM_TRIE:
      case BPF_MAP_TYPE_DEVMAP_HASH:
        return std::min(map.entries, kEntries);
      default:
        return map.entries;
    }
  }

  const std::vector<Map>& all_;
  std::vector<Fd> made_;
};

std::vector<bpf_insn> instructions_of(const Program& program) {
  std::vector<bpf_insn> instructions;
  instructions.reserve(program.instructions.size());
  for (const Instruction& one : program.instructions) {
    bpf_insn& made = instructions.emplace_back();
    made.code = one.opcode;
    made.dst_reg = one.destination & 15;
    made.src_reg = one.source & 15;
    made.off = one.offset;
    made.imm = one.immediate;
  }
  return instructions;
}

// The kernel takes the address of a function only where types say that it is one, and static.
class FunctionTypes {
 public:
  explicit FunctionTypes(const std::vector<bpf_insn>& all) {
    std::vector<u32> starts{0};
    bool any = false;
    for (std::size_t i = 0; i < all.size(); i++) {
      const bool address = all[i].code == (BPF_LD | BPF_IMM | BPF_DW) && all[i].src_reg == BPF_PSEUDO_FUNC;
      any |= address;
      if (address || (all[i].code == (BPF_JMP | BPF_CALL) && all[i].src_reg == BPF_PSEUDO_CALL))
        starts.push_back(static_cast<u32>(static_cast<std::int64_t>(i) + 1 + all[i].imm));
    }
    if (!any) return;
    std::sort(starts.begin(), starts.end());
    starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
    const std::unique_ptr<btf, void (*)(btf*)> types(btf__new_empty(), btf__free);
    if (!types) return;
    const int number = btf__add_int(types.get(), "int", 4, BTF_INT_SIGNED);
    const int kind = btf__add_func_proto(types.get(), number);
    for (std::size_t i = 0; i < starts.size(); i++) {
      const int function =
          btf__add_func(types.get(), fmt::format("function_{}", i).c_str(), BTF_FUNC_STATIC, kind);
      if (function < 0) return;
      functions_.push_back({starts[i], static_cast<u32>(function)});
    }
    u32 bytes = 0;
    if (const void* const raw = btf__raw_data(types.get(), &bytes))
      loaded_ = Fd(bpf_btf_load(raw, bytes, nullptr));
  }

  void say(bpf_prog_load_opts& to) const {
    if (!loaded_) return;
    to.prog_btf_fd = static_cast<u32>(loaded_.get());
    to.func_info = functions_.data();
    to.func_info_cnt = static_cast<u32>(functions_.size());
    to.func_info_rec_size = sizeof(bpf_func_info);
  }

 private:
  std::vector<bpf_func_info> functions_;
  Fd loaded_;
};

// Its last lines but the one that counts what it did.
std::string end_of(const std::string& log) {
  std::vector<std::string_view> lines;
  std::string_view rest = log;
  while (!rest.empty() && lines.size() < kLinesTold) {
    const auto newline = rest.rfind('\n');
    std::string_view line = newline == std::string_view::npos ? rest : rest.substr(newline + 1);
    rest = newline == std::string_view::npos ? std::string_view() : rest.substr(0, newline);
    while (!line.empty() && line.back() == ' ') line.remove_suffix(1);
    if (!line.empty() && !line.starts_with("processed ")) lines.insert(lines.begin(), line);
  }
  std::string told = fmt::format("{}", fmt::join(lines, "; "));
  if (told.size() > kMostTold) told = "..." + told.substr(told.size() - kMostTold);
  return told;
}

}  // namespace

Verdict verify(const Program& program, bool fragments) {
  quiet_libraries();
  Maps maps(program);
  if (auto made = maps.make(); made.said != Said::takes) return made;
  const auto instructions = instructions_of(program);
  const auto descriptors = maps.descriptors();
  const FunctionTypes types(instructions);
  std::string log(kLogBytes, '\0');
  bpf_prog_load_opts how{};
  how.sz = sizeof(how);
  how.expected_attach_type = BPF_XDP;
  how.prog_flags = fragments ? BPF_F_XDP_HAS_FRAGS : 0;
  how.fd_array = descriptors.data();
  types.say(how);
  const auto load = [&] {
    errno = 0;
    return Fd(bpf_prog_load(BPF_PROG_TYPE_XDP, kernel_name(program.name).c_str(), program.license.c_str(),
                            instructions.data(), instructions.size(), &how));
  };
  // What it writes costs more than to verify: it is asked for where there is something to tell.
  if (const Fd loaded = load(); loaded) return {Said::takes, {}};
  if (errno == EPERM) return failed({}, EPERM);
  how.log_level = 1;
  how.log_buf = log.data();
  how.log_size = static_cast<u32>(log.size());
  if (const Fd loaded = load(); loaded) return {Said::takes, {}};
  const int error = errno;
  log.resize(std::strlen(log.c_str()));
  if (const std::string said = end_of(log); !said.empty()) return {Said::refuses, said};
  return failed("it refuses the program and does not say why", error);
}

}  // namespace xdpgpu::kernel
