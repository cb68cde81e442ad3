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

#include <array>
#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <thread>
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
  // Of the rules that hold as far as the device can tell, those that do not by their rest: bit i for
  // hold.rules[i]. packet: whole, one byte behind the other, from its Ethernet header on. Bounded in time and
  // memory.
  virtual u32 refused(const AlertRules::Pipeline& pipeline, const xg_alerts& hold,
                      const xg_metadata& metadata, std::span<const u8> packet) noexcept = 0;
};

// Of whoever retires, but for what says otherwise. No allocation after construction.
class DeferredPackets {
 public:
  static constexpr u32 kPackets = 512;        // that may wait
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
      if (!entry.is_ready) ask(in_order_[admitted_]);
    }
    ring_if_asked();
    return frames;
  }

  // ---- and back

  // Those that may go on now, as a batch that is decided, their flows' order kept, at most kReleasedAtOnce;
  // no packets: none. It is there until the next call. frames: how many they have.
  template <class Place>
  Batch& release(OrderLog& order, u32& frames, Place&& place) noexcept {
    frames = collect();
    for (u32 i = 0; i < released_; ++i) order.completed(place(frame_of(first_offsets_[i])));
    return batch_;
  }
  // When nobody runs any more: what waits is given up; give_up(frame) takes each frame.
  template <class GiveUp>
  void abandon(GiveUp&& give_up) noexcept {
    for (const u16 number : in_order_) {
      const Entry& entry = entries_[number];
      for (u32 i = 0; i < entry.fragments_count; ++i) give_up(frame_of(entry.fragments[i].offset));
      const u32 own = entry.fragments_count ? 1 : entry.descriptors_count;
      for (u32 i = 0; i < own; ++i) give_up(frame_of(entry.descriptors[i].offset));
    }
    in_order_.clear();
    admitted_ = frames_ = 0;
  }

  // Any thread: RuleFinisher::limited() of these.
  u64 limited() const noexcept { return limited_.load(std::memory_order_relaxed); }

 private:
  struct Entry {
    AlertRules::Pipeline pipeline;  // of those that are asked about
    xg_alerts hold{};
    Decision decision;
    u32 flow_hash = 0;
    u32 frames = 0;
    u8 descriptors_count = 0, fragments_count = 0;
    u8 port = 0;
    bool audit = false;
    bool has_rules = false;  // `pipeline` and `hold` are known
    bool is_ready = false;   // the thread has answered, or was not asked
    u32 refused = 0;         // RuleAsker's word
    u32 limit = 0;           // limit_behind() it
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
  // Fills batch_; returns how many frames its packets have.
  u32 collect() noexcept;
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
  bool more_ = false;  // may go on, and did not fit into the batch
  std::atomic<u64> limited_{0};

  // Of those that go on.
  Batch batch_;
  gpu::Slot slot_;
  std::vector<xg_descriptor> descriptors_;
  std::vector<xg_result> results_;
  std::vector<xg_edit> edits_;
  std::vector<xg_adjust> adjusts_;
  std::vector<xg_alerts> alerts_;
  std::array<u64, kReleasedAtOnce> first_offsets_{};
  u32 released_ = 0;

  Numbers asked_, done_;
  gpu::Doorbell bell_;
  std::vector<u8> bytes_;  // the thread's: a packet of several buffers
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace xdpgpu::dataplane
