// SPDX-License-Identifier: MIT
#include "gpu/reference/reference.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

#include "gpu/reference/balance.hpp"
#include "gpu/reference/connections.hpp"
#include "gpu/reference/floods.hpp"
#include "gpu/reference/packet.hpp"
#include "gpu/reference/table.hpp"
#include "gpu/stages/table.h"

namespace xdpgpu::gpu::reference {
namespace {

u32 number(std::span<const u8> bytes, u32 at) { return bytes[at] * 256u + bytes[at + 1]; }

// Where the IP packet ends, which has addresses.
u32 ip_end(const Packet& packet) {
  const u32 l3 = packet.metadata.l3_offset;
  if (packet.src.size() == 4) return l3 + number(packet.frame, l3 + 2);
  const u32 payload = number(packet.frame, l3 + 4);
  const bool jumbogram = payload == 0 && packet.frame[l3 + 6] == 0;
  return jumbogram ? static_cast<u32>(packet.frame.size()) : l3 + 40 + payload;
}

std::span<const u8> tcp_header(const Packet& packet) {
  const xg_metadata& metadata = packet.metadata;
  if (packet.src.empty() || !packet.is(XG_PKT_TCP) || packet.is(XG_PKT_FRAGMENT) || metadata.protocol != 6)
    return {};
  // Whatever is well-formed has its header in the packet.
  if (packet.is(XG_PKT_MALFORMED) && metadata.l4_offset + 20u > ip_end(packet)) return {};
  return header(packet, metadata.l4_offset, 20);
}

u16 outer_vlan(const Packet& packet) {
  if (!packet.is(XG_PKT_VLAN) || packet.frame.size() < 18) return 0;
  const u32 id = number(packet.frame, 14) & 0xfff;
  return static_cast<u16>(id != 0 ? id : XG_VLAN_PRIORITY);
}

// The packet as the metadata describes it; nothing where it is not to be judged.
std::optional<Packet> read_packet(std::span<const u8> region, const xg_descriptor& descriptor) {
  if (descriptor.length < 14 || descriptor.length > XG_CHUNK_SIZE) return std::nullopt;
  if (descriptor.offset < XG_METADATA_SIZE || descriptor.offset > region.size() ||
      region.size() - descriptor.offset < descriptor.length)
    return std::nullopt;
  Packet packet;
  std::memcpy(&packet.metadata, &region[descriptor.offset - XG_METADATA_SIZE], XG_METADATA_SIZE);
  packet.frame = region.subspan(descriptor.offset, descriptor.length);
  const bool v4 = packet.is(XG_PKT_IPV4);
  const bool v6 = packet.is(XG_PKT_IPV6);
  if (v4 != v6) {
    const auto ip = header(packet, packet.metadata.l3_offset, v4 ? 20 : 40);
    if (!ip.empty()) {
      packet.src = v4 ? ip.subspan(12, 4) : ip.subspan(8, 16);
      packet.dst = v4 ? ip.subspan(16, 4) : ip.subspan(24, 16);
    }
  }
  if (packet.is(XG_PKT_PORTS)) packet.ports = header(packet, packet.metadata.l4_offset, 4);
  packet.tcp = tcp_header(packet);
  packet.vlan = outer_vlan(packet);

  const bool contradiction =
      ((v4 || v6) && packet.src.empty()) || (packet.is(XG_PKT_PORTS) && packet.ports.empty());
  if (contradiction && !packet.is(XG_PKT_MALFORMED)) return std::nullopt;
  return packet;
}

// ---- acl -------------------------------------------------------------------------------------------

bool contains(const Prefix& prefix, std::span<const u8> address) {
  if (address.size() != (prefix.family == 4 ? 4u : 16u)) return false;
  for (u32 bit = 0; bit < prefix.length; bit++) {
    const u32 mask = 0x80u >> bit % 8;
    if ((address[bit / 8] & mask) != (prefix.address[bit / 8] & mask)) return false;
  }
  return true;
}

bool matches(const std::vector<Prefix>& prefixes, std::span<const u8> address) {
  return prefixes.empty() || std::any_of(prefixes.begin(), prefixes.end(),
                                         [&](const Prefix& prefix) { return contains(prefix, address); });
}

bool matches(const std::vector<PortRange>& ranges, const Packet& packet, u32 at) {
  if (ranges.empty()) return true;
  if (packet.ports.empty() || packet.is(XG_PKT_FRAGMENT)) return false;
  const u32 port = packet.ports[at] * 256u + packet.ports[at + 1];
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](const PortRange& range) { return range.first <= port && port <= range.last; });
}

