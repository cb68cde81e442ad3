// SPDX-License-Identifier: MIT
//
// userspace/policy/notes.hpp: what is legal in a policy and likely not what was meant.
#pragma once

#include <string>
#include <vector>

#include "userspace/policy/policy.hpp"

namespace xdpgpu::policy {

// Does every packet that `b` matches match `a`, too? Errs towards no: where lists are too long to compare,
// and where only several conditions of `a` together hold one of `b`.
bool covers(const Policy& policy, const Match& a, const Match& b);

// "a", "a" and "b", or "a" and 3 more, of one name or more.
std::string named(const std::vector<std::string>& names);

// A sentence each: fragment_notes; conntrack_notes; "default": "drop" without management; lists that are
// empty or hold every address; rules that are never met; pipelines that no rule names; and of each pipeline
// its ACL rules that are never met, backends that are equal, and route files without a route. Of a kind that
// a policy is full of the first 20, and how many more there are.
std::vector<std::string> notes(const Policy& policy);

}  // namespace xdpgpu::policy
