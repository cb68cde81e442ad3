// SPDX-License-Identifier: MIT
//
// userspace/control/processes.hpp: the processes of an attach, as /proc shows them: for what is said where
// nobody answers. Nothing here waits.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace xdpgpu::control {

struct ProcessLook {
  char state = '?';  // as /proc/PID/stat has it: R, S, D, T (stopped), t (held by a debugger), Z, ...
  pid_t parent = 0;
  std::string name;

  bool is_stopped() const { return state == 'T' || state == 't'; }
  bool has_ended() const { return state == 'Z' || state == 'X'; }
};
// Nothing where there is no such process.
std::optional<ProcessLook> look_at_process(pid_t process);

// Both halves of one attach. 0: there is none, or it cannot be told.
struct Halves {
  pid_t broker = 0, data_plane = 0;
};
// Of the attach whose control socket this is connected to.
Halves halves_at(int socket);
// Of the attach that listens at this path, also where the file is gone. Root alone sees it, and only in its
// own network namespace.
Halves halves_of(const std::string& path);

// Why they do not answer: "its data plane, process 12, is stopped; let it go on with ...". Empty: neither is
// stopped.
std::string why_stopped(const Halves& halves);
// One of them has something to do, and may answer yet.
bool is_at_work(const Halves& halves);

}  // namespace xdpgpu::control
