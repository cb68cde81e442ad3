// SPDX-License-Identifier: MIT
//
// userspace/control/summary.hpp: what attach prints for people: one line a second, and an account at
// the end.
#pragma once

#include <optional>
#include <string>

#include "userspace/control/report.hpp"

namespace xdpgpu::control {

// "123.4 kpps in, 12.0 inspected: 100.0 pass 23.4 drop 0 tx 0 redirect 0 error"
std::string live_line(const Totals& before, const Totals& now, double seconds);
// "eth0 is attached: native XDP, 2 queues in copy mode, device cpu (in_place), policy ... generation 1"; of a
// report that has a data plane's part.
std::string ready_text(const StatusReport& report);
// That a policy is to be confirmed; empty: it is not.
std::string trial_text(const std::optional<Trial>& trial, const std::string& ifname);
// Packets by outcome and, below, by reason.
std::string account_text(const StatusReport& report);

}  // namespace xdpgpu::control
