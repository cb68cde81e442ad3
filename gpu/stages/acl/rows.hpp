// SPDX-License-Identifier: MIT
//
// gpu/stages/acl/rows.hpp: compiles `acl` rules into the aggregated bit vectors of device.h.
#pragma once

#include <vector>

#include "gpu/stages/acl/settings.hpp"
#include "gpu/stages/compiler.hpp"

namespace xdpgpu::gpu {

// Appends all that the rules are found by, and then the stage's body, whose first word's index it returns.
// The rules were checked before (compile.cpp). Fails with half a sentence ("its rules need ...") where it
// would grow beyond kImageMaxWords; `to` is then not usable.
Result<u32> append_acl(const AclSettings& settings, Compiled& to);

}  // namespace xdpgpu::gpu