bool matches(const std::vector<u8>& protocols, const Packet& packet) {
  if (protocols.empty()) return true;
  if (packet.src.empty()) return false;
  return std::find(protocols.begin(), protocols.end(), packet.metadata.protocol) != protocols.end();
}

bool matches(const std::optional<TcpFlags>& flags, const Packet& packet) {
  return !flags || (!packet.tcp.empty() && (packet.tcp[13] & flags->mask) == flags->value);
}

bool matches(const std::vector<VlanRange>& vlans, const Packet& packet) {
  return vlans.empty() || std::any_of(vlans.begin(), vlans.end(), [&](const VlanRange& range) {
           return packet.vlan >= range.first && packet.vlan <= range.last;
         });
}

bool matches(const AclRule& rule, const Packet& packet) {
  return matches(rule.src, packet.src) && matches(rule.dst, packet.dst) && matches(rule.protocols, packet) &&
         matches(rule.src_ports, packet, 0) && matches(rule.dst_ports, packet, 2) &&
         matches(rule.tcp_flags, packet) && matches(rule.vlans, packet);
}

// ---- The stages: each says whether it decides, and fills in the result if so -----------------------

void set_cache(bool cache, u32 ttl_ms, const Packet& packet, u32 rewrite, xg_result& result) {
  if (!cache || packet.src.empty()) return;
  if (packet.is(XG_PKT_FRAGMENT | XG_PKT_LATER_FRAGMENT | XG_PKT_TRACKED | XG_PKT_MALFORMED)) return;
  result.flags |= XG_RES_CACHE | rewrite << 16;
  result.cache_ttl_ms = ttl_ms;
}

void set_mac(u32* words, std::span<const u8> mac) {
  words[0] = words[1] = 0;
  for (u32 i = 0; i < 6; i++) words[i / 4] |= u32{mac[i]} << i % 4 * 8;
}

u32 forward(bool to_port, u32 target, u32 stage) {
  return to_port ? XG_VERDICT(XG_REDIRECT, target, stage, 0u) : XG_VERDICT(XG_TX, 0u, stage, 0u);
}

// Where a stage stands.
struct Place {
  u32 position = 0;       // in its pipeline, from 1
  u32 first_rewrite = 0;  // number of its first backend's or next hop's rewrite
  Table* table = nullptr;
  const Balancer* balancer = nullptr;
  Floods* floods = nullptr;
  const Behind* behind = nullptr;
};

// False: the packet goes on.
bool act(AclRule::Action action, u32 target, u32 stage, u32 number, xg_result& result) {
  switch (action) {
    case AclRule::Action::next:
      return false;
    case AclRule::Action::drop:
      result.verdict = XG_VERDICT(XG_DROP, 0u, stage, number);
      break;
    case AclRule::Action::pass:
      result.verdict = XG_VERDICT(XG_PASS, 0u, stage, number);
      break;
    case AclRule::Action::tx:
      result.verdict = XG_VERDICT(XG_TX, 0u, stage, number);
      break;
    case AclRule::Action::redirect:
      result.verdict = XG_VERDICT(XG_REDIRECT, target, stage, number);
      break;
  }
  return true;
}

bool decide(const AclSettings& settings, const Packet& packet, const Place& place, xg_result& result) {
  const u32 stage = place.position;
  AclRule::Action action = settings.otherwise;
  u32 target = 0;
  u32 number = 0;
  for (std::size_t i = 0; i < settings.rules.size(); i++) {
    if (!matches(settings.rules[i], packet)) continue;
    action = settings.rules[i].action;
    target = settings.rules[i].target;
    number = static_cast<u32>(i) + 1;
    break;
  }
  if (!act(action, target, stage, number, result)) return false;
  set_cache(settings.cache, settings.cache_ttl_ms, packet, XG_REWRITE_NONE, result);
  return true;
}

