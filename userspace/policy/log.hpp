// SPDX-License-Identifier: MIT
//
// userspace/policy/log.hpp: the policy's "log", from JSON.
#pragma once

#include "userspace/policy/reader.hpp"

namespace xdpgpu::policy {

Log read_log(Report& report, const Place& place);

// The outputs that a policy's text names, of which nothing else is looked at: for whoever opens them. None
// where there are none, or its "log" is wrong.
std::vector<LogOutput> log_outputs_of(std::string_view text);

}  // namespace xdpgpu::policy
