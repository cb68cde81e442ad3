// SPDX-License-Identifier: MIT
//
// userspace/control/busy_poll.hpp: the interface's side of busy polling. A worker that polls the driver
// itself gains nothing while interrupts do the same work; napi_defer_hard_irqs and gro_flush_timeout
// put them off as long as somebody polls. What was changed is written to
// <ifname>.busy-poll beside the control socket first, so that a killed attach's changes can be undone by the
// next command.
#pragma once

#include <string>
#include <vector>

#include "userspace/control/result.hpp"

namespace xdpgpu::control {

class BusyPollGuard {
 public:
  // Sets what is 0 of the two settings; what the operator has set stays, and what a dead attach has set is
  // taken over. On failure nothing stays changed.
  static Result<BusyPollGuard> set(const std::string& ifname);
  BusyPollGuard() = default;
  BusyPollGuard(BusyPollGuard&& other) noexcept;
  BusyPollGuard& operator=(BusyPollGuard&& other) noexcept;
  BusyPollGuard(const BusyPollGuard&) = delete;
  BusyPollGuard& operator=(const BusyPollGuard&) = delete;
  ~BusyPollGuard();  // sets them back
  void restore() noexcept;
  void rename(const std::string& ifname);     // the interface has another name
  void leave() noexcept { ifname_.clear(); }  // as they are, for a later attach to take over

 private:
  std::string ifname_;
};

// Whether the operator has set up the interface for busy polling: both settings are not 0. False where
// that cannot be told.
bool is_set_up_for_busy_poll(const std::string& ifname);

// Sets back what a dead attach set, unless somebody has changed it since; the settings' names.
std::vector<std::string> restore_busy_poll(const std::string& ifname);

}  // namespace xdpgpu::control
