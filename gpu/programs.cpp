// SPDX-License-Identifier: MIT
#include "gpu/programs.hpp"

#include <linux/bpf.h>

#include <algorithm>

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

std::optional<std::size_t> looks_up_routes(const Program& program) {
  const auto found =
      std::find_if(program.instructions.begin(), program.instructions.end(), [](const Instruction& one) {
        return one.opcode == (BPF_JMP | BPF_CALL) && one.source == 0 && one.immediate == BPF_FUNC_fib_lookup;
      });
  if (found == program.instructions.end()) return std::nullopt;
  return static_cast<std::size_t>(found - program.instructions.begin());
}

}  // namespace xdpgpu::gpu::programs
