// SPDX-License-Identifier: MIT
//
// gpu/pipelines.hpp: stage settings in, compiled pipelines out. The settings are plain values; the
// image is what the devices and the sequential reference read (layout: gpu/stages/image.h).
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "gpu/gpu.hpp"
#include "gpu/maglev.hpp"
#include "maps/encapsulation.h"

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
// VLANs by the outer tag's id, inclusive. From 0 to 0: no tag; from XG_VLAN_PRIORITY to the same: a tag with
// id 0.
struct VlanRange {
  u16 first = 0;
  u16 last = 0;
};
using Mac = std::array<u8, 6>;

// What every stage goes by is the packet's metadata, not a parse of its own. A packet has addresses if
// XG_PKT_IPV4 or XG_PKT_IPV6 is set, ports if XG_PKT_PORTS is. Where these headers are not in the frame,
// or both families are claimed, a packet marked XG_PKT_MALFORMED counts as one without them; any other
// is not judged: XG_ABORTED. So are a packet whose metadata names another generation than its batch or
// a pipeline that does not exist, and a descriptor of fewer than 14 or more than XG_CHUNK_SIZE bytes, or
// one that does not lie in the frame region together with its metadata.
//
// The verdict word of a decided packet: stage is the position in the pipeline + 1; rule is said at each stage
// below. `cache` sets XG_RES_CACHE on whole, well-formed IP packets only: no fragments, nothing malformed,
// none without addresses; the rewrite for the kernel to apply is said at each stage, none where it is not.
// None decides: XG_PASS, stage 0, rule 0; cached, for the least time, if all are acl or reputation and cache.

// Holds for TCP packets in whose flag byte (RFC 9293) the bits in `mask` are those in `value`.
struct TcpFlags {
  u8 mask = 0;
  u8 value = 0;  // no bits outside `mask`
};

// `acl`: ordered rules, first match wins. Empty lists match everything; a rule that names addresses or
// protocols matches only packets that have addresses (of that family), one that names ports only packets
// that have ports and are no fragment. TCP flags has a packet that has addresses, XG_PKT_TCP set, protocol 6,
// and is no fragment, if the 20 bytes of its header are in the frame, and in the IP packet; a VLAN one with
// XG_PKT_VLAN set, that of its outer tag: the bytes behind the MAC addresses, if 18 bytes are in the frame.
// `next` ends the stage: the packet goes on to the next one. Verdict's rule: the rule's position + 1; 0:
// `otherwise`. At most 16,384 rules.
struct AclRule {
  std::string name;
  std::vector<Prefix> src, dst;
  std::vector<u8> protocols;
  std::vector<PortRange> src_ports, dst_ports;
  std::optional<TcpFlags> tcp_flags;
  std::vector<VlanRange> vlans;
  enum class Action { next, drop, pass, tx, redirect } action = Action::next;
  u32 target = 0;  // port index, for redirect
};
struct AclSettings {
  std::vector<AclRule> rules;
  AclRule::Action otherwise = AclRule::Action::next;  // no rule matched: next, drop or pass
  bool cache = false;                                 // publish the verdict to the kernel
  u32 cache_ttl_ms = 0;                               // 0: while the generation lives
};

// What a stage remembers of packets, by key: a table of the device's own memory (gpu/stages/table.h). It is
// divided into sets of eight; a key's set is told by the keyed hash of the key (CompileOptions::hash_key),
// and a newcomer to a full set takes the place of one of the eight, or gets none. Packets with timestamps
// that run backwards count as of the latest time that their set has seen.
struct TableSettings {
  enum class Evict {
    fifo,    // the entry that has been there longest
    lru,     // the one not used for longest
    lfu,     // the one used least often
    random,  // any of them, by the newcomer's hash
    refuse,  // none
  };
  u32 entries = 65536;  // 1..67,108,864; rounded up so that there is a power of two of sets; 72 bytes each
  Evict evict = Evict::lru;
};

