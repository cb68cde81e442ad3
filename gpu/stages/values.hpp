// SPDX-License-Identifier: MIT
//
// gpu/stages/values.hpp: values that the settings of several stages have. Plain values, no more.
#pragma once

#include <array>

#include "maps/packet.h"

namespace xdpgpu::gpu {

// Address bytes in network order; IPv4 uses the first four. length in bits.
struct Prefix {
  u8 family = 4;  // 4 or 6
  std::array<u8, 16> address{};
  u8 length = 0;
};
struct PortRange {
  u16 first = 0;  // host order, inclusive
  u16 last = 65535;
};
// VLANs by the outer tag's id, inclusive. From 0 to 0: no tag; from XG_VLAN_PRIORITY to the same: a tag with
// id 0.
struct VlanRange {
  u16 first = 0;
  u16 last = 0;
};
using Mac = std::array<u8, 6>;

// What becomes of a packet. next: it goes on to the next stage.
enum class Action { next, drop, pass, tx, redirect };

// Holds for TCP packets in whose flag byte (RFC 9293) the bits in `mask` are those in `value`.
struct TcpFlags {
  u8 mask = 0;
  u8 value = 0;  // no bits outside `mask`
};

// What a stage remembers of packets, by key: a table of the device's own memory (gpu/stages/table.h). It is
// divided into sets of eight; a key's set is told by the keyed hash of the key (CompileOptions::hash_key),
// and a newcomer to a full set takes the place of one of the eight, or gets none. Packets with timestamps
// that run backwards count as of the latest time that their set has seen.
struct TableSettings {
  enum class Evict {
    fifo,    // the entry that has been there longest
    lru,     // the one not used for longest
    lfu,     // the one used least often
    random,  // any of them, by the newcomer's hash
    refuse,  // none
  };
  u32 entries = 65536;  // 1..67,108,864; rounded up so that there is a power of two of sets; 72 bytes each
  Evict evict = Evict::lru;
};

}  // namespace xdpgpu::gpu
