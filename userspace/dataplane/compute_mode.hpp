// SPDX-License-Identifier: MIT
//
// userspace/dataplane/compute_mode.hpp: the ways to drive the device, as the policy's compute.mode names
// them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/gpu.hpp"

namespace xdpgpu::dataplane {

//   automatic   as persistent or as inlined, whichever the load asks for (gpu::Drive::automatic), with
//               batches that close by load (Closing::by_load in batcher.hpp): a packet never waits while the
//               device has nothing to do, and batches grow with the time that the device takes for them.
//               In each of the others they close by compute.max_wait (Closing::patient).
//   inlined     one thread a queue feeds the device and retires what it has decided
//   split       one thread a queue feeds, another one retires
//   persistent  as inlined, by way of a kernel or thread that stays on the device (gpu::Drive::persistent)
//   graph       as inlined, with the device's work enqueued ahead of the batches (gpu::Drive::graph)
enum class ComputeMode { automatic, inlined, split, persistent, graph };

// As the policy and `status` have it: "auto", "inline", "split", "persistent", "graph".
std::string_view name_of(ComputeMode mode) noexcept;
// Nothing where there is no such mode.
std::optional<ComputeMode> compute_mode_of(std::string_view name) noexcept;

// What `mode` means now: itself, unless it is automatic, and its queue has made this choice. In every mode a
// worker that finds no packet for 20 us sleeps until the next one.
ComputeMode resolve(ComputeMode mode, const gpu::Choice& choice) noexcept;
// Why a queue has made this choice: what goes behind "because". remembering: the stages that have tables, as
// policies name them.
std::string why(const gpu::Choice& choice, const gpu::DeviceInfo& device,
                const std::vector<std::string_view>& remembering);

// How the device's queues are opened.
gpu::Drive drive_of(ComputeMode mode) noexcept;

}  // namespace xdpgpu::dataplane
