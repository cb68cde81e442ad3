// SPDX-License-Identifier: MIT
//
// userspace/cli/policy_commands.hpp: those commands of `policy` that have files of their own.
#pragma once

#include "userspace/cli/command.hpp"

namespace xdpgpu::cli {

// policy: the command `policy`.
void add_policy_diff(CLI::App& policy, Chosen& chosen);
void add_policy_test(CLI::App& policy, Chosen& chosen);

}  // namespace xdpgpu::cli
