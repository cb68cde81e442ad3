// SPDX-License-Identifier: MIT
#include <arpa/inet.h>
#include "gpu/stages/compilers.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "gpu/stages/load_balance/device.h"

namespace xdpgpu::gpu {
namespace {

Check check_maglev(const LoadBalanceSettings& stage) {
  if (!is_prime(stage.table_size)) return refuse("its table_size {} is not a prime", stage.table_size);
  std::set<std::string_view> names;
  for (const Backend& backend : stage.backends)
    if (!names.insert(backend.name).second)
      return refuse("two backends have the name \"{}\", by which maglev tells them apart", backend.name);
  if (!stage.affinity) return {};
  const AffinitySettings& affinity = *stage.affinity;
  if (stage.cache && (stage.cache_ttl_ms == 0 || stage.cache_ttl_ms > affinity.idle_ms / 2))
    return refuse(
        "its verdicts are cached for longer than half of the affinity's idle time of {} ms: what the "
        "kernel deals with would be forgotten",
        affinity.idle_ms);
  return {};
}

Check check_encapsulation(const LoadBalanceSettings& stage) {
  const EncapsulationSettings& outer = *stage.encapsulation;
  for (const Backend& backend : stage.backends)
    if (!(backend.address.family == 4 ? outer.source4 : outer.source6))
      return refuse("backend \"{}\" has an IPv{} address, for which there is no outer source", backend.name,
                    backend.address.family);
  return {};
}

// The outer headers that lead to a backend.
xg_rewrite outer_of(const EncapsulationSettings& outer, const Backend& backend) {
  xg_rewrite rewrite{};
  const Prefix& source = *(backend.address.family == 4 ? outer.source4 : outer.source6);
  const u32 bytes = backend.address.family == 4 ? 4 : 16;
  rewrite.flags = XG_REWRITE_ENCAPSULATE;
  rewrite.outer_family = backend.address.family;
  if (outer.type == EncapsulationSettings::Type::gue) rewrite.udp_port = xg_host16(outer.port);
  rewrite.mtu = outer.mtu - xg_outer_bytes(&rewrite);
  const u32 host_bits = std::min(16u, bytes * 8 - source.length);
  rewrite.spread = xg_host16(static_cast<u16>((1u << host_bits) - 1));
  std::memcpy(rewrite.outer_src, source.address.data(), bytes);
  rewrite.outer_src[bytes / 4 - 1] &= ~(u32{rewrite.spread} << 16);
  std::memcpy(rewrite.outer_dst, backend.address.address.data(), bytes);
  std::copy(outer.hash_key.begin(), outer.hash_key.end(), rewrite.hash_key);
  return rewrite;
}

// What leads a flow to `backend`.
xg_rewrite rewrite_of(const LoadBalanceSettings& stage, const Backend& backend) {
  xg_rewrite rewrite{};
  if (stage.encapsulation) rewrite = outer_of(*stage.encapsulation, backend);
  rewrite.flags |= XG_REWRITE_DST_MAC | XG_REWRITE_SRC_FROM_DST;
  std::copy(backend.mac.begin(), backend.mac.end(), rewrite.dst_mac);
  return rewrite;
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
void append_backends(const LoadBalanceSettings& stage, Compiled& to) {
  const auto weights = weights_now(stage);
  const u32 first = to.here();
  u32 end = 0;
  for (std::size_t i = 0; i < weights.size(); i++) {
    const Backend& backend = stage.backends[i];
    end += weights[i];
    const auto mac = mac_words(backend.mac);
    to.image.insert(to.image.end(),
                    {end, mac[0], mac[1], send_word(backend.to_port, backend.target, 0), XG_LB_NO_REWRITE});
    append64(to.image, backend_id(backend.name));
    to.image.push_back(0);
  }
  if (!stage.cache && !stage.encapsulation) return;
  to.needs_rewrites = stage.encapsulation.has_value();
  for (u32 i = 0; i < weights.size(); i++) {
    const u32 backend = first + i * XG_LB_BACKEND;
    const xg_rewrite rewrite = rewrite_of(stage, stage.backends[i]);
    std::vector<u32> numbers{backend + XG_LB_REWRITE};
    if (stage.encapsulation) {
      to.point_here(backend + XG_LB_OUTER);
      numbers.push_back(to.here());
      to.image.insert(to.image.end(), {XG_LB_NO_REWRITE, rewrite.mtu, xg_outer_bytes(&rewrite),
                                       rewrite.outer_family == 4 ? XG_ETH_IPV4 : XG_ETH_IPV6});
      for (const u64 key : stage.encapsulation->hash_key) append64(to.image, key);
    }
    to.rewritten(numbers, rewrite, stage.backends[i].name);
  }
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
  to.point_here(at + XG_MAGLEV_TABLE);
  for (std::size_t i = 0; i < table.size(); i += 2)
    image.push_back(table[i] | (i + 1 < table.size() ? u32{table[i + 1]} << 16 : 0u));
  to.point_here(at + XG_MAGLEV_BACKENDS);
  append_backends(stage, to);
  return {};
}

Result<Placed> append_affinity(const LoadBalanceSettings& stage, Compiled& to) {
  std::vector<u32>& image = to.image;
  const AffinitySettings& affinity = *stage.affinity;
  const u32 body = append_stateful(affinity.table, stage.key.value_or(to.hash_key), image);
  image[body + XG_BODY_CACHE] = stage.cache ? 1 : 0;
  image[body + XG_BODY_TTL] = stage.cache_ttl_ms;
  image.push_back(affinity.per == AffinitySettings::Per::src ? XG_KEY_SRC : 0);
  image.insert(image.end(), XG_MAGLEV_WORDS, 0);
  append64(image, u64{affinity.idle_ms} * 1'000'000 * XG_TICKS_PER_NS);
  image.insert(image.end(), {0, 0});
  if (auto made = append_maglev(stage, body + XG_AFFINITY_MAGLEV, to); !made)
    return tl::unexpected(made.error());
  const auto weights = weights_now(stage);
  std::map<u64, u32> kept;
  for (u32 i = 0; i < weights.size(); i++)
    if (!stage.backends[i].down || weights[i] != 0) kept.emplace(backend_id(stage.backends[i].name), i);
  to.point_here(body + XG_AFFINITY_IDS);
  image[body + XG_AFFINITY_COUNT] = static_cast<u32>(kept.size());
  for (const auto& [id, number] : kept) {
    append64(image, id);
    image.push_back(number);
  }
  return Placed{body, affinity.table.entries, body + XG_AFFINITY_OWN};
}

std::string text_of(const Prefix& address) {
  char text[INET6_ADDRSTRLEN] = {};
  inet_ntop(address.family == 6 ? AF_INET6 : AF_INET, address.address.data(), text, sizeof(text));
  return text;
}

// ", inside of GUE to 192.0.2.1"
std::string inside_text(const LoadBalanceSettings& stage, u32 backend) {
  const bool gue = stage.encapsulation->type == EncapsulationSettings::Type::gue;
  return fmt::format(", inside of {} to {}", gue ? "GUE" : "IP", text_of(stage.backends[backend].address));
}

std::string dropped_text(const LoadBalanceSettings& stage, u32 rule, const xg_result* result) {
  if (rule == balance_rule::kMalformed) return " malformed, so not encapsulated";
  std::string text = " too long to be encapsulated";
  if (result && result->detail < stage.backends.size()) {
    const Backend& backend = stage.backends[result->detail];
    text += fmt::format(" to backend {}: more than {} bytes", backend.name,
                        outer_of(*stage.encapsulation, backend).mtu);
  }
  return text;
}

}  // namespace

Check check(const LoadBalanceSettings& stage) {
  if (std::all_of(stage.backends.begin(), stage.backends.end(), [](const auto& one) { return one.drains; }))
    return refuse("all of its backends drain, so there is none for new flows");
  for (const Backend& backend : stage.backends)
    if (backend.weight == 0)
      return refuse("backend \"{}\" has weight 0: what gets no new flows drains", backend.name);
  if (stage.affinity && stage.algorithm != LoadBalanceSettings::Algorithm::maglev)
    return refuse("affinity goes with maglev only");
  if (stage.encapsulation)
    if (auto checked = check_encapsulation(stage); !checked) return checked;
  return stage.algorithm == LoadBalanceSettings::Algorithm::maglev ? check_maglev(stage) : Check{};
}

Result<Placed> emit(const LoadBalanceSettings& stage, Compiled& to) {
  if (stage.affinity) return append_affinity(stage, to);
  std::vector<u32>& image = to.image;
  if (stage.algorithm == LoadBalanceSettings::Algorithm::maglev) {
    const u32 body = static_cast<u32>(image.size());
    image.insert(image.end(), {stage.cache ? 1u : 0u, stage.cache_ttl_ms, XG_LB_BY_MAGLEV, 0, 0, 0});
    for (const u64 key : stage.key.value_or(to.hash_key)) append64(image, key);
    if (auto made = append_maglev(stage, body + XG_MAGLEV, to); !made) return tl::unexpected(made.error());
    return Placed{body};
  }
  const u32 at = static_cast<u32>(image.size());
  image.insert(image.end(), {stage.cache ? 1u : 0u, stage.cache_ttl_ms, XG_LB_BY_HASH, 0u,
                             static_cast<u32>(stage.backends.size())});
  u32 total = 0;
  for (const u32 weight : weights_now(stage)) total += weight;
  image[at + XG_LB_TOTAL] = total;
  append_backends(stage, to);
  return Placed{at};
}

std::optional<std::string> sends(const LoadBalanceSettings&) { return ""; }
bool remembers(const LoadBalanceSettings& stage) { return stage.affinity.has_value(); }

std::span<const Outcome> outcomes(const LoadBalanceSettings&) { return {}; }

std::string describe(const LoadBalanceSettings& stage, u32 rule, const xg_result* result) {
  if (rule != 0) return dropped_text(stage, rule, result);
  if (!result || result->detail >= stage.backends.size()) return "";
  const auto& name = stage.backends[result->detail].name;
  return fmt::format(" backend {}{}{}", result->detail + 1, name.empty() ? "" : " (" + name + ")",
                     stage.encapsulation ? inside_text(stage, result->detail) : "");
}

namespace {

bool has_address(const Backend& backend) { return backend.address.length != 0; }

void settle_address(const LoadBalanceSettings& stage, const Backend& backend, const Written& written) {
  if (!written.has("address")) {
    if (stage.health) written.refuse("", "\"health\" connects to each backend: add its \"address\"");
    if (stage.encapsulation)
      written.refuse("", "\"encapsulation\" leads to each backend's own address: add its \"address\"");
    return;
  }
  if (!stage.health && !stage.encapsulation)
    written.refuse(
        "address",
        "an address is for \"health\" and \"encapsulation\", which this stage has not: take it out");
  if (!stage.encapsulation || !has_address(backend)) return;
  const std::string text = text_of(backend.address);
  if (!is_unicast(backend.address))
    written.refuse("address", fmt::format("\"{}\" is no host's address", text));
  else if (!(backend.address.family == 4 ? stage.encapsulation->source4 : stage.encapsulation->source6))
    written.refuse("address", fmt::format("outer headers to \"{}\" need an IPv{} address to come from: add "
                                          "\"ipv{}\" to the \"source\" of \"encapsulation\"",
                                          text, backend.address.family, backend.address.family));
}

void settle_backends(LoadBalanceSettings& stage, const Written& written) {
  const bool maglev = stage.algorithm == LoadBalanceSettings::Algorithm::maglev;
  std::set<std::string_view> names;
  written.each("backends", stage.backends.size(), [&](std::size_t i, const Written& one) {
    Backend& backend = stage.backends[i];
    if (maglev && !one.has("name"))
      one.refuse("", "maglev tells backends apart by name: add a \"name\" of its own here");
    if (backend.name.empty()) backend.name = fmt::format("backend {}", i + 1);
    if (maglev && !names.insert(backend.name).second)
      one.refuse("name",
                 fmt::format("another backend is \"{}\", too, and maglev tells them apart by name: give each "
                             "its own",
                             backend.name));
    if (backend.weight == 0) {
      backend.drains = true;
      backend.weight = 1;
    }
    settle_address(stage, backend, one);
  });
  if (!stage.backends.empty() && std::all_of(stage.backends.begin(), stage.backends.end(),
                                             [](const Backend& one) { return one.drains; }))
    written.refuse("backends", "all backends drain, so there is none for new flows: leave one that does not");
}

}  // namespace

void settle(LoadBalanceSettings& stage, const Written& written) {
  u32 prime = stage.table_size;
  while (!is_prime(prime)) prime++;
  if (prime != stage.table_size)
    written.refuse("table_size",
                   fmt::format("{} is no prime number, and only of those do all backends reach every "
                               "entry; the next one is {}",
                               stage.table_size, prime));
  if (stage.health)
    written.in("health", [&](const Written& health) {
      if (!health.has("timeout"))
        stage.health->timeout_ms = std::min(stage.health->timeout_ms, stage.health->interval_ms);
      if (stage.health->timeout_ms > stage.health->interval_ms)
        health.refuse(
            "timeout",
            "a connect that is waited for longer than \"interval\" meets the next one: make it shorter");
    });
  if (stage.encapsulation) stage.encapsulation->hash_key = stage.key.value_or(std::array<u64, 2>{});
  settle_backends(stage, written);
  if (stage.affinity && stage.cache) {
    const u32 most = stage.affinity->idle_ms / 2;
    if (stage.cache_ttl_ms == 0 || stage.cache_ttl_ms > most)
      written.refuse("cache",
                     fmt::format("what the kernel deals with is not seen here, and would be forgotten: cache "
                                 "verdicts for at most half of the affinity's \"idle\", \"{}\"",
                                 written.time(most)));
  }
}

std::vector<std::string> notes(const LoadBalanceSettings& stage, const StagePlace& place) {
  std::vector<std::string> found;
  std::vector<bool> seen(stage.backends.size());
  for (std::size_t i = 0; i < stage.backends.size(); i++) {
    const Backend& one = stage.backends[i];
    std::vector<std::string> names{one.name};
    for (std::size_t j = i + 1; j < stage.backends.size() && !seen[i]; j++) {
      const Backend& other = stage.backends[j];
      if (one.mac != other.mac || one.address != other.address || one.to != other.to) continue;
      seen[j] = true;
      names.push_back(other.name);
    }
    if (names.size() < 2) continue;
    found.push_back(fmt::format(
        "the backends \"{}\" and {}{} are equal, so that one server has their shares together; "
        "give each its own \"mac\" or \"address\", or one of them the \"weight\"",
        names[0],
        names.size() == 2 ? fmt::format("\"{}\"", names[1]) : fmt::format("{} more", names.size() - 1),
        place.where()));
  }
  return found;
}

std::vector<std::pair<std::string, u32>> outer_mtus(const LoadBalanceSettings& stage) {
  std::vector<std::pair<std::string, u32>> mtus;
  if (stage.encapsulation)
    for (const Backend& one : stage.backends) mtus.emplace_back(one.to, stage.encapsulation->mtu);
  return mtus;
}

std::vector<HealthCheck> health_checks(const LoadBalanceSettings& stage) {
  std::vector<HealthCheck> checks;
  if (stage.health)
    for (const Backend& one : stage.backends)
      if (has_address(one)) checks.push_back({one.name, one.address, *stage.health});
  return checks;
}

void set_down(LoadBalanceSettings& stage, const std::function<bool(const HealthCheck&)>& is_down) {
  if (stage.health)
    for (Backend& one : stage.backends)
      one.down = has_address(one) && is_down({one.name, one.address, *stage.health});
}

}  // namespace xdpgpu::gpu