// Nothing: a jumbogram.
std::optional<u32> ip_bytes(const Packet& packet) {
  const u32 l3 = packet.metadata.l3_offset;
  if (packet.src.size() == 4) return number(packet.frame, l3 + 2);
  const u32 payload = number(packet.frame, l3 + 4);
  if (payload == 0 && packet.frame[l3 + 6] == 0) return std::nullopt;
  return payload + 40;
}

u32 longest_inside(const EncapsulationSettings& outer, const Backend& backend) {
  const u32 ip = backend.address.family == 4 ? 20 : 40;
  return outer.mtu - ip - (outer.type == EncapsulationSettings::Type::gue ? 8 : 0);
}

bool decide(const LoadBalanceSettings& settings, const Packet& packet, const Place& place,
            xg_result& result) {
  const auto chosen = place.balancer->choose(packet, place.table);
  if (!chosen) return false;
  const Backend& backend = settings.backends[*chosen];
  const u32 rewrite = place.first_rewrite + *chosen;
  result.detail = *chosen;
  if (settings.encapsulation) {
    const auto drop = [&](u32 why) {
      result.verdict = XG_VERDICT(XG_DROP, 0u, place.position, why);
      return true;
    };
    if (packet.is(XG_PKT_MALFORMED)) return drop(balance_rule::kMalformed);
    const u32 longest = longest_inside(*settings.encapsulation, backend);
    const auto bytes = ip_bytes(packet);
    if (!bytes || *bytes > longest) {
      result.flags = XG_RES_TOO_LONG;
      result.dst_mac[0] = longest;
      return drop(balance_rule::kTooLong);
    }
  }
  result.verdict = forward(backend.to_port, backend.target, place.position);
  result.flags = XG_RES_SET_DST_MAC | XG_RES_SET_SRC_MAC;
  set_mac(result.dst_mac, backend.mac);
  set_mac(result.src_mac, packet.frame.first(6));
  if (settings.encapsulation) {
    result.flags |= XG_RES_ENCAPSULATE;
    result.dst_mac[1] |= rewrite << 16;
    result.src_mac[1] |= static_cast<u32>(flow_hash(packet, settings.encapsulation->hash_key) & 0xffff) << 16;
  }
  set_cache(settings.cache && rewrite < XG_REWRITE_HALF, settings.cache_ttl_ms, packet, rewrite, result);
  return true;
}

bool decide(const L2fwdSettings& settings, const Packet& packet, const Place& place, xg_result& result) {
  result.verdict = forward(settings.to_port, settings.target, place.position);
  result.flags = XG_RES_SET_DST_MAC | XG_RES_SET_SRC_MAC;
  set_mac(result.dst_mac, packet.frame.subspan(6, 6));
  set_mac(result.src_mac, packet.frame.first(6));
  set_cache(settings.cache, settings.cache_ttl_ms, packet, XG_REWRITE_SWAP_MACS, result);
  return true;
}

// 1 + the number of the list with the longest prefix that holds the address; 0: none has it.
u32 reputation_of(const ReputationSettings& settings, std::span<const u8> address) {
  u32 list = 0;
  int longest = -1;
  for (std::size_t i = 0; i < settings.lists.size(); i++)
    for (const Prefix& prefix : settings.lists[i].prefixes)
      if (contains(prefix, address) && prefix.length > longest) {
        longest = prefix.length;
        list = static_cast<u32>(i) + 1;
      }
  return list;
}

bool decide(const ReputationSettings& settings, const Packet& packet, const Place& place, xg_result& result) {
  u32 list = 0;
  if (!packet.src.empty()) {
    if (settings.of != ReputationSettings::Of::dst) list = reputation_of(settings, packet.src);
    if (settings.of != ReputationSettings::Of::src && list == 0) list = reputation_of(settings, packet.dst);
  }
  AclRule::Action action = settings.otherwise;
  u32 target = 0;
  if (list != 0) {
    action = settings.lists[list - 1].action;
    target = settings.lists[list - 1].target;
  }
  if (!act(action, target, place.position, list, result)) return false;
  set_cache(settings.cache, settings.cache_ttl_ms, packet, XG_REWRITE_NONE, result);
  return true;
}

