// SPDX-License-Identifier: MIT
//
// gpu/pipelines.hpp: stage settings in, compiled pipelines out. The settings are plain values; the
// image is what the devices and the sequential reference read (layout: gpu/stages/image.h).
#pragma once

#include <array>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "gpu/gpu.hpp"
#include "maps/flow.h"

namespace xdpgpu::gpu {

// Address bytes in network order; IPv4 uses the first four. length in bits.
struct Prefix {
  u8 family = 4;  // 4 or 6
  std::array<u8, 16> address{};
  u8 length = 0;
};
struct PortRange {
  u16 first = 0;  // host order, inclusive
  u16 last = 65535;
};
using Mac = std::array<u8, 6>;

// What every stage goes by is the packet's metadata, not a parse of its own. A packet has addresses if
// XG_PKT_IPV4 or XG_PKT_IPV6 is set, ports if XG_PKT_PORTS is. Where these headers are not in the frame,
// or both families are claimed, a packet marked XG_PKT_MALFORMED counts as one without them; any other
// is not judged: XG_ABORTED. So are a packet whose metadata names another generation than its batch or
// a pipeline that does not exist, and a descriptor of fewer than 14 or more than XG_CHUNK_SIZE bytes, or
// one that does not lie in the frame region together with its metadata.
//
// The verdict word of a decided packet: stage is the position in the pipeline + 1; rule is said at each
// stage below. `cache` sets XG_RES_CACHE on whole, well-formed IP packets only: no fragments, nothing
// malformed, no packet without addresses; the rewrite that the kernel is to apply is said at each stage,
// none where it is not. A packet that no stage decides: XG_PASS, stage 0, rule 0.

// `acl`: ordered 5-tuple rules, first match wins. Empty lists match everything; a rule that names
// addresses or protocols matches only packets that have addresses (of that family), one that names
// ports only packets that have ports. `next` ends the stage: the packet goes on to the next one.
// Verdict's rule: the rule's position + 1; 0: `otherwise`. At most 16,384 rules.
struct AclRule {
  std::string name;
  std::vector<Prefix> src, dst;
  std::vector<u8> protocols;
  std::vector<PortRange> src_ports, dst_ports;
  enum class Action { next, drop, pass, tx, redirect } action = Action::next;
  u32 target = 0;  // port index, for redirect
};
struct AclSettings {
  std::vector<AclRule> rules;
  AclRule::Action otherwise = AclRule::Action::next;  // no rule matched: next, drop or pass
  bool cache = false;                                 // publish the verdict to the kernel
  u32 cache_ttl_ms = 0;                               // 0: while the generation lives
};

// `load_balance`: FNV-1a (32-bit, as the published "XDP on GPU" prototype uses it) over source address,
// destination address, source port, destination port (each in network byte order as in the packet; 4 or
// 16 address bytes) and protocol, modulo the sum of the weights; backend i owns weight_i consecutive
// residues. The ports count as 0 where the packet has none and in all fragments, so that the fragments
// of one packet stay together. Sets the backend's MAC as destination and the frame's former destination
// as source. Packets without addresses go on to the next stage. Verdict's rule: 0; the result's detail:
// the backend's position. Rewrite: the backends of stages that cache are numbered from XG_REWRITE_FIRST on
// in the order of the settings; verdicts for those from XG_REWRITE_HALF on are not cached.
struct Backend {
  std::string name;
  Mac mac{};
  u32 weight = 1;        // 1..1000
  bool to_port = false;  // false: TX, out of the port it came in on
  u32 target = 0;        // port index when to_port
};
struct LoadBalanceSettings {
  std::vector<Backend> backends;  // 1..256
  bool cache = false;
  u32 cache_ttl_ms = 0;
};

// `l2fwd`: swaps the MAC addresses and sends the frame back (TX) or out of another port. Decides every
// packet. Verdict's rule: 0. Rewrite: XG_REWRITE_SWAP_MACS.
struct L2fwdSettings {
  bool to_port = false;
  u32 target = 0;
  bool cache = false;
  u32 cache_ttl_ms = 0;
};

// `reputation`: an address of the packet against lists of prefixes, each with an action. Of all prefixes that
// hold the address the longest one counts, wherever it stands; of equal ones the one in the first list.
// Packets without addresses, and addresses that no list has: `otherwise`. `next` ends the stage: the packet
// goes on to the next one. Verdict's rule: the list's position + 1; 0: `otherwise`. At most 4,095 lists.
struct ReputationList {
  std::string name;
  std::vector<Prefix> prefixes;
  AclRule::Action action = AclRule::Action::drop;
  u32 target = 0;  // port index, for redirect
};
struct ReputationSettings {
  enum class Of {
    src,
    dst,
    either
  } of = Of::src;  // either: the source's, or, if no list has it, the other's
  std::vector<ReputationList> lists;
  AclRule::Action otherwise = AclRule::Action::next;  // next, drop or pass
  bool cache = false;                                 // publish the verdict to the kernel
  u32 cache_ttl_ms = 0;                               // 0: while the generation lives
};

// `forward`: the longest prefix that holds the destination names a next hop: its MAC address becomes the
// destination, the TTL or hop limit goes down by one and the IPv4 checksum with it (RFC 1624). Of equal
// prefixes the first one counts. Everything else that a router does is the host's, and so passed: packets
// that are malformed, that came to a group's MAC address or that are from or to an address no router sends on
// (multicast, broadcast, reserved, loopback, link-local); then, where the route leads to a next hop, packets
// on their last hop (TTL 0 or 1), those with IPv4 options or IPv6 hop-by-hop options, and those longer than
// the next hop's MTU. Fragments are sent on as they are. Packets without addresses go on to the next stage,
// as do those without a route where `otherwise` is `next`. Verdict's rule: the next hop's position + 1; 0:
// `otherwise`; or one of forward_rule. The result's detail: the next hop's position.
// Rewrite: next hops are numbered as backends are, together with them.
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
inline constexpr u32 kPass = 0x30000;     // a route that leads to the host
inline constexpr u32 kDrop = 0x30001;     // a route that leads nowhere
inline constexpr u32 kInvalid = 0x30002;  // malformed, or an address that no router sends on
inline constexpr u32 kTtl = 0x30003;      // its last hop
inline constexpr u32 kOptions = 0x30004;  // IPv4 options, hop-by-hop options
inline constexpr u32 kMtu = 0x30005;      // longer than the next hop takes
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
  AclRule::Action otherwise = AclRule::Action::pass;  // no route: next, drop or pass
  bool cache = false;                                 // publish the verdict to the kernel
  u32 cache_ttl_ms = 0;                               // 0: while the generation lives
};

using StageSettings =
    std::variant<AclSettings, LoadBalanceSettings, L2fwdSettings, ReputationSettings, ForwardSettings>;
struct PipelineSettings {
  std::string name;
  std::vector<StageSettings> stages;  // a packet that no stage decides is passed
};

class Pipelines {
 public:
  // Compiles all pipelines of a policy; xg_metadata.pipeline indexes `settings`. The error names the
  // pipeline and stage.
  static Result<std::shared_ptr<const Pipelines>> compile(std::vector<PipelineSettings> settings);

  const std::vector<PipelineSettings>& settings() const noexcept { return settings_; }
  const std::vector<u32>& image() const noexcept { return image_; }
  // The records that cached verdicts name, from number XG_REWRITE_FIRST on (maps/flow.h); their generation
  // is for the loader to fill in.
  const std::vector<xg_rewrite>& rewrites() const noexcept { return rewrites_; }

 private:
  Pipelines() = default;
  std::vector<PipelineSettings> settings_;
  std::vector<u32> image_;
  std::vector<xg_rewrite> rewrites_;
};

}  // namespace xdpgpu::gpu
