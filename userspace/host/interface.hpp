// SPDX-License-Identifier: MIT
//
// userspace/host/interface.hpp: what the host knows about a network interface, read through rtnetlink,
// ethtool, sysfs and the netdev generic netlink family; and the few offloads that attach switches.
//
//   auto facts = host::read_interface("eth0");
//   if (facts && facts->offload("rx-vlan-hw-parse")) host::set_offload("eth0", "rx-vlan-hw-parse", false);
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "maps/types.h"

namespace xdpgpu::host {

template <class T>
using Result = tl::expected<T, std::string>;

// Bits of the netdev family's xdp-features (linux/netdev.h, kernel 6.3 and later).
inline constexpr u64 kXdpBasic = 1;
inline constexpr u64 kXdpRedirect = 2;
inline constexpr u64 kXdpNdoXmit = 4;
inline constexpr u64 kXdpZeroCopy = 8;
inline constexpr u64 kXdpReceiveBuffers = 32;   // frames of several buffers come to the XDP program
inline constexpr u64 kXdpTransmitBuffers = 64;  // and are taken by kXdpNdoXmit

// ethtool's names of the offloads that concern an inline packet processor.
inline constexpr const char* kRxVlan = "rx-vlan-hw-parse";  // ethtool -K IF rxvlan
inline constexpr const char* kLro = "rx-lro";               // ethtool -K IF lro
inline constexpr const char* kHwGro = "rx-gro-hw";          // ethtool -K IF rx-gro-hw
inline constexpr const char* kGro = "rx-gro";               // ethtool -K IF gro

struct Offload {
  bool active = false;
  bool changeable = false;
};

struct InterfaceFacts {
  std::string name;
  u32 ifindex = 0;
  std::string kind;    // rtnetlink's kind: "veth", "bond", "bridge", "vlan", ...; "" for hardware
  std::string driver;  // ethtool's driver name; "" if it has none
  bool loopback = false;
  bool ethernet = false;
  bool up = false;
  bool carrier = false;
  u32 mtu = 0;
  u32 rx_queues = 1;
  std::optional<u32> speed_mbps;  // of the link; absent where nobody tells
  std::string master;             // bond, bridge or team it is a port of; "" if none
  std::string master_kind;        // that interface's kind
  std::map<std::string, Offload> offloads;
  std::optional<u64> xdp_features;  // absent before kernel 6.3
  u32 xdp_program_id = 0;           // attached XDP program, 0: none
  std::string xdp_program_name;
  int xdp_link_holder = 0;  // process that holds the link by which a foreign one is on; 0: none, or not known
  std::string xdp_link_holder_name;
  int numa_node = -1;  // of the device's bus, -1: none or unknown

  bool offload(const std::string& offload_name) const {
    auto it = offloads.find(offload_name);
    return it != offloads.end() && it->second.active;
  }
};

// The error names the interface and says whether it does not exist or could not be read. Needs no root.
Result<InterfaceFacts> read_interface(const std::string& name);

// Ethernet interfaces of this namespace, loopback left out.
std::vector<std::string> list_interfaces();

// The MTU as it is now; nothing if there is no such interface. Needs no privilege.
std::optional<u32> interface_mtu(const std::string& name);

// The receive queues that it has now; nothing if that cannot be told. Needs no privilege.
std::optional<u32> receive_queues(const std::string& name);

Result<void> set_offload(const std::string& ifname, const std::string& offload, bool on);

}  // namespace xdpgpu::host
