// SPDX-License-Identifier: MIT
//
// userspace/policy/load_balance.hpp: the stage `load_balance`, from JSON.
#pragma once

#include <map>
#include <string>

#include "userspace/policy/reader.hpp"

namespace xdpgpu::policy {

// The longest IP packet that some stage sends to a backend inside of outer headers, in bytes, by the
// interface that the backend names: "" where it is the one that the packet came in on. Empty: no stage
// encapsulates.
std::map<std::string, u32> outer_mtus(const Policy& policy);

LoadBalanceStage read_load_balance(Report& report, const Place& place, const NamedFileReader& files);

}  // namespace xdpgpu::policy
