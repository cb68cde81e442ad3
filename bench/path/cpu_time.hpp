// SPDX-License-Identifier: MIT
//
// bench/path/cpu_time.hpp: how much of a core threads have used.
#pragma once

#include <string_view>

#include "maps/types.h"

namespace xdpgpu::bed {

// CPU time, user and system, that the living threads of this process have had whose names begin with
// `prefix`; ns. A worker's is "xdpgpu-<n>".
u64 cpu_ns_of_threads(std::string_view prefix);

}  // namespace xdpgpu::bed
