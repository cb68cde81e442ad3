// SPDX-License-Identifier: MIT
//
// Built where DPDK's library is not there.
#include "bench/stages/acl_cases.hpp"

namespace xdpgpu::bench {

Peer rte_acl_peer(std::shared_ptr<const std::vector<PlainRule>>) {
  Peer peer;
  peer.prepare = []() -> gpu::Result<Peer::Decide> {
    return tl::unexpected(
        std::string("this program was built without DPDK: install libdpdk-dev and build it again"));
  };
  return peer;
}

}  // namespace xdpgpu::bench
