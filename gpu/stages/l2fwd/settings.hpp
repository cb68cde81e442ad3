// SPDX-License-Identifier: MIT
//
// gpu/stages/l2fwd/settings.hpp: what `l2fwd` can be told, and what it does.
#pragma once

#include <string>

#include "gpu/stages/fields.hpp"

namespace xdpgpu::gpu {

// `l2fwd`: swaps the MAC addresses and sends the frame back (TX) or out of another port. Decides every
// packet. Verdict's rule: 0. Rewrite: XG_REWRITE_SWAP_MACS.
struct L2fwdSettings {
  bool to_port = false;
  u32 target = 0;  // port index when to_port
  bool cache = false;
  u32 cache_ttl_ms = 0;
  std::string to{};  // the interface's name, where a policy gives it
  bool operator==(const L2fwdSettings&) const = default;
};

template <class Table>
void fields_of(Table& table, SettingsLike<L2fwdSettings> auto& s) {
  table.about("Swaps the MAC addresses and sends the frame out again.");
  table.port("to", s.to, s.to_port, s.target,
             "Interface to send out of. Default: the one that the packet came in on.", Say{});
  table.cache(s.cache, s.cache_ttl_ms, "", Say{});
}

}  // namespace xdpgpu::gpu
