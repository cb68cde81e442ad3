// SPDX-License-Identifier: MIT
//
// gpu/stages/forward/settings.hpp: what `forward` can be told, and what it does.
#pragma once

#include <string>
#include <vector>

#include "gpu/stages/fields.hpp"

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
  std::string to{};         // the interface's name, where a policy gives it
  bool operator==(const NextHop&) const = default;
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
struct ForwardSettings {
  std::vector<NextHop> next_hops;
  std::vector<Route> routes;
  Action otherwise = Action::pass;     // no route: next, drop or pass
  bool cache = false;                  // publish the verdict to the kernel
  u32 cache_ttl_ms = 0;                // 0: while the generation lives
  std::vector<RouteSource> sources{};  // of the routes, where a policy gives them
  bool operator==(const ForwardSettings&) const = default;
};

template <class Table>
void fields_of(Table& table, SettingsLike<NextHop> auto& hop) {
  table.mac("mac", hop.mac, "The neighbour's MAC address.", Say{.required = true});
  table.mac("src_mac", hop.source, hop.own_source,
            "The MAC address of the interface that the frame leaves by. Without 'to' it may be left out: the "
            "frame's "
            "former destination is the source then.",
            Say{});
  table.port(
      "to", hop.to, hop.to_port, hop.target,
      "Interface to send out of. Default: the one that the packet came in on.",
      Say{.needs = "src_mac",
          .lacks =
              "a next hop behind another interface needs \"src_mac\", that interface's MAC address: without "
              "it the frame's former destination, the address of the port that it came in on, would be "
              "its source there"});
  table.integer("mtu", hop.mtu, 68, 65535,
                "Longest IP packet that the next hop is sent, in bytes; longer ones are passed to the host, "
                "which fragments "
                "or answers them. Default: any.",
                Say{.shown = hop.mtu != 65535});
}

template <class Table>
void fields_of(Table& table, SettingsLike<ForwardSettings> auto& s) {
  table.about(
      "A router: of all routes whose prefix holds the destination the longest one names a next hop; the TTL "
      "or hop "
      "limit goes down by one and the frame leaves with the next hop's MAC address. What a router does "
      "besides is "
      "left to the host: packets on their last hop, with IPv4 or hop-by-hop options, longer than the next "
      "hop takes, "
      "malformed, from or to multicast, broadcast, reserved, loopback and link-local addresses are passed, "
      "as are "
      "frames that are not addressed to their port's MAC address, and IPv4 headers with a wrong checksum, "
      "which no "
      "router sends on.");
  table.by_name(
      "next_hops", s.next_hops, 1, kMaxNextHops, "a next hop",
      "The neighbours, by a name for the routes to use. A next hop cannot be named 'pass' or 'drop'.",
      Say{.required = true});
  table.routes(
      "routes", s.routes, s.sources, s.next_hops,
      "Routes, and files of routes; IPv4 and IPv6 mixed as you like. Of equal prefixes the first one "
      "counts.",
      Say{.required = true});
  table.word("default", s.otherwise, kOtherwiseNames,
             "What becomes of a packet without a route; 'next' leaves it to the next stage.", Say{});
  table.cache(s.cache, s.cache_ttl_ms, "", Say{});
}

}  // namespace xdpgpu::gpu
