// SPDX-License-Identifier: MIT
//
// userspace/dataplane/reject_answer.hpp: tells those between whom a packet goes that a rule rejects it, as
// Suricata 7.0.10 does: TCP by a reset, all else by ICMP "administratively prohibited".
#pragma once

#include <optional>

#include "maps/packet.h"

namespace xdpgpu::dataplane {

enum class Told : u8 { sender, receiver };

// Turns a packet into the answer to it, where it stands, in the same VLAN. frame, length: its first buffer,
// which may hold anything, as nothing else is looked at; bytes: of all of them; room: from the frame's first
// byte on, that may be written to, at least `length`. Returns the frame's length then.
//
// TCP: a reset, to the sender in the receiver's name and with the numbers that it waits for (RFC 9293,
// 3.10.7.1), to the receiver in the sender's and with the packet's own, so that it counts where that was the
// next one (RFC 5961, 3.2). All else: ICMP destination unreachable, code 10 (RFC 1122, 3.2.2.1), ICMPv6's
// code 1 (RFC 4443, 3.1), with the packet in it as far as an error may hold it, and as it is in `length`
// bytes; to the receiver likewise, from the sender. MAC addresses stand as they do on the way there.
//
// Nothing, and unchanged, where the packet is malformed, a later fragment, a reset itself, or an ICMP message
// that is an error (of ICMP, too, one whose type is none that asks or answers), is not from one host to
// another (RFC 1122, 3.2.2, RFC 4443, 2.4), or carries another one (IP in IP, GRE), of which alone the rule
// may speak.
std::optional<u32> answer_rejected(u8* frame, u32 length, u32 bytes, u32 room, Told whom) noexcept;

}  // namespace xdpgpu::dataplane
