// SPDX-License-Identifier: MIT
//
// gpu/program_tables.hpp: where the maps of the programs of pipelines are, for the host to read and change
// (gpu/program_state.hpp).
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "gpu/pipelines.hpp"

namespace xdpgpu::gpu {

// The maps of a stage that runs a program.
struct ProgramMapsPlace {
  u32 pipeline = 0, stage = 0;  // from 0
  // The number of its table among Pipelines::states(): Device::read_state() and edit_state() have its maps.
  // None: it changes no map, and they stand in the image.
  std::optional<u32> table{};
  // Words of the table, or of the image: the state that programs::DeviceState wants.
  u64 first = 0, words = 0;
  // What it wants of the image, as long as the pipelines are there.
  std::span<const u32> tables{};
};
// Of all such stages, by pipeline and stage.
std::vector<ProgramMapsPlace> program_maps_places(const Pipelines& pipelines);

}  // namespace xdpgpu::gpu
