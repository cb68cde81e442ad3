// SPDX-License-Identifier: MIT
//
// userspace/manual/command_pages.hpp: the manual pages of section 1, one a command: xdpgpu(1),
// xdpgpu-policy(1), xdpgpu-policy-check(1).
#pragma once

#include <string>
#include <vector>

#include "userspace/manual/command_tree.hpp"

namespace xdpgpu::manual {

struct ManualPage {
  std::string name;  // "xdpgpu-attach"
  std::string text;
};

// Of the command and of all that are below it.
std::vector<ManualPage> command_pages(const Command& program, const std::string& date);

}  // namespace xdpgpu::manual
