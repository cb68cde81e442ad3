// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "userspace/kernel/kernel.hpp"

namespace xdpgpu::kernel {

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) close(fd_);
    fd_ = other.release();
  }
  return *this;
}

Fd::~Fd() {
  if (fd_ >= 0) close(fd_);
}

int Fd::release() noexcept { return std::exchange(fd_, -1); }

std::vector<int> PortMaps::descriptors() const {
  return {
#define XG_X(name) name.get(),
      XG_PORT_MAPS(XG_X)
#undef XG_X
  };
}

Result<PortMaps> PortMaps::adopt(std::span<const int> descriptors) {
  std::vector<Fd> owned;
  for (const int fd : descriptors) owned.emplace_back(fd);
  if (owned.size() != kPortMapCount)
    return tl::unexpected(
        fmt::format("{} map descriptors came where {} belong to a port", owned.size(), kPortMapCount));
  PortMaps maps;
  std::size_t at = 0;
#define XG_X(name) maps.name = std::move(owned[at++]);
  XG_PORT_MAPS(XG_X)
#undef XG_X
  return maps;
}

Result<PortMaps> PortMaps::duplicate() const {
  std::vector<int> copies;
  for (const int fd : descriptors()) {
    const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy >= 0) {
      copies.push_back(copy);
      continue;
    }
    const int error = errno;
    for (const int made : copies) close(made);
    return tl::unexpected(fmt::format("cannot duplicate a map's descriptor: {}; raise the open file limit",
                                      std::strerror(error)));
  }
  return adopt(copies);
}

}  // namespace xdpgpu::kernel
