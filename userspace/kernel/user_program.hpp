// SPDX-License-Identifier: MIT
//
// userspace/kernel/user_program.hpp: a program of a policy's own that runs in XDP itself ("where": "kernel"),
// loaded with its maps: as large as the object says, and with their first contents. The ports' XDP program
// goes on with it (bpf/program.bpf.h). And where its maps are pinned:
//
//   /sys/fs/bpf/xdpgpu/eth0/programs/PIPELINE/STAGE/MAP    of the policy in force
//   /sys/fs/bpf/xdpgpu/eth0/programs_next/...              of the one that is to follow
//
// A program that devices run has maps there, too: the kernel's copies of those that are on the device
// (map_twins.hpp).
#pragma once

#include <string>
#include <vector>

#include "gpu/program_source.hpp"
#include "gpu/programs.hpp"
#include "userspace/kernel/kernel.hpp"
#include "userspace/kernel/program_maps.hpp"

namespace xdpgpu::kernel {

struct UserMap {
  std::string name;  // as in the object
  Fd map;
  u32 number = 0;  // of the program's maps
};
struct UserProgram {
  Fd program;  // none: they are maps alone
  std::vector<UserMap> maps;
  u64 bytes = 0;  // about, of the kernel's memory, that the maps take
};

// What a program may have.
struct UserBounds {
  bool fragments = false;         // packets of several buffers, as the ports have them
  u64 most_bytes = 0;             // of maps
  std::vector<u32> interfaces{};  // by the host's numbers: what its devmaps may have
};

// A program within its bounds (userspace/compiler/programs/check.hpp) that may run in the kernel
// (programs::why_not_in_kernel()), whoever made it. A map of each CPU's has its first values on all of them,
// as bpftool puts them there. Needs CAP_BPF and CAP_NET_ADMIN. The error is half a sentence, behind the
// program's name; it may have the verifier's last lines.
Result<UserProgram> load_user_program(const gpu::programs::Program& program,
                                      const std::vector<gpu::ProgramMapContents>& contents,
                                      const UserBounds& bounds, const MapTypes& types = {});

// Those of the program's maps alone that are kept in step with a device's, an LRU hash as a hash. Likewise in
// all else. bounds: most_bytes counts.
Result<UserProgram> make_user_maps(const gpu::programs::Program& program,
                                   const std::vector<gpu::ProgramMapContents>& contents,
                                   const UserBounds& bounds, const MapTypes& types = {});

// Pins the maps as those of the policy that is to follow. stage: of the pipeline, from 1. pipeline: of
// letters, digits, '_', '-' and '.'; as the BPF filesystem takes no dots in names, each is a colon there.
Result<void> pin_user_maps(const std::string& ifname, const std::string& pipeline, u32 stage,
                           const std::vector<UserMap>& maps);
// The policy that was to follow is in force: its pins, if it has some, stand in place of those before. False:
// some could not be moved.
bool pins_in_force(const std::string& ifname) noexcept;
// It is not to follow any more.
void forget_next_pins(const std::string& ifname) noexcept;

}  // namespace xdpgpu::kernel
