// SPDX-License-Identifier: MIT
#include <linux/bpf.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "gpu/reference/program_helpers.hpp"

namespace xdpgpu::gpu::reference {
namespace {

constexpr u32 kBytes = sizeof(bpf_fib_lookup);
static_assert(kBytes == 64);

u64 error(int number) { return static_cast<u64>(std::int64_t{-number}); }

bool has(const ProgramRoutes::Route& route, u8 family, std::span<const u8> address) {
  if (route.family != family) return false;
  for (u32 bit = 0; bit < route.length; bit++)
    if (((route.address[bit / 8] ^ address[bit / 8]) >> (7 - bit % 8) & 1) != 0) return false;
  return true;
}

// rt6_need_strict() of the kernel.
bool is_near(std::span<const u8, 16> address) {
  const bool is_multicast = address[0] == 0xff;
  const bool is_link_local = address[0] == 0xfe && (address[1] & 0xc0) == 0x80;
  const bool is_loopback =
      address[15] == 1 && std::all_of(address.begin(), address.end() - 1, [](u8 byte) { return byte == 0; });
  return is_multicast || is_link_local || is_loopback;
}

// bpf_ipv4_fib_lookup() and bpf_ipv6_fib_lookup() of net/core/filter.c. -> R0.
u64 answer(const ProgramRoutes& routes, bpf_fib_lookup& asked, u64 flags) {
  if (asked.family != AF_INET && asked.family != AF_INET6) return error(EAFNOSUPPORT);
  std::array<u8, 16> source{}, destination{};
  std::memcpy(source.data(), asked.ipv6_src, 16);
  std::memcpy(destination.data(), asked.ipv6_dst, 16);
  if (asked.family == AF_INET6 && (is_near(source) || is_near(destination)))
    return BPF_FIB_LKUP_RET_NOT_FWDED;
  if (std::find(routes.interfaces.begin(), routes.interfaces.end(), asked.ifindex) == routes.interfaces.end())
    return error(ENODEV);
  const ProgramRoutes::Route* longest = nullptr;
  for (const ProgramRoutes::Route& one : routes.routes)
    if (has(one, asked.family == AF_INET ? 4 : 6, destination) &&
        (longest == nullptr || one.length > longest->length))
      longest = &one;
  if (longest == nullptr || longest->leads == ProgramRoutes::Leads::to_host)
    return BPF_FIB_LKUP_RET_NOT_FWDED;
  if (longest->leads == ProgramRoutes::Leads::nowhere) return BPF_FIB_LKUP_RET_BLACKHOLE;
  const ProgramRoutes::NextHop& hop = longest->hop;
  const u32 ifindex = hop.by_asked ? asked.ifindex : hop.ifindex;
  if (ifindex == 0) return BPF_FIB_LKUP_RET_NOT_FWDED;
  // The MTU comes to where the length was (mtu_result, which not every header has).
  if (asked.tot_len > hop.mtu) {
    asked.tot_len = static_cast<u16>(hop.mtu);
    return BPF_FIB_LKUP_RET_FRAG_NEEDED;
  }
  asked.ifindex = ifindex;
  asked.rt_metric = 0;
  constexpr u64 kSkipsNeighbours = 4;  // BPF_FIB_LOOKUP_SKIP_NEIGH
  if ((flags & kSkipsNeighbours) == 0) {
    if (!hop.source) return BPF_FIB_LKUP_RET_NO_NEIGH;
    std::copy(hop.source->begin(), hop.source->end(), asked.smac);
    std::copy(hop.mac.begin(), hop.mac.end(), asked.dmac);
  }
  asked.h_vlan_TCI = 0;
  asked.h_vlan_proto = 0;
  asked.tot_len = static_cast<u16>(hop.mtu);
  return BPF_FIB_LKUP_RET_SUCCESS;
}

}  // namespace

ProgramFault look_up_route(ProgramRun& run) {
  auto& r = run.registers;
  constexpr u32 kFlags = BPF_FIB_LOOKUP_DIRECT | 4;  // and BPF_FIB_LOOKUP_SKIP_NEIGH
  const u32 flags = static_cast<u32>(r[4]);
  r[0] = error(EINVAL);
  if (static_cast<u32>(r[3]) < kBytes || (flags & ~kFlags) != 0) return ProgramFault::none;
  const u32 object = ProgramMemory::object_of(r[2]);
  if (object < ProgramMemory::kStack || object >= ProgramMemory::kStack + kMostProgramFrames)
    return ProgramFault::out_of_bounds;
  std::span<u8> found;
  if (auto fault = run.memory.bytes_at(r[2], kBytes, true, found); fault != ProgramFault::none) return fault;
  if (ProgramMemory::offset_of(r[2]) % 4 != 0) return ProgramFault::out_of_bounds;
  run.steps += kBytes / 8;
  bpf_fib_lookup asked{};
  std::memcpy(&asked, found.data(), kBytes);
  r[0] = answer(*run.packet.routes, asked, flags);
  std::memcpy(found.data(), &asked, kBytes);
  return ProgramFault::none;
}

}  // namespace xdpgpu::gpu::reference
