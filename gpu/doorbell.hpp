// SPDX-License-Identifier: MIT
//
// gpu/doorbell.hpp: how one thread waits for what another one stores in memory: the one that waits sleeps in
// the kernel, the other one calls the kernel only while somebody sleeps.
//
//   feeding thread                        waiting thread
//   jobs.store(n, release);               if (nothing in jobs for some time)
//   bell.ring();                            bell.sleep([&] { return jobs.load(acquire) != seen; }, ns);
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

#include "maps/types.h"

namespace xdpgpu::gpu {

// One thread sleeps, any may ring.
class Doorbell {
 public:
  // Ends the sleep that is under way or just beginning; what was stored before is seen by `ready`. A fence
  // and a load where nobody sleeps.
  void ring() noexcept {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (asleep_.load(std::memory_order_relaxed) == 0 || asleep_.exchange(0) == 0) return;
    syscall(SYS_futex, &asleep_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  }

  // Sleeps until the bell rings or `most_ns` have passed, or now and then for no reason; not at all where
  // ready() is true.
  template <class Ready>
  void sleep(Ready&& ready, u64 most_ns) noexcept {
    asleep_.store(1);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (!ready()) {
      const timespec most{static_cast<time_t>(most_ns / 1'000'000'000),
                          static_cast<long>(most_ns % 1'000'000'000)};
      syscall(SYS_futex, &asleep_, FUTEX_WAIT_PRIVATE, 1, &most, nullptr, 0);
      sleeps_.store(sleeps() + 1, std::memory_order_relaxed);
    }
    asleep_.store(0, std::memory_order_relaxed);
  }

  // How often the thread has slept. From any thread.
  u64 sleeps() const noexcept { return sleeps_.load(std::memory_order_relaxed); }

 private:
  static_assert(sizeof(std::atomic<u32>) == sizeof(u32) && std::atomic<u32>::is_always_lock_free);
  alignas(64) std::atomic<u32> asleep_{0};
  std::atomic<u64> sleeps_{0};
};

}  // namespace xdpgpu::gpu
