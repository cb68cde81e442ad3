// SPDX-License-Identifier: MIT
//
// gpu/prefix_order.hpp: the order in which prefixes make a tree in one pass.
#pragma once

#include "gpu/large_vector.hpp"
#include "gpu/tree_prefix.hpp"

namespace xdpgpu::gpu {

// Sorts by address and length, so that a prefix stands in front of those inside it; of equal prefixes the
// first one stays. Time grows with their number, no faster (radix sorts, of IPv6 over the first 64 bits);
// what is in order already is only looked over. Needs as much memory again, of IPv6 twice as much.
void put_in_order(LargeVector<TreePrefix4>& prefixes);
void put_in_order(LargeVector<TreePrefix6>& prefixes);

}  // namespace xdpgpu::gpu
