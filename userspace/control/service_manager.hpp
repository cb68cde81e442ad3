// SPDX-License-Identifier: MIT
//
// userspace/control/service_manager.hpp: what the broker tells the service manager that started it, by the
// protocol of sd_notify(3): that packets are handled, how it goes in a sentence, and, where a watchdog wants
// it, that it lives. Of one thread; nothing in here waits.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "userspace/kernel/kernel.hpp"

namespace xdpgpu::control {

class ServiceManager {
 public:
  // There is none, and nobody is told anything.
  ServiceManager() = default;
  // The one that $NOTIFY_SOCKET names, with the watchdog of $WATCHDOG_USEC if it is this process's
  // ($WATCHDOG_PID). They are taken out of the environment: no child is to speak in this process's name.
  // Before there is a second thread.
  static ServiceManager from_environment();

  // Packets are handled: said once, and again until it is taken. status: one sentence, said when it is
  // another one. well: whether the watchdog may know that this process lives; asked as often as that is due.
  void tell(const std::string& status, const std::function<bool()>& well);
  // From here on it ends by order. Nothing more is told.
  void stopping();
  // How long tell() may wait; an hour where nobody waits for it.
  std::chrono::milliseconds due_in() const;

 private:
  using Clock = std::chrono::steady_clock;
  bool send(const std::string& text) const;

  kernel::Fd socket_;                      // connected; none: there is no manager
  std::chrono::microseconds watchdog_{0};  // it gives up after so long; 0: never
  Clock::time_point next_beat_{};
  bool ready_ = false;
  std::string status_;
};

}  // namespace xdpgpu::control
