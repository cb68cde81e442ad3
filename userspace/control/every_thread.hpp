// SPDX-License-Identifier: MIT
//
// userspace/control/every_thread.hpp: a system call that holds for one thread alone, made in all of them, as
// glibc does it for setuid.
#pragma once

namespace xdpgpu::control {

// Makes the call in each thread of the process but the calling one, threads that libraries have made
// included, and returns in how many it failed or could not be made within a second. By glibc's own signal for
// such calls, which no thread blocks; nobody may change user or group meanwhile. Elsewhere than on x86-64 it
// is made in none.
unsigned call_in_other_threads(long number, long first, long second) noexcept;

}  // namespace xdpgpu::control
