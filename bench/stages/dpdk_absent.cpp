// SPDX-License-Identifier: MIT
//
// Built where DPDK's libraries are not there.
#include "bench/stages/acl_cases.hpp"
#include "bench/stages/flow_cases.hpp"
#include "bench/stages/prefix_cases.hpp"

namespace xdpgpu::bench {
namespace {

Peer absent(std::string name) {
  Peer peer;
  peer.name = std::move(name);
  peer.prepare = []() -> gpu::Result<Peer::Decide> {
    return tl::unexpected(
        std::string("this program was built without DPDK: install libdpdk-dev and build it again"));
  };
  return peer;
}

}  // namespace

// NOLINTBEGIN(performance-unnecessary-value-param): declared for those that keep it
Peer rte_acl_peer(std::shared_ptr<const std::vector<PlainRule>>) { return absent("rte_acl"); }
Peer rte_fib_peer(std::shared_ptr<const std::vector<PlainPrefix>>, bool) { return absent("rte_fib"); }
Peer rte_hash_peer(std::shared_ptr<const std::vector<StagePacket>>, u32) { return absent("rte_hash"); }
// NOLINTEND(performance-unnecessary-value-param)

}  // namespace xdpgpu::bench
