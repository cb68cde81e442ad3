// SPDX-License-Identifier: MIT
#include "userspace/control/signals.hpp"

#include <signal.h>

namespace xdpgpu::control {
namespace {

constexpr int kNoOrders[] = {SIGUSR1, SIGUSR2, SIGALRM,   SIGPIPE, SIGVTALRM,
                             SIGPROF, SIGIO,   SIGSTKFLT, SIGPWR};
constexpr int kOrders[] = {SIGHUP, SIGINT, SIGTERM, SIGQUIT};

}  // namespace

void ignore_what_is_no_order() noexcept {
  for (const int number : kNoOrders) signal(number, SIG_IGN);
  sigset_t hangup;
  sigemptyset(&hangup);
  sigaddset(&hangup, SIGHUP);
  sigprocmask(SIG_BLOCK, &hangup, nullptr);
}

void ignore_all_signals() noexcept {
  for (const int number : kNoOrders) signal(number, SIG_IGN);
  // Ignored first: what came while they were blocked is then nothing, either.
  for (const int number : kOrders) signal(number, SIG_IGN);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

}  // namespace xdpgpu::control
