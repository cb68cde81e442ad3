// SPDX-License-Identifier: MIT
//
// userspace/control/signals.hpp: what signals mean to an attach. SIGTERM, SIGINT and SIGQUIT are orders to
// detach, SIGHUP to apply the policy file again, and SIGUSR1 to open the logs' files anew; the broker takes
// them. No other signal that can be ignored means anything, or ends either process.
#pragma once

namespace xdpgpu::control {

// For the calling process and those that it makes. SIGHUP waits from here on until somebody takes it. SIGUSR1
// is nothing, in each of them, but to the broker, who blocks it: a signal that is blocked comes, ignored or
// not.
void ignore_what_is_no_order() noexcept;
// The data plane's, whose orders come from the broker: all of them are ignored, and none is blocked any more.
void ignore_all_signals() noexcept;

}  // namespace xdpgpu::control
