// SPDX-License-Identifier: MIT
//
// userspace/control/report.hpp: what `status` tells (status_report.hpp), made of the ports' maps and of what
// the data plane says of itself: how packets are handled, what became of them, and whether every one of them
// is accounted for.
#pragma once

#include "userspace/control/policy_swap.hpp"
#include "userspace/control/port_control.hpp"
#include "userspace/control/status_report.hpp"

namespace xdpgpu::control {

// By the outcomes of maps/counters.h.
Totals total(const std::vector<PortReport>& ports);

struct ReportInput {
  const std::vector<PortControl>& ports;
  const dataplane::Engine& engine;
  const PolicySwap& policy;
  std::vector<std::string> xdp_modes;  // by port: "native", "generic"
  double uptime_s = 0;
};
Result<StatusReport> report(const ReportInput& input);
// Of ports that no data plane serves, what their maps tell.
Result<StatusReport> report_without_data_plane(const std::vector<PortControl>& ports,
                                               const std::vector<std::string>& xdp_modes, double uptime_s);
// Of the programs that devices run, the maps that the kernel has, too.
void add_maps(ServiceReport& service, const std::vector<StageMapsReport>& maps);
// Of the programs that run in the kernel, how many packets each was given: those that its rules decided.
void add_given(ServiceReport& service, const compiler::CompiledPolicy& policy);
Result<Totals> totals(const std::vector<PortControl>& ports, const dataplane::Engine& engine);

// The network namespace that this process is in, or that it is about.
NetnsReport own_netns();
const char* mode_name(dataplane::PortMode mode);
const char* state_name(u32 state);

}  // namespace xdpgpu::control
