// SPDX-License-Identifier: MIT
#include "userspace/report/attaches.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "userspace/control/client.hpp"
#include "userspace/control/request/status.hpp"
#include "userspace/kernel/names.hpp"
#include "userspace/kernel/pins.hpp"

namespace xdpgpu::report {

Answers ask_all(bool only_here) {
  namespace names = kernel::names;
  Answers answers;
  std::vector<Attach>& all = answers.attaches;
  std::set<int> seen;
  const auto ask_those_of = [&](const names::Scope& scope) {
    const auto attached = names::interfaces_with_socket(scope);
    for (const auto& ifname : attached) {
      auto status = control::ask<control::Status>(ifname, {}, {}, scope);
      if (status) {
        if (seen.insert(status->pid).second) all.push_back({ifname, scope, std::move(*status)});
        continue;
      }
      const bool reached = status.error().refused || access(names::socket(ifname, scope).c_str(), W_OK) == 0;
      if (!reached && errno == ENOENT) continue;  // detached since it was found
      if (!reached || status.error().refused) {
        answers.refused.push_back(std::move(status.error().sentence));
        continue;
      }
      if (control::look_for_process(ifname, scope) != control::Presence::absent)
        all.push_back({ifname, scope, std::nullopt});
    }
    // What "detach --keep" has left, or an attach that died, still decides.
    for (const auto& ifname : names::interfaces_with_pins(scope))
      if (std::find(attached.begin(), attached.end(), ifname) == attached.end() &&
          kernel::pinned_link(ifname, scope))
        all.push_back({ifname, scope, std::nullopt});
  };
  ask_those_of(names::own_scope());
  if (!only_here)
    for (const auto& scope : names::other_scopes()) ask_those_of(scope);
  return answers;
}

}  // namespace xdpgpu::report
