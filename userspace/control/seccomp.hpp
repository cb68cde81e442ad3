// SPDX-License-Identifier: MIT
//
// userspace/control/seccomp.hpp: which system calls the data plane may make once its sockets and devices are
// set up.
//
// Three lists: what the process itself needs, what drivers of GPUs need beside it, and what nothing in here
// has any business with. A call of the last kind, execve for one, kills the process, and the broker says so:
// somebody else's code is running. Any other call that is on no list fails with EPERM, since a library that
// only tries something (another version of a driver, say) is no reason to let an interface go. ioctl is let
// through by its request (ioctl_requests.hpp). Processes
// cannot be made at all, threads can: clone3, whose flags a filter cannot see, "does not exist", so that
// glibc takes clone, whose flags it can.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "userspace/control/result.hpp"

namespace xdpgpu::control {

enum class SeccompMode { filter, record, off };

// By the value of XDPGPU_SECCOMP; nullptr and "" are `filter`. In a sanitized build, whose runtime asks for
// more, `filter` is `off`. The error is a sentence.
Result<SeccompMode> seccomp_mode(const char* said);

// Whose calls are let through beside the process's own.
struct Drivers {
  bool cuda = false;
  bool vulkan = false;
};

// Puts the filter on every thread there is and will be; it cannot be taken off. Needs no_new_privs. On
// failure nothing is filtered.
Result<void> restrict_system_calls(Drivers drivers);

// The compiler's, which has one socket, and memory: it opens nothing, connects to nothing, starts nothing.
// Likewise.
Result<void> restrict_compiler();

// Of the process that serves metrics: it takes connections, reads and writes; it opens nothing, connects to
// nothing, starts nothing. Likewise.
Result<void> restrict_exporter();

// In place of restrict_system_calls: lets every call go on, and says each that the filter would not have
// let through, once. Of what it lets through it says each request of ioctl, with the device or socket that
// was asked, and each file that was named. For finding out what a new driver asks for; it restricts nothing.
class SystemCallRecorder {
 public:
  // Called by the recorder's thread, and in the end by the one that destroys it.
  using Say = std::function<void(const std::string&)>;
  static Result<std::unique_ptr<SystemCallRecorder>> start(Drivers drivers, Say say);
  // Says what there was in all. From then on such calls fail.
  ~SystemCallRecorder();
  SystemCallRecorder(const SystemCallRecorder&) = delete;
  SystemCallRecorder& operator=(const SystemCallRecorder&) = delete;

 private:
  struct Impl;
  explicit SystemCallRecorder(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace xdpgpu::control
