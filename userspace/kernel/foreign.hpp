// SPDX-License-Identifier: MIT
//
// userspace/kernel/foreign.hpp: XDP programs that are on the interface already.
#pragma once

#include "userspace/kernel/kernel.hpp"

namespace xdpgpu::kernel {

// Sees to it that a program may be attached. A program that a dead attach of ours left is taken off; a
// live one of ours, or somebody else's that is not a libxdp dispatcher, is refused by name, with how
// to make room. With `dispatchers` (the kernel allows them) one is left to libxdp, which adds to it.
Result<void> make_room(const std::string& ifname, int ifindex, bool dispatchers);

}  // namespace xdpgpu::kernel