// ---- Stages with tables ----------------------------------------------------------------------------

__extension__ typedef unsigned __int128 Wide;

// As much of an address as counts.
void put_prefix(std::span<u8> to, std::span<const u8> address, u32 bits) {
  for (u32 bit = 0; bit < bits; bit++)
    to[bit / 8] = static_cast<u8>(to[bit / 8] | (address[bit / 8] & (0x80 >> bit % 8)));
}

bool decide(const RateLimitSettings& settings, const Packet& packet, const Place& place, xg_result& result) {
  if (packet.src.empty()) {
    place.table->count(3);
    return false;
  }
  const bool flow = settings.per == RateLimitSettings::Per::flow;
  const u32 whole = static_cast<u32>(packet.src.size()) * 8;
  const u32 bits = flow ? whole : packet.src.size() == 4 ? settings.bits4 : settings.bits6;
  Key key{};
  if (settings.per != RateLimitSettings::Per::dst) put_prefix(std::span(key).first(16), packet.src, bits);
  if (settings.per != RateLimitSettings::Per::src)
    put_prefix(std::span(key).subspan(16, 16), packet.dst, bits);
  if (flow && !packet.ports.empty() && !packet.is(XG_PKT_FRAGMENT))
    std::copy(packet.ports.begin(), packet.ports.end(), key.begin() + 32);
  key[36] = packet.src.size() == 4 ? 4 : 6;
  if (flow) key[37] = packet.metadata.protocol;

  Table& table = *place.table;
  table.come(key, packet.metadata.rx_time_ns * XG_TICKS_PER_NS);
  const u64 now = table.now();
  constexpr u64 second = XG_TICKS_PER_NS * 1'000'000'000;
  // Each bucket is known by the time at which it is full again, in ticks; one that is full, by now.
  u64 packets_full = now;
  u64 bytes_full = now;
  Entry* entry = table.find(true);
  if (entry != nullptr) {
    const u64 other = u64{entry->value[1]} << 32 | entry->value[0];
    packets_full = std::max(now, entry->value[2] != 0 ? entry->deadline : other);
    bytes_full = std::max(now, entry->value[2] != 0 ? other : entry->deadline);
  }
  bool fits = true;
  if (settings.packets_per_second != 0) {
    const u64 one = second / settings.packets_per_second;
    packets_full += one;
    fits = packets_full - now <= one * settings.burst_packets;
  }
  if (settings.bytes_per_second != 0) {
    // In 2^-20 ticks.
    const Wide one = (Wide{second} << 20) / settings.bytes_per_second;
    bytes_full += static_cast<u64>((one * packet.bytes) >> 20);
    fits = fits && bytes_full - now <= static_cast<u64>((one * settings.burst_bytes) >> 20);
  }
  if (!fits) {
    table.count(1);
    return act(settings.excess, 0, place.position, 0, result);
  }
  const u64 later = std::max(packets_full, bytes_full);
  if (entry == nullptr) entry = table.insert(later);
  table.count(entry == nullptr ? 2 : 0);
  if (entry == nullptr) return false;
  const u64 earlier = std::min(packets_full, bytes_full);
  entry->deadline = later;
  entry->value = {static_cast<u32>(earlier), static_cast<u32>(earlier >> 32),
                  packets_full > bytes_full ? 1u : 0u};
  return false;
}

bool decide(const ConntrackSettings& settings, const Packet& packet, const Place& place, xg_result& result) {
  const Class what = classify(settings, packet, *place.behind, *place.table);
  place.table->count(static_cast<u32>(what));
  if (what == Class::fresh) return act(settings.on_new, 0, place.position, kConntrackNew, result);
  if (what == Class::invalid || what == Class::no_place)
    return act(settings.on_invalid, 0, place.position, kConntrackInvalid, result);
  if (what == Class::untracked)
    return act(settings.on_untracked, 0, place.position, kConntrackUntracked, result);
  return false;
}

