// SPDX-License-Identifier: MIT
#include "userspace/host/landlock.hpp"

#include <linux/landlock.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace xdpgpu::host {

Landlock landlock() {
  const long version = syscall(SYS_landlock_create_ruleset, nullptr, 0, u32{LANDLOCK_CREATE_RULESET_VERSION});
  if (version > 0) return {static_cast<int>(version), {}};
  if (errno == EOPNOTSUPP) return {0, "Landlock is not in the kernel's list of security modules (lsm=)"};
  if (errno == ENOSYS) return {0, "this kernel was built without Landlock (CONFIG_SECURITY_LANDLOCK)"};
  return {0, std::strerror(errno)};
}

}  // namespace xdpgpu::host
