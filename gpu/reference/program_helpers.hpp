// SPDX-License-Identifier: MIT
//
// gpu/reference/program_helpers.hpp: what the helpers do that an XDP program calls (<linux/bpf.h>, net/core/
// filter.c), besides tail_call and loop, which change where the program goes on and are program.cpp's.
#pragma once

#include <array>
#include <optional>

#include "gpu/reference/program_memory.hpp"

namespace xdpgpu::gpu::reference {

// One packet's run, as far as helpers see it.
struct ProgramRun {
  ProgramRun(const ProgramMaps& maps, const ProgramPacket& input) : memory(maps, input), packet(input) {}

  ProgramMemory memory;
  const ProgramPacket& packet;
  std::array<u64, 11> registers{};
  std::optional<ProgramRedirect> redirect;
  std::optional<xg_event> event;
  u32 record_map = 0;  // of the record that memory has
  u64 steps = 0;
};

// Does what helper `number` does with R1 to R5, and leaves R0. R1 to R5 stay.
ProgramFault call_helper(ProgramRun& run, std::int32_t number);

// bpf_fib_lookup, of a packet that has routes (program_routes.cpp).
ProgramFault look_up_route(ProgramRun& run);

}  // namespace xdpgpu::gpu::reference
