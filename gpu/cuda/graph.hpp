// SPDX-License-Identifier: MIT
//
// gpu/cuda/graph.hpp: a worker's queue of posts: kernels that stand in the stream ahead of their batches,
// each behind a wait for a number in pinned memory. A batch is handed over by counting that number up; the
// next posts are enqueued when batches are released, off the way there and back.
//
// A stream that waits holds up whoever waits for the whole GPU, and may hold up its neighbours on the
// hardware's channels. So posts are withdrawn when nothing was submitted for kIdle, by a thread of the
// queue's own: they are let run, and do nothing. The first batch after that enqueues its own post.
#pragma once

#include <thread>

#include "gpu/cuda/posted.hpp"
#include "gpu/cuda/queue.hpp"
#include "gpu/doorbell.hpp"

namespace xdpgpu::gpu::cuda {

class GraphQueue final : public Queue {
 public:
  static Result<std::unique_ptr<Queue>> create(Shared& shared, const QueueOptions& options);
  ~GraphQueue() override;

  Slot* acquire() noexcept override { return ring_.acquire(); }
  Submit submit(Slot* slot, u32 count, u32 generation) noexcept override;
  Slot* poll() noexcept override;
  void release(Slot* slot) noexcept override;
  u32 in_flight() const noexcept override { return ring_.in_flight(); }

 private:
  GraphQueue(Shared& shared, const QueueOptions& options);
  Result<void> allocate(const QueueOptions& options);
  Result<void> try_wait();
  void prepare();
  bool post_up_to(u64 number) noexcept;
  bool try_post() noexcept;
  void end_posting() noexcept;
  void withdraw() noexcept;
  void watch() noexcept;
  bool all_ran() const noexcept;
  bool healthy() noexcept;
  u64 finished() const noexcept;
  u64 ran() const noexcept;
  void ring(u64 post) noexcept;
  Order& order(u64 post) const noexcept;

  Shared& shared_;
  SlotRing ring_;
  Stream stream_;
  DeviceMemory blocks_;
  Pinned mailbox_;  // a line each: bell, withdrawn, finished, ran; then the orders
  Pinned descriptors_, results_;
  Pinned staging_;  // staged only, per slot: the frames; the kernel reads them where they are
  std::vector<xg_descriptor> unstaged_;  // staged only: what the worker writes
  u64 staging_bytes_ = 0;                // of one slot
  u32 depth_, capacity_, places_;
  u32 receive_queue_;
  u32 grid_;
  Posted posted_{};                   // as the next one is posted
  std::atomic<u64> rung_{0};          // posts that may run
  std::atomic<u64> last_{0};          // post that is enqueued
  std::atomic<bool> posting_{false};  // by one of the threads
  // The one waits for the other to be over, which gives up for the one.
  alignas(64) std::atomic<bool> submitting_{false};
  std::atomic<bool> withdrawing_{false};
  u32 idle_polls_ = 0;
  Doorbell watched_;
  std::atomic<bool> stopping_{false};
  std::thread watcher_;
};

}  // namespace xdpgpu::gpu::cuda
