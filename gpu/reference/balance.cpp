// SPDX-License-Identifier: MIT
#include "gpu/reference/balance.hpp"

#include <algorithm>
#include <map>

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

u64 name_hash(const std::string& name, u64 which) {
  const std::array<u64, 2> key{0x76656c67616d, which};
  return siphash13({reinterpret_cast<const u8*>(name.data()), name.size()}, key);
}

}  // namespace

Balancer::Balancer(const LoadBalanceSettings& settings, const std::array<u64, 2>& secret)
    : settings_(settings), secret_(secret) {
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
  u64 most = 0;
  for (u32 i = 0; i < settings_.backends.size(); i++) {
    const Backend& backend = settings_.backends[i];
    if (backend.weight == 0) continue;
    most = std::max<u64>(most, backend.weight);
    fillers.emplace(backend.name, Filler{i, backend.weight, name_hash(backend.name, 0) % size,
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
  for (const Backend& backend : settings_.backends) total += backend.weight;
  u32 residue = hash % total;
  u32 chosen = 0;
  while (residue >= settings_.backends[chosen].weight) residue -= settings_.backends[chosen++].weight;
  return chosen;
}

std::optional<u32> Balancer::choose(const Packet& packet) const {
  if (packet.src.empty()) return std::nullopt;
  if (lookup_.empty()) return by_residue(packet);
  return lookup_[(siphash13(flow_key(packet), secret_) >> 32) % lookup_.size()];
}

}  // namespace xdpgpu::gpu::reference
