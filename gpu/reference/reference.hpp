// SPDX-License-Identifier: MIT
//
// gpu/reference/reference.hpp: the sequential reference: what the right answer is. Plain C++ over the
// stages' settings, one packet after the other, written for the reader and shared with no device: the
// conformance suite (tests/backends) compares every device with it, byte for byte.
#pragma once

#include <span>
#include <vector>

#include "gpu/pipelines.hpp"

namespace xdpgpu::gpu::reference {

// Answers descriptors[i] in results[i] for a batch of `generation`, whose pipelines are `settings`.
// `region` is the frame region. Results mean what gpu/gpu.hpp and gpu/pipelines.hpp say.
void decide(std::span<const u8> region, std::span<const xg_descriptor> descriptors, u32 generation,
            const std::vector<PipelineSettings>& settings, std::span<xg_result> results);

}  // namespace xdpgpu::gpu::reference
