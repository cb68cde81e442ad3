// SPDX-License-Identifier: MIT
//
// userspace/control/report.hpp: what `status` tells: how packets are handled, what became of them, and
// whether every one of them is accounted for.
#pragma once

#include "userspace/control/policy_swap.hpp"
#include "userspace/control/port_control.hpp"
#include "userspace/control/protocol.hpp"

namespace xdpgpu::control {

// Packets by what became of them, kernel and workers together (DESIGN 4.2).
struct Totals {
  u64 in = 0;  // seen by the XDP programs
  u64 pass = 0, drop = 0, tx = 0, redirect = 0, error = 0;
  u64 inspected = 0;  // of them, handed to user space
  u64 refused = 0;    // of the errors, what was to pass or be sent, and the kernel did not take
  u64 in_flight() const {
    const u64 out = pass + drop + tx + redirect + error;
    return in > out ? in - out : 0;
  }
  bool balanced() const { return in == pass + drop + tx + redirect + error; }
};
Totals total(const std::vector<std::vector<xg_counter>>& kernel_by_port,
             const std::vector<dataplane::QueueStatus>& queues);

struct ReportInput {
  const std::vector<PortControl>& ports;
  const dataplane::Engine& engine;
  const PolicySwap& policy;
  std::vector<std::string> xdp_modes;  // by port: "native", "generic"
  double uptime_s = 0;
};
Result<Json> report(const ReportInput& input);
// Of ports that no data plane serves, what their maps tell.
Result<Json> report_without_data_plane(const std::vector<PortControl>& ports,
                                       const std::vector<std::string>& xdp_modes, double uptime_s);
Result<Totals> totals(const std::vector<PortControl>& ports, const dataplane::Engine& engine);
Json to_json(const Totals& totals);

const char* mode_name(dataplane::PortMode mode);
const char* state_name(u32 state);

}  // namespace xdpgpu::control
