// SPDX-License-Identifier: MIT
#include "gpu/stages/compilers.hpp"

namespace xdpgpu::gpu {

Check check(const PayloadSumSettings&) { return {}; }

Result<Placed> emit(const PayloadSumSettings& stage, Compiled& to) {
  const u32 at = static_cast<u32>(to.image.size());
  to.image.insert(to.image.end(), {0, 0, stage.bytes, stage.from_payload ? 1u : 0u, stage.mask, stage.value,
                                   action_word(stage.goes_on ? Action::next : Action::pass, 0, 2)});
  return Placed{at};
}

u32 payload_bytes(const PayloadSumSettings& stage) { return stage.bytes; }

std::string describe(const PayloadSumSettings&, u32, const xg_result*) { return ""; }

bool drops(const PayloadSumSettings&) { return true; }

}  // namespace xdpgpu::gpu
