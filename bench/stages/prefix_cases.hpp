// SPDX-License-Identifier: MIT
//
// bench/stages/prefix_cases.hpp: stages that look IPv4 addresses up by the longest prefix, and packets for
// them, from a fixed seed.
#pragma once

#include "bench/stages/stage_case.hpp"

namespace xdpgpu::bench {

struct PlainPrefix {
  u32 address = 0;  // host order, bits behind the prefix 0
  u8 length = 0;
  u32 answer = 0;  // not 0
};

// `reputation`  a feed of so many prefixes (hosts mostly, networks, providers) whose packets are dropped, and
//               hosts of theirs that are passed
// `forward`     as many routes of lengths as the Internet's to 64 next hops
// A packet's address is in a prefix, in three of four.
std::vector<StageCase> prefix_cases(u32 prefixes, u32 packets);

// rte_fib (DPDK, DIR24-8) by these prefixes, on the frames' source or destination addresses; its answer is
// the longest prefix's, 0: none.
Peer rte_fib_peer(std::shared_ptr<const std::vector<PlainPrefix>> prefixes, bool destination);

}  // namespace xdpgpu::bench
