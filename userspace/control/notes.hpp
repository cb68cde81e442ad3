// SPDX-License-Identifier: MIT
//
// userspace/control/notes.hpp: what is legal in a policy and likely not what was meant on this host, or
// beside what is attached (userspace/policy/notes.hpp has what the policy shows by itself).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "userspace/control/fields.hpp"
#include "userspace/policy/policy.hpp"

namespace xdpgpu::control {

// What is taken at attach, and by no policy that is applied: every setting of "io" and "compute", as the
// policy library writes them.
struct AtAttach {
  Json io, compute;
  static void fields(auto& self, auto& field) {
    field("io", self.io);
    field("compute", self.compute);
  }
};
AtAttach taken_at_attach(const policy::Policy& policy);
// The settings of `applied` that differ from what was taken; nothing where none does.
std::optional<std::string> ignored_by_apply(const AtAttach& taken, const policy::Policy& applied);

// Where the policy wants its frames in huge pages: whether so many are free that so many queues have theirs.
std::optional<std::string> huge_page_note(const policy::Policy& policy, u64 queues, u64 free_pages);
// The same for the queues of these interfaces, or for one queue, and this host as it is.
std::optional<std::string> huge_page_note(const policy::Policy& policy,
                                          const std::vector<std::string>& interfaces);

// Which of these interfaces this network namespace does not have; nothing where it has them all.
std::optional<std::string> missing_interfaces_note(const std::vector<std::string>& interfaces);

// All that is to be said of the policy on this host, where nothing is attached yet: policy::notes() and
// huge_page_note().
std::vector<std::string> notes_here(const policy::Policy& policy, const std::vector<std::string>& interfaces);

}  // namespace xdpgpu::control
