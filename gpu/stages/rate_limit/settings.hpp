// SPDX-License-Identifier: MIT
//
// gpu/stages/rate_limit/settings.hpp: what `rate_limit` can be told, and what it does.
#pragma once

#include "gpu/stages/values.hpp"

namespace xdpgpu::gpu {

// `rate_limit`: a token bucket for each source, destination, or flow (addresses, ports and protocol). A
// packet that finds too few tokens in it is decided by `excess` and takes none; the others go on. Limits in
// packets and in bytes (from the Ethernet header on) may both be set: then a packet needs both. A key for
// which there is no place is not limited. Packets without addresses go on. In fragments the ports count as 0.
// Verdict's rule: 0.
struct RateLimitSettings {
  enum class Per { src, dst, flow } per = Per::src;
  u8 bits4 = 32;  // bits of the address that count, for src and dst: whole prefixes share a bucket
  u8 bits6 = 128;
  u64 packets_per_second = 0;    // 0: not limited in packets; to 10^9
  u64 burst_packets = 0;         // tokens that a full bucket has, 1..10^9
  u64 bytes_per_second = 0;      // 0: not limited in bytes; 1,000 to 10^12
  u64 burst_bytes = 0;           // 1..10^12; a longer frame never fits
  Action excess = Action::drop;  // drop or pass
  TableSettings table;
};

}  // namespace xdpgpu::gpu
