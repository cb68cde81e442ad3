// SPDX-License-Identifier: MIT
//
// userspace/policy/ddos.hpp: the stage `ddos`, from JSON.
#pragma once

#include "userspace/policy/reader.hpp"

namespace xdpgpu::policy {

DdosStage read_ddos(Report& report, const Place& place);

}  // namespace xdpgpu::policy