// `load_balance`: FNV-1a (32-bit, as the published "XDP on GPU" prototype uses it) over source address,
// destination address, source port, destination port (each in network byte order as in the packet; 4 or
// 16 address bytes) and protocol, modulo the sum of the weights; backend i owns weight_i consecutive
// residues. The ports count as 0 where the packet has none and in all fragments, so that the fragments
// of one packet stay together.
//
// By maglev: the backend that stands in Maglev's lookup table of `table_size` entries (gpu/maglev.hpp) at the
// upper 32 bits of the flow's SipHash-1-3 (`key`, or else CompileOptions::hash_key), modulo the size; hashed
// are the forty bytes of the key that `rate_limit` has for flows: source and destination in sixteen bytes
// each, the ports as above, family, protocol, 0, 0. Each backend has its own name then, and each a share in
// the table. Who does not know the key cannot aim at a backend, and one that is taken out moves its own flows
// and few others.
//
// With `affinity` (by maglev only) a table remembers where each flow, or each client, went: while its entry
// lives it goes there, although other backends come and go or weights change. It moves when its backend is
// gone or down. Entries name backends by their names (backend_id), and the table is the same one whatever the
// backends are. Verdicts may be cached all the same, unless another table stands in front: the kernel then
// sends the flow where this table does. The flow must not be forgotten meanwhile, so that cache_ttl_ms is at
// most half of `idle_ms`, and it comes up again in time.
//
// A backend that drains gets no new flows; one that is down gets none at all. Where all that do not drain are
// down, none counts as down: what cannot be reached from here may well be reached from elsewhere.
//
// Sets the backend's MAC as destination and the frame's former destination
// as source. Packets without addresses go on to the next stage. Verdict's rule: 0, or one of balance_rule;
// the result's detail: the backend's position. Rewrite: the backends of stages that cache or encapsulate are
// numbered from XG_REWRITE_FIRST on in the order of the settings; verdicts for those from XG_REWRITE_HALF on
// are not cached, and cannot be where the stage encapsulates.
//
// With `encapsulation` the packet leaves inside of outer headers to the backend's own address
// (maps/encapsulation.h), so that the backend may be any number of routers away. A packet that is malformed,
// and one that would not fit into the MTU, are dropped; the latter with XG_RES_TOO_LONG. The flow's hash in
// the result is the low 16 bits of the SipHash-1-3 of the key that maglev has, by the encapsulation's own
// key: who has the same settings makes the same headers.
struct Backend {
  std::string name;
  Mac mac{};
  u32 weight = 1;        // 1..1000
  bool to_port = false;  // false: TX, out of the port it came in on
  u32 target = 0;        // port index when to_port
  bool drains = false;
  bool down = false;
  Prefix address{};  // of one host; with encapsulation, where the outer headers lead
};
struct EncapsulationSettings {
  enum class Type { ipip, gue } type = Type::ipip;
  // The outer source, by the family of the backend's address, which one of them has. Where a prefix is
  // shorter than an address, the flow's hash fills up to 16 of the last bits.
  std::optional<Prefix> source4{}, source6{};
  u16 port = XG_GUE_PORT;  // with gue: the UDP destination, host order, not 0
  u32 mtu = 1500;          // longest outer IP packet, bytes, 576..65535
  std::array<u64, 2> hash_key{};
};
namespace balance_rule {
inline constexpr u32 kTooLong = 1;    // it would not fit inside of the outer headers
inline constexpr u32 kMalformed = 2;  // it cannot be told how long it is
}  // namespace balance_rule
struct AffinitySettings {
  enum class Per { flow, src } per = Per::flow;  // src: all flows of a source address go together
  u32 idle_ms = 300'000;                         // without a packet, after which it is forgotten, 1..2^32-1
  TableSettings table{.entries = 1'048'576};
};
struct LoadBalanceSettings {
  enum class Algorithm { hash, maglev };
  std::vector<Backend> backends;  // 1..256
  bool cache = false;
  u32 cache_ttl_ms = 0;
  Algorithm algorithm = Algorithm::hash;
  u32 table_size = kMaglevTable;  // with maglev: a prime, kMinMaglevTable..kMaxMaglevTable
  std::optional<AffinitySettings> affinity{};
  // With maglev: balancers of the same key, backends and table_size choose the same backend for a flow.
  std::optional<std::array<u64, 2>> key{};
  std::optional<EncapsulationSettings> encapsulation{};
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

// `rate_limit`: a token bucket for each source, destination, or flow (addresses, ports and protocol). A
// packet that finds too few tokens in it is decided by `excess` and takes none; the others go on. Limits in
// packets and in bytes (from the Ethernet header on) may both be set: then a packet needs both. A key for
// which there is no place is not limited. Packets without addresses go on. In fragments the ports count as 0.
// Verdict's rule: 0.
struct RateLimitSettings {
  enum class Per { src, dst, flow } per = Per::src;
  u8 bits4 = 32;  // bits of the address that count, for src and dst: whole prefixes share a bucket
  u8 bits6 = 128;
  u64 packets_per_second = 0;                      // 0: not limited in packets; to 10^9
  u64 burst_packets = 0;                           // tokens that a full bucket has, 1..10^9
  u64 bytes_per_second = 0;                        // 0: not limited in bytes; 1,000 to 10^12
  u64 burst_bytes = 0;                             // 1..10^12; a longer frame never fits
  AclRule::Action excess = AclRule::Action::drop;  // drop or pass
  TableSettings table;
};

// `conntrack`: tells packets of connections from others; what is neither new nor invalid nor untracked goes
// on. Not tracked are what is not IP, fragments, and ICMP but for echo and errors. VLAN ids are part of a
// connection: what comes in with others is none of it. IPv6 addresses that stand for IPv4 ones are invalid.
//
// TCP goes by its flags: a SYN makes a connection; the other side's SYN and ACK, which acknowledges it, then
// an ACK open it; a FIN of each side or a RST end it, and a SYN then makes a new one. A RST ends it that has
// the number which its side's next byte would have, or which the other side waits for, or that refuses a SYN;
// another one changes nothing. And unless `loose` by its windows (Rooij, 2001, with window scaling): what is
// outside of them is invalid and changes nothing. Not held to them are connections that were taken up in the
// middle, those of whose packets the host's part was missed, those with a window scale that cannot be read,
// and what the host sends. Who shows what the host sends may be behind: what it may have sent, or offered
// room for, counts as if it were shown, a window more; and what comes in from its peer outside of the windows
// is invalid only if it is a SYN or a RST, else it goes on and changes nothing. New: SYN of a connection,
// until the other side has answered. Invalid: flags that no packet has (two of SYN, FIN and RST, or none of
// SYN, RST and ACK), a packet that its connection's state does not allow, and, unless `loose`, one of no
// connection that is not a SYN. UDP, and any other protocol, by addresses and ports; ICMP echo by its
// identifier: new until the other side has answered. ICMP errors are of the connection that they quote; if
// there is none, they are invalid (`loose`: not tracked). Malformed packets are invalid.
//
// loose: only one direction may be seen. Then connections are also taken up in the middle (as new), and
// from the answer to what was not seen.
//
// Where a new connection has no place in the table, its packets count as invalid. Verdict's rule: the class
// of the packet, kConntrackNew, kConntrackInvalid or kConntrackUntracked.
//
// egress: the pipeline is shown what the host sends (XG_PKT_EGRESS). Such packets meet the stages `conntrack`
// alone, which note them as any packet of the other direction, and always as `loose`: what the host says of
// its connections is so. And only that is: a direction that the host was shown to send in is changed by no
// packet that comes in and is passed to the host's stack, which would show it when it sends it on.
//
// What changes connections. Not a packet that is dropped: by the stage itself, or, where it may begin a
// connection, by a stage behind that asks no table. With `egress`, a connection that was begun by a packet
// for the host's stack is unconfirmed until the host was shown to send a packet of it; until then nothing
// answers it: what comes from its other side counts as if there were none, and may begin it anew. (The stages
// in front of a stage with a table, `rate_limit` say, do not know what that one will do; where none behind
// sends packets on, what comes through is for the host's stack.) Else, where a table behind may have dropped
// what began it, it is unconfirmed until its originator goes on after an answer; answers are let in, since
// what is too much for a rate would have been let in at a lower one. Unconfirmed connections give way before
// all others, with Evict::refuse, too. All of this is known when the table is asked, packet by packet, so it
// does not matter how the stream is cut into batches.
// They are decided by no stage: XG_PASS, stage 0, rule 0, and nothing else set. (That
// holds for packets with the mark in any pipeline.)
struct ConntrackSettings {
  bool loose = false;
  bool egress = false;
  AclRule::Action on_new = AclRule::Action::next;        // next, pass or drop
  AclRule::Action on_invalid = AclRule::Action::drop;    // likewise
  AclRule::Action on_untracked = AclRule::Action::next;  // likewise
  // Milliseconds without a packet after which a connection is forgotten, 1..2^32-1.
  struct Timeouts {
    u32 syn_sent = 120'000;
    u32 syn_received = 60'000;
    u32 established = 3'600'000;
    u32 fin_wait = 120'000;
    u32 time_wait = 120'000;
    u32 closed = 10'000;
    u32 udp = 30'000;
    u32 udp_replied = 120'000;
    u32 icmp = 30'000;    // replied or not
    u32 other = 600'000;  // likewise
    bool operator==(const Timeouts&) const = default;
  } timeouts;
  TableSettings table{.entries = 1'048'576};
};
inline constexpr u32 kConntrackNew = 1;
inline constexpr u32 kConntrackInvalid = 4;
inline constexpr u32 kConntrackUntracked = 6;

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
  AclRule::Action otherwise = AclRule::Action::pass;  // no route: next, drop or pass
  bool cache = false;                                 // publish the verdict to the kernel
  u32 cache_ttl_ms = 0;                               // 0: while the generation lives
};

