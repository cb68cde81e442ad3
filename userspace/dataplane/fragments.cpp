// SPDX-License-Identifier: MIT
#include "userspace/dataplane/fragments.hpp"

#include <algorithm>
#include <cstring>

#include "maps/fragments.h"

namespace xdpgpu::dataplane {
namespace {

constexpr u32 kBuckets = 256;
// The kernel lets no later one in after XG_FRAGMENT_NS; then it waits for its batch.
constexpr u64 kLifeNs = 2 * XG_FRAGMENT_NS;
constexpr u64 kWindowNs = 100'000'000;
constexpr u64 kMostWaitedNs = kWindowNs / 10;

const xg_metadata& metadata_of(const u8* frame) noexcept {
  return *reinterpret_cast<const xg_metadata*>(frame - XG_METADATA_SIZE);
}

u32 ip_bytes_of(const u8* frame) noexcept {
  const xg_metadata& metadata = metadata_of(frame);
  const u8* ip = frame + metadata.l3_offset;
  return metadata.flags & XG_PKT_IPV6 ? 40u + xg_host16(xg_load16(ip + 4)) : xg_host16(xg_load16(ip + 2));
}

constexpr Decision only(u32 verdict) noexcept {
  Decision decision;
  decision.result.verdict = verdict;
  return decision;
}

bool is_tracked(const xg_metadata& metadata) noexcept { return metadata.flags & XG_PKT_TRACKED; }
bool is_later(const xg_metadata& metadata) noexcept { return metadata.flags & XG_PKT_LATER_FRAGMENT; }

}  // namespace

Decision decision_at(const gpu::Slot& slot, u32 at) noexcept {
  Decision decision;
  decision.result = slot.results[at];
  if (decision.result.flags & XG_RES_EDIT) decision.edit = slot.edits[at];
  if (decision.result.flags & XG_RES_ADJUST) decision.adjust = slot.adjusts[at];
  return decision;
}

FirstResult first_result(const Decision& decision, const u8* frame) noexcept {
  return {decision, ip_bytes_of(frame)};
}

FirstResult result_of_whole(const Decision& decision) noexcept { return {decision, ~u32{0}}; }

Decision result_of_later(const FirstResult& first, const u8* frame) noexcept {
  if (first.result.flags & XG_RES_PATCH) return only(XG_DROP);
  Decision later = first;
  later.result.flags &= XG_RES_EDIT | XG_RES_ADJUST | XG_RES_SWAP_MACS;
  later.result.cache_ttl_ms = 0;
  if (later.result.flags & XG_RES_ADJUST) {
    const u32 bytes = ip_bytes_of(frame);
    if (later.adjust.popped || bytes > first.ip_bytes) return only(XG_DROP);
    later.adjust.ip_bytes = bytes + later.adjust.pushed;
  }
  if (!(later.result.flags & XG_RES_EDIT && later.edit.sets & XG_EDIT_TTL)) return later;
  const xg_metadata& metadata = metadata_of(frame);
  if (metadata.router != XG_ROUTER_ALL) return only(XG_PASS);
  const u8* ip = frame + metadata.l3_offset;
  const bool v6 = metadata.flags & XG_PKT_IPV6;
  const u32 ttl = ip[v6 ? 7 : 8];
  if (ttl <= 1) return only(XG_DROP);
  later.edit.ttl = static_cast<u8>(ttl - 1);
  // RFC 1624, as the header's 16-bit word goes down by one.
  const u32 checksum = v6 ? 0u : xg_load16(ip + 10) + 1u;
  later.edit.l3_checksum = static_cast<u16>(checksum + (checksum >= 0xffff));
  return later;
}

// ---- FragmentLog -----------------------------------------------------------------------------------

// An entry's words; read and written one by one, and whole if `version` is even and the same before and
// after.
struct FragmentLog::Entry {
  static constexpr u32 kKey = 0, kNoted = 6, kDecision = 7, kBytes = 13, kWords = 14;
  using Words = std::array<u64, kWords>;
  std::atomic<u32> version{0};
  std::array<std::atomic<u64>, kWords> words{};

