// SPDX-License-Identifier: MIT
//
// gpu/reference/connections.hpp: what `conntrack` takes a packet for (ConntrackSettings).
#pragma once

#include "gpu/reference/packet.hpp"
#include "gpu/reference/table.hpp"

namespace xdpgpu::gpu::reference {

enum class Class : u32 { untracked, fresh, established, related, invalid, no_place };

// The packet's class; its connection is noted in the table.
Class classify(const ConntrackSettings& settings, const Packet& packet, Table& table);

}  // namespace xdpgpu::gpu::reference
