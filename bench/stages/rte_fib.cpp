// SPDX-License-Identifier: MIT
//
// DPDK's forwarding information base for IPv4 (DIR24-8).
#include <rte_fib.h>

#include <set>

#include "bench/stages/dpdk.hpp"
#include "bench/stages/prefix_cases.hpp"

namespace xdpgpu::bench {
namespace {

struct Free {
  void operator()(rte_fib* fib) const { rte_fib_free(fib); }
};
using Fib = std::unique_ptr<rte_fib, Free>;

gpu::Result<Fib> build(const std::vector<PlainPrefix>& prefixes) {
  std::set<u32> divided;  // /24 networks with a table of their own
  for (const PlainPrefix& prefix : prefixes)
    if (prefix.length > 24) divided.insert(prefix.address >> 8);
  rte_fib_conf config{};
  config.type = RTE_FIB_DIR24_8;
  config.max_routes = static_cast<int>(prefixes.size());
  config.dir24_8.nh_sz = RTE_FIB_DIR24_8_4B;
  config.dir24_8.num_tbl8 = static_cast<u32>(divided.size()) + 1;
  const std::string name = dpdk_name();
  Fib fib(rte_fib_create(name.c_str(), SOCKET_ID_ANY, &config));
  const auto failed = [&](const char* what) {
    return tl::unexpected(
        fmt::format("DPDK could not {} {} prefixes: {}", what, prefixes.size(), rte_strerror(rte_errno)));
  };
  if (fib == nullptr) return failed("make room for");
  for (const PlainPrefix& prefix : prefixes)
    if (rte_fib_add(fib.get(), prefix.address, prefix.length, prefix.answer) != 0) return failed("take");
  return fib;
}

void look_up(rte_fib* fib, u32 offset, const u8* base, std::span<const xg_descriptor> frames, u32* answers) {
  std::array<u32, kBurst> addresses;
  std::array<u64, kBurst> found;
  in_bursts(
      base, frames,
      [&](const u8* frame, u32 i) {
        u32 address;
        std::memcpy(&address, frame + metadata_of(frame).l3_offset + offset, sizeof(address));
        addresses[i] = __builtin_bswap32(address);
      },
      [&](std::size_t first, u32 count) {
        rte_fib_lookup_bulk(fib, addresses.data(), reinterpret_cast<uint64_t*>(found.data()),
                            static_cast<int>(count));
        for (u32 i = 0; i < count; ++i) answers[first + i] = static_cast<u32>(found[i]);
      });
}

}  // namespace

Peer rte_fib_peer(std::shared_ptr<const std::vector<PlainPrefix>> prefixes, bool destination) {
  Peer peer;
  peer.prepare = [prefixes, offset = destination ? 16u : 12u]() -> gpu::Result<Peer::Decide> {
    if (auto started = start_dpdk(); !started) return tl::unexpected(started.error());
    auto fib = build(*prefixes);
    if (!fib) return tl::unexpected(fib.error());
    return [kept = std::shared_ptr<rte_fib>(std::move(*fib)), offset](
               const u8* base, std::span<const xg_descriptor> frames, u32* answers) {
      look_up(kept.get(), offset, base, frames, answers);
    };
  };
  return peer;
}

}  // namespace xdpgpu::bench
