// SPDX-License-Identifier: MIT
#include "gpu/stages/references.hpp"

namespace xdpgpu::gpu::reference {
namespace {

class L2fwd final : public StageWith<L2fwdSettings> {
 public:
  using StageWith::StageWith;
  bool decide(const Packet& packet, const Place& place, xg_result& result) override {
    result.verdict = send_verdict(settings().to_port, settings().target, place.position);
    result.flags |= XG_RES_SWAP_MACS;
    set_cache(settings().cache, settings().cache_ttl_ms, packet, XG_REWRITE_SWAP_MACS, result);
    return true;
  }
  bool may_send() const override { return true; }
};

}  // namespace

std::unique_ptr<Stage> reference_of(const L2fwdSettings& settings, const std::array<u64, 2>&) {
  return std::make_unique<L2fwd>(settings);
}

}  // namespace xdpgpu::gpu::reference
