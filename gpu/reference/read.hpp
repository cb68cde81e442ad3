// SPDX-License-Identifier: MIT
//
// gpu/reference/read.hpp: a packet in the frame region, as the reference sees it.
#pragma once

#include <optional>

#include "gpu/reference/packet.hpp"

namespace xdpgpu::gpu::reference {

// The packet as the metadata in front of it describes it, which points into the region; nothing where it is
// not to be judged. Its later buffers are not filled in.
std::optional<Packet> read_packet(std::span<const u8> region, const xg_descriptor& descriptor);

}  // namespace xdpgpu::gpu::reference
