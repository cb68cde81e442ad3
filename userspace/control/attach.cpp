// SPDX-License-Identifier: MIT
#include "userspace/control/attach.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "userspace/control/broker.hpp"
#include "userspace/control/output_relay.hpp"
#include "userspace/control/plan.hpp"
#include "userspace/control/service_manager.hpp"
#include "userspace/control/signals.hpp"

namespace xdpgpu::control {
namespace {

int fail(const AttachOptions& options, const Refused& why) {
  std::fprintf(stderr, "xdpgpu: %s\n", why.sentence.c_str());
  if (options.json) {
    const Json end = failed_end(why.sentence, why.problems);
    std::printf("%s\n", end.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
    std::fflush(stdout);
  }
  return why.status;
}
int fail(const AttachOptions& options, std::string sentence) {
  return fail(options, Refused{1, std::move(sentence)});
}

int run_broker(Plan plan, const AttachOptions& options, ServiceManager& manager,
               const std::function<void(OutputRelay&)>& on_ready) {
  auto broker = Broker::make(std::move(plan), options);
  if (!broker) return fail(options, broker.error());
  // The broker outlives nothing of what it says.
  auto relay = OutputRelay::start();
  if (!relay) return fail(options, relay.error());
  const int status = (*broker)->run([&] { on_ready(**relay); }, manager);
  broker->reset();
  return status;
}

// Maps, programs, sockets and rings are all descriptors. Raised as far as it may be; the error is for where
// that is not far enough.
Result<void> allow_open_files(const AttachOptions& options) {
  constexpr rlim_t kWanted = 4096, kForPort = 160, kForAll = 64;  // twice what an attach was seen to have
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return {};
  const rlimit wanted{std::max(limit.rlim_max, kWanted), std::max(limit.rlim_max, kWanted)};
  if (limit.rlim_cur >= kWanted || setrlimit(RLIMIT_NOFILE, &wanted) == 0) return {};
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
  const rlim_t needed = kForAll + kForPort * options.interfaces.size();
  if (limit.rlim_cur >= needed) return {};
  return Error(fmt::format(
      "only {} files may be open at once, and an attach of {} interface{} takes up to {}: raise the limit "
      "(\"ulimit -n {}\", or LimitNOFILE={} in the unit), or let it raise it itself (CAP_SYS_RESOURCE)",
      limit.rlim_cur, options.interfaces.size(), options.interfaces.size() == 1 ? "" : "s", needed, kWanted,
      kWanted));
}

// The caller's process waits until traffic flows or the attempt has failed.
int run_in_background(Plan plan, const AttachOptions& options) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0)
    return fail(options, fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  kernel::Fd reader(fds[0]);
  kernel::Fd writer(fds[1]);
  const pid_t child = fork();
  if (child < 0) return fail(options, fmt::format("cannot fork: {}", std::strerror(errno)));
  if (child == 0) {
    reader = kernel::Fd();
    setsid();
    ServiceManager nobody;  // it asks for the process that it started, which ends
    const int status = run_broker(std::move(plan), options, nobody, [&](OutputRelay& relay) {
      // What is said from now on goes to the system log.
      relay.leave();
      const char ready = 1;
      (void)!write(writer.get(), &ready, 1);
      writer = kernel::Fd();
    });
    _exit(status);
  }
  writer = kernel::Fd();
  char ready = 0;
  if (read(reader.get(), &ready, 1) == 1) return 0;
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) != 0 ? WEXITSTATUS(status) : 1;
}

}  // namespace

int attach(const AttachOptions& options) {
  ignore_what_is_no_order();
  auto manager = ServiceManager::from_environment();
  if (auto allowed = allow_open_files(options); !allowed) return fail(options, allowed.error());
  auto plan = make_plan(options);
  if (!plan) return fail(options, plan.error());
  if (options.daemon) return run_in_background(std::move(*plan), options);
  return run_broker(std::move(*plan), options, manager, [](OutputRelay&) {});
}

}  // namespace xdpgpu::control
