// SPDX-License-Identifier: MIT
#include "gpu/reference/stage.hpp"

#include <algorithm>

namespace xdpgpu::gpu::reference {

bool contains(const Prefix& prefix, std::span<const u8> address) {
  if (address.size() != (prefix.family == 4 ? 4u : 16u)) return false;
  for (u32 bit = 0; bit < prefix.length; bit++) {
    const u32 mask = 0x80u >> bit % 8;
    if ((address[bit / 8] & mask) != (prefix.address[bit / 8] & mask)) return false;
  }
  return true;
}

void set_cache(bool cache, u32 ttl_ms, const Packet& packet, u32 rewrite, xg_result& result) {
  if (!cache || packet.src.empty()) return;
  if (packet.is(XG_PKT_FRAGMENT | XG_PKT_LATER_FRAGMENT | XG_PKT_TRACKED | XG_PKT_MALFORMED)) return;
  result.flags |= XG_RES_CACHE | rewrite << 16;
  result.cache_ttl_ms = ttl_ms;
}

void set_macs(const Place& place, std::span<const u8> dst, std::span<const u8> src, xg_result& result) {
  result.flags |= XG_RES_EDIT;
  place.edit->sets |= XG_EDIT_DST_MAC | XG_EDIT_SRC_MAC;
  std::copy_n(dst.begin(), 6, place.edit->dst_mac);
  std::copy_n(src.begin(), 6, place.edit->src_mac);
}

u32 send_verdict(bool to_port, u32 target, u32 stage) {
  return to_port ? XG_VERDICT(XG_REDIRECT, target, stage, 0u) : XG_VERDICT(XG_TX, 0u, stage, 0u);
}

bool act(Action action, u32 target, u32 stage, u32 number, xg_result& result) {
  switch (action) {
    case Action::next:
      return false;
    case Action::drop:
    case Action::refuse:
      result.verdict = XG_VERDICT(XG_DROP, 0u, stage, number);
      break;
    case Action::pass:
      result.verdict = XG_VERDICT(XG_PASS, 0u, stage, number);
      break;
    case Action::tx:
      result.verdict = XG_VERDICT(XG_TX, 0u, stage, number);
      break;
    case Action::redirect:
      result.verdict = XG_VERDICT(XG_REDIRECT, target, stage, number);
      break;
  }
  return true;
}

bool sends(Action action) { return action == Action::tx || action == Action::redirect; }

}  // namespace xdpgpu::gpu::reference
