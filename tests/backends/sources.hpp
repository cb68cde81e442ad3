// SPDX-License-Identifier: MIT
//
// tests/backends/sources.hpp: UDP packets of few sources that come by turns, all whole and at the same time.
#pragma once

#include <cstddef>
#include <cstring>
#include <vector>

#include "tests/backends/traffic.hpp"

namespace xdpgpu::tests {

inline constexpr u64 kSourcesNow = 1'000'000'000'000;  // ns, when they come

// `each` packets of each of `sources` sources, 256 at most.
inline Traffic of_sources(u32 sources, u32 each) {
  const u32 packets = sources * each;
  Traffic traffic{FrameRegion(u64{packets} * XG_CHUNK_SIZE), {}};
  std::vector<u8> frame{0x02, 0, 0, 0,  0,  0x0a, 0x02, 0, 0,  0,  0, 0x0b, 0x08, 0x00,  // Ethernet
                        0x45, 0, 0, 32, 0,  0,    0,    0, 64, 17, 0, 0,                 // IPv4
                        10,   1, 2, 0,  10, 9,    9,    9,                               // addresses
                        0x30, 1, 0, 80, 0,  12,   0,    0, 1,  2,  3, 4};                // UDP
  for (u32 i = 0; i < packets; i++) {
    frame[29] = static_cast<u8>(i % sources);
    const u64 offset = u64{i} * XG_CHUNK_SIZE + XG_FRAME_DATA;
    traffic.descriptors.push_back(place(traffic.region, offset, frame, 0, i));
    std::memcpy(traffic.region.base() + offset - XG_METADATA_SIZE + offsetof(xg_metadata, rx_time_ns),
                &kSourcesNow, sizeof(kSourcesNow));
  }
  return traffic;
}

}  // namespace xdpgpu::tests
