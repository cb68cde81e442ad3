// SPDX-License-Identifier: MIT
//
// gpu/stages/l2fwd/settings.hpp: what `l2fwd` can be told, and what it does.
#pragma once

#include "gpu/stages/values.hpp"

namespace xdpgpu::gpu {

// `l2fwd`: swaps the MAC addresses and sends the frame back (TX) or out of another port. Decides every
// packet. Verdict's rule: 0. Rewrite: XG_REWRITE_SWAP_MACS.
struct L2fwdSettings {
  bool to_port = false;
  u32 target = 0;
  bool cache = false;
  u32 cache_ttl_ms = 0;
};

}  // namespace xdpgpu::gpu
