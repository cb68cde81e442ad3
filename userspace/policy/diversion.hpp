// SPDX-License-Identifier: MIT
//
// userspace/policy/diversion.hpp: which packets that come to a pipeline leave it for another interface, ahead
// of it: those of flows that rules of its stage are for which the stage does not decide ("on_unsupported").
#pragma once

#include <string>
#include <vector>

#include "userspace/policy/policy.hpp"

namespace xdpgpu::policy {

struct Diversion {
  u16 pipeline = 0;
  std::string to;  // the interface
  // A packet that meets any of them leaves. None is met by all packets that another one is met by. Prefixes
  // and protocols are written out; packets that are not IP meet none.
  std::vector<Match> conditions;
};
// Of those pipelines that have one, in their order.
std::vector<Diversion> diversions_of(const Policy& policy);

}  // namespace xdpgpu::policy
