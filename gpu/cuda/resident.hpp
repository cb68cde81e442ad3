// SPDX-License-Identifier: MIT
//
// gpu/cuda/resident.hpp: a kernel that stays on the GPU and takes its batches from a ring in pinned memory,
// as the host side calls it. No driver call a batch: the way there and back is two crossings of the bus.
#pragma once

#include <cuda_runtime_api.h>

#include "gpu/cuda/slots_view.hpp"

namespace xdpgpu::gpu::cuda {

// One batch. The host stores each half, and the kernel loads it, in one piece of 16 bytes; a half is
// there once it has the awaited ticket.
struct alignas(32) Job {
  u64 image;  // device address of the generation's image
  u32 count;
  u32 ticket;
  u32 generation;
  u32 slot;
  u32 code;  // number of the kernels that are to decide it (gpu/cuda/kernels.hpp)
  u32 ticket_again;
};
static_assert(sizeof(Job) == 32);

// What the leading block tells the others; device memory.
struct Command {
  u64 ticket;   // of the batch to work on; kResidentEnd: leave
  Job job;      // it
  u32 through;  // blocks other than the leader that are done with it
};

// Values of Resident::beat: it counts up, except for this one, which asks the kernel to end at once.
inline constexpr u32 kResidentStop = ~0u;
inline constexpr u64 kResidentEnd = ~u64{0};

struct Resident {
  const Job* jobs = nullptr;  // pinned: ticket t stands at t % depth
  u32 depth = 0;
  SlotsView slots;
  const u32* beat = nullptr;   // pinned: the host counts up while it has use for the kernel
  u64* finished = nullptr;     // pinned: ticket of the last batch that is through
  u32* ended = nullptr;        // pinned: `launch` is stored here as the kernel's last act
  Command* command = nullptr;  // zeroed
  u64 first = 1;               // first ticket to take
  u64 lease_ns = 0;            // without a beat for so long the kernel ends
  u32 launch = 0;
  u32 code = 0;  // number of these kernels: it ends before a job of others
};

// Starts `blocks` blocks that stay. A kernel of the same Command must have ended.
cudaError_t launch_resident(const Kernels& kernels, const Resident& resident, u32 blocks,
                            cudaStream_t stream) noexcept;

// Packets that a block takes at a time.
inline constexpr u32 kResidentBlock = 128;

}  // namespace xdpgpu::gpu::cuda
