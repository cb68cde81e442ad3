// SPDX-License-Identifier: MIT
//
// userspace/control/file_access.hpp: which files the data plane may open once its sockets are there, by
// Landlock's path rules.
//
// Without a GPU: none for writing, and for reading only what the kernel tells of this process, the processor
// and the memory. With a driver: its device nodes, and for reading what it is made of and its caches; and
// where the kernel can (Linux 6.10) no other device that is opened from then on can be asked anything by
// ioctl. What was open before stays as it was.
#pragma once

#include "userspace/control/result.hpp"
#include "userspace/host/landlock.hpp"

namespace xdpgpu::control {

struct FileLimits {
  host::Landlock landlock;
  unsigned threads_left_out = 0;  // that could not be limited
};

// For all threads that there are and will be, for good. Needs no_new_privs. On a kernel without Landlock
// nothing happens. Called again it limits further.
Result<FileLimits> limit_files(bool drivers);

}  // namespace xdpgpu::control
