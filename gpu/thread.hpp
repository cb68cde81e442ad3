// SPDX-License-Identifier: MIT
//
// gpu/thread.hpp: threads that work beside the process's own: how they start, what they do between two looks,
// and how they tell the time.
#pragma once

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <string>
#include <thread>
#include <utility>

#include "maps/types.h"

namespace xdpgpu::gpu {

// CLOCK_MONOTONIC, which is also the XDP program's clock. No system call.
inline u64 monotonic_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<u64>(now.tv_sec) * 1'000'000'000 + static_cast<u64>(now.tv_nsec);
}

inline void relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

// A thread that no signal goes to: those are for the process's own. name: 15 characters at most; the thread
// takes it by itself, as another one's is a file of /proc, and root's where the user has changed. Throws what
// std::thread throws; the caller's signals are then as before.
template <class Run>
std::thread start_thread(const std::string& name, Run&& run) {
  struct Blocked {
    Blocked() noexcept {
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, &before);
    }
    ~Blocked() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
    Blocked(const Blocked&) = delete;
    Blocked& operator=(const Blocked&) = delete;
    sigset_t before;
  };
  const Blocked blocked;
  return std::thread([name, run = std::forward<Run>(run)]() mutable {
    pthread_setname_np(pthread_self(), name.c_str());
    run();
  });
}

}  // namespace xdpgpu::gpu
