// SPDX-License-Identifier: MIT
//
// userspace/dataplane/in_hand.hpp: the packets that workers had in hand when they died, found by what the XDP
// program wrote in front of each: a worker that is killed says nothing any more, and one of these may have
// been what killed it.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "maps/control.h"
#include "maps/packet.h"
#include "userspace/dataplane/frame_region.hpp"

namespace xdpgpu::dataplane {

struct PacketInHand {
  static constexpr u32 kMostBytes = 128;
  u64 rx_time_ns = 0;
  u32 sequence = 0;
  u32 length = 0;  // of the whole packet as its IP header says; of other packets kMostBytes
  u16 queue = 0;
  u8 port = 0;
  u8 captured = 0;  // bytes that are here, at most kMostBytes
  std::array<u8, kMostBytes> bytes{};
};

// Of one queue, as its maps say when nobody serves it any more, and before what is lost was counted
// (lost.hpp).
struct QueueAtDeath {
  u32 port = 0, queue = 0;
  u32 retired = 0;   // the first sequence that may be in hand
  u32 admitted = 0;  // behind the last
};

// By receipt, the newest `most` of them. memory: the frame region's, which is read and not mapped: whoever
// else has it may still cut it off. shares: each worker's part of it. Takes so long at most, and stops then.
// What a data plane that was taken over left there is believed to be packets, and nothing more.
std::vector<PacketInHand> packets_in_hand(int memory, std::span<const FrameShare> shares,
                                          std::span<const QueueAtDeath> queues, std::size_t most);

// Writes a capture (pcap, nanoseconds, Ethernet), readable by its owner alone, in place of the file that is
// there. The error is a sentence.
Result<void> write_capture(const std::string& path, std::span<const PacketInHand> packets);

}  // namespace xdpgpu::dataplane
