// SPDX-License-Identifier: MIT
//
// userspace/compiler/rules/told_by_header.hpp: which packets' flows a rule that is not decided is for, as far
// as the first packet of a flow tells: by addresses, ports and protocol. Whoever sends such flows to another
// system goes by that.
#pragma once

#include "userspace/compiler/rules/lower.hpp"

namespace xdpgpu::rules {

// Of a rule of which there is no signature, or whose signature leaves out what it says of DNS over TCP. Both
// ways: a rule may fire with an answer. Nothing: all is decided; or no first packet tells, as the rule is for
// an application's protocol on any port, for what Suricata's decoder finds, or configures Suricata.
std::optional<gpu::signatures::Header> told_by_header(const Rule& rule, const Lowered& lowered);

// Whether something of it is left to others.
bool is_left(const Lowered& lowered);

}  // namespace xdpgpu::rules
