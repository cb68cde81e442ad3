// SPDX-License-Identifier: MIT
//
// userspace/dataplane/retirer.hpp: the half of a worker behind the device: it takes batches that are decided,
// routes their packets, sends, collects what was sent, and says which packets have left.
#pragma once

#include <vector>

#include "userspace/dataplane/batcher.hpp"
#include "userspace/dataplane/event_log.hpp"
#include "userspace/dataplane/fragments.hpp"
#include "userspace/dataplane/frame_ring.hpp"
#include "userspace/dataplane/idle.hpp"
#include "userspace/dataplane/order.hpp"
#include "userspace/dataplane/router.hpp"
#include "userspace/dataplane/worker_state.hpp"

namespace xdpgpu::dataplane {

// Of the thread that retires, unless it says otherwise. It alone touches the transmitters, the flow verdict
// tables, and of counters and metrics what becomes of packets. No allocation after construction.
class Retirer {
 public:
  // queues[port]: nullptr where there is none. free: where frames go whose packets are through, this
  // thread's own. ring: to the thread that feeds; nullptr where that is this one. unparsed: to there, too, be
  // it this one; outlives it. logs, own: of the fragments that are followed, and this worker's place among
  // them; outlive it.
  Retirer(u8* region, const std::vector<PortQueue*>& queues, FreeList& free, FrameRing* ring,
          UnparsedRing& unparsed, const FragmentLogs& logs, u32 own);

  // Before the first turn.
  void use(Batcher& batcher, bool device_publishes) noexcept;

  // Before the first turn: where packets are told of; outlives it. Without it none are.
  void tell(EventLog& events) noexcept { events_ = &events; }
  // Likewise: where packets wait about which a thread is asked; outlives it. Without it none is.
  void defer_to(DeferredPackets& deferred) noexcept { deferred_ = &deferred; }

  // Before the first turn: Router's.
  void hand_over_to(HandOver& to) { router_.hand_over_to(to); }
  void take_from(HandOver& from) { router_.take_from(from); }

  // Takes back frames that were sent, and sends what other workers have for this one's ports; whether there
  // were any.
  bool collect() noexcept {
    const bool back = router_.collect() != 0;
    return router_.serve_others() || back;
  }
  bool others_wait() const noexcept { return router_.others_wait(); }
  // Routes all batches that are decided; whether there were any.
  bool retire(u64 now_ns) noexcept;
  // Asks the kernel to send.
  void kick() noexcept { router_.kick(); }
  // When no worker runs any more: Router's.
  void abandon() noexcept;
  void take_back() noexcept { router_.take_back(); }
  // Says of packets that have left that they have.
  void settle(u64 now_ns) noexcept;

  // What there is to wait for.
  Load load() noexcept;
  Retired state(u64 now_ns) const noexcept;
  // Frames that are to be given back.
  u32 freed() const noexcept { return ring_ ? free_.size() : 0; }
  // Gives them back, but for `keep`. After state() was published, so that none is taken before it is counted.
  void give_back(u32 keep = 0) noexcept { ring_->give(free_, keep); }
  // Into the metrics: the transmitters' rings, and the frames behind the receive ring.
  void publish_levels() noexcept;

 private:
  // The next batch that is decided and waits for nothing; nullptr: there is none.
  Batch* next(u64 now_ns, u64& done_ns) noexcept;

  const u8* region_;
  // Routes those that waited; whether there were any.
  bool release(u64 now_ns) noexcept;

  EventLog* events_ = nullptr;
  DeferredPackets* deferred_ = nullptr;
  FreeList& free_;
  FrameRing* ring_;
  UnparsedRing& unparsed_;
  std::vector<PortQueue*> queues_;          // by port
  std::vector<xg_queue_metrics*> metrics_;  // by port, nullptr where there is no queue
  OrderLog order_;
  Router router_;
  FragmentFates fragments_;
  Batcher* batcher_ = nullptr;
  Batch* held_ = nullptr;  // decided, and waits for what a first fragment comes to elsewhere
  u64 batches_ = 0, packets_ = 0, frames_ = 0;
  u64 answered_ns_ = 0;  // when batches came back last
  bool device_failed_ = false;
  bool moving_ = false;  // packets under way are of flows that the kernel takes over once they have left
};

}  // namespace xdpgpu::dataplane
