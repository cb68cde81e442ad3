// SPDX-License-Identifier: MIT
//
// userspace/kernel/remains.hpp: what a dead attach left in the kernel, for the next one to go on with: its
// pinned maps, and its program on the interface, which decides alone meanwhile.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "userspace/kernel/kernel.hpp"

namespace xdpgpu::kernel {

// Policy generations are counted in 32 bits and never given twice, as what a flow's verdict or a packet on
// its way says is of one of them. An attach that would go on from here on starts anew instead: what is left
// then is enough for a process that puts thirty policies a second in force for a year.
inline constexpr u32 kLastGenerationToGoOn = 0xc0000000;

struct Remains {
  PortMaps maps;
  Fd link;  // that has the program on the interface
  XdpMode mode = XdpMode::native;
  u64 active = 0;       // generation and slot that are in force
  u64 policy_hash = 0;  // of that policy
};

// Those of options.ifname, if they are of the shape that `options` ask for and their REDIRECTs go to the
// interfaces `ports` (by port index). Nothing: there is nothing that decides. The error says what stands in
// the way of going on. Changes nothing.
Result<std::optional<Remains>> find_remains(const PortOptions& options, const std::vector<u32>& ports);

}  // namespace xdpgpu::kernel
