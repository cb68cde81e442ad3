// SPDX-License-Identifier: MIT
//
// userspace/control/attach.hpp: attach, from the first check to the last clean-up.
//
// The calling process becomes the broker: it alone holds privileges, loads and pins the kernel programs,
// makes the reinjection pairs, and undoes all of it whatever happens. The data plane is its child, forked
// before any device library runs; it opens the AF_XDP sockets, drops every privilege, and serves the
// control socket.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "userspace/compiler/compiled_policy.hpp"
#include "userspace/control/protocol.hpp"
#include "userspace/host/doctor.hpp"

namespace xdpgpu::control {

struct AttachOptions {
  std::vector<std::string> interfaces;           // index = port index
  std::optional<compiler::PolicySource> policy;  // absent: pass everything
  std::string policy_file{};                     // its absolute path, for SIGHUP; empty: there is none
  std::optional<host::IoMode> mode;              // absent: the policy's io.mode
  std::string device;                            // empty: the policy's compute.device or compute.devices
  u32 queues = 0;                                // 0: all
  u32 flow_entries_per_queue = 16384;
  bool audit = false;    // what the policy would drop is counted and passes
  bool replace = false;  // somebody else's XDP program on an interface gives way
  // Whose members may ask, beside root; empty: `xdpgpu` where there is such a group.
  std::string control_group;
  bool daemon = false;
  bool json = false;
  bool live = true;       // print a summary every second
  bool terminal = false;  // standard output is one, so that the summary can replace the last one
};

// Returns the exit status once everything is undone (foreground), or once traffic flows (daemon). Errors
// are printed to standard error, one sentence. A refusal before anything was changed returns 1 (2 for a
// wrong policy) and has changed nothing.
int attach(const AttachOptions& options);

}  // namespace xdpgpu::control
