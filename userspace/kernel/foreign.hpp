// SPDX-License-Identifier: MIT
//
// userspace/kernel/foreign.hpp: XDP programs that are on the interface already.
#pragma once

#include "userspace/kernel/kernel.hpp"

namespace xdpgpu::kernel {

// What was found on the interface and dealt with.
struct Room {
  bool dispatcher = false;  // one that the kernel lets us join is there, and left to libxdp, which adds to it
  // Somebody else's program that gave way.
  std::string replaced;  // its name and number, in words; empty: there was none
  Fd program;
  u32 mode_flag = 0;
};

// Sees to it that a program may be attached. A program that a dead attach of ours left is taken off; a live
// one of ours is refused, and so is somebody else's that is not a libxdp dispatcher, by name, with how to
// make room; with `replace` it is taken off. So is a dispatcher where `join` is false.
Result<Room> make_room(const std::string& ifname, int ifindex, bool replace, bool join = true);
// Puts back what gave way, by netlink, if the interface has no program now.
void put_back(Room& room, int ifindex) noexcept;

}  // namespace xdpgpu::kernel
