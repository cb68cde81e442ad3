// SPDX-License-Identifier: MIT
//
// gpu/cuda/mirror.hpp: a GPU's look at mirrored packets, by a kernel that stays (gpu/cuda/watch.hpp).
#pragma once

#include <span>

#include "gpu/cuda/queue.hpp"
#include "gpu/cuda/watch.hpp"

namespace xdpgpu::gpu::cuda {

// What the kernel works with: the rings as the GPU sees them, its mailbox, its stream. Kept by the device
// from the first mirror on: giving memory back to the driver waits until the GPU rests, which the queues'
// kernels that stay never let it while packets come. Control thread.
class MirrorMemory {
 public:
  // Where the device publishes into the tables that the mirrors' shards are part of, both use one directory.
  static Result<std::unique_ptr<MirrorMemory>> create(Shared& shared, const MirrorOptions& options);

  const MirrorOptions& options() const noexcept { return options_; }
  const Stream& stream() const noexcept { return stream_; }
  u32* beat() const noexcept { return reinterpret_cast<u32*>(mailbox_.host()); }
  std::span<const WatchCounts> counts() const noexcept;
  Watch watch(const Images& images) const noexcept;
  // While no kernel works: what stands in the rings is not looked at, and counts start from 0.
  void begin() noexcept;
  void abandon() noexcept;

  bool in_use = false;  // by a Mirror

 private:
  Result<void> allocate(Shared& shared);
  Result<Shards> shards_of(Shared& shared, const MirrorPort& port);

  MirrorOptions options_;
  Stream stream_;
  std::vector<Registration> registrations_;
  FlowWriter own_flows_;  // where the device does not publish otherwise
  Pinned mailbox_;        // the beat, then counts by ring
  DeviceMemory rings_memory_, end_;
  u32 rings_ = 0;
};

// options: checked. The GPU is the calling thread's current one; `shared` outlives the mirror.
//
// The kernel ends within 100 ms when the process is gone or stopped, and is started again when it goes on.
Result<std::unique_ptr<Mirror>> open_mirror(Shared& shared, const std::string& name,
                                            const MirrorOptions& options);

}  // namespace xdpgpu::gpu::cuda
