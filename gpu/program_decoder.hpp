// SPDX-License-Identifier: MIT
//
// gpu/program_decoder.hpp: one program's instructions as devices run them (gpu/stages/program_numbers.h).
// gpu/program_code.hpp is what others use.
#pragma once

#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "gpu/program_counts.hpp"
#include "gpu/programs.hpp"

namespace xdpgpu::gpu::programs {

// Four words an instruction. `first`: the place of the program's first one among those of the set. `tables`:
// the set's, with its maps' records. `counts`: which of its changes of maps are counts, where it is to run
// side by side; nullptr: it is not. The stacks of functions are not among the words yet. The error says which
// instruction is none that devices have.
tl::expected<std::vector<u32>, std::string> decoded(const Program& program, u32 first,
                                                    std::span<const u32> tables, const Counts* counts);

}  // namespace xdpgpu::gpu::programs
