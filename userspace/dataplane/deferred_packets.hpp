// SPDX-License-Identifier: MIT
//
// userspace/dataplane/deferred_packets.hpp: packets about which a host thread is asked before it is known
// what becomes of them, since rules hold for them as far as the device can tell, and ask for more than that
// (RuleHead::rest).
//
//   RuleAsker        whether the rest of a rule holds; of the thread that asks
//   DeferredPackets  of one worker: the packets that wait, and that thread
//
// A packet waits with its frames, and later packets of its flow wait behind it, nobody else's. There is room
// for so many; where it is full, the policy's `limit` decides.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gpu/doorbell.hpp"
#include "userspace/dataplane/alert_rules.hpp"
#include "userspace/dataplane/batcher.hpp"
#include "userspace/dataplane/fragments.hpp"
#include "userspace/dataplane/order.hpp"

namespace xdpgpu::dataplane {

class RuleAsker {
 public:
  virtual ~RuleAsker() = default;
  // What is known of the rests of the rules that hold as far as the device can tell. packet: whole, one byte
  // behind the other, from its Ethernet header on. Bounded in time and memory.
  virtual AlertRules::Rests ask(const AlertRules::Pipeline& pipeline, const xg_alerts& hold,
                                const xg_metadata& metadata, std::span<const u8> packet) noexcept = 0;
  // Of how many packets a bound was reached, so that a rule was taken not to hold.
  virtual u64 bounds_reached() const noexcept = 0;
};

// Of whoever retires, but for what says otherwise. No allocation after construction.
class DeferredPackets {
 public:
  static constexpr u32 kPackets = 512;        // that may wait
  static constexpr u32 kOfOneFlow = 64;       // of them, of one flow
  static constexpr u32 kReleasedAtOnce = 64;  // that go on together

  // region: of all frames. rules: of all workers together; outlive it. worker: by whose number matches are
  // counted. most_frames: of this worker's that may wait. asker: used by the thread alone.
  DeferredPackets(const u8* region, AlertRules& rules, std::size_t worker, u32 most_frames,
                  std::unique_ptr<RuleAsker> asker);
  ~DeferredPackets();

  // Before packets come, and once none do any more.
  void start(const std::string& name);
  void stop();

  bool any() const noexcept { return !in_order_.empty(); }
  u32 frames() const noexcept { return frames_; }

  // ---- packets of a batch that is decided, in their order

  // Whether a packet of the flow waits.
  bool waits(u32 flow_hash) const noexcept;
  // Takes the packet at descriptor `at`: the thread is to be asked about it, or it comes behind one of its
  // flow. pipeline: whose rules hold for it; nullptr: none do. No: there is no room.
  bool take(Batch& batch, u32 at, const AlertRules::Pipeline* pipeline) noexcept;
  // What becomes of one behind others of its flow for which there is no room: a verdict word that drops it;
  // 0: it goes on, in front of them.
  u32 limit_behind(u32 flow_hash) const noexcept;

  // The batch is being routed, and those that were taken of it are left out: place(frame) is the order log's.
  // Only now the thread is asked. Returns how many frames they have.
  template <class Place>
  u32 admit(OrderLog& order, Place&& place) noexcept {
    u32 frames = 0;
    for (; admitted_ != in_order_.size(); ++admitted_) {
      const Entry& entry = entries_[in_order_[admitted_]];
      order.sent(place(frame_of(entry.descriptors[0].offset)));
      frames += entry.frames;
      if (entry.is_ready)
        more_ = true;  // those in front of it may have gone on already
      else
        ask(in_order_[admitted_]);
    }
    ring_if_asked();
    return frames;
  }

  // ---- and back

  // Those that may go on now, as a batch that is decided, their flows' order kept: at most kReleasedAtOnce,
  // of one batch that they were taken of; no packets: none. It is there until the next call. place: see
  // admit().
  template <class Place>
  Batch& release(OrderLog& order, Place&& place) noexcept {
    collect([&](const Entry& entry) { return order.entry_of(place(first_frame(entry))); });
    if (released_ != 0) order.resume(place(frame_of(first_offsets_[0])));
    return batch_;
  }
  // Once that batch is routed. Returns how many frames its packets have.
  template <class Place>
  u32 released(OrderLog& order, Place&& place) noexcept {
    for (u32 i = 0; i < released_; ++i) order.completed(place(frame_of(first_offsets_[i])));
    return released_frames_;
  }
  // When nobody runs any more: what waits stays where it is, as what is in other batches does.
  void abandon() noexcept {
    in_order_.clear();
    admitted_ = frames_ = 0;
  }

  // Any thread: RuleFinisher::limited() of these.
  u64 limited() const noexcept { return limited_.load(std::memory_order_relaxed); }
  // Any thread: RuleAsker's.
  u64 bounds_reached() const noexcept { return bounds_reached_.load(std::memory_order_relaxed); }

