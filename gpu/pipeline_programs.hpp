// SPDX-License-Identifier: MIT
//
// gpu/pipeline_programs.hpp: where the programs of pipelines stand in their image.
#pragma once

#include <vector>

#include "gpu/pipelines.hpp"

namespace xdpgpu::gpu {

// A program that changes its maps.
struct ProgramTable {
  u32 table = 0;      // its number among the pipelines' tables (Pipelines::states())
  u32 counts_at = 0;  // the image's word that says how it counts (XG_PROGRAM_BODY_COUNTS)
  bool counts = false;
};
std::vector<ProgramTable> program_tables(const Pipelines& pipelines);

}  // namespace xdpgpu::gpu
