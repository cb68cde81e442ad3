// SPDX-License-Identifier: MIT
#include "userspace/control/policy_reload.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <syslog.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "userspace/compiler/compiled_policy.hpp"
#include "userspace/control/client.hpp"
#include "userspace/control/program_reader.hpp"
#include "userspace/control/request/policy_apply.hpp"

namespace xdpgpu::control {
namespace {

std::string refused(const std::string& file, const std::string& ifname, const std::string& why) {
  return fmt::format(
      "SIGHUP: {} was not applied, and the policy that was in force on {} stays: {}; mend it, and send "
      "SIGHUP again or run \"xdpgpu policy apply {} {}\"",
      file, ifname, why, kernel::names::operand(ifname), file);
}

// What came of it, and what the policy probably does not mean: a sentence each.
std::vector<std::string> apply_again(const std::string& file, const std::string& ifname) {
  auto source = compiler::read_policy(file, object_reader());
  if (!source) return {refused(file, ifname, source.error().sentence)};
  // What was tried without dropping anything goes on to be tried so.
  const auto answer =
      ask<PolicyApply>(ifname, {.text = std::move(source->text), .file = source->file, .keep_audit = true},
                       std::move(source->files));
  if (!answer) return {refused(file, ifname, answer.error().sentence)};
  std::vector<std::string> said{fmt::format("SIGHUP: {} is in force on {}: generation {}, hash {}{}", file,
                                            ifname, answer->generation, answer->hash,
                                            answer->audit ? "; it drops nothing (--audit)" : "")};
  for (const auto& note : answer->notes) said.push_back("note: " + note);
  return said;
}

}  // namespace

void PolicyReload::end() noexcept {
  if (child_ < 0) return;
  kill(child_, SIGKILL);
  while (waitpid(child_, nullptr, 0) < 0 && errno == EINTR) continue;
  child_ = -1;
}

void PolicyReload::interrupt() noexcept {
  asked_ |= child_ >= 0;
  end();
}

void PolicyReload::begin(const std::string& ifname) {
  if (child_ >= 0 || !std::exchange(asked_, false)) return;
  if (file_.empty())
    return say_(fmt::format(
        "SIGHUP: it was attached with --pass-all, or by a policy from standard input, so there is no policy "
        "file to apply again; \"xdpgpu policy apply {} FILE\" puts one in force",
        kernel::names::operand(ifname)));
  const pid_t broker = getpid();
  child_ = fork();
  if (child_ < 0) say_(refused(file_, ifname, fmt::format("cannot fork: {}", std::strerror(errno))));
  if (child_ != 0) return;
  // Whoever ends the broker ends it, too; and it holds nothing of the broker's open.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != broker) _exit(1);
  closelog();
  syscall(SYS_close_range, 3u, ~0u, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  try {
    for (const auto& sentence : apply_again(file_, ifname)) say_(sentence);
  } catch (const std::exception& error) {
    say_(refused(file_, ifname, error.what()));
  }
  _exit(0);
}

void PolicyReload::reap() noexcept {
  if (child_ >= 0 && waitpid(child_, nullptr, WNOHANG) != 0) child_ = -1;
}

}  // namespace xdpgpu::control
