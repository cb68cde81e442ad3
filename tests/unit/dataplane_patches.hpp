// SPDX-License-Identifier: MIT
//
// tests/unit/dataplane_patches.hpp: what programs may have left of packets (xg_patch), what that is by its
// plain definition, and what it is not.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "maps/packet.h"
#include "tests/unit/dataplane_random.hpp"

namespace xdpgpu::dataplane {

// Behind the last place of a packet that stands at XG_FRAME_DATA of its chunk.
inline constexpr u32 kPlaces = XG_PATCH_BEFORE + XG_FRAME_MAX;

// What stands at a place then, whether it is the packet's or not. frame: as it came.
inline u8 patched_byte(const u8* frame, const xg_patch& patch, u32 place) {
  for (u32 i = 0; i < patch.count; ++i)
    if (patch.lines[i] == place / XG_PATCH_LINE_BYTES) return patch.bytes[i][place % XG_PATCH_LINE_BYTES];
  return place >= XG_PATCH_BEFORE && place < patch.kept ? frame[place - XG_PATCH_BEFORE] : u8{0};
}
inline std::vector<u8> patched(const u8* frame, const xg_patch& patch) {
  std::vector<u8> packet;
  for (u32 place = patch.begin; place < patch.end; ++place)
    packet.push_back(patched_byte(frame, patch, place));
  return packet;
}

// Likewise, where a checksum was completed at `field` of the frame, if that is not 0: it is sent, unless the
// program has cut the old one off or written another one. came, complete: the frame before and after.
inline std::vector<u8> patched(const std::vector<u8>& came, const u8* complete, u32 field,
                               const xg_patch& patch) {
  std::vector<u8> packet = patched(complete, patch);
  const u32 place = XG_PATCH_BEFORE + field;
  if (field == 0 || place + 2 > patch.kept) return packet;
  for (const u32 at : {place, place + 1})
    if (patched_byte(came.data(), patch, at) != came[at - XG_PATCH_BEFORE]) return packet;
  for (const u32 at : {place, place + 1})
    if (at >= patch.begin && at < patch.end) packet[at - patch.begin] = complete[at - XG_PATCH_BEFORE];
  return packet;
}

// One that fits a packet of so many bytes at XG_FRAME_DATA of its chunk. Some lines have the bytes that came,
// as where a program has written the same again.
inline xg_patch any_patch(Random& random, const u8* frame, u32 length) {
  const auto below = [&](u32 limit) { return random() % limit; };
  xg_patch patch{};
  const u32 begin = below(4) ? XG_PATCH_BEFORE - 64 + below(96) : below(kPlaces - 13);
  const u32 came = XG_PATCH_BEFORE + length;
  const u32 end = below(2) ? std::max(begin + 14, came) : begin + 14 + below(kPlaces - begin - 13);
  patch.begin = static_cast<u16>(begin);
  patch.end = static_cast<u16>(end);
  patch.kept = static_cast<u16>(below(2) ? came : below(came + 1));
  patch.count = static_cast<u8>(below(XG_PATCH_LINES + 1));
  std::array<u8, (kPlaces + XG_PATCH_LINE_BYTES - 1) / XG_PATCH_LINE_BYTES> lines;
  for (u32 i = 0; i < lines.size(); ++i) lines[i] = static_cast<u8>(i);
  for (u32 i = 0; i < patch.count; ++i) {
    const u32 first = XG_PATCH_BEFORE / XG_PATCH_LINE_BYTES;  // of what came
    if (i == 0 && below(2))
      std::swap(lines[0], lines[first]);
    else
      std::swap(lines[i], lines[i + below(static_cast<u32>(lines.size()) - i)]);
    patch.lines[i] = lines[i];
    const bool same = below(2);
    for (u32 byte = 0; byte < XG_PATCH_LINE_BYTES; ++byte) {
      const u32 place = lines[i] * XG_PATCH_LINE_BYTES + byte;
      const bool is_there = place >= XG_PATCH_BEFORE && place < came;
      patch.bytes[i][byte] = same && is_there ? frame[place - XG_PATCH_BEFORE] : static_cast<u8>(random());
    }
  }
  return patch;
}

// Ways in which a patch of a packet of so many bytes at XG_FRAME_DATA can lie.
enum class Lie {
  more_lines,
  far_line,
  farthest_line,
  line_twice,
  short_,
  backwards,
  beyond,
  keeps_more,
  all
};
inline void tell(Lie lie, xg_patch& patch, u32 length) {
  switch (lie) {
    case Lie::more_lines:
      patch.count = XG_PATCH_LINES + 1;
      for (u32 i = 0; i < XG_PATCH_LINES; ++i) patch.lines[i] = static_cast<u8>(i);
      patch.reserved2 = XG_PATCH_LINES;  // where the next one's number would be
      break;
    case Lie::far_line:
    case Lie::farthest_line:
      patch.count = std::max(patch.count, u8{1});
      patch.lines[patch.count - 1] =
          lie == Lie::far_line ? static_cast<u8>(kPlaces / XG_PATCH_LINE_BYTES + 1) : u8{255};
      break;
    case Lie::line_twice:
      patch.count = std::max(patch.count, u8{2});
      patch.lines[patch.count - 1] = patch.lines[0];
      break;
    case Lie::short_:
      patch.end = static_cast<u16>(patch.begin + 13);
      break;
    case Lie::backwards:
      std::swap(patch.begin, patch.end);
      break;
    case Lie::beyond:
      patch.end = static_cast<u16>(kPlaces + 1);
      break;
    case Lie::keeps_more:
      patch.kept = static_cast<u16>(XG_PATCH_BEFORE + length + 1);
      break;
    case Lie::all:
      break;
  }
}

}  // namespace xdpgpu::dataplane
