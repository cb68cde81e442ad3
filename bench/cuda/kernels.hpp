// SPDX-License-Identifier: MIT
//
// bench/cuda/kernels.hpp: starts the kernels. Pointers are the device's.
#pragma once

#include <cuda_runtime_api.h>

#include "bench/events/headers.h"

namespace xdpgpu::bench {

// Each adds to *sum the words read.
cudaError_t launch_contiguous(const void* from, u64 bytes, u32* sum, cudaStream_t stream) noexcept;
cudaError_t launch_lines(const void* base, const u32* numbers, u32 count, u32 bytes, u32* sum,
                         cudaStream_t stream) noexcept;
// Also writes an xg_result a line to `results`.
cudaError_t launch_answers(const void* base, const u32* numbers, u32 count, void* results, u32* sum,
                           cudaStream_t stream) noexcept;
// offsets: of the frames' first bytes.
cudaError_t launch_frames(const void* base, const u64* offsets, u32 count, u32 length, u32* sums,
                          cudaStream_t stream) noexcept;
// The same, with an xg_result a frame in place of the sum.
cudaError_t launch_answered_frames(const void* base, const u64* offsets, u32 count, u32 length, void* results,
                                   cudaStream_t stream) noexcept;

cudaError_t launch_parsed(EventStage stage, const ParsedHeader* headers, u64 count, u32* verdicts,
                          cudaStream_t stream) noexcept;
cudaError_t launch_compact(EventStage stage, const CompactHeader* headers, u64 count, u32* verdicts,
                           cudaStream_t stream) noexcept;

// A thread that answers *question, as it counts up to `count`, in *answer; it gives up when no new
// question has come for a second.
cudaError_t launch_answering(const u32* question, u32* answer, u32 count, cudaStream_t stream) noexcept;

}  // namespace xdpgpu::bench
