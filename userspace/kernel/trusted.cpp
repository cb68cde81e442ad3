// SPDX-License-Identifier: MIT
#include "userspace/kernel/trusted.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace xdpgpu::kernel {
namespace {

Result<bool> refuse(const std::string& path, const std::string& part, const std::string& why) {
  return tl::unexpected(
      fmt::format("{} cannot be trusted: {} {}; find out whose it is, and remove it", path, part, why));
}

// Besides root's group.
bool others_write(const struct stat& at) {
  return (at.st_mode & S_IWOTH) != 0 || ((at.st_mode & S_IWGRP) != 0 && at.st_gid != 0);
}

}  // namespace

Result<bool> stands_by_root(const std::string& path, bool open_to_others) {
  std::size_t end = 0;
  while (end < path.size()) {
    end = std::min(path.find('/', end + 1), path.size());
    const std::string part = path.substr(0, end);
    struct stat at {};
    if (lstat(part.c_str(), &at) != 0) {
      if (errno == ENOENT) return false;
      return tl::unexpected(fmt::format("cannot look at {}: {}", part, std::strerror(errno)));
    }
    const bool last = end == path.size();
    if (S_ISLNK(at.st_mode)) return refuse(path, part, "is a symbolic link");
    if (!last && !S_ISDIR(at.st_mode)) return refuse(path, part, "is not a folder");
    if (at.st_uid != 0) return refuse(path, part, fmt::format("is not root's, but user {}'s", at.st_uid));
    if (!others_write(at) || (last && open_to_others)) continue;
    if (last || (at.st_mode & S_ISVTX) == 0) return refuse(path, part, "can be written by others");
  }
  return true;
}

}  // namespace xdpgpu::kernel
