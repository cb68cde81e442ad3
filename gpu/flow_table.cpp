// SPDX-License-Identifier: MIT
#include "gpu/flow_table.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace xdpgpu::gpu {
namespace {

constexpr u64 kMs = 1'000'000, kSecond = 1'000'000'000;
constexpr std::size_t kWords = sizeof(xg_flow_verdict) / sizeof(u64);

// The table is shared with the kernel: every access is a whole 64-bit word, so that no compiler splits,
// merges or repeats it.
std::atomic_ref<u64> word_at(xg_flow_verdict& entry, std::size_t i) noexcept {
  return std::atomic_ref<u64>(reinterpret_cast<u64*>(&entry)[i]);
}

u64 relaxed(const u64& value) noexcept {
  return std::atomic_ref<u64>(const_cast<u64&>(value)).load(std::memory_order_relaxed);
}

u32 expiry(u32 ttl_ms, u64 now_ns) noexcept {
  if (!ttl_ms) return 0;
  const u32 at = static_cast<u32>(now_ns / kMs) + ttl_ms;
  return at ? at : 1;
}

}  // namespace

FlowTable::FlowTable(std::span<xg_flow_verdict> entries, std::span<xg_flow_stats> stats)
    : entries_(entries), stats_(stats) {}

u64 FlowTable::last_used(u32 index) const noexcept {
  return std::max(relaxed(stats_[index].last_seen_ns), stats_[index].published_ns);
}

bool FlowTable::dead(u32 index, u32 generation, u64 now_ns) const noexcept {
  const xg_flow_verdict& entry = entries_[index];
  if (entry.generation != generation) return true;
  if (xg_flow_expired(entry.expires_ms, stats_[index].published_ns, now_ns)) return true;
  return entry.idle_s && now_ns > last_used(index) + entry.idle_s * kSecond;
}

Published FlowTable::publish(const FlowVerdict& flow, u64 now_ns) noexcept {
  const u32 buckets = static_cast<u32>(entries_.size()) / XG_FLOW_WAYS;
  const u32 first = (flow.flow_hash & (buckets - 1)) * XG_FLOW_WAYS;

  u32 victim = first;
  u64 oldest = ~u64{0};
  bool victim_dead = false;
  for (u32 i = first; i < first + XG_FLOW_WAYS; ++i) {
    const xg_flow_verdict& entry = entries_[i];
    const bool is_dead = dead(i, flow.generation, now_ns);
    if (entry.generation && std::memcmp(&entry.key, &flow.key, sizeof(flow.key)) == 0) {
      // An entry that goes on saying the same must not blink: packets would come up for nothing.
      if (!is_dead && entry.verdict == flow.verdict &&
          xg_flow_lives_on(entry.expires_ms, flow.ttl_ms, static_cast<u32>(now_ns / kMs)) &&
          entry.rewrite == flow.rewrite && entry.idle_s == flow.idle_s && entry.flags == flow.flags)
        return Published::unchanged;
      write(i, flow, now_ns);
      return Published::updated;
    }
    if (victim_dead) continue;
    const u64 used = last_used(i);
    if (is_dead || used < oldest) {
      victim = i;
      oldest = used;
      victim_dead = is_dead;
    }
  }
  write(victim, flow, now_ns);
  return victim_dead ? Published::fresh : Published::evicted;
}

void FlowTable::write(u32 index, const FlowVerdict& flow, u64 now_ns) noexcept {
  xg_flow_verdict fresh{};
  fresh.generation = flow.generation;
  xg_flow_stats& stats = stats_[index];
  fresh.incarnation = static_cast<u16>(++stats.publications);
  fresh.action = static_cast<u8>(XG_VERDICT_ACTION(flow.verdict));
  fresh.target = static_cast<u8>(XG_VERDICT_PORT(flow.verdict));
  fresh.key = flow.key;
  fresh.verdict = flow.verdict;
  fresh.expires_ms = expiry(flow.ttl_ms, now_ns);
  fresh.rewrite = flow.rewrite;
  fresh.idle_s = flow.idle_s;
  fresh.flags = flow.flags;
  u64 words[kWords];
  std::memcpy(words, &fresh, sizeof(fresh));

  xg_flow_verdict& entry = entries_[index];
  stats.base_packets = relaxed(stats.packets);
  stats.base_bytes = relaxed(stats.bytes);
  // Else the entry would be born as idle as its predecessor.
  if (flow.idle_s) std::atomic_ref<u64>(stats.last_seen_ns).store(now_ns, std::memory_order_relaxed);
  word_at(entry, 0).store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  std::atomic_ref<u64>(stats.published_ns).store(now_ns, std::memory_order_relaxed);
  for (std::size_t i = 1; i < kWords; ++i) word_at(entry, i).store(words[i], std::memory_order_relaxed);
  word_at(entry, 0).store(words[0], std::memory_order_release);
}

void write_rewrite(xg_rewrite& to, xg_rewrite record, u32 generation) noexcept {
  constexpr std::size_t kRewriteWords = sizeof(xg_rewrite) / sizeof(u64);
  static_assert(offsetof(xg_rewrite, generation) == 0);
  record.generation = generation;
  u64 words[kRewriteWords];
  std::memcpy(words, &record, sizeof(record));
  u64* const shared = reinterpret_cast<u64*>(&to);
  const auto word = [&](std::size_t i) { return std::atomic_ref<u64>(shared[i]); };
  bool same = true;
  for (std::size_t i = 0; i < kRewriteWords; ++i) same &= word(i).load(std::memory_order_relaxed) == words[i];
  if (same) return;
  word(0).store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (std::size_t i = 1; i < kRewriteWords; ++i) word(i).store(words[i], std::memory_order_relaxed);
  word(0).store(words[0], std::memory_order_release);
}

bool read_entry(const xg_flow_verdict& entry, xg_flow_verdict& out) noexcept {
  auto& shared = const_cast<xg_flow_verdict&>(entry);
  u64 words[kWords];
  words[0] = word_at(shared, 0).load(std::memory_order_acquire);
  if (!static_cast<u32>(words[0])) return false;
  for (std::size_t i = 1; i < kWords; ++i) words[i] = word_at(shared, i).load(std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_acquire);
  if (word_at(shared, 0).load(std::memory_order_relaxed) != words[0]) return false;
  std::memcpy(&out, words, sizeof(out));
  return true;
}

}  // namespace xdpgpu::gpu
