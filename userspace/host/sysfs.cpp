// SPDX-License-Identifier: MIT
#include "userspace/host/sysfs.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

namespace xdpgpu::host {

Result<NetSysfs> NetSysfs::open() {
  const int context = fsopen("sysfs", FSOPEN_CLOEXEC);
  int root = -1;
  if (context >= 0 && fsconfig(context, FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) == 0)
    root = fsmount(context, FSMOUNT_CLOEXEC, 0);
  const int error = errno;
  if (context >= 0) close(context);
  if (root < 0)
    return tl::unexpected(
        fmt::format("cannot open the interfaces' settings (sysfs): {}; this needs "
                    "CAP_SYS_ADMIN",
                    std::strerror(error)));
  return NetSysfs(root);
}

NetSysfs::~NetSysfs() {
  if (root_ >= 0) close(root_);
}

int NetSysfs::open_file(const std::string& ifname, const std::string& setting, int flags) const {
  if (ifname.empty() || ifname[0] == '.' || (ifname + setting).find('/') != std::string::npos) {
    errno = EINVAL;
    return -1;
  }
  return openat(root_, fmt::format("class/net/{}/{}", ifname, setting).c_str(), flags | O_CLOEXEC);
}

Result<u64> NetSysfs::read(const std::string& ifname, const std::string& setting) const {
  const int fd = open_file(ifname, setting, O_RDONLY);
  char text[32];
  const ssize_t length = fd < 0 ? -1 : ::read(fd, text, sizeof(text));
  const int error = errno;
  if (fd >= 0) close(fd);
  u64 value = 0;
  if (length < 0)
    return tl::unexpected(fmt::format("cannot read {} of {}: {}", setting, ifname, std::strerror(error)));
  if (std::from_chars(text, text + length, value).ec != std::errc())
    return tl::unexpected(fmt::format("{} of {} is no number", setting, ifname));
  return value;
}

Result<void> NetSysfs::write(const std::string& ifname, const std::string& setting, u64 value) const {
  const int fd = open_file(ifname, setting, O_WRONLY);
  const std::string text = std::to_string(value);
  const bool written = fd >= 0 && ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int error = errno;
  if (fd >= 0) close(fd);
  if (!written)
    return tl::unexpected(
        fmt::format("cannot set {} of {} to {}: {}", setting, ifname, value, std::strerror(error)));
  return {};
}

}  // namespace xdpgpu::host
