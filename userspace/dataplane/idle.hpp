// SPDX-License-Identifier: MIT
//
// userspace/dataplane/idle.hpp: how a worker waits: it spins while work keeps coming and sleeps in
// poll(2) when it does not, so that a quiet link costs no core and a busy one no sleep.
#pragma once

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "userspace/dataplane/clock.hpp"
#include "userspace/kernel/kernel.hpp"

namespace xdpgpu::dataplane {

// What the worker found in its last turn, the more urgent first.
enum class Load {
  busy,     // packets came or went: turn again at once
  waiting,  // the device is computing: its answer is microseconds away
  moving,   // a flow may go to the kernel as soon as what was sent has arrived: microseconds away
  sending,  // transmissions wait for their completion, which no descriptor announces
  idle,     // nothing until a packet comes
};

// When to turn again at once, when to spin and when to sleep. Of one thread.
class Pace {
 public:
  // longest_ms: of a sleep; spin_ns: looking on after the last packet, before the first sleep.
  Pace(int longest_ms, u64 spin_ns)
      : longest_ms_(longest_ms), spin_ns_(spin_ns), spin_moving_ns_(std::max(spin_ns, kSpinMovingNs)) {}

  // now_ns: when the turn began. sleep(ms) may end early.
  template <class Sleep>
  void rest(Load load, u64 now_ns, Sleep&& sleep) noexcept {
    if (load == Load::busy) {
      busy_ns_ = now_ns;
      while (monotonic_ns() - now_ns < kLeastTurnNs) gpu::relax();
      return;
    }
    if (load == Load::waiting) {
      // Long computations should not starve whoever shares the core.
      if (++waits_ % kWaitsBeforeYield == 0) sched_yield();
      gpu::relax();
      return;
    }
    if (now_ns - busy_ns_ < (load == Load::moving ? spin_moving_ns_ : spin_ns_)) {
      gpu::relax();
      return;
    }
    sleep(load == Load::idle ? longest_ms_ : 1);
  }

 private:
  static constexpr u32 kWaitsBeforeYield = 1024;
  // Looking at a ring while another core writes to it costs that core; what comes within a microsecond
  // is taken together.
  static constexpr u64 kLeastTurnNs = 1'000;
  // A flow moves into the kernel in a pause between its packets: the sooner it is known that the last
  // one has left, the shorter the pause may be.
  static constexpr u64 kSpinMovingNs = 200'000;

  int longest_ms_;
  u64 spin_ns_, spin_moving_ns_;
  u64 busy_ns_ = 0;
  u32 waits_ = 0;
};

class Idle {
 public:
  // Sleeps end when one of `fds` is readable, or at wake(). The longest sleep keeps the heartbeat fresh.
  Idle(const std::vector<int>& fds, int longest_ms, u64 spin_ns)
      : wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)), pace_(longest_ms, spin_ns) {
    for (const int fd : fds) polled_.push_back({fd, POLLIN, 0});
    polled_.push_back({wake_.get(), POLLIN, 0});
  }

  // From any thread: the worker's next or present sleep ends.
  void wake() noexcept {
    const u64 one = 1;
    [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof(one));
  }

  // now_ns: when the turn began.
  void rest(Load load, u64 now_ns) noexcept {
    pace_.rest(load, now_ns, [this](int ms) { sleep(ms); });
  }

 private:
  void sleep(int most_ms) noexcept {
    ::poll(polled_.data(), polled_.size(), most_ms);
    if (polled_.back().revents & POLLIN) {
      u64 count = 0;
      [[maybe_unused]] const ssize_t taken = read(wake_.get(), &count, sizeof(count));
    }
  }

  kernel::Fd wake_;
  Pace pace_;
  std::vector<pollfd> polled_;
};

}  // namespace xdpgpu::dataplane
