// SPDX-License-Identifier: MIT
//
// tests/stages/outside/payload_sum/settings.hpp: what `payload_sum` can be told, and what it does.
#pragma once

#include "gpu/stages/fields.hpp"

namespace xdpgpu::gpu {

// `payload_sum`: a checksum of a packet's bytes, from its first one or from its payload's on up to `bytes`.
// Drops the packet where the sum's bits in `mask` are `value`; passes the others, or lets them go on.
// Verdict's rule: 1 and 2. detail of what it decides: the sum.
//
// From 0 on: for as long as there is a byte, sum = sum * 31 + the byte + the number of two bytes behind it +
// the word of the four behind these (byte 0 the lowest), then seven bytes on; a number or word that is not
// wholly there counts as 0. Behind that, the same of the word at the beginning, and of the words at two
// offsets that are never wholly there: two bytes in front of the end, and 2^32 - 2.
struct PayloadSumSettings {
  bool from_payload = false;  // without a payload that is among these bytes: from the first one on
  u32 bytes = 0;              // of a packet
  u32 mask = 0;
  u32 value = 0;
  bool goes_on = false;
  bool operator==(const PayloadSumSettings&) const = default;
};

template <class Table>
void fields_of(Table& table, SettingsLike<PayloadSumSettings> auto& s) {
  table.about("Drops packets by a checksum of their bytes.");
  table.flag("from_payload", s.from_payload, "Whether the sum begins at the payload.", Say{});
  table.integer("bytes", s.bytes, 0, XG_PACKET_MAX, "How many bytes it may read.", Say{.required = true});
  table.integer("mask", s.mask, 0, 0xffffffff, "Bits of the sum that are looked at.", Say{});
  table.integer("value", s.value, 0, 0xffffffff, "What they are of packets that are dropped.", Say{});
  table.flag("goes_on", s.goes_on, "Whether the others go on to the next stage.", Say{});
}

}  // namespace xdpgpu::gpu
