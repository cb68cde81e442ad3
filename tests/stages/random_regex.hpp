// SPDX-License-Identifier: MIT
//
// tests/stages/random_regex.hpp: automata at random, of no expression: what devices make of them is asked.
#pragma once

#include "gpu/signatures.hpp"
#include "tests/backends/traffic.hpp"

namespace xdpgpu::tests {

// letters: bytes that stand in what it is looked for in, so that it goes on, and matches now and then.
gpu::signatures::Regex random_regex(Random& random, std::string_view letters);

}  // namespace xdpgpu::tests
