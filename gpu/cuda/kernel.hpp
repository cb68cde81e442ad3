// SPDX-License-Identifier: MIT
//
// gpu/cuda/kernel.hpp: the kernels that decide one batch, as the host side calls them.
#pragma once

#include <cuda_runtime_api.h>

#include "gpu/cuda/publish.hpp"
#include "gpu/cuda/scratch.hpp"
#include "gpu/stages/view.h"

namespace xdpgpu::gpu::cuda {

class Kernels;

// How a batch says that it is finished.
struct Completion {
  u32* blocks = nullptr;    // device memory, 0 between batches: blocks that are through
  u64* finished = nullptr;  // pinned host memory: the last one stores `ticket` here, after all results
  u64 ticket = 0;
  u32 per_warp = 0;  // packets; launch() says how many
};

// What a batch's pipelines have.
enum class Tables {
  none,
  some,
  crowded,  // some, and XG_IMAGE_CROWDED_AT names rounds
};

// What a batch's pipelines ask of those who launch it.
struct Needs {
  Tables tables = Tables::none;
  bool inspects = false;  // Pipelines::inspects()
};

// Where flow verdicts go.
struct Flows {
  const PortTable* ports = nullptr;  // device memory, XG_MAX_PORTS of them; nullptr: nowhere
  u32 receive_queue = 0;
};

// Packets of a batch whose second part is one block's: a team's kernel costs more than that of so few.
inline constexpr u32 kAlonePackets = 2 * kTablesBlock;

// Enqueues the batch on `stream`; batches that share a Completion::blocks or a Scratch share the stream. The
// results' array is 16-aligned. The addresses of its tables stand behind the image.
// Where the kernels overlap, its packets may be fetched while the batch before is still at work (CUDA's
// programmatic dependent launch); it is decided after that one all the same. Any error is the device's end.
cudaError_t launch(const Kernels& kernels, const xg_batch& batch, const Flows& flows, const Needs& needs,
                   const Scratch& scratch, const Completion& completion, cudaStream_t stream) noexcept;

}  // namespace xdpgpu::gpu::cuda
