// SPDX-License-Identifier: MIT
//
// userspace/policy/one_sided.hpp: whether both sides of connections come to a pipeline that follows them, or
// sends them on ("streams" and "on_unsupported" of `signatures`), as far as the policy's rules say. Whether
// both come by attached interfaces at all, a policy does not know.
#pragma once

#include <string>
#include <vector>

#include "userspace/policy/policy.hpp"

namespace xdpgpu::policy {

struct Sides {
  // Whose packets come: none of one side where each rule that leads to the pipeline names the server's ports,
  // and none leads there the other way.
  bool to_server = true, to_client = true;
  std::vector<std::string> one_way;   // rules that lead there, and no rule the other way
  std::vector<std::string> by_flags;  // rules that lead there by TCP flags
};
// Of a pipeline with more than a thousand such rules nothing is said: each would be compared with each.
Sides sides_of(const Policy& policy, const Pipeline& pipeline);

// What is likely not meant, a sentence each.
std::vector<std::string> one_sided_notes(const Policy& policy);

}  // namespace xdpgpu::policy
