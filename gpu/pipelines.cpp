// SPDX-License-Identifier: MIT
#include "gpu/pipelines.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <new>
#include <set>

#include "gpu/acl_image.hpp"
#include "gpu/forward_image.hpp"
#include "gpu/image_words.hpp"
#include "gpu/reputation_image.hpp"
#include "gpu/stages/conntrack.h"
#include "gpu/stages/ddos.h"
#include "gpu/stages/image.h"
#include "gpu/stages/table.h"

namespace xdpgpu::gpu {
namespace {

using Check = Result<void>;

__extension__ typedef unsigned __int128 Wide;

constexpr u64 kGiga = 1'000'000'000;
constexpr u64 kTera = 1'000'000'000'000;
constexpr u64 kDay = 86'400;  // seconds
constexpr u64 kMaxTableEntries = u64{1} << 26;

template <class... Args>
tl::unexpected<std::string> refuse(fmt::format_string<Args...> format, Args&&... args) {
  return tl::unexpected(fmt::format(format, std::forward<Args>(args)...));
}

Check check_target(bool used, u32 target) {
  if (used && target >= XG_MAX_PORTS)
    return refuse("target port {} is out of range: a verdict names ports 0 to {}", target, XG_MAX_PORTS - 1);
  return {};
}

Check check_prefix(const Prefix& prefix) {
  if (prefix.family != 4 && prefix.family != 6)
    return refuse("address family {} is not 4 or 6", prefix.family);
  if (const u32 most = prefix.family == 4 ? 32 : 128; prefix.length > most)
    return refuse("prefix length {} is more than {}", prefix.length, most);
  return {};
}

Check check_prefixes(const std::vector<Prefix>& prefixes) {
  for (const Prefix& prefix : prefixes)
    if (auto checked = check_prefix(prefix); !checked) return checked;
  return {};
}

Check check_ports(const std::vector<PortRange>& ranges) {
  for (const PortRange& range : ranges)
    if (range.first > range.last)
      return refuse("port range {}-{} ends before it begins", range.first, range.last);
  return {};
}

Check check_tcp_flags(const std::optional<TcpFlags>& flags) {
  if (flags && (flags->value & ~flags->mask) != 0)
    return refuse("TCP flags {:#04x} are wanted, of which {:#04x} are not looked at", flags->value,
                  flags->value & ~flags->mask);
  return {};
}

Check check_vlans(const std::vector<VlanRange>& vlans) {
  for (const VlanRange& range : vlans) {
    if (range.last > XG_VLAN_PRIORITY) return refuse("VLAN {} does not exist", range.last);
    const bool alone = range.first == range.last;
    if (range.first > range.last || (!alone && (range.first == 0 || range.last == XG_VLAN_PRIORITY)))
      return refuse("{} to {} is no range of VLANs", range.first, range.last);
  }
  return {};
}

Check check(const AclRule& rule) {
  return check_prefixes(rule.src)
      .and_then([&] { return check_prefixes(rule.dst); })
      .and_then([&] { return check_ports(rule.src_ports); })
      .and_then([&] { return check_ports(rule.dst_ports); })
      .and_then([&] { return check_tcp_flags(rule.tcp_flags); })
      .and_then([&] { return check_vlans(rule.vlans); })
      .and_then([&] { return check_target(rule.action == AclRule::Action::redirect, rule.target); });
}

// What stands for packets that nothing else decides.
Check check_otherwise(AclRule::Action otherwise) {
  if (otherwise == AclRule::Action::tx || otherwise == AclRule::Action::redirect)
    return refuse("its action for packets that no rule matches must be next, drop or pass");
  return {};
}

Check check(const AclSettings& stage) {
  if (stage.rules.size() > kAclMaxRules)
    return refuse("{} rules are more than the {} it takes: use a prefix list for addresses",
                  stage.rules.size(), kAclMaxRules);
  if (auto checked = check_otherwise(stage.otherwise); !checked) return checked;
  for (std::size_t i = 0; i < stage.rules.size(); i++)
    if (auto checked = check(stage.rules[i]); !checked)
      return refuse("rule {} (\"{}\"): {}", i + 1, stage.rules[i].name, checked.error());
  return {};
}

Check check_number(const char* what, u64 value, u64 least, u64 most) {
  if (value < least || value > most) return refuse("its {} {} is not in {} to {}", what, value, least, most);
  return {};
}

Check check(const TableSettings& table) {
  return check_number("number of entries", table.entries, 1, kMaxTableEntries);
}

Check check_maglev(const LoadBalanceSettings& stage) {
  if (stage.table_size < kMinMaglevTable || stage.table_size > kMaxMaglevTable || !is_prime(stage.table_size))
    return refuse("its table_size {} is not a prime from {} to {}", stage.table_size, kMinMaglevTable,
                  kMaxMaglevTable);
  std::set<std::string_view> names;
  for (const Backend& backend : stage.backends)
    if (!names.insert(backend.name).second)
      return refuse("two backends have the name \"{}\", by which maglev tells them apart", backend.name);
  if (!stage.affinity) return {};
  const AffinitySettings& affinity = *stage.affinity;
  if (affinity.idle_ms == 0) return refuse("an affinity's idle time of 0 forgets at once: give it a time");
  if (stage.cache && (stage.cache_ttl_ms == 0 || stage.cache_ttl_ms > affinity.idle_ms / 2))
    return refuse(
        "its verdicts are cached for longer than half of the affinity's idle time of {} ms: what the "
        "kernel deals with would be forgotten",
        affinity.idle_ms);
  return check(affinity.table);
}

Check check_encapsulation(const LoadBalanceSettings& stage) {
  const EncapsulationSettings& outer = *stage.encapsulation;
  for (const auto* source : {&outer.source4, &outer.source6}) {
    if (!*source) continue;
    if (auto checked = check_prefix(**source); !checked) return checked;
    if ((*source)->family != (source == &outer.source4 ? 4 : 6))
      return refuse("its outer source address for one family is of the other");
  }
  if (outer.type == EncapsulationSettings::Type::gue && outer.port == 0)
    return refuse("GUE cannot be sent to UDP port 0");
  for (const Backend& backend : stage.backends) {
    if (auto checked = check_prefix(backend.address); !checked) return checked;
    if (!(backend.address.family == 4 ? outer.source4 : outer.source6))
      return refuse("backend \"{}\" has an IPv{} address, for which there is no outer source", backend.name,
                    backend.address.family);
  }
  return check_number("MTU", outer.mtu, 576, 65535);
}

Check check(const LoadBalanceSettings& stage) {
  if (stage.backends.empty() || stage.backends.size() > 256)
    return refuse("it has {} backends, 1 to 256 are possible", stage.backends.size());
  if (std::all_of(stage.backends.begin(), stage.backends.end(), [](const auto& one) { return one.drains; }))
    return refuse("all of its backends drain, so there is none for new flows");
  if (stage.affinity && stage.algorithm != LoadBalanceSettings::Algorithm::maglev)
    return refuse("affinity goes with maglev only");
  for (const Backend& backend : stage.backends) {
    if (backend.weight < 1 || backend.weight > 1000)
      return refuse("backend \"{}\" has weight {}, 1 to 1000 is possible", backend.name, backend.weight);
    if (auto checked = check_target(backend.to_port, backend.target); !checked)
      return refuse("backend \"{}\": {}", backend.name, checked.error());
  }
  if (stage.encapsulation)
    if (auto checked = check_encapsulation(stage); !checked) return checked;
  return stage.algorithm == LoadBalanceSettings::Algorithm::maglev ? check_maglev(stage) : Check{};
}

Check check(const L2fwdSettings& stage) { return check_target(stage.to_port, stage.target); }

Check check(const ReputationSettings& stage) {
  if (stage.lists.empty() || stage.lists.size() > kMaxReputationLists)
    return refuse("it has {} lists, 1 to {} are possible", stage.lists.size(), kMaxReputationLists);
  for (const ReputationList& list : stage.lists) {
    auto checked = check_prefixes(list.prefixes).and_then([&] {
      return check_target(list.action == AclRule::Action::redirect, list.target);
    });
    if (!checked) return refuse("list \"{}\": {}", list.name, checked.error());
  }
  return check_otherwise(stage.otherwise);
}

Check check(const RateLimitSettings& stage) {
  if (stage.packets_per_second == 0 && stage.bytes_per_second == 0)
    return refuse("it limits neither packets nor bytes: give it a rate");
  if (stage.excess != AclRule::Action::drop && stage.excess != AclRule::Action::pass)
    return refuse("its action for packets over the limit must be drop or pass");
  Check checked = check(stage.table)
                      .and_then([&] { return check_number("IPv4 prefix length", stage.bits4, 1, 32); })
                      .and_then([&] { return check_number("IPv6 prefix length", stage.bits6, 1, 128); });
  if (checked && stage.packets_per_second != 0)
    checked = check_number("rate in packets", stage.packets_per_second, 1, kGiga).and_then([&] {
      return check_number("burst in packets", stage.burst_packets, 1, kGiga);
    });
  if (checked && stage.packets_per_second != 0 && stage.burst_packets > stage.packets_per_second * kDay)
    return refuse("its burst of packets is more than a day's at its rate");
  if (checked && stage.bytes_per_second != 0 && stage.burst_bytes > stage.bytes_per_second * kDay)
    return refuse("its burst of bytes is more than a day's at its rate");
  if (checked && stage.bytes_per_second != 0)
    checked = check_number("rate in bytes", stage.bytes_per_second, 1000, kTera).and_then([&] {
      return check_number("burst in bytes", stage.burst_bytes, 1, kTera);
    });
  return checked;
}

Check check(const ConntrackSettings& stage) {
  for (const AclRule::Action action : {stage.on_new, stage.on_invalid, stage.on_untracked})
    if (auto checked = check_otherwise(action); !checked)
      return refuse("its actions for new, invalid and untracked packets must be next, drop or pass");
  const ConntrackSettings::Timeouts& t = stage.timeouts;
  for (const u32 timeout : {t.syn_sent, t.syn_received, t.established, t.fin_wait, t.time_wait, t.closed,
                            t.udp, t.udp_replied, t.icmp, t.other})
    if (timeout == 0) return refuse("a timeout of 0 forgets connections at once: give it a time");
  return check(stage.table);
}

Check check(const DdosSettings& stage) {
  if (std::all_of(stage.thresholds.begin(), stage.thresholds.end(), [](u64 one) { return one == 0; }))
    return refuse("it has no threshold: give it one");
  for (u32 m = 0; m < kDdosMetrics; m++)
    if (stage.thresholds[m] > kTera)
      return refuse("its threshold {} of {} is more than {}", kDdosMetricNames[m], stage.thresholds[m],
                    kTera);
  return check_number("IPv4 prefix length", stage.bits4, 1, 32)
      .and_then([&] { return check_number("IPv6 prefix length", stage.bits6, 1, 128); })
      .and_then([&] { return check_number("window in milliseconds", stage.window_ms, 10, 60'000); })
      .and_then([&] { return check_number("hold time in milliseconds", stage.hold_ms, 1, kMaxDdosHoldMs); })
      .and_then([&] { return check_number("release_percent", stage.release_percent, 1, 100); })
      .and_then([&] { return check_number("share_percent", stage.share_percent, 1, 100); })
      .and_then([&] { return check_number("number of entries", stage.table.entries, 1, kMaxDdosTargets); });
}

Check check(const ForwardSettings& stage) {
  if (stage.next_hops.size() > kMaxNextHops)
    return refuse("it has {} next hops, {} are possible", stage.next_hops.size(), kMaxNextHops);
  for (const NextHop& hop : stage.next_hops)
    if (auto checked = check_target(hop.to_port, hop.target); !checked)
      return refuse("next hop \"{}\": {}", hop.name, checked.error());
  for (const Route& route : stage.routes) {
    if (auto checked = check_prefix(route.prefix); !checked) return checked;
    if (route.next_hop >= stage.next_hops.size() && route.next_hop != kRoutePass &&
        route.next_hop != kRouteDrop)
      return refuse("a route leads to next hop {}, there are {}", route.next_hop + 1, stage.next_hops.size());
  }
  return check_otherwise(stage.otherwise);
}

const char* stage_name(const StageSettings& stage) {
  constexpr std::array names{"acl",     "load_balance", "l2fwd",     "reputation",
                             "forward", "rate_limit",   "conntrack", "ddos"};
  static_assert(names.size() == std::variant_size_v<StageSettings>);
  return names[stage.index()];
}

// What a policy is compiled into.
struct Compiled {
  std::vector<u32> image;
  std::vector<xg_rewrite> rewrites;
  std::vector<std::string> backends;  // by rewrite
  std::vector<StateSpec> states;
  std::array<u64, 2> hash_key{};
};

struct Placed {
  u32 kind;
  u32 body;
  u64 entries = 0;  // of its table, if it has one
  u32 own = 0;      // end of the words of the body that say which table it is, 0: all do
  u32 record = 0;   // words that each entry has behind the sets
};

void append64(std::vector<u32>& image, u64 value) {
  image.insert(image.end(), {static_cast<u32>(value), static_cast<u32>(value >> 32)});
}

// The first words of the body of a stage with a table, which is never cached. Which table, and its round, is
// filled in when the pipeline is known.
u32 append_stateful(const TableSettings& table, const std::array<u64, 2>& hash_key, std::vector<u32>& image) {
  const u32 at = static_cast<u32>(image.size());
  const u32 sets = std::bit_ceil((table.entries + XG_WAYS - 1) / XG_WAYS);
  image.insert(image.end(), {0, 0, 0, 0, sets, static_cast<u32>(table.evict)});
  for (const u64 key : hash_key) append64(image, key);
  static_assert(static_cast<u32>(TableSettings::Evict::refuse) == XG_EVICT_REFUSE);
  return at;
}

Result<Placed> append(const AclSettings& stage, Compiled& to) {
  auto body = append_acl(stage, to.image);
  if (!body) return tl::unexpected(body.error());
  return Placed{XG_KIND_ACL_BITS, *body};
}

// The outer headers that lead to a backend.
void set_outer(const EncapsulationSettings& outer, const Backend& backend, xg_rewrite& rewrite) {
  const Prefix& source = *(backend.address.family == 4 ? outer.source4 : outer.source6);
  const u32 bytes = backend.address.family == 4 ? 4 : 16;
  rewrite.flags |= XG_REWRITE_ENCAPSULATE;
  rewrite.outer_family = backend.address.family;
  if (outer.type == EncapsulationSettings::Type::gue) rewrite.udp_port = xg_host16(outer.port);
  rewrite.mtu = outer.mtu - xg_outer_bytes(&rewrite);
  const u32 host_bits = std::min(16u, bytes * 8 - source.length);
  rewrite.spread = xg_host16(static_cast<u16>((1u << host_bits) - 1));
  std::memcpy(rewrite.outer_src, source.address.data(), bytes);
  rewrite.outer_src[bytes / 4 - 1] &= ~(u32{rewrite.spread} << 16);
  std::memcpy(rewrite.outer_dst, backend.address.address.data(), bytes);
  std::copy(outer.hash_key.begin(), outer.hash_key.end(), rewrite.hash_key);
}

// The number of the rewrite that leads a flow to `backend`.
u32 add_rewrite(const LoadBalanceSettings& stage, const Backend& backend, Compiled& to) {
  const u32 number = XG_REWRITE_FIRST + static_cast<u32>(to.rewrites.size());
  if (number >= XG_REWRITE_HALF) return XG_LB_NO_REWRITE;
  to.backends.resize(to.rewrites.size());
  to.backends.push_back(backend.name);
  xg_rewrite& rewrite = to.rewrites.emplace_back();
  rewrite.flags = XG_RES_SET_DST_MAC | XG_REWRITE_SRC_FROM_DST;
  std::copy(backend.mac.begin(), backend.mac.end(), rewrite.dst_mac);
  if (stage.encapsulation) set_outer(*stage.encapsulation, backend, rewrite);
  return number;
}

// By position, what each backend takes of new flows.
std::vector<u32> weights_now(const LoadBalanceSettings& stage) {
  const bool some_up = std::any_of(stage.backends.begin(), stage.backends.end(),
                                   [](const Backend& one) { return !one.drains && !one.down; });
  std::vector<u32> weights;
  for (const Backend& one : stage.backends)
    weights.push_back(one.drains || (some_up && one.down) ? 0 : one.weight);
  return weights;
}

static_assert(balance_rule::kTooLong == XG_LB_RULE_TOO_LONG &&
              balance_rule::kMalformed == XG_LB_RULE_MALFORMED);

// XG_LB_BACKEND words each, and behind them what their outer headers take.
Check append_backends(const LoadBalanceSettings& stage, Compiled& to) {
  const auto weights = weights_now(stage);
  const u32 first = static_cast<u32>(to.image.size());
  const bool rewritten = stage.cache || stage.encapsulation;
  u32 end = 0;
  for (std::size_t i = 0; i < weights.size(); i++) {
    const Backend& backend = stage.backends[i];
    end += weights[i];
    const auto mac = mac_words(backend.mac);
    to.image.insert(to.image.end(), {end, mac[0], mac[1], send_word(backend.to_port, backend.target, 0),
                                     rewritten ? add_rewrite(stage, backend, to) : XG_LB_NO_REWRITE});
    append64(to.image, backend_id(backend.name));
    to.image.push_back(0);
  }
  if (!stage.encapsulation) return {};
  for (u32 i = 0; i < weights.size(); i++) {
    const u32 backend = first + i * XG_LB_BACKEND, rewrite = to.image[backend + XG_LB_REWRITE];
    if (rewrite == XG_LB_NO_REWRITE)
      return refuse(
          "a policy can encapsulate to {} backends, and here are more; next hops, and backends that "
          "are cached, count too",
          XG_REWRITE_HALF - XG_REWRITE_FIRST);
    to.image[backend + XG_LB_OUTER] = static_cast<u32>(to.image.size());
    to.image.insert(to.image.end(), {rewrite, to.rewrites[rewrite - XG_REWRITE_FIRST].mtu});
    for (const u64 key : stage.encapsulation->hash_key) append64(to.image, key);
  }
  return {};
}

// Fills in the XG_MAGLEV_WORDS words that stand at `at`.
Check append_maglev(const LoadBalanceSettings& stage, u32 at, Compiled& to) {
  std::vector<u32>& image = to.image;
  std::vector<MaglevBackend> shares;
  const auto weights = weights_now(stage);
  for (std::size_t i = 0; i < weights.size(); i++) shares.push_back({stage.backends[i].name, weights[i]});
  const auto table = maglev_table(shares, stage.table_size);
  std::vector<bool> has_share(shares.size());
  for (const u16 backend : table) has_share[backend] = true;
  for (std::size_t i = 0; i < shares.size(); i++)
    if (shares[i].weight != 0 && !has_share[i])
      return refuse("backend \"{}\" has no share in a table of {}: take a larger table_size", shares[i].name,
                    stage.table_size);
  image[at + XG_MAGLEV_SIZE] = stage.table_size;
  image[at + XG_MAGLEV_TABLE] = static_cast<u32>(image.size());
  for (std::size_t i = 0; i < table.size(); i += 2)
    image.push_back(table[i] | (i + 1 < table.size() ? u32{table[i + 1]} << 16 : 0u));
  image[at + XG_MAGLEV_BACKENDS] = static_cast<u32>(image.size());
  return append_backends(stage, to);
}

Result<Placed> append_affinity(const LoadBalanceSettings& stage, Compiled& to) {
  std::vector<u32>& image = to.image;
  const AffinitySettings& affinity = *stage.affinity;
  const u32 body = append_stateful(affinity.table, stage.key.value_or(to.hash_key), image);
  image[body + XG_BODY_CACHE] = stage.cache ? 1 : 0;
  image[body + XG_BODY_TTL] = stage.cache_ttl_ms;
  image.push_back(affinity.per == AffinitySettings::Per::src ? XG_RATE_SRC : 0);
  image.insert(image.end(), XG_MAGLEV_WORDS, 0);
  append64(image, u64{affinity.idle_ms} * 1'000'000 * XG_TICKS_PER_NS);
  image.insert(image.end(), {0, 0});
  if (auto made = append_maglev(stage, body + XG_AFFINITY_MAGLEV, to); !made)
    return tl::unexpected(made.error());
  const auto weights = weights_now(stage);
  std::map<u64, u32> kept;
  for (u32 i = 0; i < weights.size(); i++)
    if (!stage.backends[i].down || weights[i] != 0) kept.emplace(backend_id(stage.backends[i].name), i);
  image[body + XG_AFFINITY_IDS] = static_cast<u32>(image.size());
  image[body + XG_AFFINITY_COUNT] = static_cast<u32>(kept.size());
  for (const auto& [id, number] : kept) {
    append64(image, id);
    image.push_back(number);
  }
  return Placed{XG_KIND_AFFINITY, body, affinity.table.entries, body + XG_AFFINITY_OWN};
}

Result<Placed> append(const LoadBalanceSettings& stage, Compiled& to) {
  if (stage.affinity) return append_affinity(stage, to);
  std::vector<u32>& image = to.image;
  if (stage.algorithm == LoadBalanceSettings::Algorithm::maglev) {
    const u32 body = static_cast<u32>(image.size());
    image.insert(image.end(), {stage.cache ? 1u : 0u, stage.cache_ttl_ms, 0, 0, 0});
    for (const u64 key : stage.key.value_or(to.hash_key)) append64(image, key);
    if (auto made = append_maglev(stage, body + XG_MAGLEV, to); !made) return tl::unexpected(made.error());
    return Placed{XG_KIND_MAGLEV, body};
  }
  const u32 at = static_cast<u32>(image.size());
  image.insert(image.end(),
               {stage.cache ? 1u : 0u, stage.cache_ttl_ms, 0u, static_cast<u32>(stage.backends.size())});
  u32 total = 0;
  for (const u32 weight : weights_now(stage)) total += weight;
  image[at + XG_LB_TOTAL] = total;
  if (auto made = append_backends(stage, to); !made) return tl::unexpected(made.error());
  return Placed{XG_KIND_LOAD_BALANCE, at};
}

Result<Placed> append(const L2fwdSettings& stage, Compiled& to) {
  std::vector<u32>& image = to.image;
  const u32 at = static_cast<u32>(image.size());
  image.insert(image.end(),
               {stage.cache ? 1u : 0u, stage.cache_ttl_ms, send_word(stage.to_port, stage.target, 0)});
  return Placed{XG_KIND_L2FWD, at};
}

Result<Placed> append(const ReputationSettings& stage, Compiled& to) {
  auto body = append_reputation(stage, to.image);
  if (!body) return tl::unexpected(body.error());
  return Placed{XG_KIND_REPUTATION, *body};
}

Result<Placed> append(const RateLimitSettings& stage, Compiled& to) {
  std::vector<u32>& image = to.image;
  const u32 at = append_stateful(stage.table, to.hash_key, image);
  constexpr u64 ticks_per_second = XG_TICKS_PER_NS * kGiga;
  const bool address = stage.per != RateLimitSettings::Per::flow;
  u32 per = XG_RATE_SRC | XG_RATE_DST | XG_RATE_PORTS;
  if (stage.per == RateLimitSettings::Per::src) per = XG_RATE_SRC;
  if (stage.per == RateLimitSettings::Per::dst) per = XG_RATE_DST;
  image.insert(image.end(), {per, address ? stage.bits4 : 32u, address ? stage.bits6 : 128u});
  const u64 packet = stage.packets_per_second == 0 ? 0 : ticks_per_second / stage.packets_per_second;
  append64(image, packet);
  append64(image, packet * stage.burst_packets);
  const Wide byte = stage.bytes_per_second == 0
                        ? 0
                        : (Wide{ticks_per_second} << XG_RATE_BYTE_SHIFT) / stage.bytes_per_second;
  append64(image, static_cast<u64>(byte));
  append64(image, static_cast<u64>((byte * stage.burst_bytes) >> XG_RATE_BYTE_SHIFT));
  image.push_back(action_word(stage.excess, 0, 0));
  return Placed{XG_KIND_RATE_LIMIT, at, stage.table.entries};
}

Result<Placed> append(const ConntrackSettings& stage, Compiled& to) {
  std::vector<u32>& image = to.image;
  const u32 at = append_stateful(stage.table, to.hash_key, image);
  u32 mode = (stage.loose ? XG_CT_LOOSE : 0) | (stage.egress ? XG_CT_FED : 0);
  if (stage.on_new == AclRule::Action::drop) mode |= XG_CT_DROPS_NEW;
  if (stage.on_new == AclRule::Action::pass) mode |= XG_CT_PASSES_NEW;
  image.insert(image.end(), {mode, action_word(stage.on_new, 0, kConntrackNew),
                             action_word(stage.on_invalid, 0, kConntrackInvalid),
                             action_word(stage.on_untracked, 0, kConntrackUntracked)});
  const ConntrackSettings::Timeouts& t = stage.timeouts;
  for (const u32 ms : {t.syn_sent, t.syn_received, t.established, t.fin_wait, t.time_wait, t.closed, t.udp,
                       t.udp_replied, t.icmp, t.icmp, t.other, t.other})
    append64(image, u64{ms} * 1'000'000 * XG_TICKS_PER_NS);
  return Placed{XG_KIND_CONNTRACK, at, stage.table.entries, 0, XG_CT_RECORD};
}

static_assert(kDdosMetrics == XG_DDOS_METRICS);

// A threshold of so many per second, or in a window, as so many in a window: at least one.
u64 in_window(const DdosSettings& stage, u32 metric, u64 threshold) {
  if (metric == XG_DDOS_SOURCE_COUNT) return threshold;
  return std::max<u64>(1, threshold * stage.window_ms / 1000);
}

Result<Placed> append(const DdosSettings& stage, Compiled& to) {
  std::vector<u32>& image = to.image;
  constexpr u64 ticks_per_ms = XG_TICKS_PER_NS * 1'000'000;
  const u32 body = append_stateful(stage.table, to.hash_key, image);
  image[body + XG_BODY_CACHE] = stage.cache ? 1 : 0;
  image[body + XG_BODY_TTL] = stage.cache_ttl_ms;
  image.insert(image.end(), {stage.direction == DdosSettings::Direction::in ? XG_RATE_DST : XG_RATE_SRC,
                             stage.bits4, stage.bits6});
  append64(image, stage.window_ms * ticks_per_ms);
  append64(image, stage.hold_ms * ticks_per_ms);
  append64(image, (u64{stage.hold_ms} + 2 * u64{stage.window_ms}) * ticks_per_ms);
  u32 watched = 0;
  for (u32 m = 0; m < kDdosMetrics; m++) watched |= stage.thresholds[m] != 0 ? 1u << m : 0;
  image.insert(image.end(), {static_cast<u32>(stage.on_detect), stage.share_percent, watched});
  for (u32 m = 0; m < kDdosMetrics; m++) {
    const u64 detect = in_window(stage, m, stage.thresholds[m]);
    append64(image, detect);
    append64(image, std::max<u64>(1, detect * stage.release_percent / 100));
  }
  // Linear counting (Whang et al., 1990).
  image.push_back(0);
  for (u32 zeros = 1; zeros <= XG_DDOS_REGISTERS; zeros++)
    image.push_back(static_cast<u32>(
        std::lround(XG_DDOS_REGISTERS * std::log(static_cast<double>(XG_DDOS_REGISTERS) / zeros))));
  static_assert(static_cast<u32>(DdosSettings::OnDetect::drop_sources) == XG_DDOS_DROPS_SOURCES);
  return Placed{XG_KIND_DDOS, body, stage.table.entries, body + XG_DDOS_OWN, XG_DDOS_RECORD};
}

// Whether the stage sends packets on by itself, past the host's stack.
bool sends(const StageSettings& stage) {
  const auto leave = [](AclRule::Action action) {
    return action == AclRule::Action::tx || action == AclRule::Action::redirect;
  };
  if (const auto* acl = std::get_if<AclSettings>(&stage))
    return std::any_of(acl->rules.begin(), acl->rules.end(),
                       [&](const AclRule& rule) { return leave(rule.action); });
  if (const auto* reputation = std::get_if<ReputationSettings>(&stage))
    return std::any_of(reputation->lists.begin(), reputation->lists.end(),
                       [&](const auto& list) { return leave(list.action); });
  return std::holds_alternative<LoadBalanceSettings>(stage) || std::holds_alternative<L2fwdSettings>(stage) ||
         std::holds_alternative<ForwardSettings>(stage);
}

// For how long what no stage decides is remembered, in milliseconds, 0: while the generation lives; nothing:
// it is not. Every stage has to cache, and to let each packet of a flow go on that it lets go on once: `acl`
// and `reputation` go by the flow's fields alone, `load_balance` and `l2fwd` let no packet with a flow go on.
// `forward` looks at more, and tables change.
std::optional<u32> cache_of_undecided(const PipelineSettings& pipeline) {
  std::optional<u32> shortest;
  for (const StageSettings& stage : pipeline.stages) {
    const auto* acl = std::get_if<AclSettings>(&stage);
    const auto* reputation = std::get_if<ReputationSettings>(&stage);
    if (!(acl != nullptr && acl->cache) && !(reputation != nullptr && reputation->cache)) return std::nullopt;
    const u32 ttl_ms = acl != nullptr ? acl->cache_ttl_ms : reputation->cache_ttl_ms;
    if (!shortest || *shortest == 0 || (ttl_ms != 0 && ttl_ms < *shortest)) shortest = ttl_ms;
  }
  return shortest;
}

// Gives a stage its table, in the first round that its pipeline has left.
void add_state(const PipelineSettings& pipeline, u32 stage, const Placed& placed, u32 round, u32 kind_before,
               Compiled& to) {
  std::vector<u32>& image = to.image;
  StateSpec spec;
  spec.pipeline = pipeline.name;
  spec.stage = stage;
  spec.entries = u64{image[placed.body + XG_BODY_SETS]} * XG_WAYS;
  spec.words =
      XG_TABLE_HEAD + u64{image[placed.body + XG_BODY_SETS]} * XG_SET_WORDS + spec.entries * placed.record;
  // The body says all there is to say of the stage's settings; where what is remembered outlives some of
  // them, its first words do.
  const auto end = placed.own == 0 ? image.end() : image.begin() + placed.own;
  spec.identity = fmt::format("{}\n{} {}\n{}", pipeline.name, placed.kind, kind_before,
                              fmt::join(image.begin() + placed.body + XG_BODY_SETS, end, " "));
  image[placed.body + XG_BODY_STATE] = static_cast<u32>(to.states.size());
  image[placed.body + XG_BODY_ROUND] = round;
  image[XG_IMAGE_ROUNDS_AT] = std::max(image[XG_IMAGE_ROUNDS_AT], round + 1);
  if (placed.kind == XG_KIND_DDOS && round < 32) image[XG_IMAGE_CROWDED_AT] |= 1u << round;
  to.states.push_back(std::move(spec));
}

Result<Placed> append(const ForwardSettings& stage, Compiled& to) {
  auto body = append_forward(stage, to.image, to.rewrites);
  if (!body) return tl::unexpected(body.error());
  return Placed{XG_KIND_FORWARD, *body};
}

Result<Compiled> build(const std::vector<PipelineSettings>& settings, const CompileOptions& options) {
  const u32 pipelines = static_cast<u32>(settings.size());
  Compiled compiled;
  compiled.hash_key = options.hash_key;
  std::vector<u32>& image = compiled.image;
  image.resize(XG_IMAGE_HEADER + pipelines * XG_PIPELINE_WORDS, 0);
  image[XG_IMAGE_MAGIC_AT] = XG_IMAGE_MAGIC;
  image[XG_IMAGE_PIPELINES_AT] = pipelines;
  image[XG_IMAGE_TABLE_AT] = XG_IMAGE_HEADER;
  for (u32 p = 0; p < pipelines; p++) {
    const PipelineSettings& pipeline = settings[p];
    if (pipeline.stages.size() > XG_MAX_STAGES)
      return refuse("pipeline \"{}\" has {} stages, {} are possible", pipeline.name, pipeline.stages.size(),
                    XG_MAX_STAGES);
    std::vector<u32> stages;
    u32 first_with_table = static_cast<u32>(pipeline.stages.size());
    std::map<u32, u32> with_table;  // kind -> how many there have been
    u32 rounds = 0;
    for (std::size_t s = 0; s < pipeline.stages.size(); s++) {
      const StageSettings& stage = pipeline.stages[s];
      auto placed = std::visit([](const auto& what) { return check(what); }, stage).and_then([&] {
        return std::visit([&](const auto& what) { return append(what, compiled); }, stage);
      });
      if (!placed)
        return refuse("pipeline \"{}\", stage {} ({}): {}", pipeline.name, s + 1, stage_name(stage),
                      placed.error());
      stages.insert(stages.end(), {placed->kind, placed->body});
      if (placed->entries == 0) continue;
      const u32 position = static_cast<u32>(s);
      first_with_table = std::min(first_with_table, position);
      add_state(pipeline, position, *placed, rounds++, with_table[placed->kind]++, compiled);
    }
    // Tables do not hang on it: their identities are made.
    bool sends_behind = false;
    u32 fate = XG_CT_WITH_FATE(XG_CT_TO_HOST);
    for (std::size_t s = pipeline.stages.size(); s-- > 0;) {
      if (stages[2 * s] == XG_KIND_CONNTRACK)
        image[stages[2 * s + 1] + XG_CT_MODE] |= fate | (sends_behind ? XG_CT_SENDS : 0);
      sends_behind = sends_behind || sends(pipeline.stages[s]);
      fate = stages[2 * s] >= XG_KIND_STATEFUL ? XG_CT_WITH_FATE(XG_CT_UNDECIDED) : XG_CT_ASKS_EACH;
    }
    const u32 at = XG_IMAGE_HEADER + p * XG_PIPELINE_WORDS;
    image[at] = static_cast<u32>(image.size());
    image[at + 1] = static_cast<u32>(pipeline.stages.size());
    image[at + 2] = first_with_table;
    if (const auto ttl_ms = cache_of_undecided(pipeline)) {
      image[at + XG_PIPELINE_UNDECIDED + XG_BODY_CACHE] = 1;
      image[at + XG_PIPELINE_UNDECIDED + XG_BODY_TTL] = *ttl_ms;
    }
    image.insert(image.end(), stages.begin(), stages.end());
  }
  image[XG_IMAGE_STATES_AT] = static_cast<u32>(compiled.states.size());
  // Devices put the tables' addresses, of eight bytes each, right behind.
  if (image.size() % 2 != 0) image.push_back(0);
  image[XG_IMAGE_WORDS_AT] = static_cast<u32>(image.size());
  return compiled;
}

}  // namespace

Result<std::shared_ptr<const Pipelines>> Pipelines::compile(std::vector<PipelineSettings> settings,
                                                            const CompileOptions& options) {
  if (settings.size() > 65535)
    return refuse("a policy has {} pipelines, 65535 are possible", settings.size());
  try {
    auto compiled = build(settings, options);
    if (!compiled) return tl::unexpected(compiled.error());
    std::shared_ptr<Pipelines> pipelines(new Pipelines);
    pipelines->settings_ = std::move(settings);
    pipelines->image_ = std::move(compiled->image);
    pipelines->rewrites_ = std::move(compiled->rewrites);
    pipelines->backends_ = std::move(compiled->backends);
    pipelines->states_ = std::move(compiled->states);
    return pipelines;
  } catch (const std::bad_alloc&) {
    return refuse("there is not enough memory to compile the pipelines: free some, or use fewer rules");
  }
}

std::shared_ptr<const Pipelines> Pipelines::loosened(std::shared_ptr<const Pipelines> pipelines) {
  const auto is_strict = [](const StageSettings& stage) {
    const auto* conntrack = std::get_if<ConntrackSettings>(&stage);
    return conntrack != nullptr && !conntrack->loose;
  };
  const auto has_strict = [&](const PipelineSettings& one) {
    return std::any_of(one.stages.begin(), one.stages.end(), is_strict);
  };
  if (std::none_of(pipelines->settings_.begin(), pipelines->settings_.end(), has_strict)) return pipelines;
  std::shared_ptr<Pipelines> loose(new Pipelines(*pipelines));
  std::vector<u32>& image = loose->image_;
  for (u32 p = 0; p < loose->settings_.size(); p++) {
    const u32 stages = image[image[XG_IMAGE_TABLE_AT] + p * XG_PIPELINE_WORDS];
    for (u32 i = 0; i < loose->settings_[p].stages.size(); i++) {
      auto* conntrack = std::get_if<ConntrackSettings>(&loose->settings_[p].stages[i]);
      if (conntrack == nullptr) continue;
      conntrack->loose = true;
      image[image[stages + i * 2 + 1] + XG_CT_MODE] |= XG_CT_LOOSE;
    }
  }
  return loose;
}

std::string_view Pipelines::backend_of(u32 number) const noexcept {
  if (number < XG_REWRITE_FIRST || number - XG_REWRITE_FIRST >= backends_.size()) return {};
  return backends_[number - XG_REWRITE_FIRST];
}

std::vector<u16> fed_by_egress(const Pipelines& pipelines) {
  std::vector<u16> fed;
  for (std::size_t i = 0; i < pipelines.settings().size(); i++)
    for (const StageSettings& stage : pipelines.settings()[i].stages)
      if (const auto* conntrack = std::get_if<ConntrackSettings>(&stage); conntrack && conntrack->egress) {
        fed.push_back(static_cast<u16>(i));
        break;
      }
  return fed;
}

u64 ddos_rate(const DdosSettings& settings, DdosMetric metric, u64 in_window) {
  return metric == DdosMetric::sources ? in_window : in_window * 1000 / settings.window_ms;
}

bool encapsulates(const Pipelines& pipelines) {
  return std::any_of(pipelines.rewrites().begin(), pipelines.rewrites().end(),
                     [](const xg_rewrite& rewrite) { return rewrite.flags & XG_REWRITE_ENCAPSULATE; });
}

Result<void> check_state_range(const Pipelines& pipelines, u32 table, u64 first, u64 count) {
  if (table >= pipelines.states().size())
    return refuse("the pipelines have {} tables, there is no number {}", pipelines.states().size(), table);
  const u64 words = pipelines.states()[table].words;
  if (first > words || count > words - first)
    return refuse("the table has {} words, {} from word {} on are not in it", words, count, first);
  return {};
}

}  // namespace xdpgpu::gpu
