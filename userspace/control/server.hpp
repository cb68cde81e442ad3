// SPDX-License-Identifier: MIT
//
// userspace/control/server.hpp: the control socket's serving end. One thread, asynchronous; a client that
// is slow, silent or broken holds one session for a bounded time and nobody else.
#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "userspace/control/protocol.hpp"
#include "userspace/kernel/kernel.hpp"

namespace xdpgpu::control {

// A group whose members may ask, as root may.
struct ControlGroup {
  std::string name;
  gid_t gid = 0;
};

// The group of that name; of none, `xdpgpu` where there is such a group. The error is a sentence.
Result<std::optional<ControlGroup>> find_control_group(const std::string& name);

// Makes the listening socket at `path` (the file must not exist), accessible to root and the group.
Result<kernel::Fd> listen_at(const std::string& path, const std::optional<ControlGroup>& group);

class Server {
 public:
  // Called once per request; `reply` may be kept and called later, once. What a client asked for that has
  // gone since is dropped; of one that goes while it is handled, `Request::left` tells.
  using Reply = std::function<void(Response)>;
  using Handler = std::function<void(Request, Reply)>;

  struct Limits {
    std::size_t sessions = 16;
    int idle_s = 30;                           // for a whole request to arrive, and for an answer to be taken
    std::size_t files_bytes = kMaxFilesBytes;  // of all requests under way together
  };

  // By what the kernel says of the peer: root, and who has the group among their groups; but never
  // `excluded`, which is the user that data planes run as, whatever groups that is in.
  struct Admission {
    std::optional<ControlGroup> group;
    std::optional<uid_t> excluded;
  };

  // Takes connections until destroyed. Others than those admitted get one refusal. Where there is no place
  // left, the client that has been waited for longest gives way, root's only for root's.
  Server(boost::asio::io_context& context, kernel::Fd listener, Handler handler, Admission admission,
         Limits limits);
  Server(boost::asio::io_context& context, kernel::Fd listener, Handler handler, Admission admission)
      : Server(context, std::move(listener), std::move(handler), std::move(admission), Limits()) {}
  ~Server();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

// Whether the peer of that connection may ask.
bool is_admitted(int fd, const Server::Admission& admission);

}  // namespace xdpgpu::control
