// SPDX-License-Identifier: MIT
//
// tests/backends/captures.hpp: where the captures are: in the tree, or where a bundle has them
// (tests/gpu-host/run).
#pragma once

#include <cstdlib>
#include <string>

namespace xdpgpu::tests {

inline std::string captures_directory() {
  const char* const elsewhere = std::getenv("XDPGPU_TEST_CAPTURES");
  return elsewhere != nullptr ? elsewhere : XDPGPU_TEST_CAPTURES;
}

}  // namespace xdpgpu::tests