bool decide(const DdosSettings& settings, const Packet& packet, const Place& place, xg_result& result) {
  const Floods::Answer answer = place.floods->see(packet, *place.table);
  if (!answer.dropped) return false;
  result.verdict = XG_VERDICT(XG_DROP, 0u, place.position, answer.metric + 1);
  u64 ttl_ms = answer.milliseconds;
  if (settings.cache_ttl_ms != 0) ttl_ms = std::min<u64>(ttl_ms, settings.cache_ttl_ms);
  set_cache(settings.cache && ttl_ms != 0, static_cast<u32>(ttl_ms), packet, XG_REWRITE_NONE, result);
  return true;
}

// Of the routes whose prefix holds the address the one with the longest; the first one of equals.
const Route* route_to(const ForwardSettings& settings, std::span<const u8> address) {
  const Route* best = nullptr;
  for (const Route& route : settings.routes)
    if (contains(route.prefix, address) && (best == nullptr || route.prefix.length > best->prefix.length))
      best = &route;
  return best;
}

// Multicast, broadcast, reserved, loopback, link-local or unspecified.
bool stays_on_its_link(std::span<const u8> address) {
  if (address.size() == 4)
    return address[0] == 0 || address[0] == 127 || address[0] >= 224 ||
           (address[0] == 169 && address[1] == 254);
  if (address[0] == 0xff || (address[0] == 0xfe && (address[1] & 0xc0) == 0x80)) return true;
  return std::all_of(address.begin(), address.end() - 1, [](u8 byte) { return byte == 0; }) &&
         address[15] <= 1;
}

// RFC 1624, equation 3: HC' = ~(~HC + ~m + m'), in ones' complement arithmetic of 16 bits.
u32 updated_checksum(u32 checksum, u32 old_word, u32 new_word) {
  u32 sum = (~checksum & 0xffffu) + (~old_word & 0xffffu) + new_word;
  while (sum > 0xffffu) sum = (sum & 0xffffu) + (sum >> 16);
  return ~sum & 0xffffu;
}

bool decide(const ForwardSettings& settings, const Packet& packet, const Place& place, xg_result& result) {
  if (packet.src.empty()) return false;
  const auto pass = [&](u32 why) {
    result.verdict = XG_VERDICT(XG_PASS, 0u, place.position, why);
    return true;
  };
  if (packet.is(XG_PKT_MALFORMED) || (packet.frame[0] & 1) != 0 || stays_on_its_link(packet.src) ||
      stays_on_its_link(packet.dst))
    return pass(forward_rule::kInvalid);
  if ((packet.metadata.router & XG_ROUTER_ADDRESSED) == 0) return pass(forward_rule::kForeign);

  const Route* route = route_to(settings, packet.dst);
  if (route == nullptr) {
    if (!act(settings.otherwise, 0, place.position, 0, result)) return false;
    set_cache(settings.cache, settings.cache_ttl_ms, packet, XG_REWRITE_NONE, result);
    return true;
  }
  if (route->next_hop == kRoutePass || route->next_hop == kRouteDrop) {
    result.verdict = route->next_hop == kRoutePass
                         ? XG_VERDICT(XG_PASS, 0u, place.position, forward_rule::kPass)
                         : XG_VERDICT(XG_DROP, 0u, place.position, forward_rule::kDrop);
    set_cache(settings.cache, settings.cache_ttl_ms, packet, XG_REWRITE_NONE, result);
    return true;
  }

  const NextHop& hop = settings.next_hops[route->next_hop];
  const bool v4 = packet.src.size() == 4;
  const auto ip = header(packet, packet.metadata.l3_offset, v4 ? 20 : 40);
  const u32 ttl = v4 ? ip[8] : ip[7];
  const bool options = v4 ? ip[0] != 0x45 : ip[6] == 0;
  const u32 length = v4 ? number(ip, 2) : 40 + number(ip, 4);
  if ((packet.metadata.router & XG_ROUTER_CHECKSUM) == 0) return pass(forward_rule::kChecksum);
  if (ttl <= 1) return pass(forward_rule::kTtl);
  if (options) return pass(forward_rule::kOptions);
  if (length > hop.mtu) return pass(forward_rule::kMtu);

  const u32 position = route->next_hop;
  result.verdict = hop.to_port ? XG_VERDICT(XG_REDIRECT, hop.target, place.position, position + 1)
                               : XG_VERDICT(XG_TX, 0u, place.position, position + 1);
  result.flags = XG_RES_SET_DST_MAC | XG_RES_SET_SRC_MAC | XG_RES_SET_TTL;
  set_mac(result.dst_mac, hop.mac);
  set_mac(result.src_mac, hop.own_source ? std::span<const u8>(hop.source) : packet.frame.first(6));
  result.src_mac[1] |= (ttl - 1) << 16;
  if (v4) {
    const u32 updated = updated_checksum(number(ip, 10), number(ip, 8), number(ip, 8) - 256);
    result.dst_mac[1] |= (updated >> 8 | (updated & 0xff) << 8) << 16;
  }
  result.detail = position;
  const u32 rewrite = place.first_rewrite + position;
  set_cache(settings.cache && rewrite < XG_REWRITE_HALF, settings.cache_ttl_ms, packet, rewrite, result);
  return true;
}

