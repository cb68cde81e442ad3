// SPDX-License-Identifier: MIT
#include "gpu/programs.hpp"

namespace xdpgpu::gpu::programs {

std::vector<Program> parts_of(const Program& program) {
  std::vector<Program> parts{{.name = program.name,
                              .instructions = program.instructions,
                              .maps = program.maps,
                              .license = program.license}};
  for (const Tail& tail : program.tails)
    parts.push_back({.name = tail.name,
                     .instructions = tail.instructions,
                     .maps = program.maps,
                     .license = program.license});
  return parts;
}

}  // namespace xdpgpu::gpu::programs
