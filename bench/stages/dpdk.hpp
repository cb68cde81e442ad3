// SPDX-License-Identifier: MIT
//
// bench/stages/dpdk.hpp: what the peers that are of DPDK share.
#pragma once

#include <fmt/format.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_memory.h>

#include <array>
#include <cstring>

#include "bench/stages/stage_case.hpp"
#include "maps/packet.h"

namespace xdpgpu::bench {

// Of an application's own bursts.
inline constexpr u32 kBurst = 64;

// DPDK without a NIC, without huge pages, its memory taken from the system. A sentence where it does not
// start.
gpu::Result<void> start_dpdk();

// A name that no other of its objects has.
std::string dpdk_name();

// As an application would: takes what it needs of each frame of a burst, the frames of the next one on their
// way into the cache, and hands the burst on. take(frame, i): i is the frame's place in the burst.
template <class Take, class Burst>
void in_bursts(const u8* base, std::span<const xg_descriptor> frames, Take&& take, Burst&& burst) {
  for (std::size_t first = 0; first < frames.size(); first += kBurst) {
    const u32 count = static_cast<u32>(std::min<std::size_t>(kBurst, frames.size() - first));
    for (u32 i = 0; i < count; ++i) {
      if (first + i + kBurst < frames.size())
        __builtin_prefetch(base + frames[first + i + kBurst].offset - XG_METADATA_SIZE);
      take(base + frames[first + i].offset, i);
    }
    burst(first, count);
  }
}

inline xg_metadata metadata_of(const u8* frame) {
  xg_metadata metadata;
  std::memcpy(&metadata, frame - sizeof(metadata), sizeof(metadata));
  return metadata;
}

}  // namespace xdpgpu::bench
