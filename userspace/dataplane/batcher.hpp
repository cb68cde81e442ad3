// SPDX-License-Identifier: MIT
//
// userspace/dataplane/batcher.hpp: a worker's packets, gathered into batches for the device. A batch
// holds packets of one policy generation, in the order of arrival; batches come back in the order they
// were submitted.
#pragma once

#include <array>
#include <vector>

#include "gpu/gpu.hpp"
#include "userspace/dataplane/frame_region.hpp"

namespace xdpgpu::dataplane {

enum class Outcome { decided, device_failed, unknown_generation };

// One batch and what the worker remembers of it beside the device's slot.
struct Batch {
  gpu::Slot* slot = nullptr;
  u32 generation = 0;
  u32 count = 0;
  u64 opened_ns = 0;
  u64 submitted_ns = 0;
  Outcome outcome = Outcome::decided;
  std::vector<u8> ports;         // of each packet
  std::vector<u64> rx_times_ns;  // of each packet
  u32 port_mask = 0;
  std::array<u32, XG_MAX_PORTS> next_sequence{};  // where port_mask has the port: one past its last

  bool full() const noexcept { return count == slot->capacity; }
  void add(u64 offset, u32 length, u8 port, const xg_metadata& metadata) noexcept {
    slot->descriptors[count] = {offset, length, 0};
    ports[count] = port;
    rx_times_ns[count++] = metadata.rx_time_ns;
    port_mask |= 1u << port;
    next_sequence[port] = metadata.sequence + 1;
  }
};

// Single-threaded. No allocation after construction; virtual calls a batch, none a packet.
class Batcher {
 public:
  // `queue` is the worker's own, opened with these capacity and depth; outlives the batcher.
  Batcher(gpu::Queue& queue, u32 capacity, u32 depth, u64 max_wait_ns);

  // The batch to which a packet of `generation` is to be added, or nullptr while the device has no slot
  // free: the packet then waits in the RX ring. A batch of another generation, or a full one, is
  // submitted first.
  Batch* open(u32 generation, u64 now_ns) noexcept {
    if (current_ && current_->generation == generation && !current_->full()) return current_;
    return open_next(generation, now_ns);
  }

  // Submits the open batch if it is time: it is full, or it has waited long enough, or the device has
  // nothing to do and no packet is waiting to join (`rings_empty`).
  void submit_if_due(u64 now_ns, bool rings_empty) noexcept;

  // The oldest batch that is over, or nullptr. Its outcome says whether the results are valid. To be
  // given back by release().
  Batch* poll() noexcept;
  void release(Batch* batch) noexcept;

  // Packets in the open batch and in submitted ones.
  u64 held() const noexcept { return held_submitted_ + (current_ ? current_->count : 0); }
  bool waiting() const noexcept { return submitted_ != 0; }
  // When the oldest submitted batch was opened; only while waiting().
  u64 oldest_ns() const noexcept { return order_[oldest_]->opened_ns; }
  bool open_batch() const noexcept { return current_ != nullptr; }

 private:
  Batch* open_next(u32 generation, u64 now_ns) noexcept;
  void submit() noexcept;

  gpu::Queue& queue_;
  u64 max_wait_ns_;
  std::vector<Batch> batches_;  // by slot index
  Batch* current_ = nullptr;
  std::vector<Batch*> order_;  // ring of those submitted and not polled yet, refused ones included
  u32 oldest_ = 0, submitted_ = 0;
  u64 held_submitted_ = 0;
};

}  // namespace xdpgpu::dataplane
