// SPDX-License-Identifier: MIT
#include "userspace/dataplane/deferred_packets.hpp"

#include <algorithm>
#include <cstring>

#include "gpu/thread.hpp"
#include "userspace/dataplane/buffers.hpp"
#include "userspace/dataplane/rule_finisher.hpp"

namespace xdpgpu::dataplane {
namespace {

constexpr u64 kLongestSleepNs = 1'000'000'000;
// The kernel's own verdict on a flow is not for packets that had to wait.
constexpr u32 kCaching = XG_RES_CACHE | XG_RES_PUBLISHED | XG_RES_EVICTED;

xg_metadata metadata_of(const u8* frame) noexcept {
  xg_metadata metadata;
  std::memcpy(&metadata, frame - XG_METADATA_SIZE, sizeof(metadata));
  return metadata;
}

}  // namespace

DeferredPackets::DeferredPackets(const u8* region, AlertRules& rules, std::size_t worker, u32 most_frames,
                                 std::unique_ptr<RuleAsker> asker)
    : region_(region),
      rules_(rules),
      worker_(worker),
      most_frames_(most_frames),
      asker_(std::move(asker)),
      entries_(std::make_unique<Entry[]>(kPackets)),
      in_bucket_(kBuckets),
      descriptors_(kReleasedAtOnce * XG_PACKET_BUFFERS),
      results_(descriptors_.size()),
      edits_(descriptors_.size()),
      adjusts_(descriptors_.size()),
      alerts_(descriptors_.size()),
      patches_(descriptors_.size()),
      events_(descriptors_.size()),
      bytes_(XG_PACKET_MAX) {
  free_.reserve(kPackets);
  in_order_.reserve(kPackets);
  for (u32 i = kPackets; i-- > 0;) free_.push_back(static_cast<u16>(i));
  slot_.descriptors = descriptors_.data();
  slot_.results = results_.data();
  slot_.edits = edits_.data();
  slot_.adjusts = adjusts_.data();
  slot_.alerts = alerts_.data();
  slot_.patches = patches_.data();
  slot_.events = events_.data();
  slot_.capacity = static_cast<u32>(descriptors_.size());
  batch_.slot = &slot_;
  batch_.limit = slot_.capacity;
  batch_.ports.resize(slot_.capacity);
  batch_.assembled.resize(kReleasedAtOnce);
  batch_.fragments.resize(kReleasedAtOnce * XG_PACKET_BUFFERS);
}

DeferredPackets::~DeferredPackets() { stop(); }

void DeferredPackets::start(const std::string& name) {
  stopping_.store(false);
  thread_ = gpu::start_thread(name, [this] { run(); });
}

void DeferredPackets::stop() {
  if (!thread_.joinable()) return;
  stopping_.store(true);
  bell_.ring();
  thread_.join();
}

// ---- packets of a batch ---------------------------------------------------------------------------------

const DeferredPackets::Entry* DeferredPackets::first_of(u32 flow_hash) const noexcept {
  if (in_bucket_[flow_hash % kBuckets] == 0) return nullptr;
  const auto found = std::find_if(in_order_.begin(), in_order_.end(),
                                  [&](u16 number) { return entries_[number].flow_hash == flow_hash; });
  return found == in_order_.end() ? nullptr : &entries_[*found];
}

bool DeferredPackets::waits(u32 flow_hash) const noexcept { return first_of(flow_hash) != nullptr; }

u32 DeferredPackets::limit_behind(u32 flow_hash) const noexcept {
  const Entry* const first = first_of(flow_hash);
  return first == nullptr ? 0 : first->limit;
}

bool DeferredPackets::take(Batch& batch, u32 at, const AlertRules::Pipeline* pipeline) noexcept {
  const Buffers packet = packet_at(batch.slot->descriptors + at);
  const Assembled* const datagram = batch.assembled_at(at);
  const auto buffers = static_cast<u32>(packet.size());
  const u32 frames = datagram ? static_cast<u32>(datagram->fragments.size()) + 1 : buffers;
  const u32 flow_hash = metadata_of(region_ + packet.front().offset).flow_hash;
  // Those of another flow whose hash falls there count, too: there are few.
  if (in_bucket_[flow_hash % kBuckets] >= kOfOneFlow || free_.empty() || frames_ + frames > most_frames_ ||
      buffers > XG_PACKET_BUFFERS || (datagram && datagram->fragments.size() > XG_PACKET_BUFFERS))
    return false;
  const u16 number = free_.back();
  free_.pop_back();
  Entry& entry = entries_[number];
  entry.hold = batch.slot->alerts != nullptr ? batch.slot->alerts[at] : xg_alerts{};
  entry.rests = {};
  entry.is_ready = true;
  entry.flow_hash = flow_hash;
  if (pipeline != nullptr) {
    entry.pipeline = *pipeline;
    entry.is_ready = !AlertRules::asks(*pipeline, entry.hold);
    const auto rules = static_cast<u32>(pipeline->rules ? pipeline->rules->size() : 0);
    entry.limit = pipeline->limit_drops ? XG_VERDICT(XG_DROP, 0u, u32{pipeline->stage}, rules + 1) : 0;
  } else {
    entry.limit = limit_behind(entry.flow_hash);
  }
  entry.decision = decision_at(*batch.slot, at);
  entry.decision.result.flags &= ~kCaching;
  if (entry.decision.result.flags & XG_RES_PATCH) entry.patch = batch.slot->patches[at];
  // One that there is no record of is told of by nobody.
  if (const xg_event* const events = batch.slot->events; events == nullptr)
    entry.decision.result.flags &= ~XG_RES_EVENT;
  else if (entry.decision.result.flags & XG_RES_EVENT)
    entry.event = events[at];
  entry.frames = frames;
  entry.port = batch.ports[at];
  entry.audit = batch.audit;
  entry.descriptors_count = static_cast<u8>(buffers);
  std::copy(packet.begin(), packet.end(), entry.descriptors.begin());
  entry.fragments_count = datagram ? static_cast<u8>(datagram->fragments.size()) : u8{0};
  if (datagram) std::copy(datagram->fragments.begin(), datagram->fragments.end(), entry.fragments.begin());
  batch.ports[at] = Batch::kDeferred;
  batch.deferred = true;
  ++in_bucket_[entry.flow_hash % kBuckets];
  in_order_.push_back(number);
  frames_ += frames;
  return true;
}

// ---- and back -------------------------------------------------------------------------------------------

void DeferredPackets::add(Entry& entry) noexcept {
  const u32 at = batch_.count;
  const std::span packet(entry.descriptors.data(), entry.descriptors_count);
  std::copy(packet.begin(), packet.end(), descriptors_.begin() + at);
  std::memset(batch_.ports.data() + at, Batch::kLaterBuffer, packet.size());
  batch_.ports[at] = entry.port;
  batch_.count += static_cast<u32>(packet.size());
  batch_.later += static_cast<u32>(packet.size()) - 1;
  batch_.audit = batch_.audit || entry.audit;
  if (entry.fragments_count != 0) {
    xg_descriptor* const own = batch_.fragments.data() + batch_.fragments_count;
    std::copy_n(entry.fragments.begin(), entry.fragments_count, own);
    batch_.fragments_count += entry.fragments_count;
    batch_.assembled[batch_.assembled_count++] = {at, {own, entry.fragments_count}};
  }
  first_offsets_[released_++] = packet.front().offset;
  results_[at] = entry.decision.result;
  edits_[at] = entry.decision.edit;
  adjusts_[at] = entry.decision.adjust;
  alerts_[at] = entry.hold;
  if (entry.decision.result.flags & XG_RES_PATCH) patches_[at] = entry.patch;
  if (entry.decision.result.flags & XG_RES_EVENT) events_[at] = entry.event;
  if (entry.pipeline.rules == nullptr) return;
  const u8* const frame = region_ + packet.front().offset;
  const xg_metadata metadata = metadata_of(frame);
  const Ends ends = ends_of(frame, packet.front().length, metadata, entry.hold.connection);
  const auto decided =
      rules_.decide(entry.pipeline, entry.hold, ends, metadata.rx_time_ns, worker_, entry.rests);
  count(limited_, decided.limited);
  alerts_[at] = decided.told;
  put_late(decided, entry.pipeline.stage, results_[at]);
  entry.pipeline = {};
}

// ---- the other thread -----------------------------------------------------------------------------------

void DeferredPackets::run() noexcept {
  u16 number = 0;
  while (!stopping_.load(std::memory_order_relaxed)) {
    if (!asked_.take(number)) {
      bell_.sleep([this] { return !asked_.empty() || stopping_.load(); }, kLongestSleepNs);
      continue;
    }
    answer(entries_[number]);
    done_.give(number);
  }
}

void DeferredPackets::answer(Entry& entry) noexcept {
  const std::span packet(entry.descriptors.data(), entry.descriptors_count);
  std::span<const u8> bytes(region_ + packet.front().offset, packet.front().length);
  if (packet.size() > 1) {
    std::size_t filled = 0;
    for (const xg_descriptor& buffer : packet) {
      const std::size_t part = std::min<std::size_t>(buffer.length, bytes_.size() - filled);
      std::memcpy(bytes_.data() + filled, region_ + buffer.offset, part);
      filled += part;
    }
    bytes = {bytes_.data(), filled};
  }
  const xg_metadata metadata = metadata_of(region_ + packet.front().offset);
  entry.rests = asker_->ask(entry.pipeline, entry.hold, metadata, bytes);
  bounds_reached_.store(asker_->bounds_reached(), std::memory_order_relaxed);
}

}  // namespace xdpgpu::dataplane
