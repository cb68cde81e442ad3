// SPDX-License-Identifier: MIT
//
// userspace/control/policy_tables.hpp: how much of the kernel's memory the data plane may have for the tables
// of policies. They are made for it by the broker, up to 576 MiB a policy; it fills them, and could keep what
// it was given for ever.
#pragma once

#include <vector>

#include "userspace/control/channel.hpp"

namespace xdpgpu::control {

// Those of an attach: the two slots', shared by its ports, and those that are filled for the next policy.
// What a slot had before is gone when it is installed over. 1,728 MiB at the most.
inline constexpr std::size_t kMostPolicyTables = 3;

// Of one attach, whichever data plane asks.
class PolicyTables {
 public:
  // Refused while kMostPolicyTables live, by whoever's descriptor or mapping.
  Result<kernel::PolicyMaps> create(u32 lines, u32 rows);
  // Counts what a dead attach left in the port's slots, too.
  void add(const kernel::PortMaps& port);
  // Policies' tables that live.
  std::size_t count();

 private:
  struct Made {
    u32 lines = 0, rows = 0;  // the maps' ids, which the kernel gives in turn; 0: none
  };
  std::vector<Made> made_;
};

}  // namespace xdpgpu::control
