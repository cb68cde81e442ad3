// SPDX-License-Identifier: MIT
//
// bench/worker/bare.hpp: the shortest loops over the same rings: receive and recycle; receive, swap the MAC
// addresses and send.
#pragma once

#include "bench/worker/bed.hpp"

namespace xdpgpu::bench {

struct BareOptions {
  bool forward = false;
  bool cold = false;
  bool huge = false;
};

// Nanoseconds a packet, the median of many bursts.
double bare_loop(const BareOptions& options, const Clocks& clocks);

}  // namespace xdpgpu::bench
