// SPDX-License-Identifier: MIT
#include "userspace/control/grace_period.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <thread>

namespace xdpgpu::control {

void wait_for_grace_period() {
  if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) != 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
}

}  // namespace xdpgpu::control
