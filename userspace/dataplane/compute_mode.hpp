// SPDX-License-Identifier: MIT
//
// userspace/dataplane/compute_mode.hpp: the ways to drive the device, as the policy's compute.mode names
// them.
#pragma once

#include <optional>
#include <string_view>

#include "gpu/gpu.hpp"

namespace xdpgpu::dataplane {

//   automatic   as resolve() says, with batches that close by load (Closing::by_load in batcher.hpp): a
//               packet never waits while the device has nothing to do, and batches grow with the time that
//               the device takes for them. In each of the others they close by compute.max_wait
//               (Closing::patient).
//   inlined     one thread a queue feeds the device and retires what it has decided
//   split       one thread a queue feeds, another one retires
//   persistent  as inlined, by way of a kernel or thread that stays on the device (gpu::Drive::persistent)
enum class ComputeMode { automatic, inlined, split, persistent };

// As the policy and `status` have it: "auto", "inline", "split", "persistent".
std::string_view name_of(ComputeMode mode) noexcept;
// Nothing where there is no such mode.
std::optional<ComputeMode> compute_mode_of(std::string_view name) noexcept;

// What `mode` means on this device: itself, unless it is automatic. Then persistent where that costs no core
// of the host (CUDA: a round trip of some 5 us, against some 10 us of a launch; the kernel that stays takes
// at most 8 blocks of the GPU while there is traffic, and is gone 100 ms after), else inlined. In every mode
// a worker that finds no packet for 20 us sleeps until the next one.
ComputeMode resolve(ComputeMode mode, const gpu::DeviceInfo& device) noexcept;

// How the device's queues are opened for a mode that was resolved.
gpu::Drive drive_of(ComputeMode mode) noexcept;

}  // namespace xdpgpu::dataplane
