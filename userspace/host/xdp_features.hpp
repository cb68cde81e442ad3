// SPDX-License-Identifier: MIT
//
// userspace/host/xdp_features.hpp: a driver's XDP abilities by the netdev generic netlink family
// (Documentation/netlink/specs/netdev.yaml, kernel 6.3 and later).
#pragma once

#include <optional>

#include "maps/types.h"

namespace xdpgpu::host {

// kXdp* bits; nothing where the kernel does not have the family.
std::optional<u64> query_xdp_features(u32 ifindex);

}  // namespace xdpgpu::host