u32 rewrites_of(const StageSettings& stage) {
  const auto* balance = std::get_if<LoadBalanceSettings>(&stage);
  if (balance != nullptr && (balance->cache || balance->encapsulation))
    return static_cast<u32>(balance->backends.size());
  const auto* router = std::get_if<ForwardSettings>(&stage);
  return router != nullptr && router->cache ? static_cast<u32>(router->next_hops.size()) : 0;
}

const TableSettings* table_of(const StageSettings& stage) {
  if (const auto* limit = std::get_if<RateLimitSettings>(&stage)) return &limit->table;
  if (const auto* conntrack = std::get_if<ConntrackSettings>(&stage)) return &conntrack->table;
  if (const auto* ddos = std::get_if<DdosSettings>(&stage)) return &ddos->table;
  const auto* balance = std::get_if<LoadBalanceSettings>(&stage);
  if (balance != nullptr && balance->affinity) return &balance->affinity->table;
  return nullptr;
}

bool leaves(AclRule::Action action) {
  return action == AclRule::Action::tx || action == AclRule::Action::redirect;
}
bool may_send(const AclSettings& stage) {
  return std::any_of(stage.rules.begin(), stage.rules.end(),
                     [](const auto& one) { return leaves(one.action); });
}
bool may_send(const ReputationSettings& stage) {
  return std::any_of(stage.lists.begin(), stage.lists.end(),
                     [](const auto& one) { return leaves(one.action); });
}
bool may_send(const LoadBalanceSettings&) { return true; }
bool may_send(const L2fwdSettings&) { return true; }
bool may_send(const ForwardSettings&) { return true; }
template <class Stage>
bool may_send(const Stage&) {
  return false;
}

// By pipeline, stage; nullptr: the stage has none.
using Tables = std::vector<std::vector<std::unique_ptr<Table>>>;
using Balancers = std::vector<std::vector<std::unique_ptr<Balancer>>>;
using AllFloods = std::vector<std::vector<std::unique_ptr<Floods>>>;

// Of the stages behind position `at` of a pipeline, for one packet.
class StagesBehind final : public Behind {
 public:
  // place: of the stage that asks.
  StagesBehind(const PipelineSettings& pipeline, const std::vector<std::unique_ptr<Balancer>>& balancers,
               const Packet& packet, const Place& place)
      : stages_(std::span(pipeline.stages).subspan(place.position)),
        balancers_(balancers),
        packet_(packet),
        place_(place) {}

  Fate fate() const override {
    Place place = place_;
    for (const StageSettings& stage : stages_) {
      place.balancer = balancers_[place.position++].get();
      if (table_of(stage) != nullptr) return Fate::undecided;
      xg_result result{};
      if (!std::visit([&](const auto& what) { return decide(what, packet_, place, result); }, stage))
        continue;
      const u32 action = XG_VERDICT_ACTION(result.verdict);
      if (action == XG_PASS) return Fate::to_host;
      return action == XG_TX || action == XG_REDIRECT ? Fate::sent_on : Fate::dropped;
    }
    return Fate::to_host;
  }

