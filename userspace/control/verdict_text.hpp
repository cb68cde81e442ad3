// SPDX-License-Identifier: MIT
//
// userspace/control/verdict_text.hpp: why a packet got its verdict, in words.
#pragma once

#include <string>

#include "userspace/control/replay.hpp"

namespace xdpgpu::control {

// "dropped by rule "x"", "inspected by rule "web" in pipeline p: stage 1 (acl) rule 1 (here)".
std::string why_of(const PacketVerdict& verdict);

}  // namespace xdpgpu::control
