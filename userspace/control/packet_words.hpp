// SPDX-License-Identifier: MIT
//
// userspace/control/packet_words.hpp: packets in words, as tests of policies name them
// (config/policy-tests.md).
//
//   frames_of({.words = "tcp 198.51.100.7:4000 > 10.0.0.1:22 syn"})
//   frames_of({.words = "vlan 7 udp [2001:db8::1]:4000 > [2001:db8::53]:53 dns example.com"})
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "maps/types.h"
#include "userspace/control/result.hpp"

namespace xdpgpu::control {

struct PacketWords {
  std::string words;
  std::optional<std::string> payload{};  // the bytes behind the transport header; else the words say
  u32 mtu = 0;  // longest IP packet in bytes: a longer one is in fragments; 0: in one
};

// The Ethernet frames of one packet: one, or its fragments in their order. Lengths and checksums are right
// (but SCTP's, which is zero). The error is a sentence.
using Frames = std::vector<std::vector<u8>>;
Result<Frames> frames_of(const PacketWords& packet);

// Hexadecimal digits, in which blanks and colons do not count.
Result<std::vector<u8>> bytes_of_hex(const std::string& text);

}  // namespace xdpgpu::control
