// SPDX-License-Identifier: MIT
//
// userspace/control/link_watch.hpp: the kernel's news of interfaces (rtnetlink), so that what happens to one
// is noticed at once. Needs no privilege.
#pragma once

#include <vector>

#include "userspace/control/result.hpp"
#include "userspace/kernel/kernel.hpp"

namespace xdpgpu::control {

class LinkWatch {
 public:
  // Of the calling thread's network namespace, from now on; with filters: also of their qdiscs and tc
  // programs.
  static Result<LinkWatch> open(bool filters = false);
  LinkWatch() = default;

  int fd() const noexcept { return socket_.get(); }  // readable when there are news
  // The interfaces (by index) that have left the namespace since the last call, deleted or moved. One that
  // has come back since is among them.
  std::vector<u32> gone();
  // Instead: whether there were any news.
  bool drain();

 private:
  explicit LinkWatch(kernel::Fd socket) : socket_(std::move(socket)) {}
  kernel::Fd socket_;
};

}  // namespace xdpgpu::control
