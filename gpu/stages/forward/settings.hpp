// SPDX-License-Identifier: MIT
//
// gpu/stages/forward/settings.hpp: what `forward` can be told, and what it does.
#pragma once

#include <string>
#include <vector>

#include "gpu/stages/values.hpp"

namespace xdpgpu::gpu {

// `forward`: the longest prefix that holds the destination names a next hop: its MAC address becomes the
// destination, the TTL or hop limit goes down by one and the IPv4 checksum with it (RFC 1624). Of equal
// prefixes the first one counts. Everything else that a router does is the host's, and so passed: packets
// that are malformed, that came to a group's MAC address or that are from or to an address no router sends on
// (multicast, broadcast, reserved, loopback, link-local), and those whose metadata does not say that they
// were addressed to the port (XG_ROUTER_ADDRESSED); then, where the route leads to a next hop, packets whose
// header's checksum is not said to be right (XG_ROUTER_CHECKSUM), those on their last hop (TTL 0 or 1), those
// with IPv4 options or IPv6 hop-by-hop options, and those longer than the next hop's MTU. Fragments are sent
// on as they are. Packets without addresses go on to the next stage, as do those without a route where
// `otherwise` is `next`. Verdict's rule: the next hop's position + 1; 0: `otherwise`; or one of forward_rule.
// The result's detail: the next hop's position. Rewrite: next hops are numbered as backends are, together
// with them.
struct NextHop {
  std::string name;
  Mac mac{};
  bool own_source = false;  // false: the frame's former destination becomes its source
  Mac source{};             // with own_source: the port's own MAC address
  bool to_port = false;     // false: TX, out of the port it came in on
  u32 target = 0;           // port index when to_port
  u32 mtu = 65535;          // longest IP packet, bytes
};
inline constexpr u32 kMaxNextHops = 4096;
namespace forward_rule {
inline constexpr u32 kPass = 0x30000;      // a route that leads to the host
inline constexpr u32 kDrop = 0x30001;      // a route that leads nowhere
inline constexpr u32 kInvalid = 0x30002;   // malformed, or an address that no router sends on
inline constexpr u32 kTtl = 0x30003;       // its last hop
inline constexpr u32 kOptions = 0x30004;   // IPv4 options, hop-by-hop options
inline constexpr u32 kMtu = 0x30005;       // longer than the next hop takes
inline constexpr u32 kForeign = 0x30006;   // not addressed to the port
inline constexpr u32 kChecksum = 0x30007;  // a wrong header checksum
}  // namespace forward_rule
inline constexpr u32 kRoutePass = ~u32{0};      // to the host
inline constexpr u32 kRouteDrop = ~u32{0} - 1;  // nowhere
struct Route {
  Prefix prefix;
  u32 next_hop = 0;  // position, kRoutePass or kRouteDrop
};
struct ForwardSettings {
  std::vector<NextHop> next_hops;
  std::vector<Route> routes;
  Action otherwise = Action::pass;  // no route: next, drop or pass
  bool cache = false;               // publish the verdict to the kernel
  u32 cache_ttl_ms = 0;             // 0: while the generation lives
};

}  // namespace xdpgpu::gpu
