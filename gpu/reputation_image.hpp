// SPDX-License-Identifier: MIT
//
// gpu/reputation_image.hpp: compiles `reputation` lists into the prefix tables of gpu/stages/image.h.
#pragma once

#include <vector>

#include "gpu/pipelines.hpp"

namespace xdpgpu::gpu {

inline constexpr u32 kMaxReputationLists = 4095;  // what the verdict's rule has room for

// As append_acl() (gpu/acl_image.hpp).
Result<u32> append_reputation(const ReputationSettings& settings, std::vector<u32>& image);

}  // namespace xdpgpu::gpu
