// SPDX-License-Identifier: MIT
//
// userspace/control/decide.hpp: what the XDP program's rules say of a packet, in plain C++: the walk of
// bpf/rules.bpf.h over the same tables. For `replay` without root, and for ports that deliver no
// metadata.
#pragma once

#include <functional>
#include <vector>

#include "maps/control.h"
#include "maps/parse.h"
#include "userspace/policy/classify.hpp"

namespace xdpgpu::control {

struct Decision {
  u32 reason = XG_KERNEL_pass_default;  // XG_KERNEL_*; inspected: goes to `pipeline`
  int rule = -1;                        // compiled rule index that decided; -1: none
  u16 pipeline = 0;
  std::vector<u32> mirrors;  // compiled rule indexes of the rules on the way that mirror the packet
  bool no_answer = false;    // to management, which an entry turned around matches: it went on to the rules
};

// Does the packet conform to the limit of compiled rule `index`? Counts it if so. Of XG_RULE_ANSWER: is it an
// answer to management?
using Conforms = std::function<bool(const xg_rule& rule, u32 index, const xg_packet& packet)>;
// Is the control packet within its protocol's rate? Counts it if so.
using WithinRate = std::function<bool(const xg_packet& packet)>;

policy::PacketFacts facts_of(const xg_packet& packet, u32 control_named);
xg_rule rule_at(const policy::Tables& tables, u32 index);
Decision decide(const policy::Tables& tables, const xg_packet& packet, const Conforms& conforms,
                const WithinRate& within_rate);

// Of a reason's outcome: XG_DROP, XG_PASS, XG_TX, XG_REDIRECT; XG_ABORTED for what is lost or goes on.
u32 action_of(u32 reason);
// The reason's words in maps/counters.h, and its name.
const char* reason_text(u32 reason);
const char* reason_name(u32 reason);

}  // namespace xdpgpu::control
