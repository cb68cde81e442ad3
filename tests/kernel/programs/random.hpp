// SPDX-License-Identifier: MIT
//
// tests/kernel/programs/random.hpp: programs by chance, of the kind that the kernel's verifier takes.
//
// Between any two of its steps a program has the context in R6, a packet of kRandomPacketBytes at least in
// R7, and numbers in all other registers and in the upper 128 bytes of its stack. Steps compute, load, store,
// jump forwards, loop, call functions, ask maps and move the packet's head and tail.
#pragma once

#include "tests/kernel/programs/twins.hpp"
#include "tests/unit/dataplane_random.hpp"

namespace xdpgpu::test {

inline constexpr int kRandomPacketBytes = 48;

// The maps that they name.
std::vector<Map> random_maps();
// With instructions of the version 4 of the set, which kernels have from 6.6 on.
Code random_program(dataplane::Random& random, bool version4);
ProgramPacket random_packet(dataplane::Random& random);
// An instruction a line, to be read when a test fails.
std::string text_of(const Code& code);

}  // namespace xdpgpu::test
