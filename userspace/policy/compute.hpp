// SPDX-License-Identifier: MIT
//
// userspace/policy/compute.hpp: the policy's "compute", from JSON.
#pragma once

#include "userspace/policy/reader.hpp"

namespace xdpgpu::policy {

Compute read_compute(Report& report, const Place& place);

}  // namespace xdpgpu::policy
