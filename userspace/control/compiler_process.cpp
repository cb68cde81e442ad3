// SPDX-License-Identifier: MIT
#include "userspace/control/compiler_process.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sodium.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "userspace/compiler/compiler.hpp"
#include "userspace/compiler/disk_cache.hpp"
#include "userspace/compiler/kept_code.hpp"
#include "userspace/compiler/ptx.hpp"
#include "userspace/compiler/translations.hpp"
#include "userspace/control/device_codes.hpp"
#include "userspace/control/forked.hpp"
#include "userspace/control/output_relay.hpp"
#include "userspace/control/privileges.hpp"
#include "userspace/control/seccomp.hpp"
#include "userspace/control/signals.hpp"

namespace xdpgpu::control {
namespace {

// Where memory is short it goes before the data plane: that costs one command, and no packet.
constexpr int kWorseThanTheBroker = 600;
// It runs beside workers that spin, and may be started on their core.
constexpr int kNice = 10;

// Its own folder: what is in there is the word of a compiler that has seen strangers' programs.
tl::expected<compiler::DiskCache, std::string> program_code() {
  if (auto above = compiler::DiskCache::open(kCodeFolder); !above) return above;
  return compiler::DiskCache::open(kProgramCodeFolder, compiler::KeptCode::kMost);
}

}  // namespace

Result<kernel::Fd> CompilerProcess::start() {
  end();
  const auto now = Clock::now();
  while (!starts_.empty() && now - starts_.front() > kStartsWithin) starts_.pop_front();
  if (starts_.size() >= kMostStarts)
    return Error(
        fmt::format("{} compilers were started within {} s, and each has ended: see what they were "
                    "given, and why they end (dmesg); try again in a while",
                    starts_.size(), kStartsWithin.count()));
  starts_.push_back(now);
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0)
    return Error(fmt::format("the compiler cannot be started: {}", std::strerror(errno)));
  kernel::Fd own(fds[0]), others(fds[1]);
  kernel::Fd keeper;
  // Without it code is made again at each start.
  if (makes_ == Makes::translations && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) == 0) {
    keeper_ = kernel::Fd(fds[0]);
    keeper = kernel::Fd(fds[1]);
  }
  std::fflush(nullptr);
  const pid_t broker = getpid();
  child_ = fork();
  if (child_ < 0) return Error(fmt::format("the compiler cannot be started: {}", std::strerror(errno)));
  if (child_ != 0) return others;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != broker) _exit(1);
  forget_();
  become_it(std::move(own), std::move(keeper), broker);
}

// Nothing of the broker's is destroyed here: the process ends by _exit.
void CompilerProcess::become_it(kernel::Fd socket, kernel::Fd keeper, pid_t broker) noexcept {
  const auto fail = [this](const std::string& why) {
    std::fprintf(stderr, "xdpgpu: %s: %s\n", name(), why.c_str());
    _exit(1);
  };
  prctl(PR_SET_NAME, makes_ == Makes::translations ? "xdpgpu-programs" : "xdpgpu-compiler");
  prefer_for_the_oom_killer(kWorseThanTheBroker);
  // An attach's, which has no relay yet, says nothing: whoever waits for it finds that it has ended.
  if (auto silenced = silence(Outputs::terminals); !silenced) fail(silenced.error());
  if (auto left = leave_terminal(); !left) fail(left.error());
  std::vector<int> own{socket.get()};
  if (keeper) own.push_back(keeper.get());
  close_others(std::move(own));
  ignore_all_signals();
  // Its hashes are chosen by what the processor has, which is looked for once.
  if (sodium_init() < 0) fail("libsodium does not work here");
  // A network of its own has no interface but a loopback that is down. Where it may not make one, the filter
  // lets it have no socket all the same.
  if (unshare(CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS) != 0)
    std::fprintf(
        stderr,
        "xdpgpu: %s has no network namespace of its own (%s): its system-call filter alone keeps it from the "
        "network\n",
        name(), std::strerror(errno));
  const rlimit none{0, 0}, most{compiler::kMostAnswer, compiler::kMostAnswer};
  (void)setrlimit(RLIMIT_CORE, &none);
  (void)setrlimit(RLIMIT_FSIZE, &most);  // of memory that it hands over
  (void)setpriority(PRIO_PROCESS, 0, kNice);
  compiler::KeptCode kept;
  if (keeper)
    if (const auto folder = program_code()) kept = compiler::KeptCode(*folder, std::move(keeper));
  if (auto dropped = become_nobody(); !dropped) fail(dropped.error());
  // Who changes its user outlives its parent, unless it says so again.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != broker) _exit(1);
  // It was root's memory, and is nobody's to look into who has the same user.
  prctl(PR_SET_DUMPABLE, 0);
  // While files can be opened; where it cannot be had, an order for code is answered with why.
  if (makes_ == Makes::device_code) (void)compiler::load_ptx_compiler();
  if (makes_ == Makes::translations) (void)compiler::load_translator();
  if (filter_)
    if (auto restricted = restrict_compiler(); !restricted) fail(restricted.error());
  _exit(compiler::serve(
      socket.get(), makes_ == Makes::images ? compiler::Takes::everything : compiler::Takes::orders_for_code,
      std::move(kept)));
}

void CompilerProcess::keep_code() {
  char none = 0;
  if (!keeper_ || recv(keeper_.get(), &none, 1, MSG_PEEK | MSG_DONTWAIT) <= 0) return;
  const auto folder = program_code();
  const auto kept = folder ? compiler::keep_what_came(keeper_.get(), *folder)
                           : tl::expected<void, std::string>(tl::unexpected(folder.error()));
  if (kept || std::exchange(is_told_, true)) return;
  say_(fmt::format("the code of programs is made again at the next start: {}", kept.error()));
}

void CompilerProcess::reap() {
  keep_code();
  int status = 0;
  if (child_ < 0 || waitpid(child_, &status, WNOHANG) != child_) return;
  child_ = -1;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS)
    return say_(
        fmt::format("{} asked the kernel for what it must never ask for and was killed by its system-call "
                    "filter: look at what policies, lists and programs it was given",
                    name()));
  if (WIFSIGNALED(status))
    return say_(
        fmt::format("{} was killed by signal {} ({}); packets go on, and the next policy gets another one",
                    name(), WTERMSIG(status), strsignal(WTERMSIG(status))));
  say_(fmt::format("{} ended with status {}; packets go on, and the next policy gets another one", name(),
                   WEXITSTATUS(status)));
}

void CompilerProcess::end() noexcept {
  keeper_ = kernel::Fd();
  if (child_ < 0) return;
  kill(child_, SIGKILL);
  while (waitpid(child_, nullptr, 0) < 0 && errno == EINTR) continue;
  child_ = -1;
}

}  // namespace xdpgpu::control
