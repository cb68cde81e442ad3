// SPDX-License-Identifier: MIT
//
// gpu/cuda/slots_view.hpp: a queue's slots as a kernel knows them that finds out which one it has when it
// runs. Addresses of the device.
#pragma once

#include "gpu/cuda/kernel.hpp"
#include "gpu/stages/view.h"

namespace xdpgpu::gpu::cuda {

struct SlotsView {
  xg_words frames{};
  u64 frames_bytes = 0;          // of the region, or of one slot's staging buffer
  u64 frames_stride = 0;         // between the slots' staging buffers; 0: all read the region
  xg_descriptors descriptors{};  // of slot 0; the other slots' behind it
  xg_results results{};          // likewise
  u32 capacity = 0;              // packets in a slot
  Flows flows;
  Scratch scratch;
};

}  // namespace xdpgpu::gpu::cuda
