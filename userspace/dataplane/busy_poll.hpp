// SPDX-License-Identifier: MIT
//
// userspace/dataplane/busy_poll.hpp: whether a socket's owner runs the driver's poll function itself.
#pragma once

#include "maps/types.h"

namespace xdpgpu::dataplane {

struct BusyPoll {
  bool wanted = false;
  bool required = false;  // what the kernel refuses is an error; else it is done without
  u32 us = 20;            // SO_BUSY_POLL, at least 1
  u32 budget = 64;        // SO_BUSY_POLL_BUDGET, packets a poll, 1 to 65535
};

}  // namespace xdpgpu::dataplane
