// SPDX-License-Identifier: MIT
#include "gpu/prefix_order.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace xdpgpu::gpu {
namespace {

constexpr u32 kDigit = 8;  // bits: as many piles as the TLB has pages for

// By the bits of `key_of` from `shift` on, the least significant digit first; stable. Digits in which all
// agree cost nothing.
template <class T, class KeyOf>
void radix_sort(LargeVector<T>& items, u32 shift, const KeyOf& key_of) {
  constexpr u64 kMask = (u64{1} << kDigit) - 1;
  u64 differs = 0;
  for (const T& item : items) differs |= key_of(item) ^ key_of(items.front());
  LargeVector<T> spare(items.size());
  for (; shift < 64; shift += kDigit) {
    if ((differs >> shift & kMask) == 0) continue;
    std::array<u32, 1u << kDigit> piles{};
    for (const T& item : items) piles[key_of(item) >> shift & kMask]++;
    u32 begin = 0;
    for (u32& pile : piles) begin += std::exchange(pile, begin);
    for (const T& item : items) spare[piles[key_of(item) >> shift & kMask]++] = item;
    items.swap(spare);
  }
}

template <class Prefix>
bool in_order(const LargeVector<Prefix>& prefixes) {
  for (std::size_t i = 1; i < prefixes.size(); i++)
    if (!prefixes[i - 1].before(prefixes[i])) return false;
  return true;
}

// The first half of an address, and whose it is.
struct Half {
  u64 high;
  u32 at;
};

// Puts those in order whose first halves are the same.
void sort_runs(const LargeVector<TreePrefix6>& prefixes, LargeVector<Half>& halves) {
  const auto place = [&](const Half& half) {
    const TreePrefix6& prefix = prefixes[half.at];
    return std::tuple(prefix.low(), prefix.length(), half.at);
  };
  for (auto run = halves.begin(); run != halves.end();) {
    const auto end =
        std::find_if(run, halves.end(), [&](const Half& half) { return half.high != run->high; });
    if (end - run > 1) std::sort(run, end, [&](const Half& a, const Half& b) { return place(a) < place(b); });
    run = end;
  }
}

}  // namespace

void put_in_order(LargeVector<TreePrefix4>& prefixes) {
  if (in_order(prefixes)) return;
  radix_sort(prefixes, TreePrefix4::kKeyShift, [](const TreePrefix4& prefix) { return prefix.key(); });
  const auto same = [](const TreePrefix4& a, const TreePrefix4& b) { return a.same_prefix(b); };
  prefixes.erase(std::unique(prefixes.begin(), prefixes.end(), same), prefixes.end());
}

void put_in_order(LargeVector<TreePrefix6>& prefixes) {
  if (in_order(prefixes)) return;
  LargeVector<Half> halves;
  halves.reserve(prefixes.size());
  for (const TreePrefix6& prefix : prefixes)
    halves.push_back({prefix.high(), static_cast<u32>(halves.size())});
  radix_sort(halves, 0, [](const Half& half) { return half.high; });
  sort_runs(prefixes, halves);
  LargeVector<TreePrefix6> sorted;
  sorted.reserve(prefixes.size());
  for (const Half& half : halves)
    if (sorted.empty() || !sorted.back().same_prefix(prefixes[half.at])) sorted.push_back(prefixes[half.at]);
  prefixes = std::move(sorted);
}

}  // namespace xdpgpu::gpu
