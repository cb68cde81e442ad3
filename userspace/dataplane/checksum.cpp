// SPDX-License-Identifier: MIT
#include "userspace/dataplane/checksum.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "gpu/checksum.h"

namespace xdpgpu::dataplane {
namespace {

static_assert(std::endian::native == std::endian::little);

template <class T>
T load(const u8* at) noexcept {
  T value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

u16 fold(u64 sum) noexcept {
  sum = (sum >> 32) + (sum & 0xffffffffu);
  sum = (sum >> 32) + (sum & 0xffffffffu);
  sum = (sum >> 16) + (sum & 0xffffu);
  sum = (sum >> 16) + (sum & 0xffffu);
  return static_cast<u16>(sum);
}

}  // namespace

u16 ones_sum(const u8* data, u32 bytes) noexcept {
  // Four independent sums of 32-bit words keep the adders busy and cannot overflow below 4 Gi words.
  u64 a = 0, b = 0, c = 0, d = 0;
  for (; bytes >= 32; bytes -= 32, data += 32) {
    const u64 w0 = load<u64>(data), w1 = load<u64>(data + 8), w2 = load<u64>(data + 16),
              w3 = load<u64>(data + 24);
    a += (w0 & 0xffffffffu) + (w0 >> 32);
    b += (w1 & 0xffffffffu) + (w1 >> 32);
    c += (w2 & 0xffffffffu) + (w2 >> 32);
    d += (w3 & 0xffffffffu) + (w3 >> 32);
  }
  u64 sum = u64{fold(a)} + fold(b) + fold(c) + fold(d);
  for (; bytes >= 2; bytes -= 2, data += 2) sum += load<u16>(data);
  if (bytes) sum += *data;
  return fold(sum);
}

Completed complete_checksum(u8* region, Buffers packet, const xg_metadata& metadata) noexcept {
  u8* const frame = region + packet.front().offset;
  const xg_partial partial = xg_partial_checksum(frame, packet.front().length, &metadata);
  if (!partial.field || metadata.l4_offset + partial.l4_bytes > bytes_of(packet)) return {};
  const u32 field = partial.field;

  Completed completed{field, 0};
  std::memcpy(&completed.before, frame + field, sizeof(completed.before));
  const u16 zero = 0;
  std::memcpy(frame + field, &zero, sizeof(zero));
  u64 sum = partial.pseudo;
  u32 left = partial.l4_bytes, skip = metadata.l4_offset, before = 0;
  for (const xg_descriptor& buffer : packet) {
    const u32 bytes = std::min(left, buffer.length - skip);
    const u16 part = ones_sum(region + buffer.offset + skip, bytes);
    // Behind an odd number of bytes each one stands in the other half of its word (RFC 1071, section 2(B)).
    sum += before % 2 ? std::rotl(part, 8) : part;
    before += bytes;
    left -= bytes;
    skip = 0;
  }
  u16 checksum = static_cast<u16>(~fold(sum));
  // UDP says 0 for "none"; the sum 0 is sent as its other name.
  if (!(metadata.flags & XG_PKT_TCP) && checksum == 0) checksum = 0xffff;
  std::memcpy(frame + field, &checksum, sizeof(checksum));
  return completed;
}

}  // namespace xdpgpu::dataplane
