// SPDX-License-Identifier: MIT
//
// gpu/cuda/launch.cpp: how the kernels are started.
#include <algorithm>

#include "gpu/cuda/kernel.hpp"
#include "gpu/cuda/kernels.hpp"
#include "gpu/cuda/lines.cuh"
#include "gpu/cuda/posted.hpp"
#include "gpu/cuda/resident.hpp"
#include "gpu/cuda/watch.hpp"

namespace xdpgpu::gpu::cuda {
namespace {

constexpr u32 kBlock = kTablesBlock;

// overlaps: it may begin before what the stream holds before it ends. shared: bytes, besides what is in the
// code.
cudaError_t launch_kernel(const void* kernel, u32 blocks, u32 threads, u32 shared, bool overlaps,
                          void** arguments, cudaStream_t stream) noexcept {
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared;
  config.stream = stream;
  config.attrs = &overlap;
  config.numAttrs = overlaps ? 1 : 0;
  return cudaLaunchKernelExC(&config, kernel, arguments);
}

}  // namespace

cudaError_t launch(const Kernels& kernels, const xg_batch& batch, const Flows& flows, const Needs& needs,
                   const Scratch& scratch, const Completion& completion, cudaStream_t stream) noexcept {
  xg_batch batch_argument = batch;
  Flows flows_argument = flows;
  Scratch scratch_argument = scratch;
  Completion completion_argument = completion;
  const Tables tables = needs.tables;
  const bool in_team = tables != Tables::none && batch.count > kAlonePackets;
  void* arguments[] = {&batch_argument, &flows_argument, &scratch_argument, &completion_argument};
  // The first part of a batch with tables inspects nothing.
  const bool inspects = needs.inspects && tables == Tables::none;
  const u32 per_warp =
      inspects ? packets_per_warp(batch.count, kInspectingTurns * kInspectingWarps) : kPacketsPerWarp;
  completion_argument.per_warp = per_warp;
  const u32 threads = inspects ? kWarpLanes : kBlock;
  const u32 per_block = per_warp * (threads / kWarpLanes);
  const u32 blocks = (batch.count + per_block - 1) / per_block;
  const u32 shared = tables == Tables::none ? u32(sizeof(Lines)) * (threads / kWarpLanes) : 0;
  Kernel first = Kernel::decide;
  if (tables != Tables::none) first = in_team ? Kernel::decide_team : Kernel::decide_alone;
  const cudaError_t error =
      launch_kernel(kernels[first], blocks, threads, shared, kernels.overlaps(), arguments, stream);
  if (error != cudaSuccess || !in_team) return error;
  return launch_kernel(kernels[tables == Tables::crowded ? Kernel::finish_crowded : Kernel::finish],
                       std::min(blocks, kTeamBlocks), kBlock, 0, false, arguments, stream);
}

cudaError_t launch_posted(const Kernels& kernels, const Posted& posted, u32 blocks,
                          cudaStream_t stream) noexcept {
  Posted argument = posted;
  void* arguments[] = {&argument};
  return cudaLaunchKernel(kernels[Kernel::posted], dim3(blocks), dim3(kPostedBlock), arguments, 0, stream);
}

cudaError_t launch_resident(const Kernels& kernels, const Resident& resident, u32 blocks,
                            cudaStream_t stream) noexcept {
  if (const cudaError_t error = cudaMemsetAsync(resident.command, 0, sizeof(Command), stream);
      error != cudaSuccess)
    return error;
  Resident argument = resident;
  argument.code = kernels.number();
  void* arguments[] = {&argument};
  return cudaLaunchKernel(kernels[Kernel::resident], dim3(blocks), dim3(kResidentBlock), arguments, 0,
                          stream);
}

cudaError_t most_watched_rings(const Kernels& kernels, int ordinal, u32& rings) noexcept {
  int processors = 0, blocks = 0;
  cudaError_t error = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, ordinal);
  if (error == cudaSuccess)
    error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernels[Kernel::watch], kWatchThreads, 0);
  // Half the GPU is for the packets that are inspected.
  rings = error == cudaSuccess ? static_cast<u32>(processors * blocks) * kWatchWarps / 2 : 0;
  return error;
}

cudaError_t launch_watch(const Kernels& kernels, const Watch& watch, cudaStream_t stream) noexcept {
  const u32 blocks = (watch.ring_count + kWatchWarps - 1) / kWatchWarps;
  if (const cudaError_t error = cudaMemsetAsync(watch.end, 0, sizeof(u32), stream); error != cudaSuccess)
    return error;
  Watch argument = watch;
  void* arguments[] = {&argument};
  return cudaLaunchKernel(kernels[Kernel::watch], dim3(blocks), dim3(kWatchThreads), arguments, 0, stream);
}

}  // namespace xdpgpu::gpu::cuda
