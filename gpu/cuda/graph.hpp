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
#include "gpu/cuda/slot_memory.hpp"
#include "gpu/doorbell.hpp"

namespace xdpgpu::gpu::cuda {

class GraphQueue final : public Queue, private Stays {
 public:
  static Result<std::unique_ptr<Queue>> create(Shared& shared, const QueueOptions& options);
  ~GraphQueue() override;

  Slot* acquire() noexcept override { return ring_.acquire(); }
  Submit submit(Slot* slot, u32 count, u32 generation) noexcept override;
  Slot* poll() noexcept override { return progress_.poll(ring_, finished()); }
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
  void post_others(const std::shared_ptr<const Kernels>& kernels) noexcept;
  bool send_away() noexcept override;
  void watch() noexcept;
  bool all_ran() const noexcept;
  // Lines of the mailbox.
  static constexpr u64 kLine = 128;
  static constexpr u64 kBellAt = 0, kWithdrawnAt = kLine, kFinishedAt = 2 * kLine, kRanAt = 3 * kLine,
                       kOrdersAt = 4 * kLine;
  u64 finished() const noexcept { return Progress::load(mailbox_, kFinishedAt); }
  u64 ran() const noexcept { return Progress::load(mailbox_, kRanAt); }
  void ring(u64 post) noexcept;
  Order& order(u64 post) const noexcept;

  Shared& shared_;
  SlotRing ring_;
  Stream stream_;
  DeviceMemory blocks_;
  Pinned mailbox_;  // a line each: bell, withdrawn, finished, ran; then the orders
  SlotMemory slots_;
  Progress progress_{shared_, stream_};
  u32 depth_, places_;
  u32 receive_queue_;
  u32 grid_;
  Posted posted_{};  // as the next one is posted
  // With which; changed by the feeding thread, while nothing is posted.
  std::shared_ptr<const Kernels> kernels_;
  std::atomic<u64> rung_{0};          // posts that may run
  std::atomic<u64> last_{0};          // post that is enqueued
  std::atomic<bool> posting_{false};  // by one of the threads
  // The one waits for the other to be over, which gives up for the one.
  alignas(64) std::atomic<bool> submitting_{false};
  std::atomic<bool> withdrawing_{false};
  std::atomic<bool> handing_over_{false};  // Pauses::begin
  Doorbell watched_;
  std::atomic<bool> stopping_{false};
  std::thread watcher_;
};

}  // namespace xdpgpu::gpu::cuda
