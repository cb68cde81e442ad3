// SPDX-License-Identifier: MIT
//
// gpu/stages/avx2.hpp: whether stages may use this processor's AVX2, asked once. The environment variable
// XDPGPU_CPU_CODE=portable has them do without it.
#pragma once

#include <cstdlib>
#include <string_view>

namespace xdpgpu::gpu {

inline bool may_use_avx2() {
  const char* const forced = std::getenv("XDPGPU_CPU_CODE");
  return __builtin_cpu_supports("avx2") != 0 && (forced == nullptr || std::string_view(forced) != "portable");
}
inline const bool kHasAvx2 = may_use_avx2();

}  // namespace xdpgpu::gpu
