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

struct RandomKind {
  bool version4 = true;       // with instructions of the set's version 4, which kernels have from 6.6 on
  bool arrays_only = false;   // without other maps, and without bpf_loop
  bool keeps_packet = false;  // it neither writes to its packet nor moves its head and tail
  bool reserves = false;      // records of a ringbuf; one at most of a run is put out, as the last one
};

// The maps that they name.
std::vector<Map> random_maps(const RandomKind& kind);
Code random_program(dataplane::Random& random, const RandomKind& kind);
// For one of so many receive queues, the first one most of the time.
ProgramPacket random_packet(dataplane::Random& random, u32 queues);
// An instruction a line, to be read when a test fails.
std::string text_of(const Code& code);

}  // namespace xdpgpu::test
