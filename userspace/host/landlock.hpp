// SPDX-License-Identifier: MIT
//
// userspace/host/landlock.hpp: Landlock (Linux 5.13), by which a process gives up files for itself, as far as
// this kernel has it. Debian 12's headers know its first two versions.
#pragma once

#include <string>

#include "maps/types.h"

namespace xdpgpu::host {

struct Landlock {
  int version = 0;  // of its interface; 0: not to be had
  std::string why;  // not to be had
  bool limits_files() const { return version >= 1; }
  bool limits_truncating() const { return version >= 3; }        // Linux 6.2
  bool limits_device_requests() const { return version >= 5; }   // Linux 6.10
  bool limits_abstract_sockets() const { return version >= 6; }  // Linux 6.12
};
// Asks the kernel; changes nothing, needs no privilege.
Landlock landlock();

}  // namespace xdpgpu::host
