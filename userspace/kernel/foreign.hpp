// SPDX-License-Identifier: MIT
//
// userspace/kernel/foreign.hpp: XDP programs that are on the interface already.
#pragma once

#include "userspace/kernel/kernel.hpp"

namespace xdpgpu::kernel {

// Sees to it that a program may be attached. A program that a dead attach of ours left is taken off; a
// live one of ours, or somebody else's that is not a libxdp dispatcher, is refused by name, with how
// to make room. True: a dispatcher is there that the kernel lets us join, and it is left to libxdp, which
// adds to it.
Result<bool> make_room(const std::string& ifname, int ifindex);

}  // namespace xdpgpu::kernel
