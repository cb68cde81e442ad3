// SPDX-License-Identifier: MIT
//
// tests/netns/lab/vlan_shim.hpp: two kernels that talk untagged while the wire between them carries
// 802.1Q tags, on hosts whose kernel has no VLAN device.
//
// On each end a tc program pushes the tag on egress and another pops it on ingress. The egress program
// can only ask for a tag (skb->vlan_tci); with `tx-vlan-hw-insert` off the kernel writes it into the
// frame before the driver sees it, so XDP at the far end, AF_XDP and reinjection all meet it inside the
// frame, as from a NIC that does not strip tags. Frames with another tag, or none, are dropped on
// ingress: an answer proves that the tag was there.
#pragma once

#include <cstdint>

#include "tests/netns/lab/link.hpp"

namespace xdpgpu::lab {

class VlanShim {
 public:
  // Puts the programs on `interface` (which is not to have others). Throws Error.
  VlanShim(const Interface& interface, std::uint16_t vlan_id);
  ~VlanShim();  // takes them and their qdisc off
  VlanShim(const VlanShim&) = delete;
  VlanShim& operator=(const VlanShim&) = delete;

 private:
  Interface interface_;
  Fd push_, pop_;
};

}  // namespace xdpgpu::lab
