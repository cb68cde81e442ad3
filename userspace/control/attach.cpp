// SPDX-License-Identifier: MIT
#include "userspace/control/attach.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "userspace/control/broker.hpp"
#include "userspace/control/output_relay.hpp"
#include "userspace/control/plan.hpp"

namespace xdpgpu::control {
namespace {

void say(const std::string& sentence) { std::fprintf(stderr, "xdpgpu: %s\n", sentence.c_str()); }

int run_broker(Plan plan, const AttachOptions& options, const std::function<void(OutputRelay&)>& on_ready) {
  auto broker = Broker::make(std::move(plan), options);
  if (!broker) {
    say(broker.error());
    return 1;
  }
  // The broker outlives nothing of what it says.
  auto relay = OutputRelay::start();
  if (!relay) {
    say(relay.error());
    return 1;
  }
  const int status = (*broker)->run([&] { on_ready(**relay); });
  broker->reset();
  return status;
}

// The caller's process waits until traffic flows or the attempt has failed.
int run_in_background(Plan plan, const AttachOptions& options) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) {
    say(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
    return 1;
  }
  kernel::Fd reader(fds[0]);
  kernel::Fd writer(fds[1]);
  const pid_t child = fork();
  if (child < 0) {
    say(fmt::format("cannot fork: {}", std::strerror(errno)));
    return 1;
  }
  if (child == 0) {
    reader = kernel::Fd();
    setsid();
    const int status = run_broker(std::move(plan), options, [&](OutputRelay& relay) {
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
  auto plan = make_plan(options);
  if (!plan) {
    say(plan.error().sentence);
    return plan.error().status;
  }
  if (options.daemon) return run_in_background(std::move(*plan), options);
  return run_broker(std::move(*plan), options, [](OutputRelay&) {});
}

}  // namespace xdpgpu::control
