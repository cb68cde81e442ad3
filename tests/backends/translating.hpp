// SPDX-License-Identifier: MIT
//
// tests/backends/translating.hpp: a CUDA device on which programs run as they do where they are attached:
// translated, in this process.
#pragma once

#include <memory>
#include <vector>

#include "gpu/gpu.hpp"
#include "tests/backends/targets.hpp"

namespace xdpgpu::tests {

// The same device, to which pipelines that run programs are loaded with these translated. load() fails where
// that cannot be done.
std::unique_ptr<gpu::Device> translating(std::unique_ptr<gpu::Device> device);

// CUDA's targets, as such devices.
std::vector<Target> translated_targets();

}  // namespace xdpgpu::tests
