// SPDX-License-Identifier: MIT
//
// gpu/cuda/lines.cuh: shared memory in which a warp turns around what its lanes have each and the bus wants
// in one piece: the 128-byte lines in which packets' headers come, and what goes back to the host.
#pragma once

#include "gpu/stages/inspection.h"

namespace xdpgpu::gpu::cuda {

constexpr u32 kWarpLanes = 32;
constexpr u32 kLineBytes = 128;
constexpr u32 kLanesPerLine = kLineBytes / sizeof(uint4);
constexpr u32 kLinesPerLoad = kWarpLanes / kLanesPerLine;

// The padding spreads what the lanes touch at once over the banks.
struct alignas(16) Line {
  uint4 pieces[kLanesPerLine + 1];
};
// One for each lane of a warp, and what its lanes find of a packet that they inspect together.
struct Lines {
  Line of[kWarpLanes];
  u32 inspection[XG_INSPECTION_WORDS];
};

}  // namespace xdpgpu::gpu::cuda
