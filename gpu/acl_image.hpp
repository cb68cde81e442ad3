// SPDX-License-Identifier: MIT
//
// gpu/acl_image.hpp: compiles `acl` rules into the aggregated bit vectors of gpu/stages/image.h.
#pragma once

#include <vector>

#include "gpu/pipelines.hpp"

namespace xdpgpu::gpu {

inline constexpr u32 kAclMaxRules = 16384;
// Words an image may have; bounds what hostile rule sets can make a device allocate (512 MiB).
inline constexpr u64 kImageMaxWords = u64{1} << 27;

// Appends all that the rules are found by to `image`, and then the stage's body, whose first word's
// index it returns. The rules were checked before (gpu/pipelines.cpp). Fails with half a sentence
// ("its rules need ...") where the image would grow beyond kImageMaxWords; `image` is then not usable.
Result<u32> append_acl(const AclSettings& settings, std::vector<u32>& image);

// The verdict word without its stage that a rule's action stands for (gpu/stages/image.h).
u32 action_word(AclRule::Action action, u32 target, u32 rule);

}  // namespace xdpgpu::gpu
