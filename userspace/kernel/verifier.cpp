// SPDX-License-Identifier: MIT
#include "userspace/kernel/verifier.hpp"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <linux/bpf.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>

#include "userspace/kernel/kernel.hpp"
#include "userspace/kernel/logging.hpp"
#include "userspace/kernel/program_maps.hpp"

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

// EPERM, too: it is the object's, since others may be loaded.
Verdict failed(const std::string& what, int error) {
  return {Said::refuses, fmt::format("{}: {}", what, std::strerror(error))};
}

// The verifier may know that a key is one of an array's: those have all. Of others it asks no number.
u32 entries_to_ask(const Map& map) {
  // Bytes; the least that the kernel has. What it would refuse it is asked for, as far as that is small.
  if (map.type == BPF_MAP_TYPE_RINGBUF) {
    const auto page = static_cast<u32>(sysconf(_SC_PAGESIZE));
    return map.entries % page == 0 && std::has_single_bit(map.entries) ? page
                                                                       : std::min(map.entries, page - 1);
  }
  const bool all = map.type == BPF_MAP_TYPE_ARRAY || map.type == BPF_MAP_TYPE_PERCPU_ARRAY;
  return all ? map.entries : std::min(map.entries, kEntries);
}

// Why it is not asked of a program with these maps; empty: it is.
std::string why_unaskable(const std::vector<Map>& maps) {
  if (std::string why = why_not_made(maps); !why.empty()) return why;
  const MapsSize size = size_of(maps, entries_to_ask);
  if (size.per_cpu_entries > kMostVerifiedPerCpuEntries)
    return fmt::format(
        "its maps of each processor have {} entries on all {}, more than the {} that are made to ask: give "
        "them fewer entries",
        size.per_cpu_entries, std::max(libbpf_num_possible_cpus(), 1), kMostVerifiedPerCpuEntries);
  if (size.bytes > kMostVerifiedBytes)
    return fmt::format(
        "its maps take {} MiB here, more than the {} MiB that are spent on asking: give them fewer entries",
        size.bytes >> 20, kMostVerifiedBytes >> 20);
  return {};
}

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

// Whether who asks may ask: a program that every kernel takes is loaded. What it refuses after that is the
// object's, and not for whoever wrote that to choose.
Verdict may_ask() {
  const std::array<bpf_insn, 2> passes{
      bpf_insn{
          .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .src_reg = 0, .off = 0, .imm = XDP_PASS},
      bpf_insn{.code = BPF_JMP | BPF_EXIT, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0}};
  errno = 0;
  if (const Fd loaded(
          bpf_prog_load(BPF_PROG_TYPE_XDP, "may_ask", "GPL", passes.data(), passes.size(), nullptr));
      loaded)
    return {Said::takes, {}};
  if (errno == EPERM)
    return {Said::not_asked, "this needs CAP_BPF and CAP_NET_ADMIN: run it as root to have the kernel asked"};
  return {Said::not_asked, fmt::format("it loads no XDP program at all: {}", std::strerror(errno))};
}

}  // namespace

Loaded load(const Program& program, bool fragments, const std::vector<Fd>& maps) {
  std::vector<int> descriptors;
  descriptors.reserve(maps.size());
  for (const Fd& one : maps) descriptors.push_back(one.get());
  const auto instructions = instructions_of(program);
  const FunctionTypes types(instructions);
  bpf_prog_load_opts how{};
  how.sz = sizeof(how);
  how.expected_attach_type = BPF_XDP;
  how.prog_flags = fragments ? BPF_F_XDP_HAS_FRAGS : 0;
  how.fd_array = descriptors.data();
  types.say(how);
  const auto load = [&] {
    errno = 0;
    return Fd(bpf_prog_load(BPF_PROG_TYPE_XDP, name_in_kernel(program.name).c_str(), program.license.c_str(),
                            instructions.data(), instructions.size(), &how));
  };
  // What it writes costs more than to verify: it is asked for where there is something to tell.
  if (Fd loaded = load(); loaded) return {std::move(loaded), {Said::takes, {}}};
  std::string log(kLogBytes, '\0');
  how.log_level = 1;
  how.log_buf = log.data();
  how.log_size = static_cast<u32>(log.size());
  if (Fd loaded = load(); loaded) return {std::move(loaded), {Said::takes, {}}};
  const int error = errno;
  log.resize(std::strlen(log.c_str()));
  if (const std::string said = end_of(log); !said.empty()) return {Fd(), {Said::refuses, said}};
  return {Fd(), failed("it refuses the program and does not say why", error)};
}

Verdict verify(const Program& program, bool fragments) {
  quiet_libraries();
  if (auto may = may_ask(); may.said != Said::takes) return may;
  if (std::string why = why_unaskable(program.maps); !why.empty()) return {Said::unaskable, std::move(why)};
  const auto maps = make_maps(program.maps, entries_to_ask);
  if (!maps) return {Said::refuses, "it " + maps.error()};
  for (const Program& part : gpu::programs::parts_of(program)) {
    auto verdict = load(part, fragments, *maps).verdict;
    if (verdict.said == Said::takes) continue;
    if (part.name != program.name)
      verdict.why = fmt::format("{}, with which it goes on: {}", part.name, verdict.why);
    return verdict;
  }
  return {Said::takes, {}};
}

}  // namespace xdpgpu::kernel
