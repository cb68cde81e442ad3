// SPDX-License-Identifier: MIT
#include "userspace/control/every_thread.hpp"

#include <dirent.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <set>
#include <thread>

#include "maps/types.h"

namespace xdpgpu::control {
namespace {

// The threads' numbers but the caller's.
std::set<pid_t> other_threads() {
  std::set<pid_t> threads;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc/self/task"), closedir);
  for (const dirent* entry; folder && (entry = readdir(folder.get())) != nullptr;)
    if (const pid_t thread = std::atoi(entry->d_name); thread > 0 && thread != gettid())
      threads.insert(thread);
  return threads;
}

#if defined(__x86_64__)

constexpr int kSignal = 33;  // glibc's SIGSETXID, which its sigfillset() leaves out

struct Call {
  long number, first, second;
  std::atomic<int> answers, failures;
} the_call;  // of whom the signal is sent to

void make_call(int) {
  const int before = errno;
  if (syscall(the_call.number, the_call.first, the_call.second) < 0) the_call.failures++;
  the_call.answers++;
  errno = before;
}

// As the kernel has it: glibc's own sigaction() does not take this signal.
struct Action {
  void (*handler)(int);
  unsigned long flags;
  void (*restorer)();
  u64 mask;
};
constexpr unsigned long kRestorer = 0x04000000;

extern "C" void xdpgpu_return_from_signal();
asm(".text\n"
    ".type xdpgpu_return_from_signal, @function\n"
    "xdpgpu_return_from_signal:\n"
    "  mov $15, %rax\n"  // rt_sigreturn
    "  syscall\n"
    ".size xdpgpu_return_from_signal, .-xdpgpu_return_from_signal\n");

bool is_answered(pid_t thread) {
  using Clock = std::chrono::steady_clock;
  const int before = the_call.answers;
  if (syscall(SYS_tgkill, getpid(), thread, kSignal) != 0) return errno == ESRCH;  // it has ended
  for (const auto end = Clock::now() + std::chrono::seconds(1); the_call.answers == before;) {
    if (Clock::now() > end || syscall(SYS_tgkill, getpid(), thread, 0) != 0) return errno == ESRCH;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return true;
}

#endif

}  // namespace

#if defined(__x86_64__)

unsigned call_in_other_threads(long number, long first, long second) noexcept {
  the_call.number = number;
  the_call.first = first;
  the_call.second = second;
  the_call.failures = 0;
  const Action action{make_call, SA_RESTART | kRestorer, xdpgpu_return_from_signal, ~u64{0}};
  Action before{};
  if (syscall(SYS_rt_sigaction, kSignal, &action, &before, sizeof(u64)) != 0)
    return static_cast<unsigned>(other_threads().size());
  unsigned left_out = 0;
  std::set<pid_t> asked;
  // Until none has been made meanwhile by one that had not been asked yet.
  for (bool news = true; news;) {
    news = false;
    for (const pid_t thread : other_threads())
      if (asked.insert(thread).second) {
        news = true;
        errno = 0;
        if (!is_answered(thread)) left_out++;
      }
  }
  // One that is late still finds what answers it.
  if (left_out == 0) syscall(SYS_rt_sigaction, kSignal, &before, nullptr, sizeof(u64));
  return left_out + static_cast<unsigned>(the_call.failures.load());
}

#else

unsigned call_in_other_threads(long, long, long) noexcept {
  return static_cast<unsigned>(other_threads().size());
}

#endif

}  // namespace xdpgpu::control
