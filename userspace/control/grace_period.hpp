// SPDX-License-Identifier: MIT
//
// userspace/control/grace_period.hpp: waits until every run of the XDP program that began before the call
// has ended.
#pragma once

namespace xdpgpu::control {

// By membarrier(MEMBARRIER_CMD_GLOBAL), which is an RCU grace period (XDP programs run inside one read
// section); some 15 ms. Where the kernel refuses it (nohz_full cores), sleeps 100 ms: a program
// runs for microseconds.
void wait_for_grace_period();

}  // namespace xdpgpu::control
