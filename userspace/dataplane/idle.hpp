// SPDX-License-Identifier: MIT
//
// userspace/dataplane/idle.hpp: how a worker waits: it spins while work keeps coming and sleeps in
// poll(2) when it does not, so that a quiet link costs no core and a busy one no sleep.
#pragma once

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <vector>

#include "userspace/kernel/kernel.hpp"

namespace xdpgpu::dataplane {

inline void cpu_relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

// What the worker found in its last turn, the more urgent first.
enum class Load {
  busy,     // packets came or went: turn again at once
  waiting,  // the device is computing: its answer is microseconds away
  sending,  // transmissions wait for their completion, which no descriptor announces
  idle,     // nothing until a packet comes
};

class Idle {
 public:
  // Sleeps end when one of `fds` is readable, or at wake(). The longest sleep keeps the heartbeat fresh.
  Idle(const std::vector<int>& fds, int longest_ms)
      : wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)), longest_ms_(longest_ms) {
    for (const int fd : fds) polled_.push_back({fd, POLLIN, 0});
    polled_.push_back({wake_.get(), POLLIN, 0});
  }

  // From any thread: the worker's next or present sleep ends.
  void wake() noexcept {
    const u64 one = 1;
    [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof(one));
  }

  void rest(Load load) noexcept {
    if (load == Load::busy) {
      quiet_turns_ = 0;
      return;
    }
    ++quiet_turns_;
    if (load == Load::waiting) {
      // Long computations should not starve whoever shares the core.
      if (quiet_turns_ % kTurnsBeforeYield == 0) sched_yield();
      cpu_relax();
      return;
    }
    if (quiet_turns_ < kTurnsBeforeSleep) {
      cpu_relax();
      return;
    }
    sleep(load == Load::sending ? 1 : longest_ms_);
  }

 private:
  static constexpr u32 kTurnsBeforeYield = 1024;
  static constexpr u32 kTurnsBeforeSleep = 32;

  void sleep(int most_ms) noexcept {
    ::poll(polled_.data(), polled_.size(), most_ms);
    if (polled_.back().revents & POLLIN) {
      u64 count = 0;
      [[maybe_unused]] const ssize_t taken = read(wake_.get(), &count, sizeof(count));
    }
  }

  kernel::Fd wake_;
  int longest_ms_;
  std::vector<pollfd> polled_;
  u32 quiet_turns_ = 0;
};

}  // namespace xdpgpu::dataplane
