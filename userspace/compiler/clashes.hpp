// SPDX-License-Identifier: MIT
//
// userspace/compiler/clashes.hpp: what is right key by key and yet cannot be had together, on whatever host.
// `policy check` and every other command that takes a policy ask here by what the policy says; attach asks
// once more by what the command line says in its place.
#pragma once

#include <string>
#include <vector>

#include "userspace/compiler/refusal.hpp"
#include "userspace/host/doctor.hpp"
#include "userspace/policy/policy.hpp"

namespace xdpgpu::compiler {

struct Choice {
  std::vector<std::string> devices;  // as gpu::open_device takes them; "auto" leaves it open
  host::IoMode mode = host::IoMode::automatic;
};

// What the policy chooses itself.
Choice choice_of(const policy::Policy& policy);

// What attach would refuse for the policy's sake, with the pointers of the values that are in each other's
// way. Empty: it hangs on the host alone.
policy::Diagnostics clashes(const policy::Policy& policy, const Choice& choice);

}  // namespace xdpgpu::compiler
