// SPDX-License-Identifier: MIT
//
// bench/path/threads.hpp: this process's threads by name, and how much of a core they have used.
#pragma once

#include <string_view>
#include <vector>

#include "maps/types.h"

namespace xdpgpu::bed {

// The living threads whose names begin with `prefix`, by the kernel's numbers. A worker's name is
// "xdpgpu-<n>".
std::vector<int> threads_named(std::string_view prefix);

// CPU time, user and system, that they have had; ns.
u64 cpu_ns_of_threads(std::string_view prefix);

}  // namespace xdpgpu::bed
