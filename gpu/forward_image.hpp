// SPDX-License-Identifier: MIT
//
// gpu/forward_image.hpp: compiles the next hops and routes of `forward` (gpu/stages/image.h).
#pragma once

#include <vector>

#include "gpu/pipelines.hpp"

namespace xdpgpu::gpu {

// As append_acl() (gpu/acl_image.hpp). Appends the next hops' rewrites to `rewrites` where the stage caches,
// as long as there are numbers left.
Result<u32> append_forward(const ForwardSettings& settings, std::vector<u32>& image,
                           std::vector<xg_rewrite>& rewrites);

}  // namespace xdpgpu::gpu
