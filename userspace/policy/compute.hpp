// SPDX-License-Identifier: MIT
//
// userspace/policy/compute.hpp: the policy's "compute", from JSON.
#pragma once

#include "userspace/policy/reader.hpp"

namespace xdpgpu::policy {

// pipelines: the policy's; those that remember packets have one device.
Compute read_compute(Report& report, const Place& place, const std::vector<Pipeline>& pipelines);

}  // namespace xdpgpu::policy
