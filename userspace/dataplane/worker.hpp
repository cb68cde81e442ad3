// SPDX-License-Identifier: MIT
//
// userspace/dataplane/worker.hpp: worker i: the one thread that owns queue i of every port, its
// reinjection pairs' queues, a share of the frames and a queue to the device.
//
// A turn: completions → retire what the device has decided → refill → receive into batches → submit →
// transmit → every few microseconds, publish (credits, order, heartbeat, report).
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "gpu/gpu.hpp"
#include "userspace/dataplane/batcher.hpp"
#include "userspace/dataplane/engine.hpp"
#include "userspace/dataplane/idle.hpp"
#include "userspace/dataplane/order.hpp"
#include "userspace/dataplane/port_queue.hpp"
#include "userspace/dataplane/router.hpp"
#include "userspace/dataplane/snapshot.hpp"

namespace xdpgpu::dataplane {

// The policy that packets without metadata are taken to be under.
struct CurrentPolicy {
  u32 generation = 0;
  Engine::PipelineChooser chooser;
};

// What a worker tells the control thread, every few turns.
struct WorkerReport {
  FrameCount frames;
  u64 batches = 0, batch_packets = 0;
  u64 turns = 0;              // that were published
  u64 quiet = 0;              // 1: no packet in hand or under way
  u64 device_failed = 0;      // 1: the device failed; the worker has stopped its heartbeat
  u64 delivers_metadata = 0;  // bit a port
};

struct WorkerOptions {
  u32 index = 0;
  u32 batch = 1024;
  u32 batches_in_flight = 4;
  u64 max_wait_ns = 50'000;
  u64 beat_timeout_ns = 100'000'000;
  u32 credit_step = 128;  // credits are published at once when so many have come together
  int cpu = -1;           // to be pinned to; -1: not
};

class Worker {
 public:
  // queues[port]: nullptr where the port has no queue of this index. The frames [first, first + count)
  // of the region are this worker's.
  Worker(const WorkerOptions& options, u8* region, std::vector<std::unique_ptr<PortQueue>> queues,
         FrameId first_frame, u32 frames, const std::atomic<const CurrentPolicy*>& policy);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Before start, from the control thread. publishes: the device writes flow verdicts itself.
  void use(std::unique_ptr<gpu::Queue> queue, bool publishes);
  // Fills the fill rings, so that the kernel has frames before its first packet, and starts the thread.
  Result<void> start();
  // The thread ends after its turn. Packets in hand stay where they are.
  void stop();
  // After stop: closes the sockets, takes all frames back and counts them. total differs from free only
  // if a frame was lost or counted twice.
  FrameCount reclaim();

  int cpu() const noexcept { return options_.cpu; }
  WorkerReport report() const noexcept { return report_.read(); }
  // The queue of a port, or nullptr. What is in it is the thread's; its maps may be read.
  const PortQueue* queue(u32 port) const noexcept { return queues_[port].get(); }

 private:
  void run() noexcept;
  Load turn(u64 now_ns) noexcept;
  bool retire(u64 now_ns) noexcept;
  bool receive(PortQueue& queue, u64 now_ns) noexcept;
  bool take(PortQueue& queue, const xdp_desc& desc, u64 now_ns) noexcept;
  void fill_metadata(PortQueue& queue, u8* frame, u32 length, u64 now_ns) noexcept;
  void refill(PortQueue& queue) noexcept;
  void kick() noexcept;
  void account(u64 now_ns, bool rings_empty) noexcept;
  void publish(u64 now_ns) noexcept;
  void publish_levels(u64 now_ns) noexcept;
  FrameCount count() const noexcept;

  WorkerOptions options_;
  u8* region_;
  std::vector<std::unique_ptr<PortQueue>> queues_;  // by port
  std::vector<PortQueue*> active_;                  // those that exist
  std::vector<xg_queue_metrics*> metrics_;          // by port, nullptr where there is no queue
  FreeList free_;
  const std::atomic<const CurrentPolicy*>& policy_;
  OrderLog order_;
  Router router_;
  Idle idle_;
  std::unique_ptr<gpu::Queue> device_queue_;
  std::optional<Batcher> batcher_;
  u64 statistics_ns_ = 0, published_ns_ = 0, beat_ns_ = 0, levels_ns_ = 0;
  u64 turns_ = 0, batches_ = 0, batch_packets_ = 0;
  bool device_failed_ = false;
  bool quiet_ = false;
  bool moving_ = false;  // packets under way are of flows that the kernel takes over once they have left
  Snapshot<WorkerReport> report_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace xdpgpu::dataplane
