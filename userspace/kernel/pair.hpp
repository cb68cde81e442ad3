// SPDX-License-Identifier: MIT
//
// userspace/kernel/pair.hpp: a veth pair of ours beside an attached interface, with tc programs on the
// ingress of its ends. Others can change it like any interface; what they undo is put back.
#pragma once

#include <span>

#include "userspace/kernel/netlink.hpp"

namespace xdpgpu::kernel {

// On one end's clsact ingress.
struct Filter {
  u32 ifindex = 0;
  int program = -1;   // borrowed
  u32 mirred_to = 0;  // what the program lets go on goes to this interface; 0: nowhere
  Netlink::Mirred how = Netlink::Mirred::into_ingress;
};

class Pair {
 public:
  // Makes it, both ends down. One of that name, which a dead attach left, goes first.
  static Result<Pair> make(const std::string& near, const std::string& far, u32 queues,
                           const std::string& alias);
  Pair(Pair&& other) noexcept;
  Pair(const Pair&) = delete;
  ~Pair();  // deletes it, and with it what stands on its ends

  const Netlink& netlink() const noexcept { return netlink_; }
  u32 near() const noexcept { return near_; }  // by index: the names are everybody's to change
  u32 far() const noexcept { return far_; }
  // Deleted, or moved to another network namespace.
  bool gone() const noexcept;

  Result<void> attach(std::span<const Filter> filters) const;
  Result<void> set_up() const;
  // Looks whether the ends are up and have these filters, and puts back what is not so; what that was, in
  // words: "its end xg5k was set down". Empty: nothing. An error where it cannot be put back, or is gone.
  Result<std::string> mend(std::span<const Filter> filters) const;

 private:
  Pair(Netlink netlink, u32 near, u32 far) : netlink_(std::move(netlink)), near_(near), far_(far) {}
  Netlink netlink_;
  u32 near_ = 0, far_ = 0;
};

}  // namespace xdpgpu::kernel