// `ddos`: floods to each destination, or from each source: its target. Of each target is counted, for each
// metric below that has a threshold, what came in the sliding window: what came since the last multiple of
// the window's length and, of what came in the window before, the part that the window still covers, in
// 1,024ths. Numbers of different flows and sources are estimates (HyperLogLog of 256 registers: within 7 % in
// two of three cases), and of the two parts the larger one counts. A flow is new that was not seen in the
// window before; in the first window that a target is known for, none is.
//
// Where a value reaches its threshold, an alarm begins. It lasts until the value has not reached
// `release_percent` of the threshold for `hold_ms`. A packet of a kind for which its target has an alarm is
// dropped, or goes on (on_detect): the kinds are those that the metric counts; for new_flows TCP packets with
// SYN and without ACK, and whatever is not TCP. drop_sources: only packets of such sources (of destinations,
// where targets are sources) as have `share_percent` of the packets of the alarms' kinds (of all kinds that
// have a threshold, where no alarm was on), by a count-min sketch of two rows of 64, which is halved from
// window to window: it may take a source for too much by a 64th of all packets.
//
// A target that has no place in the table, or has to give it away, is not watched, and packets without
// addresses go on. Verdict's rule: 1 + the metric. A verdict is cached for what is left of the alarm, and for
// cache_ttl_ms at most, where that is not 0. What the kernel drops is not counted here: the alarm then ends,
// and so do the cached verdicts; what still comes begins it anew.
enum class DdosMetric : u32 {
  syn,        // TCP packets with SYN and without ACK
  udp,        // packets
  udp_bytes,  // from the Ethernet header on
  dns,        // UDP packets from port 53
  dns_bytes,
  icmp,  // ICMP and ICMPv6 packets
  packets,
  bytes,
  new_flows,
  sources,  // different ones in a window; for `out` different destinations
};
inline constexpr u32 kDdosMetrics = 10;
// As policies name them. All but `sources` are rates per second.
inline constexpr std::array<std::string_view, kDdosMetrics> kDdosMetricNames{
    "syn_pps", "udp_pps",          "udp_bytes_per_second", "dns_pps", "dns_bytes_per_second", "icmp_pps",
    "pps",     "bytes_per_second", "new_flows_per_second", "sources"};
