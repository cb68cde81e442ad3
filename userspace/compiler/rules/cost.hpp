// SPDX-License-Identifier: MIT
//
// userspace/compiler/rules/cost.hpp: how much of packets' inspection a signature asks for.
#pragma once

#include "gpu/signatures.hpp"

namespace xdpgpu::rules {

// Steps that are to be inspected for it, on average, of a packet of its header with 1,000 payload bytes, or a
// name of 32, of which each has any value with the same chance: all of them, times the chance that the
// content that is looked for first is where it may be. Real traffic has some bytes far more often. At least
// one of a signature without steps. rest: what hosts ask, too, whose steps count as the others do.
//
// Of one that is looked for in streams such a packet has its steps inspected where that content is in all of
// the text that rules see (gpu/signatures.hpp), with blocks of 4 KiB one and a half of them on average; of
// one that is looked for in packets and in streams, both.
double cost_of(const gpu::signatures::Signature& signature, const gpu::signatures::HostPart* rest = nullptr);

}  // namespace xdpgpu::rules
