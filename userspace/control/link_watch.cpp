// SPDX-License-Identifier: MIT
#include "userspace/control/link_watch.hpp"

#include <fmt/format.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace xdpgpu::control {

Result<LinkWatch> LinkWatch::open(bool filters) {
  kernel::Fd fd(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = RTMGRP_LINK | (filters ? RTMGRP_TC : 0);
  if (!fd || bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    return Error(fmt::format("cannot watch interfaces by netlink: {}", std::strerror(errno)));
  return LinkWatch(std::move(fd));
}

std::vector<u32> LinkWatch::gone() {
  std::vector<u32> gone;
  alignas(nlmsghdr) std::array<char, 32768> buffer;
  // News that did not fit into the socket's buffer (ENOBUFS) are lost, and those behind them are read on.
  while (true) {
    const ssize_t length = recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (length <= 0 && (length == 0 || (errno != ENOBUFS && errno != EINTR))) return gone;
    if (length < 0) continue;
    auto left = static_cast<unsigned>(length);
    for (auto* message = reinterpret_cast<const nlmsghdr*>(buffer.data()); NLMSG_OK(message, left);
         message = NLMSG_NEXT(message, left)) {
      if (message->nlmsg_type != RTM_DELLINK || message->nlmsg_len < NLMSG_LENGTH(sizeof(ifinfomsg)))
        continue;
      const auto* link = static_cast<const ifinfomsg*>(NLMSG_DATA(message));
      // A bridge says so of its ports, too, by a family of its own.
      if (link->ifi_family == AF_UNSPEC) gone.push_back(static_cast<u32>(link->ifi_index));
    }
  }
}

bool LinkWatch::drain() {
  alignas(nlmsghdr) std::array<char, 32768> buffer;
  bool any = false;
  while (socket_) {
    const ssize_t length = recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (length == 0 || (length < 0 && errno != ENOBUFS && errno != EINTR)) break;
    any = true;
  }
  return any;
}

}  // namespace xdpgpu::control