struct DdosSettings {
  enum class Direction { in, out } direction = Direction::in;  // targets: destinations, sources
  u8 bits4 = 32;  // bits of a target's address that count: whole prefixes are one target
  u8 bits6 = 128;
  u32 window_ms = 1000;                        // 10..60,000
  std::array<u64, kDdosMetrics> thresholds{};  // by DdosMetric; 0: not watched; to 10^12
  u32 release_percent = 50;                    // 1..100
  u32 hold_ms = 60'000;                        // 1..kMaxDdosHoldMs
  enum class OnDetect { pass, drop, drop_sources } on_detect = OnDetect::drop;
  u32 share_percent = 10;                // 1..100
  bool cache = false;                    // publish drops to the kernel
  u32 cache_ttl_ms = 0;                  // 0: for what is left of the alarm
  TableSettings table{.entries = 4096};  // targets, kMaxDdosTargets at most; about 2,300 bytes each
};
inline constexpr u32 kMaxDdosHoldMs = 8 * 3'600'000;
inline constexpr u32 kMaxDdosTargets = 1u << 20;
// A number of events in a window as a metric's threshold has it: a second's, or, for `sources`, itself.
u64 ddos_rate(const DdosSettings& settings, DdosMetric metric, u64 in_window);

using StageSettings = std::variant<AclSettings, LoadBalanceSettings, L2fwdSettings, ReputationSettings,
                                   ForwardSettings, RateLimitSettings, ConntrackSettings, DdosSettings>;