 private:
  struct Entry {
    AlertRules::Pipeline pipeline;  // whose rules hold for it; without any, none are known
    xg_alerts hold{};
    Decision decision;
    xg_patch patch;  // where the decision names it
    xg_event event;  // likewise
    u32 flow_hash = 0;
    u32 frames = 0;
    u8 descriptors_count = 0, fragments_count = 0;
    u8 port = 0;
    bool audit = false;
    bool is_ready = false;    // the thread has answered, or was not asked
    AlertRules::Rests rests;  // RuleAsker's word
    u32 limit = 0;            // limit_behind() it
    std::array<xg_descriptor, XG_PACKET_BUFFERS> descriptors;
    std::array<xg_descriptor, XG_PACKET_BUFFERS> fragments;
  };
  // What the other thread says to this one, or this one to it: entries' numbers. There is always room.
  struct Numbers {
    alignas(64) std::atomic<u32> given{0};
    alignas(64) std::atomic<u32> taken{0};
    std::array<u16, kPackets> all{};
    void give(u16 number) noexcept {
      const u32 at = given.load(std::memory_order_relaxed);
      all[at % kPackets] = number;
      given.store(at + 1, std::memory_order_release);
    }
    bool take(u16& number) noexcept {
      const u32 at = taken.load(std::memory_order_relaxed);
      if (at == given.load(std::memory_order_acquire)) return false;
      number = all[at % kPackets];
      taken.store(at + 1, std::memory_order_release);
      return true;
    }
    bool empty() const noexcept {
      return taken.load(std::memory_order_relaxed) == given.load(std::memory_order_acquire);
    }
  };
  static constexpr u32 kBuckets = 4096;

  void ask(u16 number) noexcept { asked_.give(number); }
  void ring_if_asked() noexcept {
    if (!asked_.empty()) bell_.ring();
  }
  static FrameId first_frame(const Entry& entry) noexcept { return frame_of(entry.descriptors[0].offset); }
  // Fills batch_ with those of one entry of the order log.
  template <class EntryOf>
  void collect(EntryOf&& entry_of) noexcept;
  void add(Entry& entry) noexcept;
  const Entry* first_of(u32 flow_hash) const noexcept;
  void run() noexcept;
  void answer(Entry& entry) noexcept;

  const u8* const region_;
  AlertRules& rules_;
  const std::size_t worker_;
  const u32 most_frames_;
  std::unique_ptr<RuleAsker> asker_;

  std::unique_ptr<Entry[]> entries_;
  std::vector<u16> free_;
  std::vector<u16> in_order_;   // by arrival
  std::vector<u16> in_bucket_;  // how many wait whose flow's hash falls there
  std::size_t admitted_ = 0;    // of in_order_, in front: their batches are routed
  u32 frames_ = 0;
  bool more_ = false;  // some may go on without an answer that is to come
  std::atomic<u64> limited_{0};

  // Of those that go on.
  Batch batch_;
  gpu::Slot slot_;
  std::vector<xg_descriptor> descriptors_;
  std::vector<xg_result> results_;
  std::vector<xg_edit> edits_;
  std::vector<xg_adjust> adjusts_;
  std::vector<xg_alerts> alerts_;
  std::vector<xg_patch> patches_;
  std::vector<xg_event> events_;
  std::array<u64, kReleasedAtOnce> first_offsets_{};
  u32 released_ = 0, released_frames_ = 0;

  Numbers asked_, done_;
  gpu::Doorbell bell_;
  std::vector<u8> bytes_;               // the thread's: a packet of several buffers
  std::atomic<u64> bounds_reached_{0};  // the thread's, as is what stands in front
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

// Those that stay move together; in front of each stand those of its flow that it waits for.
template <class EntryOf>
void DeferredPackets::collect(EntryOf&& entry_of) noexcept {
  batch_.count = batch_.later = batch_.assembled_count = batch_.fragments_count = 0;
  batch_.audit = false;
  released_ = released_frames_ = 0;
  bool any = std::exchange(more_, false);
  for (u16 number = 0; done_.take(number); any = true) entries_[number].is_ready = true;
  if (!any) return;
  u32 of = 0;
  std::size_t kept = 0;
  const std::size_t all = in_order_.size(), admitted = admitted_;
  for (std::size_t i = 0; i < all; ++i) {
    const u16 number = in_order_[i];
    Entry& entry = entries_[number];
    u16& alike = in_bucket_[entry.flow_hash % kBuckets];
    const auto end = in_order_.begin() + static_cast<std::ptrdiff_t>(kept);
    const bool goes =
        i < admitted && entry.is_ready && (alike == 1 || std::none_of(in_order_.begin(), end, [&](u16 other) {
                                             return entries_[other].flow_hash == entry.flow_hash;
                                           }));
    const bool fits = goes && released_ != kReleasedAtOnce && (released_ == 0 || entry_of(entry) == of);
    if (!fits) {
      more_ = more_ || goes;
      in_order_[kept++] = number;
      continue;
    }
    of = entry_of(entry);
    add(entry);
    released_frames_ += entry.frames;
    --alike;
    --admitted_;
    free_.push_back(number);
  }
  in_order_.resize(kept);
  frames_ -= released_frames_;
}

}  // namespace xdpgpu::dataplane
