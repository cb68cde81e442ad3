// SPDX-License-Identifier: MIT
#include "userspace/control/statuses.hpp"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "userspace/control/client.hpp"
#include "userspace/control/request/status.hpp"
#include "userspace/kernel/pins.hpp"

namespace xdpgpu::control {
namespace names = kernel::names;

// Where there is a program on the interface and nobody to go with it, it is dead.
Answered ask_for_status(const std::string& ifname, const names::Scope& scope) {
  auto report = ask<Status>(ifname, {}, {}, scope);
  if (report) return std::move(*report);
  using Why = Unanswered::Why;
  std::string sentence = std::move(report.error().sentence);
  if (report.error().refused) return tl::unexpected(Unanswered{std::move(sentence), Why::refused});
  const auto found = look_for_process(ifname, scope);
  const bool allowed = access(names::socket(ifname, scope).c_str(), W_OK) == 0;
  const Why why = found == Presence::absent            ? Why::gone
                  : found == Presence::dead || allowed ? Why::dead
                                                       : Why::refused;
  return tl::unexpected(Unanswered{std::move(sentence), why});
}

void each_status(bool only_here, const TellStatus& tell) {
  const auto ask_those_of = [&](const names::Scope& scope) {
    const auto attached = names::interfaces_with_socket(scope);
    // What "detach --keep" has left decides, too.
    for (const auto& ifname : names::interfaces_with_pins(scope))
      if (std::find(attached.begin(), attached.end(), ifname) == attached.end() &&
          kernel::pinned_link(ifname, scope))
        tell(ifname, scope, tl::unexpected(Unanswered{not_attached(ifname, scope), Unanswered::Why::left}));
    for (const auto& ifname : attached) {
      auto status = ask_for_status(ifname, scope);
      if (status || status.error().why != Unanswered::Why::gone) tell(ifname, scope, std::move(status));
    }
  };
  ask_those_of(names::own_scope());
  if (!only_here)
    for (const auto& scope : names::other_scopes()) ask_those_of(scope);
}

}  // namespace xdpgpu::control
