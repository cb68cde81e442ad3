// SPDX-License-Identifier: MIT
//
// userspace/policy/rates.hpp: reading "pps" and "burst", of limits and of what passes ahead of the rules.
#pragma once

#include "userspace/policy/policy.hpp"
#include "userspace/policy/reader.hpp"

namespace xdpgpu::policy {

// "pps", which must be there, and "burst" of an object; default: a second's worth.
Rate read_rate(Report& report, const Fields& fields);
// The policy's "rates": what is not named stays.
void read_rates(Report& report, const Place& place, Rates& into);
// As the XDP program counts.
xg_rate compiled_rate(const Rate& rate);

}  // namespace xdpgpu::policy
