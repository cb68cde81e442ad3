// SPDX-License-Identifier: MIT
#include "userspace/dataplane/patch.hpp"

#include <algorithm>
#include <cstring>

namespace xdpgpu::dataplane {
namespace {

constexpr u32 kEthernet = 14;

// Where the patch's bytes are counted from, in the region. May be in front of it: then it wraps.
u64 origin_of(const xg_descriptor& packet) noexcept { return packet.offset - XG_PATCH_BEFORE; }

// The patch's byte for that place; nullptr: no line has it.
u8* line_byte(xg_patch& patch, u32 place) noexcept {
  for (u32 i = 0; i < patch.count; ++i)
    if (patch.lines[i] == place / XG_PATCH_LINE_BYTES) return &patch.bytes[i][place % XG_PATCH_LINE_BYTES];
  return nullptr;
}

}  // namespace

bool fits_patch(Buffers packet, const xg_patch& patch) noexcept {
  if (packet.size() != 1 || patch.count > XG_PATCH_LINES) return false;
  const auto before = static_cast<u32>(packet.front().offset % XG_CHUNK_SIZE);
  const u32 end = XG_PATCH_BEFORE + XG_CHUNK_SIZE - before;  // of the chunk
  u64 named = 0;
  static_assert((XG_PATCH_BEFORE + XG_CHUNK_SIZE) / XG_PATCH_LINE_BYTES <= 64);
  for (u32 i = 0; i < patch.count; ++i) {
    if (patch.lines[i] * XG_PATCH_LINE_BYTES >= end || named >> patch.lines[i] & 1) return false;
    named |= u64{1} << patch.lines[i];
  }
  return patch.begin + kEthernet <= patch.end && patch.begin + before >= XG_PATCH_BEFORE &&
         patch.end <= end && patch.kept <= XG_PATCH_BEFORE + packet.front().length;
}

void keep_checksum(xg_patch& patch, const u8* frame, const Completed& completed) noexcept {
  const u32 place = XG_PATCH_BEFORE + completed.field;
  if (!completed || place + sizeof(completed.before) > patch.kept) return;
  u8 before[sizeof(completed.before)];
  std::memcpy(before, &completed.before, sizeof(before));
  u8* own[sizeof(before)];
  for (u32 i = 0; i < sizeof(before); ++i) {
    own[i] = line_byte(patch, place + i);
    if (own[i] != nullptr && *own[i] != before[i]) return;
  }
  for (u32 i = 0; i < sizeof(before); ++i)
    if (own[i] != nullptr) *own[i] = frame[completed.field + i];
}

xg_descriptor apply_patch(u8* region, const xg_descriptor& packet, const xg_patch& patch) noexcept {
  const u32 begin = patch.begin, end = patch.end;
  const u64 origin = origin_of(packet);
  const auto clear = [&](u32 from, u32 to) {
    if (from < to) std::memset(region + (origin + from), 0, to - from);
  };
  clear(begin, std::min(end, XG_PATCH_BEFORE));
  clear(std::max({begin, u32{patch.kept}, XG_PATCH_BEFORE}), end);
  for (u32 i = 0; i < patch.count; ++i) {
    const u32 line = patch.lines[i] * XG_PATCH_LINE_BYTES;
    const u32 from = std::max(begin, line), to = std::min(end, line + XG_PATCH_LINE_BYTES);
    if (from < to) std::memcpy(region + (origin + from), patch.bytes[i] + (from - line), to - from);
  }
  return {origin + begin, end - begin, 0};
}

}  // namespace xdpgpu::dataplane
