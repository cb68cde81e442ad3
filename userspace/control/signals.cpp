// SPDX-License-Identifier: MIT
#include "userspace/control/signals.hpp"

#include <signal.h>

#include <initializer_list>

namespace xdpgpu::control {
namespace {

constexpr int kNoOrders[] = {SIGUSR1, SIGALRM, SIGPIPE, SIGVTALRM, SIGPROF, SIGIO, SIGSTKFLT, SIGPWR};
constexpr int kOrders[] = {SIGHUP, SIGINT, SIGTERM, SIGQUIT, SIGUSR2};

}  // namespace

void ignore_what_is_no_order() noexcept {
  for (const int number : kNoOrders) signal(number, SIG_IGN);
  sigset_t waiting;
  sigemptyset(&waiting);
  for (const int number : {SIGHUP, SIGUSR2}) sigaddset(&waiting, number);
  sigprocmask(SIG_BLOCK, &waiting, nullptr);
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
