// SPDX-License-Identifier: MIT
#include "gpu/stages/load_balance/reference.hpp"

#include <algorithm>
#include <map>

#include "gpu/stages/references.hpp"
#include "gpu/stages/table.h"

namespace xdpgpu::gpu::reference {
namespace {

u32 fnv1a(u32 hash, std::span<const u8> bytes) {
  for (u8 byte : bytes) hash = (hash ^ byte) * 16777619u;
  return hash;
}

std::array<u8, 4> ports_of(const Packet& packet) {
  std::array<u8, 4> ports{};
  if (!packet.ports.empty() && !packet.is(XG_PKT_FRAGMENT))
    std::copy(packet.ports.begin(), packet.ports.end(), ports.begin());
  return ports;
}

Key flow_key(const Packet& packet) {
  Key key{};
  std::copy(packet.src.begin(), packet.src.end(), key.begin());
  std::copy(packet.dst.begin(), packet.dst.end(), key.begin() + 16);
  const auto ports = ports_of(packet);
  std::copy(ports.begin(), ports.end(), key.begin() + 32);
  key[36] = packet.src.size() == 4 ? 4 : 6;
  key[37] = packet.metadata.protocol;
  return key;
}

Key source_key(const Packet& packet) {
  Key key{};
  std::copy(packet.src.begin(), packet.src.end(), key.begin());
  key[36] = packet.src.size() == 4 ? 4 : 6;
  return key;
}

// Those that drain get no new flows, nor do those that are down, unless that leaves none.
std::vector<u32> new_flow_weights(const std::vector<Backend>& backends) {
  std::vector<u32> weights(backends.size());
  u32 sum = 0;
  for (std::size_t i = 0; i < backends.size(); i++)
    if (!backends[i].drains && !backends[i].down) sum += weights[i] = backends[i].weight;
  if (sum != 0) return weights;
  for (std::size_t i = 0; i < backends.size(); i++)
    if (!backends[i].drains) weights[i] = backends[i].weight;
  return weights;
}

u64 name_hash(const std::string& name, u64 which) {
  const std::array<u64, 2> key{0x76656c67616d, which};
  return siphash13({reinterpret_cast<const u8*>(name.data()), name.size()}, key);
}

}  // namespace

u64 flow_hash(const Packet& packet, const std::array<u64, 2>& key) {
  return siphash13(flow_key(packet), key);
}

Balancer::Balancer(const LoadBalanceSettings& settings, const std::array<u64, 2>& secret)
    : settings_(settings),
      secret_(settings.key.value_or(secret)),
      weights_(new_flow_weights(settings.backends)) {
  if (settings.algorithm == LoadBalanceSettings::Algorithm::maglev) fill();
}

// The paper's pseudocode 1, permutations written out as its section 3.4 has them. In round r (from 0) a
// backend has a turn if r + 1 rounds are worth more turns to its weight than r were.
void Balancer::fill() {
  const u64 size = settings_.table_size;
  struct Filler {
    u32 position;
    u64 weight, offset, skip;
    u64 tried = 0;  // entries of its permutation
  };
  std::map<std::string, Filler> fillers;
  u64 most = 1;
  for (u32 i = 0; i < settings_.backends.size(); i++) {
    const Backend& backend = settings_.backends[i];
    if (weights_[i] == 0) continue;
    most = std::max<u64>(most, weights_[i]);
    fillers.emplace(backend.name, Filler{i, weights_[i], name_hash(backend.name, 0) % size,
                                         name_hash(backend.name, 1) % (size - 1) + 1});
  }
  constexpr u32 kNone = ~u32{0};
  lookup_.assign(size, kNone);
  for (u64 round = 0, filled = 0; filled < size; round++)
    for (auto& [name, filler] : fillers) {
      if (filled == size || (round + 1) * filler.weight / most == round * filler.weight / most) continue;
      u64 entry = 0;
      do {
        entry = (filler.offset + filler.tried++ * filler.skip) % size;
      } while (lookup_[entry] != kNone);
      lookup_[entry] = filler.position;
      filled++;
    }
}

u32 Balancer::by_residue(const Packet& packet) const {
  u32 hash = fnv1a(2166136261u, packet.src);
  hash = fnv1a(hash, packet.dst);
  hash = fnv1a(hash, ports_of(packet));
  hash = fnv1a(hash, std::span<const u8>(&packet.metadata.protocol, 1));
  u32 total = 0;
  for (const u32 weight : weights_) total += weight;
  if (total == 0) return 0;  // no backends
  u32 residue = hash % total;
  u32 chosen = 0;
  while (residue >= weights_[chosen]) residue -= weights_[chosen++];
  return chosen;
}

u32 Balancer::by_affinity(const Packet& packet, u32 otherwise, Table& table) const {
  // What the stage counts, in this order.
  enum : u32 { kept, fresh, moved, no_place };
  const bool clients = settings_.affinity->per == AffinitySettings::Per::src;
  table.come(clients ? source_key(packet) : flow_key(packet), packet.metadata.rx_time_ns * XG_TICKS_PER_NS);
  const u64 deadline = table.now() + u64{settings_.affinity->idle_ms} * 1'000'000 * XG_TICKS_PER_NS;
  const auto name_of = [&](u32 position) {
    const u64 id = name_hash(settings_.backends[position].name, 2);
    return std::array<u32, 3>{static_cast<u32>(id), static_cast<u32>(id >> 32), 0};
  };
  Entry* entry = table.find(true);
  if (entry != nullptr) {
    entry->deadline = deadline;
    for (u32 i = 0; i < settings_.backends.size(); i++) {
      const bool keeps = !settings_.backends[i].down || weights_[i] != 0;
      if (!keeps || name_of(i) != entry->value) continue;
      table.count(kept);
      return i;
    }
    table.count(moved);
  } else {
    entry = table.insert(deadline);
    table.count(entry == nullptr ? no_place : fresh);
    if (entry == nullptr) return otherwise;
  }
  entry->value = name_of(otherwise);
  return otherwise;
}

std::optional<u32> Balancer::choose(const Packet& packet, Table* table) const {
  constexpr u32 kNoKey = 4;
  if (packet.src.empty()) {
    if (table != nullptr) table->count(kNoKey);
    return std::nullopt;
  }
  if (lookup_.empty()) return by_residue(packet);
  const bool clients = settings_.affinity && settings_.affinity->per == AffinitySettings::Per::src;
  const u64 hash = siphash13(clients ? source_key(packet) : flow_key(packet), secret_);
  const u32 chosen = lookup_[(hash >> 32) % lookup_.size()];
  return table == nullptr ? chosen : by_affinity(packet, chosen, *table);
}

namespace {

// Of the packet as it came. Nothing: a jumbogram.
std::optional<u32> ip_bytes(const Packet& packet) {
  const u32 l3 = packet.outer.l3_offset;
  if ((packet.outer.flags & XG_PKT_IPV4) != 0) return number(packet.frame, l3 + 2);
  const u32 payload = number(packet.frame, l3 + 4);
  if (payload == 0 && packet.frame[l3 + 6] == 0) return std::nullopt;
  return payload + 40;
}

u32 outer_bytes(const EncapsulationSettings& outer, const Backend& backend) {
  return (backend.address.family == 4 ? 20 : 40) + (outer.type == EncapsulationSettings::Type::gue ? 8 : 0);
}

class LoadBalance final : public StageWith<LoadBalanceSettings> {
 public:
  LoadBalance(const LoadBalanceSettings& settings, const std::array<u64, 2>& secret)
      : StageWith(settings), secret_(secret) {
    balancer_.emplace(settings, secret);
    if (settings.affinity) table_.emplace(settings.affinity->table, settings.key.value_or(secret));
  }
  bool decide(const Packet& packet, const Place& place, xg_result& result) override {
    const auto chosen = balancer_->choose(packet, table_ ? &*table_ : nullptr);
    if (!chosen) return false;
    const Backend& backend = settings().backends[*chosen];
    const u32 rewrite = place.first_rewrite + *chosen;
    result.detail = *chosen;
    if (settings().encapsulation) {
      const auto drop = [&](u32 why) {
        result.verdict = XG_VERDICT(XG_DROP, 0u, place.position, why);
        return true;
      };
      if (packet.is(XG_PKT_MALFORMED)) return drop(balance_rule::kMalformed);
      const u32 longest = settings().encapsulation->mtu - outer_bytes(*settings().encapsulation, backend);
      const auto bytes = ip_bytes(packet);
      if (!bytes || *bytes > longest) {
        result.flags |= XG_RES_TOO_LONG;
        place.adjust->longest = static_cast<u16>(longest);
        return drop(balance_rule::kTooLong);
      }
    }
    result.verdict = send_verdict(backend.to_port, backend.target, place.position);
    set_macs(place, backend.mac, packet.frame.first(6), result);
    if (settings().encapsulation) {
      result.flags |= XG_RES_ADJUST;
      const u32 outer = outer_bytes(*settings().encapsulation, backend);
      place.adjust->pushed = static_cast<u16>(outer);
      place.adjust->ip_bytes = *ip_bytes(packet) + outer;
      place.adjust->outer = static_cast<u16>(rewrite);
      place.adjust->flow_hash = static_cast<u16>(flow_hash(packet, settings().encapsulation->hash_key));
      place.adjust->ether_type = backend.address.family == 4 ? 0x0800 : 0x86dd;
    }
    set_cache(settings().cache && rewrite < XG_REWRITE_HALF, settings().cache_ttl_ms, packet, rewrite,
              result);
    return true;
  }
  void change(const StageSettings& changed) override {
    StageWith::change(changed);
    balancer_.emplace(settings(), secret_);
  }
  u32 rewrites() const override {
    return settings().cache || settings().encapsulation ? static_cast<u32>(settings().backends.size()) : 0;
  }
  bool may_send() const override { return true; }
  bool remembers() const override { return table_.has_value(); }
  std::vector<u32> table() const override { return table_->words(); }

 private:
  std::array<u64, 2> secret_;
  std::optional<Balancer> balancer_;
  std::optional<Table> table_;
};

}  // namespace

std::unique_ptr<Stage> reference_of(const LoadBalanceSettings& settings, const std::array<u64, 2>& secret) {
  return std::make_unique<LoadBalance>(settings, secret);
}

}  // namespace xdpgpu::gpu::reference