  static void put_key(const xg_flow_key& key, u32 generation, Words& to) noexcept {
    std::memcpy(to.data(), &key, sizeof(key));
    std::memcpy(reinterpret_cast<u8*>(to.data()) + sizeof(key), &generation, sizeof(generation));
  }
  bool read(Words& to) const noexcept {
    const u32 before = version.load(std::memory_order_acquire);
    for (u32 i = 0; i < kWords; ++i) to[i] = words[i].load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    return before % 2 == 0 && version.load(std::memory_order_relaxed) == before;
  }
  void write(const Words& from) noexcept {
    const u32 before = version.load(std::memory_order_relaxed);
    version.store(before + 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    for (u32 i = 0; i < kWords; ++i) words[i].store(from[i], std::memory_order_relaxed);
    version.store(before + 2, std::memory_order_release);
  }
};

struct FragmentLog::Bucket {
  std::array<Entry, XG_FRAGMENT_WAYS> entries;
};

FragmentLog::FragmentLog() : buckets_(std::make_unique<Bucket[]>(kBuckets)) {}
FragmentLog::~FragmentLog() = default;

void FragmentLog::note(const xg_flow_key& key, u32 bucket_hash, u32 generation, u64 now_ns,
                       const FirstResult& first) noexcept {
  static_assert(sizeof(xg_flow_key) + sizeof(u32) == Entry::kNoted * sizeof(u64));
  Entry::Words fresh{};
  Entry::put_key(key, generation, fresh);
  fresh[Entry::kNoted] = now_ns;
  const Decision& decision = first;
  static_assert(sizeof(Decision) == (Entry::kBytes - Entry::kDecision) * sizeof(u64));
  std::memcpy(&fresh[Entry::kDecision], &decision, sizeof(decision));
  fresh[Entry::kBytes] = first.ip_bytes;

  auto& entries = buckets_[bucket_hash % kBuckets].entries;
  u32 own = 0, own_at = 0, oldest_at = 0;
  u64 own_oldest = ~u64{0}, oldest = ~u64{0};
  for (u32 i = 0; i < entries.size(); ++i) {
    Entry::Words held;
    entries[i].read(held);  // nobody else writes
    if (std::equal(held.begin(), held.begin() + Entry::kNoted, fresh.begin())) return entries[i].write(fresh);
    const bool lives = held[Entry::kNoted] && now_ns - held[Entry::kNoted] < kLifeNs;
    const u64 noted = lives ? held[Entry::kNoted] : 0;
    if (noted < oldest) oldest = noted, oldest_at = i;
    // The source's address stands in the first two words.
    if (!lives || held[0] != fresh[0] || held[1] != fresh[1]) continue;
    ++own;
    if (noted < own_oldest) own_oldest = noted, own_at = i;
  }
  entries[own >= XG_FRAGMENT_OF_SOURCE ? own_at : oldest_at].write(fresh);
}

std::optional<FirstResult> FragmentLog::find(const xg_flow_key& key, u32 bucket_hash, u32 generation,
                                             u64 now_ns) const noexcept {
  Entry::Words sought{};
  Entry::put_key(key, generation, sought);
  for (const Entry& entry : buckets_[bucket_hash % kBuckets].entries) {
    Entry::Words held;
    if (!entry.read(held) || !std::equal(held.begin(), held.begin() + Entry::kNoted, sought.begin()))
      continue;
    // Another worker's clock may be ahead.
    if (static_cast<std::int64_t>(now_ns - held[Entry::kNoted]) > static_cast<std::int64_t>(kLifeNs))
      continue;
    Decision decision;
    std::memcpy(static_cast<void*>(&decision), &held[Entry::kDecision], sizeof(decision));
    return FirstResult{decision, static_cast<u32>(held[Entry::kBytes])};
  }
  return std::nullopt;
}

// ---- FragmentFates ---------------------------------------------------------------------------------

namespace {

struct Datagram {
  xg_flow_key key;
  u32 bucket_hash;
};

// Of a fragment that stands in a batch.
Datagram datagram_of(const Batch& batch, u32 at, const u8* region, const PortQueue& from) noexcept {
  const xg_descriptor& buffer = batch.slot->descriptors[at];
  const u8* frame = region + buffer.offset;
  const Buffers packet = packet_at(&buffer);
  xg_packet parsed;
  xg_parse_part(frame, frame + buffer.length, bytes_of(packet), static_cast<u8>(from.port), &parsed);
  const u64* key = from.config->hash_key;
  return {parsed.key, xg_fragment_bucket_of(&parsed.key, key[0], key[1])};
}

}  // namespace

void FragmentFates::note_first(const Batch& batch, u32 at, u64 now_ns) noexcept {
  const PortQueue& from = *queues_[batch.ports[at]];
  const Datagram datagram = datagram_of(batch, at, region_, from);
  logs_[own_]->note(datagram.key, datagram.bucket_hash, batch.generation, now_ns,
                    first_result(decision_at(*batch.slot, at), region_ + batch.slot->descriptors[at].offset));
}

std::optional<FirstResult> FragmentFates::find(const Batch& batch, u32 at, u64 now_ns) const noexcept {
  const Datagram datagram = datagram_of(batch, at, region_, *queues_[batch.ports[at]]);
  for (u32 i = 0; i < logs_.size(); ++i) {
    const FragmentLog& log = *logs_[(own_ + i) % logs_.size()];
    if (auto first = log.find(datagram.key, datagram.bucket_hash, batch.generation, now_ns)) return first;
  }
  return std::nullopt;
}

bool FragmentFates::may_wait(u64 now_ns) noexcept {
  if (logs_.size() < 2) return false;  // all came before
  if (now_ns - window_ns_ >= kWindowNs) {
    window_ns_ = now_ns;
    waited_ns_ = 0;
  }
  const u64 since = waits_since_ns_ ? now_ns - waits_since_ns_ : 0;
  if (since >= kWaitNs || waited_ns_ + since >= kMostWaitedNs) return false;
  return true;
}

bool FragmentFates::settle(Batch& batch, u64 now_ns) noexcept {
  const bool again = waits_since_ns_ != 0;
  u32 missing = batch.count;  // a later one of no first
  for (u32 i = 0; i < batch.count; ++i) {
    if (!Batch::is_received(batch.ports[i])) continue;
    const u8* frame = region_ + batch.slot->descriptors[i].offset;
    const xg_metadata& metadata = metadata_of(frame);
    if (!is_tracked(metadata) || batch.assembled_at(i)) continue;
    if (!is_later(metadata)) {
      if (!again) note_first(batch, i, now_ns);
    } else if (missing == batch.count && !find(batch, i, now_ns)) {
      missing = i;
    }
  }
  if (missing != batch.count && may_wait(now_ns)) {
    if (!again) {
      waits_since_ns_ = now_ns;
      ++queues_[batch.ports[missing]]->counters->fragments_waited;
    }
    return false;
  }
  if (again) {
    waited_ns_ += now_ns - waits_since_ns_;
    waits_since_ns_ = 0;
  }
  for (u32 i = 0; i < batch.count; ++i) {
    if (!Batch::is_received(batch.ports[i])) continue;
    const u8* frame = region_ + batch.slot->descriptors[i].offset;
    const xg_metadata& metadata = metadata_of(frame);
    if (!is_tracked(metadata) || !is_later(metadata)) continue;
    Decision decision = only(batch.default_passes ? XG_PASS : XG_DROP);
    if (const auto first = find(batch, i, now_ns))
      decision = result_of_later(*first, frame);
    else
      ++queues_[batch.ports[i]]->counters->fragments_unknown;
    batch.slot->results[i] = decision.result;
    batch.slot->edits[i] = decision.edit;
    batch.slot->adjusts[i] = decision.adjust;
  }
  return true;
}

}  // namespace xdpgpu::dataplane
