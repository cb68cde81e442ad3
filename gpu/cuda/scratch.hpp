// SPDX-License-Identifier: MIT
//
// gpu/cuda/scratch.hpp: device memory of batches whose pipelines have tables. All blocks bring their packets
// to the first table and keep them there; then these are taken through the tables in their order
// (gpu/cuda/tables.cuh), by one block or by a team of blocks.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "gpu/stages/program_record_layout.h"
#include "gpu/stages/table.h"

namespace xdpgpu::gpu::cuda {

// Threads of a block that takes packets to tables, each of which has one at a time.
inline constexpr u32 kTablesBlock = 128;
// Packets that a warp decides, each lane one. Where its lanes inspect packets together they do so one after
// the other, and fewer packets are a warp's.
inline constexpr u32 kPacketsPerWarp = 32;
// So many warps that inspect keep a GPU's multiprocessors busy: 24 of each of some 128.
inline constexpr u32 kInspectingWarps = 3072;
// So many times as many have less to do each: those of the last blocks leave less of the GPU idle.
inline constexpr u32 kInspectingTurns = 4;
// A power of two: packets of each warp, so that up to `warps` share the batch.
__host__ __device__ constexpr u32 packets_per_warp(u32 packets, u32 warps) {
  u32 each = kPacketsPerWarp;
  while (each > 1 && packets / each < warps) each /= 2;
  return each;
}
// Most blocks of a team.
inline constexpr u32 kTeamBlocks = 256;
// A team tells sets apart by so many groups: packets whose sets share one are applied one after the other.
inline constexpr u32 kSetGroups = 65536;
inline constexpr u32 kNoGroup = ~u32{0};

// Where the blocks of a team meet; a queue's, zeroed for each batch.
struct Team {
  u32 arrived = 0;  // blocks; kTeamClosed: who comes now comes too late
  u32 size = 0;     // blocks that take part, once that is settled
  u32 met = 0;      // counts up by one for each block and meeting
  u32 through = 0;  // blocks whose part of the batch is over
};
inline constexpr u32 kTeamClosed = 0x80000000;

// What the packets that a team takes at a time bring to a round's tables, where many may be of one set; each
// block's behind those of the block before.
struct Crowd {
  static constexpr u32 kPackets = kTeamBlocks * kTablesBlock;
  // Of an xg_touch but for `more`, which few stages need: apart, so that others' are whole sectors.
  static constexpr u32 kPieces = offsetof(xg_touch, more) / sizeof(uint4);
  static_assert(sizeof(xg_touch) == (kPieces + 1) * sizeof(uint4) && XG_TOUCH_MORE == 4);
  uint4 touches[kPackets][kPieces];
  uint4 more[kPackets];
  u32 groups[kPackets];  // of its set; kNoGroup: it brings nothing
  u32 kinds[kPackets];
  u32 bodies[kPackets];
  u32 outcomes[kPackets];
};

// What a device has for its tables, whichever queue's batch is at them. Zeroed.
struct TablesTurn {
  // 0 while nobody is at the tables.
  u32 lock;
  u32 unused[31];
  // By group of sets, of one meeting and the next in turn; 0 between them. One bit for each block of the team
  // that has packets for these sets, and how many of these blocks have applied theirs.
  u32 blocks[2][kSetGroups][kTeamBlocks / 32];
  u32 applied[2][kSetGroups];
  // Likewise, one bit for each block that has packets there which may do more than find what they look for.
  u32 changing[2][kSetGroups][kTeamBlocks / 32];
  Crowd crowd;
  // Of the packets that are taken at a time: what their programs' runs keep that are ahead of their turns.
  u32 ahead[XG_PROGRAM_RECORDS * XG_PROGRAM_AHEAD_WORDS];
  static_assert(XG_PROGRAM_RECORDS == Crowd::kPackets);
  // And the xg_patches that programs make of them.
  uint4 patches[Crowd::kPackets][XG_PATCH_QUADS];
  // And they themselves, where a stage reads much of them: over the bus each read of a thread's is a sector,
  // and comes again for the next word.
  uint4 near[Crowd::kPackets][XG_NEAR_QUADS];
  static_assert((XG_NEAR_QUADS - 1) * sizeof(uint4) >= 15 + XG_METADATA_SIZE + XG_FRAME_MAX);
};

// Addresses of the device. But for `turn`, a queue's; what a batch leaves there is over with the batch.
struct Scratch {
  TablesTurn* turn = nullptr;
  Team* team = nullptr;
  // Of each packet of a batch; behind `marks`, of those that wait:
  u32* marks = nullptr;
  u32* bytes = nullptr;          // its length
  uint4* descriptors = nullptr;  // its xg_descriptor
  uint4* lines = nullptr;        // kLanesPerLine each: the line that its headers came in
};

// Values of Scratch::marks: 0, the packet is decided; else 1 + the position of the stage that it waits for.
inline constexpr u32 kMarkPosition = 0xffff;
inline constexpr u32 kMarkLine = 0x10000;  // its line is there, and has all fields

// In this order: Scratch::team on a line of its own, lines, descriptors, bytes, marks.
constexpr u64 scratch_bytes(u64 packets) { return 128 + packets * (128 + sizeof(uint4) + 2 * sizeof(u32)); }

}  // namespace xdpgpu::gpu::cuda
