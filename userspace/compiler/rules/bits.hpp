// SPDX-License-Identifier: MIT
//
// userspace/compiler/rules/bits.hpp: bits that rules set and ask for (flowbits, xbits, hostbits), as
// gpu/rule_source.hpp has them.
#pragma once

#include "userspace/compiler/rules/lower.hpp"

namespace xdpgpu::rules {

// Of anything but `noalert`.
gpu::RuleBits bits_of(const Bits& bits);

// Of what the rules were lowered to, one by one: takes the signatures from those that ask for bits which
// rules change that are not decided.
void settle_bits(std::span<const Rule> rules, std::span<Lowered> lowered);

}  // namespace xdpgpu::rules
