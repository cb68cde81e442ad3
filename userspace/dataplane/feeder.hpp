// SPDX-License-Identifier: MIT
//
// userspace/dataplane/feeder.hpp: the half of a worker in front of the device: it gives the kernel frames,
// receives packets into batches, grants credits, and reports for the whole worker.
#pragma once

#include <array>
#include <atomic>
#include <optional>
#include <vector>

#include "userspace/dataplane/batcher.hpp"
#include "userspace/dataplane/egress_feed.hpp"
#include "userspace/dataplane/frame_ring.hpp"
#include "userspace/dataplane/port_queue.hpp"
#include "userspace/dataplane/reassembler.hpp"
#include "userspace/dataplane/unparsed_ring.hpp"
#include "userspace/dataplane/worker_state.hpp"

namespace xdpgpu::dataplane {

// Of the thread that feeds, unless it says otherwise. It alone touches the receivers, the credits and the
// free list. No allocation after construction.
class Feeder {
 public:
  // queues: those that exist. ring: from the thread that retires; nullptr where that is this one. unparsed:
  // from there, too, be it this one. egress: what the host sends; used by this thread alone.
  Feeder(const WorkerOptions& options, u8* region, std::vector<PortQueue*> queues, FreeList& free,
         FrameRing* ring, UnparsedRing& unparsed, const std::atomic<const CurrentPolicy*>& policy,
         EgressFeed& egress);

  // Before the first turn.
  void use(Batcher& batcher) noexcept {
    batcher_ = &batcher;
    egress_.use(batcher);
  }
  // Gives the kernel frames for each queue, as many as it takes.
  void refill() noexcept;
  // Receives from each queue and refills it; whether packets came.
  bool receive(u64 now_ns) noexcept;
  // Runs the driver where it wants to be asked.
  void kick() noexcept;
  // Credits that have come together, between two calls of publish.
  void publish_credits() noexcept;
  // From its next turn on it says that no worker lives, for good. Any thread.
  void fall_silent() noexcept { silent_.store(true, std::memory_order_relaxed); }
  // Drops what waits for the rest of its datagram: nothing comes any more.
  void abandon() noexcept;
  // Losses, credits, heartbeat. rings_empty: the last receive() found nothing.
  void publish(u64 now_ns, bool rings_empty, const Retired& retired) noexcept;
  // Into the metrics: the receivers' rings, the credits, the free frames.
  void publish_levels(u64 now_ns) noexcept;

  // Whether every packet that was received has left, by what `retired` says. A fragment that waits for others
  // has: no flow's verdict speaks for it.
  bool empty_handed(bool rings_empty, const Retired& retired) const noexcept {
    return rings_empty && retired.frames == batcher_->taken() && retired.unparsed == unparsed_.taken() &&
           !retired.under_way;
  }
  FrameCount count(const Retired& retired) const noexcept;
  WorkerReport report(const Retired& retired) const noexcept;

 private:
  void refill(PortQueue& queue) noexcept;
  bool receive(PortQueue& queue, u64 now_ns) noexcept;
  struct Run;
  u32 take_run(PortQueue& queue, u32 at, u32 count, u64 now_ns) noexcept;
  u32 take_by_ends(PortQueue& queue, const Run& in_ring, u32 count, u64 now_ns) noexcept;
  u32 take_each(PortQueue& queue, const Run& in_ring, u32 done, u32 count, u64 now_ns) noexcept;
  bool take(PortQueue& queue, u32 at, u32 buffers, u64 now_ns) noexcept;
  void note_tracked(Batch& batch) noexcept;
  void notice_policy() noexcept;
  std::optional<Overlapping> reassembles(u32 generation) const noexcept;
  bool may_wait(const xg_metadata& metadata) const noexcept {
    return reassembling_ && metadata.flags & XG_PKT_TRACKED;
  }
  enum class Waits { no, yes, not_now };
  Waits wait_for_others(PortQueue& queue, Buffers packet, u64 now_ns) noexcept;
  bool pass_on_assembled(u64 now_ns) noexcept;
  void drop_unassembled() noexcept;
  PortQueue& queue_of(u32 port) noexcept;
  bool take_several(PortQueue& queue, u32 at, u32 buffers, u64 now_ns) noexcept;
  u32 drop_oversized(PortQueue& queue, u32 at, u32 left) noexcept;
  bool parse_refused(u64 now_ns) noexcept;
  bool valid(const xdp_desc& buffer, u32 least_start) const noexcept;
  void discard(PortQueue& queue, u32 at, u32 buffers, bool last) noexcept;
  void forget_metadata(PortQueue& queue) noexcept;
  void cover() noexcept;
  void fill_metadata(PortQueue& queue, u8* frame, u32 readable, u32 length, u64 now_ns) noexcept;
  void account(u64 now_ns, bool empty_handed) noexcept;

  const WorkerOptions& options_;
  u8* region_;
  std::vector<PortQueue*> queues_;
  FreeList& free_;
  FrameRing* ring_;
  UnparsedRing& unparsed_;
  const std::atomic<const CurrentPolicy*>& policy_;
  EgressFeed& egress_;
  Batcher* batcher_ = nullptr;
  Reassembler reassembler_;
  // Of the last policies in force, the newest first; a packet under an older one may still come.
  struct Reassembling {
    u32 generation = 0;
    std::optional<Overlapping> how;
  };
  std::array<Reassembling, 4> known_{};
  bool reassembling_ = false;  // one of them does
  std::atomic<bool> silent_{false};
  u64 statistics_ns_ = 0, beat_ns_ = 0;
  u64 turns_ = 0;
  bool quiet_ = false;
};

}  // namespace xdpgpu::dataplane
