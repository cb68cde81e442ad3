// SPDX-License-Identifier: MIT
//
// userspace/kernel/netlink.hpp: the few things done to interfaces by netlink and ethtool, in the network
// namespace of the calling thread.
#pragma once

#include <array>

#include "userspace/kernel/kernel.hpp"

struct nl_sock;

namespace xdpgpu::kernel {

using Mac = std::array<u8, 6>;

// One rtnetlink socket.
class Netlink {
 public:
  static Result<Netlink> open();
  Netlink(Netlink&& other) noexcept : socket_(std::exchange(other.socket_, nullptr)) {}
  Netlink(const Netlink&) = delete;
  Netlink& operator=(const Netlink&) = delete;
  ~Netlink();

  // A veth pair, both ends down, without ARP and IPv6 addresses, with `queues` queues each way.
  Result<void> add_veth(const std::string& name, const std::string& peer, u32 queues, u32 mtu) const;
  // Deletes the interface (and with one end of a veth pair the other); true if it was there.
  bool remove_link(const std::string& name) const noexcept;
  Result<Mac> mac(const std::string& name) const;
  std::optional<Mac> mac(u32 ifindex) const noexcept;  // nothing where it cannot be told
  Result<void> set_mac(const std::string& name, const Mac& mac) const;
  Result<void> set_up(const std::string& name) const;
  // What people see beside the name (`ip link`). Best effort.
  void set_alias(const std::string& name, const std::string& alias) const noexcept;
  // On `ifindex`'s clsact ingress, with this priority (mirred): everything goes to target's ingress, as if it
  // had been received there; or is sent out of it, by a copy, so that it does not count as redirected, which
  // generic XDP would then spare it for.
  enum class Mirred { into_ingress, out_as_new };
  Result<void> redirect_ingress(u32 ifindex, u32 priority, u32 target_ifindex,
                                Mirred how = Mirred::into_ingress) const;
  // How many filters the interface's clsact qdisc has, both ways; nothing where that cannot be told.
  std::optional<u32> clsact_filters(u32 ifindex) const noexcept;

 private:
  explicit Netlink(nl_sock* socket) : socket_(socket) {}
  nl_sock* socket_;
};

enum class Offload { gro, tso, tx_checksum, scatter_gather };
// Best effort: what the interface does not have stays as it is.
void set_offload(const std::string& ifname, Offload offload, bool on) noexcept;
// Whether the interface is set up; nothing where there is none of that index in this namespace.
std::optional<bool> is_up(u32 ifindex) noexcept;
// The interface's receive work runs in kernel threads of its own instead of on the core that sends to
// it (kernel documentation, networking/napi.rst). Best effort; needs CAP_SYS_ADMIN.
void use_napi_threads(const std::string& ifname) noexcept;

}  // namespace xdpgpu::kernel
