// SPDX-License-Identifier: MIT
//
// userspace/dataplane/too_long.hpp: tells the sender of a packet that does not fit inside of outer headers
// how long its packets may be: ICMP "fragmentation needed" (RFC 792, 1191) and ICMPv6 "packet too big" (RFC
// 4443, 3.2), by which path MTU discovery goes on.
#pragma once

#include <optional>

#include "maps/packet.h"

namespace xdpgpu::dataplane {

// A frame that was made in front of another one's data.
struct Answer {
  u32 earlier = 0;  // bytes by which it begins before the other one did
  u32 length = 0;   // of the frame
};

// Turns a whole, well-formed IP packet into the answer to it: back to the source's MAC and IP address, from
// its destination's, in the same VLAN. frame, length: its first buffer, metadata in front as in
// userspace/dataplane/encapsulation.hpp. mtu: in bytes. Nothing, and unchanged, where no ICMP error may
// follow (RFC 1122, 3.2.2, RFC 4443, 2.4): an ICMP error, a later fragment, from or to a group. DF of the
// packet does not matter, as it was not cut up.
std::optional<Answer> answer_too_long(u8* frame, u32 length, u32 mtu) noexcept;

// At most 1,000 a second, and 50 at once, as Linux has it (icmp_msgs_per_sec, icmp_msgs_burst).
class AnswerLimit {
 public:
  bool take(u64 now_ns) noexcept {
    constexpr u64 kInterval = 1'000'000, kBurst = 50;
    const u64 from = now_ns > kInterval * kBurst ? now_ns - kInterval * kBurst : 0;
    if (last_ns_ < from) last_ns_ = from;
    if (last_ns_ + kInterval > now_ns) return false;
    last_ns_ += kInterval;
    return true;
  }

 private:
  u64 last_ns_ = 0;  // that the answers so far have used up, at kInterval each
};

}  // namespace xdpgpu::dataplane
