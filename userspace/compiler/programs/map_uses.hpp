// SPDX-License-Identifier: MIT
//
// userspace/compiler/programs/map_uses.hpp: what a program does to its maps, as far as its text says.
#pragma once

#include "userspace/compiler/programs/check.hpp"

namespace xdpgpu::programs {

enum class MapUse {
  names,  // neither: it is named, and what is in it is looked at by helpers alone (redirect_map, tail_call)
  reads,  // never written: by no store, no atomic, and no helper
  writes,
  unknown,  // the program is too large to be looked at
};

// Of each map, in the program's order. Of a program that the kernel's verifier takes it is certain that a map
// is `reads` or `names`; one that is `writes` may be written in what is never reached. Of a program within
// its bounds; time and memory are bounded.
std::vector<MapUse> map_uses(const Program& program);

}  // namespace xdpgpu::programs
