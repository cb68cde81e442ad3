// SPDX-License-Identifier: MIT
#include "userspace/control/program_reader.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <utility>

#include "userspace/compiler/programs/exchange.hpp"
#include "userspace/control/forked.hpp"
#include "userspace/control/output_relay.hpp"
#include "userspace/control/privileges.hpp"
#include "userspace/control/seccomp.hpp"
#include "userspace/kernel/descriptors.hpp"

namespace xdpgpu::control {
namespace {

using programs::ObjectProgram;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kLongest{20};
constexpr rlim_t kMostMemory = rlim_t{1} << 30;
// Where memory is short it goes before whoever waits for it, and before any data plane.
constexpr int kWorseThanItsParent = 600;
// What it exits with where memory is not enough.
constexpr int kNoMemory = 3;

#if defined(XDPGPU_SANITIZED)
constexpr bool kSanitized = true;  // its runtime maps terabytes
#else
constexpr bool kSanitized = false;
#endif

// What there is to be handed over, or why there is nothing.
kernel::Fd answer(std::string_view object, const programs::Choice& which, const kernel::Fd& kernel_types) {
  const auto read_types = [&] {
    std::vector<std::byte> all;
    constexpr std::size_t kAtOnce = std::size_t{1} << 20, kMost = std::size_t{64} << 20;
    while (all.size() < kMost) {
      const std::size_t had = all.size();
      all.resize(had + kAtOnce);
      const ssize_t got = read(kernel_types.get(), all.data() + had, kAtOnce);
      all.resize(had + static_cast<std::size_t>(got > 0 ? got : 0));
      if (got <= 0) break;
    }
    return all;
  };
  const auto program = programs::read_program(std::as_bytes(std::span(object)), which, read_types);
  auto memory = program ? programs::write_program(*program) : programs::write_refusal(program.error());
  if (!memory) return {};
  return *std::move(memory);
}

// Anonymous memory that is shared, as libbpf has it for variables, is none of RLIMIT_DATA's; so all of it is
// limited, too, beyond what it was forked with.
void limit_memory() {
  u64 pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t all = pages * static_cast<u64>(sysconf(_SC_PAGESIZE)) + kMostMemory;
  const rlimit data{kMostMemory, kMostMemory}, space{all, all};
  (void)setrlimit(RLIMIT_DATA, &data);
  (void)setrlimit(RLIMIT_AS, &space);
}

// Nothing of the parent's is destroyed here: the process ends by _exit.
[[noreturn]] void read_and_exit(kernel::Fd socket, std::string_view object, const programs::Choice& which,
                                bool filter, pid_t parent) noexcept {
  const auto fail = [&](const std::string& why) {
    if (auto refused = programs::write_refusal(why)) {
      const int fd = refused->get();
      (void)kernel::send_with(socket.get(), std::as_bytes(std::span("!", 1)), std::span(&fd, 1), 0);
    }
    _exit(1);
  };
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  prctl(PR_SET_NAME, "xdpgpu-reader");
  prefer_for_the_oom_killer(kWorseThanItsParent);
  // It may be taken over: a terminal would do what it says, and let it type.
  if (auto silenced = silence(Outputs::all); !silenced) fail(silenced.error());
  if (auto left = leave_terminal(); !left) fail(left.error());
  const kernel::Fd kernel_types(open("/sys/kernel/btf/vmlinux", O_RDONLY | O_CLOEXEC));
  close_others({socket.get(), kernel_types.get()});
  const rlimit none{0, 0}, file{programs::kMostExchanged, programs::kMostExchanged},
      time{static_cast<rlim_t>(kLongest.count()), static_cast<rlim_t>(kLongest.count())};
  (void)setrlimit(RLIMIT_CORE, &none);
  (void)setrlimit(RLIMIT_FSIZE, &file);
  (void)setrlimit(RLIMIT_CPU, &time);
  if (!kSanitized) limit_memory();
  if (geteuid() == 0) {
    // Where it may not have a network of its own, the filter lets it have no socket all the same.
    (void)unshare(CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS);
    if (auto dropped = become_nobody(Groups::none); !dropped) fail(dropped.error());
  } else if (auto dropped = drop_all_privileges(); !dropped) {
    fail(dropped.error());
  }
  // Who changes its user outlives its parent, unless it says so again.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  prctl(PR_SET_DUMPABLE, 0);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) fail("its reader cannot give up its privileges");
  if (filter)
    if (auto restricted = restrict_compiler(); !restricted) fail(restricted.error());
  kernel::Fd read;
  try {
    read = answer(object, which, kernel_types);
  } catch (const std::bad_alloc&) {
    _exit(kNoMemory);
  }
  const int fd = read.get();
  if (!read || !kernel::send_with(socket.get(), std::as_bytes(std::span("!", 1)), std::span(&fd, 1), 0))
    _exit(1);
  _exit(0);
}

// What it died of; it is not waited for any longer.
std::string end_of(pid_t child, bool too_long) {
  kill(child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (too_long || (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU))
    return fmt::format("reading it took more than {} s", kLongest.count());
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS)
    return "its reader asked the kernel for what it must never ask for and was killed: the object is an "
           "attack, or libbpf is of a version that needs more";
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNoMemory)
    return fmt::format("reading it takes more than the {} MiB of memory that its reader has",
                       kMostMemory >> 20);
  if (WIFSIGNALED(status))
    return fmt::format("its reader was killed by signal {} ({}): the object is damaged", WTERMSIG(status),
                       strsignal(WTERMSIG(status)));
  return fmt::format(
      "its reader ended with status {}: it may need more than the {} MiB of memory that it has",
      WEXITSTATUS(status), kMostMemory >> 20);
}

}  // namespace

Result<ObjectProgram> read_program_apart(std::string_view object, const programs::Choice& which,
                                         bool filter) {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0)
    return Error(fmt::format("its reader cannot be started: {}", std::strerror(errno)));
  kernel::Fd own(fds[0]), others(fds[1]);
  std::fflush(nullptr);
  const pid_t parent = getpid(), child = fork();
  if (child < 0) return Error(fmt::format("its reader cannot be started: {}", std::strerror(errno)));
  if (child == 0) {
    own = kernel::Fd();
    read_and_exit(std::move(others), object, which, filter, parent);
  }
  others = kernel::Fd();
  const auto end = Clock::now() + kLongest;
  pollfd ready{own.get(), POLLIN, 0};
  int count = 0;
  do {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) return Error(end_of(child, true));
    count = poll(&ready, 1, static_cast<int>(left));
  } while (count == 0 || (count < 0 && errno == EINTR));
  std::byte word{};
  auto arrived = kernel::receive_with(own.get(), std::span(&word, 1));
  std::string ended = end_of(child, false);
  if (arrived.length != 1 || !arrived.whole || arrived.descriptors.size() != 1)
    return Error(std::move(ended));
  const auto memory = compiler::SealedMemory::map(arrived.descriptors.front(), programs::kMostExchanged);
  if (!memory) return Error(memory.error());
  auto read = programs::read_exchanged(*memory);
  if (!read) return Error(std::move(read.error()));
  return *std::move(read);
}

policy::ObjectReader object_reader() {
  return
      [](std::string_view object, const programs::Choice& which) -> tl::expected<std::string, std::string> {
        const auto mode = seccomp_mode(std::getenv("XDPGPU_SECCOMP"));
        if (!mode) return tl::unexpected(mode.error());
        const auto program = read_program_apart(object, which, *mode == SeccompMode::filter);
        if (!program) return tl::unexpected(program.error());
        return programs::to_bytes(*program);
      };
}

}  // namespace xdpgpu::control