  bool sends() const override {
    return std::any_of(stages_.begin(), stages_.end(), [](const StageSettings& stage) {
      return std::visit([](const auto& what) { return may_send(what); }, stage);
    });
  }

 private:
  std::span<const StageSettings> stages_;
  const std::vector<std::unique_ptr<Balancer>>& balancers_;
  const Packet& packet_;
  const Place& place_;
};

// Of a packet that every stage let go on.
void cache_undecided(const PipelineSettings& pipeline, const Packet& packet, xg_result& result) {
  std::vector<u32> times;
  for (const StageSettings& stage : pipeline.stages) {
    const auto* acl = std::get_if<AclSettings>(&stage);
    const auto* reputation = std::get_if<ReputationSettings>(&stage);
    if (acl != nullptr && acl->cache)
      times.push_back(acl->cache_ttl_ms);
    else if (reputation != nullptr && reputation->cache)
      times.push_back(reputation->cache_ttl_ms);
  }
  if (times.empty() || times.size() != pipeline.stages.size()) return;
  // 0 is no end.
  const u32 shortest =
      *std::min_element(times.begin(), times.end(), [](u32 a, u32 b) { return a - 1 < b - 1; });
  set_cache(true, shortest, packet, XG_REWRITE_NONE, result);
}

// The low 25 bits of the sequence are told.
bool expected(const xg_metadata& metadata, u32 descriptor_flags) {
  if ((descriptor_flags & XG_DESC_EXPECT) == 0) return true;
  const u32 port = descriptor_flags >> 2 & 31, sequence = descriptor_flags >> 7;
  return (descriptor_flags & XG_DESC_MORE) == 0 && metadata.port % 32 == port &&
         (metadata.sequence & 0x1ffffff) == sequence && (metadata.flags & XG_PKT_EGRESS) == 0;
}

xg_result decide_packet(std::span<const u8> region, const xg_descriptor& descriptor, u32 bytes,
                        u32 generation, const std::vector<PipelineSettings>& settings, const Tables& tables,
                        const Balancers& balancers, const AllFloods& floods) {
  xg_result result{};
  auto packet = read_packet(region, descriptor);
  if (!packet || packet->metadata.generation != generation || packet->metadata.pipeline >= settings.size() ||
      !expected(packet->metadata, descriptor.flags))
    return result;  // XG_ABORTED
  packet->bytes = bytes;
  const u32 pipeline = packet->metadata.pipeline;
  Place place{1, XG_REWRITE_FIRST, nullptr, nullptr, nullptr, nullptr};
  for (u32 p = 0; p < pipeline; p++)
    for (const StageSettings& stage : settings[p].stages) place.first_rewrite += rewrites_of(stage);
  bool seen_by_table = false;
  for (const StageSettings& stage : settings[pipeline].stages) {
    place.table = tables[pipeline][place.position - 1].get();
    place.balancer = balancers[pipeline][place.position - 1].get();
    place.floods = floods[pipeline][place.position - 1].get();
    const StagesBehind behind(settings[pipeline], balancers[pipeline], *packet, place);
    place.behind = &behind;
    if (packet->is(XG_PKT_EGRESS)) {
      if (const auto* conntrack = std::get_if<ConntrackSettings>(&stage))
        place.table->count(static_cast<u32>(classify(*conntrack, *packet, behind, *place.table)));
      place.position++;
      continue;
    }
    if (std::visit([&](const auto& what) { return decide(what, *packet, place, result); }, stage)) {
      // A table that let the packet go on has to see the flow's later ones, unless they are dropped.
      if (seen_by_table && XG_VERDICT_ACTION(result.verdict) != XG_DROP) {
        result.flags &= ~(XG_RES_CACHE | 0xffff0000u);
        result.cache_ttl_ms = 0;
      }
      return result;
    }
    seen_by_table = seen_by_table || place.table != nullptr;
    place.position++;
    place.first_rewrite += rewrites_of(stage);
  }
  result.verdict = XG_PASS;
  if (!packet->is(XG_PKT_EGRESS)) cache_undecided(settings[pipeline], *packet, result);
  return result;
}

}  // namespace

