// SPDX-License-Identifier: MIT
//
// userspace/control/broker_port.hpp: what the broker made for one interface.
#pragma once

#include <memory>

#include "userspace/control/broker.hpp"
#include "userspace/control/busy_poll.hpp"
#include "userspace/control/offloads.hpp"
#include "userspace/kernel/cutter.hpp"
#include "userspace/kernel/egress_feed.hpp"

namespace xdpgpu::control {

// Members are undone from the last to the first: egress feed, pairs, program, interrupts, offloads.
struct Broker::Port {
  OffloadGuard offloads;
  BusyPollGuard interrupts;
  dataplane::BusyPoll busy_poll;
  std::unique_ptr<kernel::PortProgram> program;
  std::unique_ptr<kernel::Reinjection> reinjection;
  std::unique_ptr<kernel::Cutter> cutter;  // with generic XDP
  std::unique_ptr<kernel::EgressFeed> egress;
  kernel::PortMaps maps;  // for installing policies
  kernel::XdpMode mode = kernel::XdpMode::native;
};

}  // namespace xdpgpu::control
