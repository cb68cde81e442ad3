// SPDX-License-Identifier: MIT
//
// userspace/dataplane/dns_answer.hpp: refuses a DNS query in its server's name: the answer that there is no
// such domain (NXDOMAIN, RFC 1035, 2308).
#pragma once

#include <optional>

#include "maps/packet.h"

namespace xdpgpu::dataplane {

// Turns a DNS query over UDP into the answer to it, where it stands: back to the source's MAC address, IP
// address and port, in the same VLAN, with the question and nothing else, so that it is never longer than the
// query. frame, length: the whole packet, metadata in front. Returns the frame's length then. Nothing, and
// unchanged, where it is no query to be answered: what a device says is checked here. It has to be whole,
// well-formed and no fragment, without IP options or extension headers, from one host to another, with
// operation 0 and one question that is there; and it may be no answer.
std::optional<u32> answer_no_such_domain(u8* frame, u32 length) noexcept;

}  // namespace xdpgpu::dataplane
