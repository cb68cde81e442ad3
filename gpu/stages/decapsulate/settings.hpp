// SPDX-License-Identifier: MIT
//
// gpu/stages/decapsulate/settings.hpp: what `decapsulate` can be told, and what it does.
#pragma once

#include <vector>

#include "gpu/stages/values.hpp"
#include "maps/encapsulation.h"

namespace xdpgpu::gpu {

// `decapsulate`: the far end of a tunnel. A packet whose outer headers lead to one of `addresses` and are of
// a kind that `type` names leaves them behind, all that stands between its Ethernet header and tags and the
// packet that it carries, and is passed to the host's stack or sent on as that packet is, with its EtherType.
// IP in IP: protocol 4 or 41, directly behind the outer IP header and its options or extension headers. GUE:
// UDP to `port`, variant 1, where the inner IP header follows the UDP header at once (maps/encapsulation.h).
// Neither an outer UDP checksum nor an inner one is looked at. MAC addresses stay, and so does the inner TTL,
// which whoever forwards the packet takes down (RFC 2003, 3.1). Where the outer header says that the path was
// congested (CE), so does the inner one afterwards (RFC 6040, 4.2).
//
// Dropped are, of these, packets with malformed outer headers, those that carry no IP packet of the family
// that protocol or version name, or not all of it, or a jumbogram (kMalformed); and those that are marked CE
// outside and inside are of a sender who does not know of that (kCongested).
//
// All others go on to the next stage: other destinations, protocols and ports, and fragments of outer
// packets, which only the host can put together.
//
// What is inside is looked at by no stage: behind this one stands the host's stack, and whoever may send to
// one of the addresses may send it anything, from any address. Stages in front of it, and the policy's rules,
// see the outer headers.
//
// Verdict's rule: 0, or one of decapsulate_rule; the result's detail: the address' position.
struct DecapsulateSettings {
  enum class Type { ipip, gue, any } type = Type::any;
  u16 port = XG_GUE_PORT;         // with GUE: the UDP destination, host order, not 0
  std::vector<Prefix> addresses;  // 1..16, of one host each
  Action action = Action::pass;   // or tx, redirect
  u32 target = 0;                 // port index of redirect
};
inline constexpr u32 kMaxDecapsulateAddresses = 16;
namespace decapsulate_rule {
inline constexpr u32 kMalformed = 1;
inline constexpr u32 kCongested = 2;
}  // namespace decapsulate_rule

}  // namespace xdpgpu::gpu
