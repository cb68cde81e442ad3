// SPDX-License-Identifier: MIT
//
// userspace/control/statuses.hpp: `status` asked of one process that has attached interfaces, or of all.
#pragma once

#include <functional>
#include <string>

#include "userspace/control/status_report.hpp"
#include "userspace/kernel/names.hpp"

namespace xdpgpu::control {

// Why there is no answer. refused: the process would not, or the caller may not ask it; dead: nobody decides
// any more but the kernel; gone: there is no such attach; left: none, but what one has left decides.
struct Unanswered {
  enum class Why { refused, dead, gone, left };
  std::string sentence;
  Why why = Why::refused;
};
using Answered = tl::expected<StatusReport, Unanswered>;

// Waits for a process that does not answer as long as ask() does.
Answered ask_for_status(const std::string& ifname,
                        const kernel::names::Scope& scope = kernel::names::own_scope());

// Asks about each interface that is attached, or that something was left on, one after the other; one that
// was detached since it was found is passed over. Several interfaces may be one process's. only_here: in the
// caller's network namespace, else in every one.
using TellStatus = std::function<void(const std::string& ifname, const kernel::names::Scope&, Answered)>;
void each_status(bool only_here, const TellStatus& tell);

}  // namespace xdpgpu::control
