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

// A thread that no signal goes to: those are for the process's own. name: 15 characters at most. Throws what
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
  std::thread thread(std::forward<Run>(run));
  pthread_setname_np(thread.native_handle(), name.c_str());
  return thread;
}

}  // namespace xdpgpu::gpu
