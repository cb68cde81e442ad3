// SPDX-License-Identifier: MIT
//
// userspace/control/first_policy.hpp: the policy that a host begins with ("xdpgpu policy init"). It keeps out
// what nobody asked for, and neither whoever manages the host nor what it serves now.
#pragma once

#include <string>
#include <vector>

#include "userspace/host/exposure.hpp"

namespace xdpgpu::control {

struct FirstPolicy {
  std::string host;                   // its name, for whoever reads it
  host::Exposure exposure;            // the management port is left out of what is served
  std::vector<std::string> managers;  // prefixes that manage it; at least one
  bool managers_named = false;        // by the operator; else they were found on the host
  u16 management_port = 22;           // TCP
  std::string schema{};               // where it is, for editors; empty: it is not said
};

// The policy's text, which compiles.
std::string first_policy(const FirstPolicy& facts);

}  // namespace xdpgpu::control
