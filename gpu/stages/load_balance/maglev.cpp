// SPDX-License-Identifier: MIT
#include "gpu/stages/load_balance/maglev.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "maps/hash.h"

namespace xdpgpu::gpu {
namespace {

// SipHash-1-3. The key need not be secret: names are not an attacker's, and packets are hashed with another.
u64 hash_of(std::string_view name, u64 k1) {
  constexpr u64 kMaglev = 0x76656c67616d;  // "maglev"
  XG_SIP_BEGIN(kMaglev, k1);
  std::size_t at = 0;
  for (; at + 8 <= name.size(); at += 8) {
    u64 word = 0;
    std::memcpy(&word, name.data() + at, 8);
    XG_SIP_WORD(word);
  }
  u64 last = u64{name.size()} << 56;
  std::memcpy(&last, name.data() + at, name.size() - at);
  XG_SIP_WORD(last);
  XG_SIP_END();
  return v0 ^ v1 ^ v2 ^ v3;
}

// A backend that fills the table.
struct Filler {
  u16 position;
  u32 weight;
  u32 credit;  // it has a turn when this reaches the greatest weight
  u32 next;    // entry of its permutation
  u32 skip;
};

}  // namespace

u64 backend_id(std::string_view name) { return hash_of(name, 2); }

bool is_prime(u32 number) {
  if (number < 4) return number > 1;
  if (number % 2 == 0) return false;
  for (u64 factor = 3; factor * factor <= number; factor += 2)
    if (number % factor == 0) return false;
  return true;
}

std::vector<u16> maglev_table(std::span<const MaglevBackend> backends, u32 size) {
  std::vector<u16> order(backends.size());
  std::iota(order.begin(), order.end(), u16{0});
  std::sort(order.begin(), order.end(), [&](u16 a, u16 b) { return backends[a].name < backends[b].name; });
  std::vector<Filler> fillers;
  u32 most = 0;
  for (const u16 position : order) {
    const auto& [name, weight] = backends[position];
    if (weight == 0) continue;
    most = std::max(most, weight);
    fillers.push_back({position, weight, 0, static_cast<u32>(hash_of(name, 0) % size),
                       static_cast<u32>(hash_of(name, 1) % (size - 1) + 1)});
  }

  constexpr u16 kNobody = 0xffff;
  std::vector<u16> table(size, kNobody);
  for (u32 left = size; left > 0;)
    for (Filler& filler : fillers) {
      filler.credit += filler.weight;
      if (filler.credit < most) continue;
      filler.credit -= most;
      while (table[filler.next] != kNobody) filler.next = (filler.next + filler.skip) % size;
      table[filler.next] = filler.position;
      if (--left == 0) break;
    }
  return table;
}

}  // namespace xdpgpu::gpu
