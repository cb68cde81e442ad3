// SPDX-License-Identifier: MIT
//
// gpu/reference/ends.hpp: the two ends of a connection, as stages know it: the same for both directions.
#pragma once

#include <optional>
#include <span>

#include "gpu/reference/packet.hpp"
#include "gpu/reference/table.hpp"

namespace xdpgpu::gpu::reference {

// Whose packet it is, and which way it goes: false from the lower end to the upper one.
struct Ends {
  Key key{};
  bool from_upper = false;
};

// Nothing where the addresses are none that a packet has.
std::optional<Ends> ends(const Packet& packet, std::span<const u8> src, std::span<const u8> dst,
                         std::span<const u8> src_port, std::span<const u8> dst_port, u8 protocol);

}  // namespace xdpgpu::gpu::reference
