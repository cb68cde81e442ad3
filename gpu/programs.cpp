// SPDX-License-Identifier: MIT
#include "gpu/programs.hpp"

namespace xdpgpu::gpu::programs {

std::vector<Program> parts_of(const Program& program) {
  std::vector<Program> parts{{.name = program.name,
                              .instructions = program.instructions,
                              .maps = program.maps,
                              .license = program.license}};
  if (program.tails.empty()) return parts;
  // There may be many tails, and megabytes of contents.
  std::vector<Map> maps = program.maps;
  for (Map& map : maps) map.contents = {};
  for (const Tail& tail : program.tails)
    parts.push_back(
        {.name = tail.name, .instructions = tail.instructions, .maps = maps, .license = program.license});
  return parts;
}

}  // namespace xdpgpu::gpu::programs