struct Judge::State {
  std::vector<PipelineSettings> settings;
  Tables tables;
  Balancers balancers;
  AllFloods floods;
  std::array<u64, 2> hash_key{};
};

Judge::Judge(std::vector<PipelineSettings> settings, const CompileOptions& options)
    : state_(std::make_unique<State>()) {
  state_->hash_key = options.hash_key;
  for (const PipelineSettings& pipeline : settings) {
    auto& tables = state_->tables.emplace_back();
    auto& floods = state_->floods.emplace_back();
    for (const StageSettings& stage : pipeline.stages) {
      const TableSettings* table = table_of(stage);
      const auto* balance = std::get_if<LoadBalanceSettings>(&stage);
      const auto& key = balance != nullptr && balance->key ? *balance->key : options.hash_key;
      tables.push_back(table == nullptr ? nullptr : std::make_unique<Table>(*table, key));
      const auto* ddos = std::get_if<DdosSettings>(&stage);
      floods.push_back(ddos == nullptr ? nullptr : std::make_unique<Floods>(*ddos, options.hash_key));
    }
  }
  change(std::move(settings));
}
Judge::~Judge() = default;
Judge::Judge(Judge&&) noexcept = default;

void Judge::change(std::vector<PipelineSettings> settings) {
  state_->balancers.clear();
  state_->settings = std::move(settings);
  for (const PipelineSettings& pipeline : state_->settings) {
    auto& balancers = state_->balancers.emplace_back();
    for (const StageSettings& stage : pipeline.stages) {
      const auto* balance = std::get_if<LoadBalanceSettings>(&stage);
      balancers.push_back(balance == nullptr ? nullptr
                                             : std::make_unique<Balancer>(*balance, state_->hash_key));
    }
  }
  for (std::size_t p = 0; p < state_->settings.size(); p++)
    for (std::size_t s = 0; s < state_->settings[p].stages.size(); s++)
      if (const auto* ddos = std::get_if<DdosSettings>(&state_->settings[p].stages[s]))
        state_->floods[p][s]->change(*ddos);
}

void Judge::decide(std::span<const u8> region, std::span<const xg_descriptor> descriptors, u32 generation,
                   std::span<xg_result> results) {
  bool later_buffer = false;
  for (std::size_t i = 0; i < descriptors.size(); i++) {
    u32 bytes = 0;
    for (std::size_t at = i; at < descriptors.size(); at++) {
      bytes += descriptors[at].length;
      if ((descriptors[at].flags & XG_DESC_MORE) == 0) break;
    }
    results[i] = later_buffer ? xg_result{}
                              : decide_packet(region, descriptors[i], bytes, generation, state_->settings,
                                              state_->tables, state_->balancers, state_->floods);
    later_buffer = (descriptors[i].flags & XG_DESC_MORE) != 0;
  }
}

std::vector<std::vector<u32>> Judge::tables() const {
  std::vector<std::vector<u32>> all;
  for (std::size_t p = 0; p < state_->tables.size(); p++)
    for (std::size_t s = 0; s < state_->tables[p].size(); s++) {
      const Table* table = state_->tables[p][s].get();
      if (table == nullptr) continue;
      const auto& stage = state_->settings[p].stages[s];
      all.push_back(table->words(std::holds_alternative<ConntrackSettings>(stage)));
      if (const Floods* floods = state_->floods[p][s].get()) {
        const auto records = floods->words(table->places());
        all.back().insert(all.back().end(), records.begin(), records.end());
      }
    }
  return all;
}

void decide(std::span<const u8> region, std::span<const xg_descriptor> descriptors, u32 generation,
            const std::vector<PipelineSettings>& settings, std::span<xg_result> results) {
  Judge(settings, {}).decide(region, descriptors, generation, results);
}

}  // namespace xdpgpu::gpu::reference
