// SPDX-License-Identifier: MIT
//
// userspace/control/broker.hpp: the privileged half of attach. It makes what only root can make, hands
// the data plane descriptors, answers its requests, and undoes everything when the data plane ends,
// is told to end, or dies.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "userspace/control/channel.hpp"
#include "userspace/control/offloads.hpp"
#include "userspace/control/plan.hpp"
#include "userspace/control/requests.hpp"

namespace xdpgpu::control {

class Broker {
 public:
  // Makes the kernel's side of every port, in an order that harms no traffic: a program passes
  // everything until the data plane says otherwise. On failure everything is undone.
  static Result<std::unique_ptr<Broker>> make(Plan plan, const AttachOptions& options);
  ~Broker();

  // Forks the data plane, serves it, and returns its exit status once all is undone. `on_ready` is
  // called when traffic flows.
  int run(const std::function<void()>& on_ready);

 private:
  struct Port;
  explicit Broker(Plan plan, const AttachOptions& options);
  Result<void> make_port(u32 index);
  // Decides whether the port's workers poll its driver, and puts its interrupts off if asked for.
  Result<void> set_up_busy_poll(Port& port, const std::string& name);
  Result<void> make_sockets();
  Result<pid_t> fork_data_plane();
  [[noreturn]] void become_data_plane(Channel channel);
  Requests::Duties duties(const std::function<void()>& on_ready);
  Result<void> install(u32 slot, const kernel::PolicyMaps& maps);
  // Puts the egress feed on every port, or takes it off.
  Result<void> watch_egress(bool on);
  void undo() noexcept;

  Plan plan_;
  const AttachOptions& options_;
  std::vector<std::unique_ptr<Port>> ports_;
  kernel::Fd listener_;
  std::vector<std::string> socket_files_;
  kernel::Fd signals_;
  Channel channel_;
  bool undone_ = false;
};

}  // namespace xdpgpu::control
