// SPDX-License-Identifier: MIT
#include "gpu/staging.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "gpu/stages/payload.h"

namespace xdpgpu::gpu {
namespace {

// Keeps each packet's metadata aligned for wide loads.
constexpr u64 kAlign = 16;
constexpr u64 align(u64 bytes) { return (bytes + kAlign - 1) & ~(kAlign - 1); }
constexpr u64 kMost = align(XG_METADATA_SIZE + XG_CHUNK_SIZE);

// Of an L4 header: the ports, an ICMP header with an echo's identifier, TCP's header, which ends the latest.
constexpr u32 kL4Bytes = 20;
constexpr u8 kSyn = 0x02;
// Of an ICMP error: the packet that it quotes, up to its ports or an echo's identifier.
constexpr u32 kIcmpBytes = 8 + 60 + 8;
// Frames between the one that is staged and the one whose first line is fetched.
constexpr u32 kAhead = 8;

// Where the furthest byte stands, were it there, that the stages and those who publish read (gpu/flow_key.h,
// gpu/checksum.h).
u32 reach(const u8* metadata_bytes, u32 length) {
  xg_metadata metadata;
  std::memcpy(&metadata, metadata_bytes, sizeof(metadata));
  u32 l4_bytes = (metadata.flags & XG_PKT_ICMP) != 0 ? kIcmpBytes : kL4Bytes;
  // A SYN's options.
  if ((metadata.flags & XG_PKT_TCP) != 0 && metadata.l4_offset + kL4Bytes <= length) {
    const u8* tcp = metadata_bytes + XG_METADATA_SIZE + metadata.l4_offset;
    if ((tcp[13] & kSyn) != 0) l4_bytes = std::max(kL4Bytes, (tcp[12] >> 4) * 4u);
  }
  return std::min(length, std::max(u32{metadata.l3_offset} + 40, u32{metadata.l4_offset} + l4_bytes));
}

u32 payload_of(const u8* metadata_bytes, const Pipelines& pipelines) {
  xg_metadata metadata;
  std::memcpy(&metadata, metadata_bytes, sizeof(metadata));
  return pipelines.payload_bytes(metadata.pipeline);
}

// kPayload: some pipeline's stages read more than headers.
template <bool kPayload>
u64 pack(const void* frames, u64 frames_bytes, const xg_descriptor* descriptors, u32 count,
         [[maybe_unused]] const Pipelines& pipelines, void* staging, xg_descriptor* staged) noexcept {
  u64 used = 0;
  bool later_buffer = false;
  [[maybe_unused]] u32 wanted = 0;  // of the packet's later buffers
  for (u32 i = 0; i < count; i++) {
    // A hint: the descriptor need not be valid.
    if (i + kAhead < count)
      __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(frames) +
                                                       descriptors[i + kAhead].offset - XG_METADATA_SIZE));
    const xg_descriptor& from = descriptors[i];
    // Names nothing; the length counts to the packet's.
    staged[i] = {0, from.length, from.flags};
    if (!later_buffer && xg_descriptor_valid(from, frames_bytes)) {
      const u8* metadata = static_cast<const u8*>(frames) + from.offset - XG_METADATA_SIZE;
      u64 bytes = XG_METADATA_SIZE + u64{reach(metadata, from.length)};
      if constexpr (kPayload) {
        const u32 most = payload_of(metadata, pipelines);
        bytes = std::max(bytes, XG_METADATA_SIZE + u64{std::min(most, from.length)});
        wanted = most - std::min(most, from.length);
      }
      std::memcpy(static_cast<u8*>(staging) + used, metadata, bytes);
      staged[i] = {used + XG_METADATA_SIZE, from.length, from.flags};
      used += align(bytes);
    } else if constexpr (kPayload) {
      // A buffer that is not in the region ends what is there of its packet.
      if (!later_buffer || !xg_buffer_valid(from, frames_bytes)) wanted = 0;
      if (wanted != 0) {
        const u32 bytes = std::min(wanted, from.length);
        std::memcpy(static_cast<u8*>(staging) + used, static_cast<const u8*>(frames) + from.offset, bytes);
        staged[i] = {used, from.length, from.flags};
        used += align(bytes);
        wanted -= bytes;
      }
    }
    later_buffer = (from.flags & XG_DESC_MORE) != 0;
  }
  return used;
}

}  // namespace

u64 staging_bytes(u32 capacity) { return (kMost * (u64{capacity} + 1) + 4095) & ~u64{4095}; }

u64 stage_frames(const void* frames, u64 frames_bytes, const xg_descriptor* descriptors, u32 count,
                 const Pipelines& pipelines, void* staging, xg_descriptor* staged) noexcept {
  return pipelines.payload_bytes() == 0
             ? pack<false>(frames, frames_bytes, descriptors, count, pipelines, staging, staged)
             : pack<true>(frames, frames_bytes, descriptors, count, pipelines, staging, staged);
}

}  // namespace xdpgpu::gpu
