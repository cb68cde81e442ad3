// SPDX-License-Identifier: MIT
//
// userspace/report/attaches.hpp: every process that has attached interfaces, asked how it is.
#pragma once

#include <string>
#include <vector>

#include "userspace/report/metrics.hpp"

namespace xdpgpu::report {

struct Answers {
  std::vector<Attach> attaches;
  std::vector<std::string> refused;  // sentences of those that this user may not ask
};

// Each process once, however many interfaces it has; in every network namespace, or in the one that this
// process is in alone. An interface whose process does not answer, or that is dead, is there without a
// status. Waits for a process that does not answer as long as control::ask() does.
Answers ask_all(bool only_here);

}  // namespace xdpgpu::report
