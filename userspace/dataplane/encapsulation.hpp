// SPDX-License-Identifier: MIT
//
// userspace/dataplane/encapsulation.hpp: puts a packet inside of outer headers, in the headroom of its frame,
// as the XDP program does with cached flows (maps/encapsulation.h).
#pragma once

#include "maps/encapsulation.h"

namespace xdpgpu::dataplane {

// frame: a whole, well-formed IP packet, its metadata right in front of it, and in front of them as much room
// as makes XG_OUTER_MAX bytes in all; all that may be overwritten. `rewrite` encapsulates. The Ethernet
// header and its tags move in front of the outer headers, with the outer EtherType. Returns by how many bytes
// the frame begins earlier than before.
u32 encapsulate(u8* frame, const xg_rewrite& rewrite, u32 flow_hash) noexcept;

}  // namespace xdpgpu::dataplane
