// SPDX-License-Identifier: MIT
//
// gpu/abilities.hpp: what not every device can be asked for, and the sentence that says so. One place for
// those who have a device and for those who have only the name of one.
#pragma once

#include <optional>
#include <string_view>

#include "gpu/gpu.hpp"

namespace xdpgpu::gpu {

struct Abilities {
  bool persistent = false;      // Drive::persistent
  bool graph = false;           // Drive::graph
  bool mirrors = false;         // Device::open_mirror
  bool mirrors_tables = false;  // and pipelines there whose stages remember packets
};

Abilities abilities_of(const DeviceInfo& device);
// At best, of a device that is named so or of a kind ("cpu", "cuda", "vulkan:0"); nothing for "auto".
std::optional<Abilities> abilities_at_best(std::string_view name);

// Whether a device of this name can be driven so; the error says what to set instead.
Result<void> check_drive(std::string_view name, const Abilities& abilities, Drive drive);
// Whether it can be shown mirrored packets. to_tables: for pipelines whose stages remember packets.
Result<void> check_mirrored(std::string_view name, const Abilities& abilities, bool to_tables);

}  // namespace xdpgpu::gpu
