// SPDX-License-Identifier: MIT
//
// bench/machine.hpp: what stands beside every figure: the machine that it was measured on and the code
// that ran.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace xdpgpu::bench {

// {"commit", "trees", "date", "machine": {"cpu", "cores", "memory_gib", "kernel", "system", "gpus": [...]}}.
// The commit is the one that the program was built from, with "-dirty" if the tree had changes; the trees
// are git's ids of the folders that a figure depends on ({"gpu": ID, ...}), which outlive a rebase.
nlohmann::json circumstances();

// Writes `figures` and the circumstances to `file`; the empty name writes nothing. False, with a
// sentence on standard error, if the file cannot be written.
bool write_json(const std::string& file, nlohmann::json figures);

}  // namespace xdpgpu::bench
