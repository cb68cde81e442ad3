// SPDX-License-Identifier: MIT
#include "userspace/dataplane/rewrites.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

namespace xdpgpu::dataplane {
namespace {

constexpr u32 kFixed = 2;  // XG_REWRITE_NONE and XG_REWRITE_SWAP_MACS
constexpr u32 kMacs = XG_RES_SET_DST_MAC | XG_RES_SET_SRC_MAC;

xg_rewrite record_of(u32 generation, const xg_result& result) noexcept {
  xg_rewrite record{};
  record.generation = generation;
  record.flags = result.flags & kMacs;
  if (record.flags & XG_RES_SET_DST_MAC) std::memcpy(record.dst_mac, result.dst_mac, 6);
  if (record.flags & XG_RES_SET_SRC_MAC) std::memcpy(record.src_mac, result.src_mac, 6);
  return record;
}

u32 hash_of(const xg_rewrite& record) noexcept {
  u64 a = 0, b = 0;
  std::memcpy(&a, record.dst_mac, 6);
  std::memcpy(&b, record.src_mac, 6);
  u64 h = (a ^ std::rotl(b, 24) ^ u64{record.flags} << 56) * 0x9e3779b97f4a7c15ull;
  return static_cast<u32>(h >> 32);
}

}  // namespace

Rewrites::Rewrites(std::span<xg_rewrite> table, u32 queue, u32 queues)
    : table_(table),
      queue_(queue),
      share_((XG_REWRITE_HALF - kFixed) / queues),
      slots_(std::bit_ceil(share_ * 2), 0) {}

void Rewrites::begin(u32 generation) noexcept {
  generation_ = generation;
  first_ = (generation & 1 ? XG_REWRITE_HALF : kFixed) + queue_ * share_;
  used_ = 0;
  std::fill(slots_.begin(), slots_.end(), u16{0});
}

int Rewrites::intern(u32 generation, const xg_result& result) noexcept {
  if (result.flags & XG_RES_CACHE_SWAP) return XG_REWRITE_SWAP_MACS;
  if (!(result.flags & kMacs)) return XG_REWRITE_NONE;
  // A packet of an older policy, late: the newer one's records are not given up for it.
  if (static_cast<std::int32_t>(generation - generation_) < 0) return -1;
  if (generation != generation_) begin(generation);
  const xg_rewrite wanted = record_of(generation, result);
  const u32 mask = static_cast<u32>(slots_.size()) - 1;
  for (u32 at = hash_of(wanted) & mask;; at = (at + 1) & mask) {
    const u16 index = slots_[at];
    if (index) {
      if (std::memcmp(&table_[index], &wanted, sizeof(wanted)) == 0) return index;
      continue;
    }
    if (used_ == share_) return -1;
    const u16 fresh = static_cast<u16>(first_ + used_++);
    table_[fresh] = wanted;
    // The record must stand before any flow verdict that names it.
    std::atomic_thread_fence(std::memory_order_release);
    slots_[at] = fresh;
    return fresh;
  }
}

}  // namespace xdpgpu::dataplane
