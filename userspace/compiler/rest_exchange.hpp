// SPDX-License-Identifier: MIT
//
// userspace/compiler/rest_exchange.hpp: what hosts are to ask of packets for rules
// (gpu::signatures::HostPart), on its way from the compiler to the data plane
// (userspace/compiler/exchange.hpp).
#pragma once

#include <memory>

#include "gpu/signatures.hpp"
#include "userspace/compiler/sealed_memory.hpp"

namespace xdpgpu::compiler {

using Rest = std::shared_ptr<const gpu::signatures::HostPart>;

// nullptr is written, too.
void write_rest(MemoryWriter& to, const Rest& rest);
// Within the bounds of hosts, and its expressions compiled; the error is a sentence. bytes: of all
// expressions of its stage so far.
Result<Rest> read_rest(MemoryReader& from, u64& bytes);

}  // namespace xdpgpu::compiler
