// SPDX-License-Identifier: MIT
//
// gpu/cpu/queue.hpp: a worker's queue to the CPU. Launched, a batch is decided in the thread that submits it;
// persistent, by a thread of the queue's own, which is handed the batch by a store and hands it back by
// another. That thread spins for a while after each batch, then sleeps until the next one.
#pragma once

#include "gpu/cpu/batch_gate.hpp"
#include "gpu/cpu/loaded.hpp"
#include "gpu/cpu/set_locks.hpp"
#include "gpu/generations.hpp"

namespace xdpgpu::gpu::cpu {

// What the queues of a device read; the device outlives them.
struct Shared {
  u8* base = nullptr;
  u64 bytes = 0;
  Frames frames = Frames::automatic;
  Generations<Loaded> generations;
  mutable SetLocks sets;   // of the generations' tables
  mutable BatchGate gate;  // of their changes
};

// The options were checked (check_queue_options). Throws where there is no memory or no thread to be had.
std::unique_ptr<Queue> open_queue(const Shared& device, const QueueOptions& options);

}  // namespace xdpgpu::gpu::cpu
