// SPDX-License-Identifier: MIT
#include "userspace/host/netns.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace xdpgpu::host {
namespace {

// "." and ".." are no names of anything below a folder.
bool is_name(const std::string& name) { return !name.empty() && name != "." && name != ".."; }

std::string path_of(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  if (name.find_first_not_of("0123456789") == std::string::npos) return fmt::format("/proc/{}/ns/net", name);
  return fmt::format("/run/netns/{}", name);
}

}  // namespace

Result<void> enter_netns(const std::string& name) {
  if (!is_name(name))
    return tl::unexpected(fmt::format(
        "\"{}\" is no network namespace: name one that \"ip netns\" lists, a process's number, or a path",
        name));
  const std::string path = path_of(name);
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return tl::unexpected(
        fmt::format("cannot open the network namespace {}: {}: {}; see \"ip netns list\" and \"lsns -t net\"",
                    name, path, std::strerror(errno)));
  const int error = setns(fd, CLONE_NEWNET) == 0 ? 0 : errno;
  close(fd);
  if (error == 0) return {};
  if (error == EPERM)
    return tl::unexpected(
        fmt::format("entering the network namespace {} needs root: run it with sudo", name));
  return tl::unexpected(
      fmt::format("cannot enter {}: {}; it is no network namespace", path, std::strerror(error)));
}

}  // namespace xdpgpu::host