struct PipelineSettings {
  std::string name;
  std::vector<StageSettings> stages;  // a packet that no stage decides is passed
};

// A stage's table. Two of equal identity are one: a device hands it on from generation to generation.
struct StateSpec {
  std::string identity;  // pipeline, which of its stages of that kind, and the stage's settings
  std::string pipeline;
  u32 stage = 0;  // position in it, from 0
  u64 words = 0;  // of memory
  u64 entries = 0;
};

struct CompileOptions {
  // SipHash key of the tables and of Maglev (where it has none of its own), as hard to guess for those who
  // send packets as the caller makes it. Another key is another table, and leads flows to other backends.
  std::array<u64, 2> hash_key{};
};

class Pipelines {
 public:
  // Compiles all pipelines of a policy; xg_metadata.pipeline indexes `settings`. The error names the
  // pipeline and stage.
  static Result<std::shared_ptr<const Pipelines>> compile(std::vector<PipelineSettings> settings,
                                                          const CompileOptions& options = {});

  // The same but for its conntrack stages, which are all loose. Their tables are the same (StateSpec).
  static std::shared_ptr<const Pipelines> loosened(std::shared_ptr<const Pipelines> pipelines);

  const std::vector<PipelineSettings>& settings() const noexcept { return settings_; }
  const std::vector<u32>& image() const noexcept { return image_; }
  // The records that cached verdicts name, from number XG_REWRITE_FIRST on (maps/flow.h); their generation
  // is for the loader to fill in.
  const std::vector<xg_rewrite>& rewrites() const noexcept { return rewrites_; }
  // Name of the backend to which rewrite `number` leads, as a cached verdict has it: empty if it leads to
  // none.
  std::string_view backend_of(u32 number) const noexcept;
  // The stages' tables, as the image numbers them.
  const std::vector<StateSpec>& states() const noexcept { return states_; }

 private:
  Pipelines() = default;
  std::vector<PipelineSettings> settings_;
  std::vector<u32> image_;
  std::vector<xg_rewrite> rewrites_;
  std::vector<std::string> backends_;  // by rewrite
  std::vector<StateSpec> states_;
};

// The pipelines that are to be shown what the host sends.
std::vector<u16> fed_by_egress(const Pipelines& pipelines);

// Whether some stage sends packets on inside of outer headers.
bool encapsulates(const Pipelines& pipelines);

// Whether words [first, first + count) of a table can be read.
Result<void> check_state_range(const Pipelines& pipelines, u32 table, u64 first, u64 count);

}  // namespace xdpgpu::gpu
