// SPDX-License-Identifier: MIT
//
// userspace/host/sysfs.hpp: settings of network interfaces in sysfs, as the calling thread's network
// namespace has them. What is mounted at /sys may be another namespace's, with other interfaces of the
// same names; so a sysfs of our own is mounted, nowhere in the file tree.
#pragma once

#include <string>

#include "userspace/host/interface.hpp"

namespace xdpgpu::host {

class NetSysfs {
 public:
  // Needs CAP_SYS_ADMIN.
  static Result<NetSysfs> open();
  NetSysfs(NetSysfs&& other) noexcept : root_(other.root_) { other.root_ = -1; }
  NetSysfs& operator=(NetSysfs&&) = delete;
  ~NetSysfs();

  // class/net/<ifname>/<setting>, a number. ifname and setting are names, no paths.
  Result<u64> read(const std::string& ifname, const std::string& setting) const;
  Result<void> write(const std::string& ifname, const std::string& setting, u64 value) const;

 private:
  explicit NetSysfs(int root) : root_(root) {}
  int open_file(const std::string& ifname, const std::string& setting, int flags) const;
  int root_ = -1;
};

}  // namespace xdpgpu::host
