// SPDX-License-Identifier: MIT
//
// userspace/control/server.hpp: the control socket's serving end. One thread, asynchronous; a client that
// is slow, silent or broken holds one session for a bounded time and nobody else.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>

#include "userspace/control/protocol.hpp"
#include "userspace/kernel/kernel.hpp"

namespace xdpgpu::control {

// Makes the listening socket at `path` (the file must not exist), accessible to root and, where that
// group exists, to members of `xdpgpu`.
Result<kernel::Fd> listen_at(const std::string& path);

class Server {
 public:
  // Called once per request; `reply` may be kept and called later, once.
  using Reply = std::function<void(Response)>;
  using Handler = std::function<void(Request, Reply)>;

  struct Limits {
    std::size_t sessions = 16;
    int idle_s = 30;  // for a whole request to arrive, and for an answer to be taken
  };

  // Takes connections until destroyed. Peers other than root, this process's own user and members of
  // the group `xdpgpu` get one refusal.
  Server(boost::asio::io_context& context, kernel::Fd listener, Handler handler, Limits limits);
  Server(boost::asio::io_context& context, kernel::Fd listener, Handler handler)
      : Server(context, std::move(listener), std::move(handler), Limits()) {}
  ~Server();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace xdpgpu::control
