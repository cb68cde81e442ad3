// SPDX-License-Identifier: MIT
#include "gpu/stages/compilers.hpp"
#include "gpu/stages/l2fwd/device.h"

namespace xdpgpu::gpu {

Result<Placed> emit(const L2fwdSettings& stage, Compiled& to) {
  std::vector<u32>& image = to.image;
  const u32 at = static_cast<u32>(image.size());
  image.insert(image.end(),
               {stage.cache ? 1u : 0u, stage.cache_ttl_ms, send_word(stage.to_port, stage.target, 0)});
  return Placed{at};
}

std::optional<std::string> sends(const L2fwdSettings&) { return ""; }

std::string describe(const L2fwdSettings&, u32, const xg_result*) { return ""; }

}  // namespace xdpgpu::gpu
