// SPDX-License-Identifier: MIT
//
// userspace/control/signals.hpp: what signals mean to an attach. SIGTERM, SIGINT and SIGQUIT are orders to
// detach, SIGUSR2 to end and leave what the kernel decides by to the next attach, SIGHUP to apply the policy
// file again, and SIGUSR1 to open the logs' files anew; the broker takes them. No other signal that can be
// ignored means anything, or ends either process.
#pragma once

namespace xdpgpu::control {

// For the calling process and those that it makes. SIGHUP and SIGUSR2 wait from here on until somebody takes
// them. SIGUSR1 is nothing, in each of them, but to the broker, who blocks it: a signal that is blocked
// comes, ignored or not.
void ignore_what_is_no_order() noexcept;
// The data plane's, whose orders come from the broker: all of them are ignored, and none is blocked any more.
void ignore_all_signals() noexcept;

}  // namespace xdpgpu::control
