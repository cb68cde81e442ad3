// SPDX-License-Identifier: MIT
//
// tests/netns/lab/link.hpp: veth pairs between namespaces, their addresses, neighbours and offloads.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/netns/lab/namespace.hpp"

namespace xdpgpu::lab {

using Mac = std::array<std::uint8_t, 6>;
std::string to_string(const Mac& mac);

// One interface in one namespace; refers to both, owns neither.
class Interface {
 public:
  Interface(const Namespace& ns, std::string ifname);

  const Namespace& ns() const noexcept { return *ns_; }
  const std::string& ifname() const noexcept { return ifname_; }
  unsigned ifindex() const noexcept { return ifindex_; }
  Mac mac() const;  // as it is now

  // Each throws Error.
  void up() const;
  void down() const;
  void remove() const;  // of a veth pair both ends
  void set_mac(const Mac& mac) const;
  void set_mtu(unsigned mtu) const;
  void set_channels(unsigned receive, unsigned transmit) const;  // as ethtool -L
  // The interface under its new name, or in its new namespace; this object stands for it no more.
  Interface renamed(const std::string& ifname) const;
  Interface moved_to(const Namespace& ns) const;
  void add_address(const std::string& cidr) const;  // "10.0.0.1/24", "fd00::1/64"
  void add_neighbour(const std::string& address, const Mac& mac) const;
  void add_route(const std::string& prefix, const std::string& gateway) const;
  // An offload by the kernel's own name, as `ethtool -k` resolves it: "tx-checksum-ip-generic",
  // "rx-gro", "tx-vlan-hw-insert". Throws where the kernel does not follow.
  void feature(const std::string& name, bool on) const;
  bool feature(const std::string& name) const;

  // Whether the link has carrier and is up.
  bool running() const;
  // How often the carrier came or went since the interface was made.
  unsigned carrier_changes() const;

  struct Counters {
    std::uint64_t rx_packets = 0, tx_packets = 0, rx_dropped = 0, tx_dropped = 0;
  };
  Counters counters() const;

 private:
  const Namespace* ns_;
  std::string ifname_;
  unsigned ifindex_ = 0;
};

struct VethOptions {
  unsigned queues = 1;  // receive and transmit queues of both ends
  unsigned mtu = 1500;
};

// A wire: two veth ends in two namespaces. MAC addresses are 02:78:67:00:xx:yy, fixed by the order of
// creation within the process. Offloads as the kernel sets them, except `rx-gro` on both ends (on:
// frames that XDP transmits towards an end without a program are taken only by a NAPI end).
class Veth {
 public:
  // The namespaces outlive it. Throws Error.
  Veth(const Namespace& a_ns, const std::string& a_ifname, const Namespace& b_ns, const std::string& b_ifname,
       const VethOptions& options = {});
  ~Veth();
  Veth(const Veth&) = delete;
  Veth& operator=(const Veth&) = delete;

  const Interface& a() const noexcept { return a_; }
  const Interface& b() const noexcept { return b_; }

  // Gives both ends an address of one subnet and each a static neighbour entry for the other.
  void address(const std::string& a_cidr, const std::string& b_cidr) const;
  // Both ends up; waits until both have carrier and IPv6 has said what it says at the start.
  void up() const;
  // Fills checksums in software on both ends, so that frames on the wire are as on a real one.
  void checksums_in_software() const;

 private:
  Interface a_, b_;
};

// A bridge with one port.
class Bridge {
 public:
  Bridge(const Namespace& ns, const std::string& ifname, const Interface& port);
  ~Bridge();
  Bridge(const Bridge&) = delete;
  Bridge& operator=(const Bridge&) = delete;

 private:
  const Namespace* ns_;
  std::string ifname_;
};

}  // namespace xdpgpu::lab
