// SPDX-License-Identifier: MIT
//
// userspace/dataplane/worker.hpp: worker i: owns queue i of every port, its reinjection pairs' queues, a
// share of the frames and a queue to the device. One thread does it all, or two share it: one feeds the
// device (feeder.hpp), one retires what it has decided (retirer.hpp).
//
// A turn of the one: completions → retire what the device has decided → refill → receive into batches →
// submit → retire → transmit → every few microseconds, publish (credits, order, heartbeat, report). Of the
// two, the one has the middle of this and the other its ends; frames that are free again come back by a ring.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "gpu/gpu.hpp"
#include "userspace/dataplane/batcher.hpp"
#include "userspace/dataplane/feeder.hpp"
#include "userspace/dataplane/frame_ring.hpp"
#include "userspace/dataplane/idle.hpp"
#include "userspace/dataplane/retirer.hpp"
#include "userspace/dataplane/snapshot.hpp"
#include "userspace/dataplane/worker_state.hpp"

namespace xdpgpu::dataplane {

class Worker {
 public:
  // queues[port]: nullptr where the port has no queue of this index. The frames [first, first + count)
  // of the region are this worker's.
  // egress: what the host sends out of each port; outlives the worker, as `fragments` does, one log a worker.
  Worker(const WorkerOptions& options, u8* region, std::vector<std::unique_ptr<PortQueue>> queues,
         const FrameShare& frames, const std::atomic<const CurrentPolicy*>& policy,
         std::vector<EgressLogs> egress, const FragmentLogs& fragments);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Before start, from the control thread. publishes: the device writes flow verdicts itself. most: what the
  // queue's slots take, where that is more than a batch (Batcher).
  void use(std::unique_ptr<gpu::Queue> queue, bool publishes, u32 most = 0);
  // Likewise: see Router.
  void hand_over_to(HandOver& to) { retirer_.hand_over_to(to); }
  void take_from(HandOver& from) { retirer_.take_from(from); }
  // Likewise: see Retirer.
  void tell(EventLog& events) noexcept { retirer_.tell(events); }
  // Likewise, with tell(): what rules ask for that no device decides is asked by a thread of the worker's
  // own.
  void ask(const u8* region, AlertRules& rules, RuleFinisher& finisher, std::unique_ptr<RuleAsker> asker);
  // From any thread: the sleep of the thread that retires ends.
  void wake() noexcept { options_.split ? bell_.ring() : idle_.wake(); }
  // Fills the fill rings, so that the kernel has frames before its first packet, and starts the threads.
  Result<void> start();
  // In place of start(), for one who drives the worker himself (bench/worker): the kernel gets its frames,
  // and then this is the worker's thread, turn by turn. Not where two threads share it.
  void begin(u64 now_ns);
  Load turn(u64 now_ns) noexcept;
  // It goes on with what it has, and the XDP program sends it no more: on_failure decides. For good.
  void fall_silent() noexcept { feeder_.fall_silent(); }
  // The threads end after their turn. Packets in hand stay where they are.
  void stop();
  // After stop() of all workers, abandon() of all, and then take_back(): what was to be sent and was not is
  // counted as lost.
  void abandon() noexcept { retirer_.abandon(); }
  void take_back() noexcept;
  // After these: closes the sockets, takes all frames back and counts them. total differs from free only
  // if a frame was lost or counted twice.
  FrameCount reclaim();

  // Of the thread that feeds, and of the one that retires if that is another; -1: not pinned.
  int cpu() const noexcept { return options_.cpu; }
  int retire_cpu() const noexcept { return options_.retire_cpu; }
  WorkerReport report() const noexcept { return report_.read(); }
  // From any thread, once there is a device.
  gpu::Choice choice() const noexcept { return device_queue_->choice(); }
  // The queue of a port, or nullptr. What is in it is the threads'; its maps may be read.
  const PortQueue* queue(u32 port) const noexcept { return queues_[port].get(); }

 private:
  void run() noexcept;
  Load attentive(Load load, u64 now_ns) const noexcept;
  void run_feeder() noexcept;
  Load feed(u64 now_ns) noexcept;
  void run_retirer() noexcept;
  Load retire(u64 now_ns) noexcept;
  void settle(u64 now_ns) noexcept;
  void publish_retired(u64 now_ns) noexcept;
  void publish(u64 now_ns, bool rings_empty, const Retired& retired) noexcept;

  WorkerOptions options_;
  std::vector<std::unique_ptr<PortQueue>> queues_;  // by port
  std::vector<PortQueue*> active_;                  // those that exist
  FreeList free_;
  std::optional<FreeList> freed_;       // split only: of the thread that retires
  std::unique_ptr<FrameRing> returns_;  // split only: from there to free_
  UnparsedRing unparsed_;               // from whoever retires to whoever feeds
  EgressFeed egress_;
  Feeder feeder_;
  std::optional<DeferredPackets> deferred_;
  Retirer retirer_;
  Idle idle_;
  gpu::Doorbell bell_;  // split only: wakes the thread that retires
  std::unique_ptr<gpu::Queue> device_queue_;
  std::optional<Batcher> batcher_;
  u64 published_ns_ = 0, levels_ns_ = 0;
  Snapshot<WorkerReport> report_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;

  // Of the thread that retires, split only.
  alignas(64) u64 settled_ns_ = 0;
  u64 retired_levels_ns_ = 0;
  Snapshot<Retired> retired_;
  std::thread retire_thread_;
};

}  // namespace xdpgpu::dataplane
