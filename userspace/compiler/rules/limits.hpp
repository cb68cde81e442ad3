// SPDX-License-Identifier: MIT
//
// userspace/compiler/rules/limits.hpp: what Suricata 7 concludes of where contents may stand before it looks
// for them, so that its fast pattern has a place, too. A content behind one that has its place has one:
//
//   content:"a"; depth:1; content:"b"; distance:0; within:1;   b stands within bytes 1 and 2
//
// With constants that changes no answer. For a variable it takes the number that it knows it by: so contents
// begin where they need not. That is done here, too. What ends where it need not is told.
#pragma once

#include <span>

#include "userspace/compiler/rules/text.hpp"

namespace xdpgpu::rules {

// A content's place while it is worked out. Where one is a variable, its number stands for it.
struct ContentLimits {
  u16 size = 0;               // of the content
  u16 offset = 0, depth = 0;  // from the payload's start to the first byte, and behind the last; 0: no limit
  std::int32_t distance = 0, within = 0;
  bool has_offset = false, has_depth = false, has_distance = false, has_within = false;  // by the rule's word
  bool negated = false, ends = false;
  bool varies = false;  // distance or within is a variable
};

// Of a payload's steps in their order. Changes what they point to. False: a depth is of a variable's number,
// and what it is then is not worked out.
struct LimitedStep {
  ContentLimits* content = nullptr;  // nullptr: another step
  bool keeps_start = false;          // behind which contents begin where they would in front of it
};
bool work_out_limits(std::span<const LimitedStep> steps);

}  // namespace xdpgpu::rules
