// SPDX-License-Identifier: MIT
//
// bench/verdicts/updates.hpp: what writing verdicts through shared memory is held against: system calls
// that update a map of the kernel, with entries as long as a flow verdict's.
#pragma once

#include <span>
#include <string>

#include "maps/flow.h"

namespace xdpgpu::bench {

enum class MapKind {
  hash,   // key: the flow key's 44 bytes; value: the 20 others of a flow verdict
  array,  // key: an index; value: a whole flow verdict
};

// Puts the entries into a fresh map, `batch` a system call; 1: by bpf_map_update_elem. Then reads every one
// back. Entries a second of the writing; `problem` says what was read wrong, or what the kernel refused.
double update_rate(MapKind kind, std::span<const xg_flow_verdict> entries, u32 batch, std::string& problem);

}  // namespace xdpgpu::bench
