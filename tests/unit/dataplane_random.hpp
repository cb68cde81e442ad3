// SPDX-License-Identifier: MIT
//
// tests/unit/dataplane_random.hpp: reproducible 32-bit numbers.
#pragma once

#include <random>

#include "maps/types.h"

namespace xdpgpu::dataplane {

class Random {
 public:
  explicit Random(u32 seed) : engine_(seed) {}
  u32 operator()() { return static_cast<u32>(engine_()); }

 private:
  std::mt19937 engine_;
};

}  // namespace xdpgpu::dataplane
