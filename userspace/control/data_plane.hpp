// SPDX-License-Identifier: MIT
//
// userspace/control/data_plane.hpp: the unprivileged process: the engine, the compute device, the policy
// and the control socket. Its only way to the privileged broker is the channel.
#pragma once

#include <optional>
#include <vector>

#include "userspace/control/channel.hpp"
#include "userspace/control/data_plane_life.hpp"
#include "userspace/control/plan.hpp"
#include "userspace/control/policy_swap.hpp"
#include "userspace/control/port_control.hpp"

namespace xdpgpu::control {

struct DataPlaneSetup {
  Plan plan;
  std::vector<dataplane::PortSpec> specs;   // with their own map descriptors
  std::vector<kernel::PortMaps> port_maps;  // a second set, for the control thread
  std::vector<kernel::Fd> links;            // by port; empty: its program is on through a dispatcher
  u32 flow_entries_per_queue = 0;
  std::optional<InForce> in_force;  // as a dead attach left it
  Channel broker;
  kernel::Fd listener;
  kernel::Fd kept_policy;          // to begin with, in place of the plan's, if there is one
  DeathRecord before;              // of data planes
  kernel::Fd frames, huge_frames;  // plan.engine.memory's, while it is made
  bool daemon = false;
  bool json = false;
  bool live = true;
  bool terminal = false;  // what is said comes out at one
};

// Runs until detached or until the broker is gone; the process's exit status. Its signals are the broker's,
// who says when to stop (ignore_all_signals). Says on standard output, which is a pipe to the broker, what
// attach says, and one sentence on standard error if it fails.
int run_data_plane(DataPlaneSetup setup);

}  // namespace xdpgpu::control
