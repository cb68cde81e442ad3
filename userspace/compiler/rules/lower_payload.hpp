// SPDX-License-Identifier: MIT
//
// userspace/compiler/rules/lower_payload.hpp: what a rule asks of the payload, as steps of a signature.
#pragma once

#include "userspace/compiler/rules/lower.hpp"

namespace xdpgpu::rules {

struct LoweredPayload {
  std::vector<gpu::signatures::Step> steps;
  std::optional<gpu::signatures::FastPattern> fast_pattern;
  std::vector<NotYet> not_yet;
};
// payload: the rule's buffer of that name.
LoweredPayload lower_payload(const Rule& rule, const Buffer& payload);

}  // namespace xdpgpu::rules
