// SPDX-License-Identifier: MIT
//
// userspace/report/listeners.hpp: where metrics are served.
#pragma once

#include <optional>
#include <string>

#include "userspace/control/server.hpp"
#include "userspace/kernel/kernel.hpp"

namespace xdpgpu::report {

// "127.0.0.1:9478", "[::1]:9478", "unix:/run/xdpgpu/metrics.sock".
struct Place {
  std::string text;  // as it was given
  std::string path;  // of a Unix socket; empty: it is none
  std::string address;
  u16 port = 0;
  bool loopback = false;  // nobody but this host's own users reaches it
};
// The error is a sentence.
control::Result<Place> parse_place(const std::string& text);

// A socket that listens there and does not block. A Unix socket is for root and the group; one that nobody
// listens on any more is replaced. Port 0: the kernel chooses; bound_port() says which.
control::Result<kernel::Fd> listen_there(const Place& place,
                                         const std::optional<control::ControlGroup>& group);
u16 bound_port(int listener);

}  // namespace xdpgpu::report
