// SPDX-License-Identifier: MIT
#include "userspace/report/attaches.hpp"

#include <set>
#include <utility>

#include "userspace/control/statuses.hpp"

namespace xdpgpu::report {

Answers ask_all(bool only_here) {
  Answers answers;
  std::set<int> seen;
  control::each_status(only_here, [&](const auto& ifname, const auto& scope, control::Answered status) {
    if (status) {
      if (seen.insert(status->pid).second) answers.attaches.push_back({ifname, scope, std::move(*status)});
    } else if (status.error().why == control::Unanswered::Why::refused) {
      answers.refused.push_back(std::move(status.error().sentence));
    } else {
      answers.attaches.push_back({ifname, scope, std::nullopt});
    }
  });
  return answers;
}

}  // namespace xdpgpu::report
