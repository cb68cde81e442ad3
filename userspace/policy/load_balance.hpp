// SPDX-License-Identifier: MIT
//
// userspace/policy/load_balance.hpp: the stage `load_balance`, from JSON.
#pragma once

#include "userspace/policy/reader.hpp"

namespace xdpgpu::policy {

LoadBalanceStage read_load_balance(Report& report, const Place& place, const NamedFileReader& files);

}  // namespace xdpgpu::policy
