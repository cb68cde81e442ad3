// SPDX-License-Identifier: MIT
//
// gpu/cuda/tables.cuh: the second part of a batch whose pipelines have tables (gpu/stages/table.h). So many
// packets are taken at a time as there are threads, through all rounds; in each round the packets of one set
// are applied in their order, and those of different sets do not wait for each other.
//
// Within a block the packets of one set are one thread's: its first one's. One block does for a small batch.
// A large one is a team's (kernel.cu), whose blocks have packets in the order of their numbers. For each
// group of sets they say that they have some, meet, and then see who else has; each applies its own when
// those before it have applied theirs.
//
// What it costs a packet: 152 bytes written to device memory and read again for what the first part keeps of
// it; the two sectors of its set's head and the two of its entry, each read and written once, and as many
// again where `conntrack` holds TCP's windows against it, with a few loads that hang on each other. A team
// takes 32,768 packets at a time, so that all of these wait together: some microseconds a round, where the
// same packets take a hundred to come over the bus. A set that many packets come to is as slow as one thread.
//
// Where that is to be expected (XG_IMAGE_CROWDED_AT: every packet of a flood comes to its target) the blocks
// of a team lay open what their packets bring. A warp of one of the blocks that have packets of a group looks
// through those of the others that have some and takes them in their order, 32 at a time, where a stage has a
// way to (gpu/stages/apply_many.h); when the blocks have met again, the others find the outcomes. Groups of a
// packet or two are their thread's, as ever.
//
// Packets of programs that are ordered by a key have run before (gpu/stages/program_ahead.h), and say of
// their group whether they do more than find something (TablesTurn::changing). Where nobody does, the group
// has no order.
//
// A team is made of the blocks that are there: it does not wait for one that finds no room on the GPU, where
// kernels that stay have taken it. So its blocks may wait for each other.
#pragma once

#include "gpu/cuda/decide.cuh"
#include "gpu/stages/apply_many.h"

namespace xdpgpu::gpu::cuda {

// A block's place in a team.
struct Place {
  u32 number;  // from 0 to size - 1; size: it came too late
  u32 size;
};

namespace detail {

// Places for what the packets of a block come to: groups of sets, told apart exactly.
constexpr u32 kRoundPlaces = 256;
constexpr u32 kMemberWords = kTablesBlock / 32;
constexpr u32 kTablesWarps = kTablesBlock / kWarpLanes;
// A group of so many packets is a crowd's least: fewer are sooner through one by one.
constexpr u32 kCrowd = 3;
static_assert(kRoundPlaces > kTablesBlock && kSetGroups < kNoGroup);

// What a block's packets bring to the round's tables, and what comes of it.
struct Round {
  alignas(uint4) xg_touch touches[kTablesBlock];
  u32 kinds[kTablesBlock];
  u32 bodies[kTablesBlock];
  u32 outcomes[kTablesBlock];
  u32 groups[kRoundPlaces];                 // kNoGroup between rounds
  u32 members[kRoundPlaces][kMemberWords];  // one bit a packet; 0 between rounds
  // In a crowded round: whether the place's packets are taken with other blocks'; and what a warp has found
  // of a crowd's packets, in their order, of which it takes as many as it has lanes.
  bool gathered[kRoundPlaces];
  u32 found[kTablesWarps][2 * kWarpLanes];
  u32 record_caches[kTablesWarps][XG_RECORD_CACHE_WORDS];
};

// The lanes of this warp, all of them (gpu/stages/apply_many.h).
class Warp {
 public:
  __device__ u32 lane() const { return threadIdx.x % kWarpLanes; }
  __device__ u32 ballot(bool says) const { return __ballot_sync(~0u, says); }
  __device__ u32 same(u32 value) const { return __match_any_sync(~0u, value); }
  template <class T>
  __device__ T from(T value, u32 lane) const {
    return __shfl_sync(~0u, value, int(lane));
  }
  __device__ u32 sum(u32 value) const {
#if __CUDA_ARCH__ >= 800
    return __reduce_add_sync(~0u, value);
#else
#pragma unroll
    for (u32 step = kWarpLanes / 2; step != 0; step /= 2) value += __shfl_xor_sync(~0u, value, int(step));
    return value;
#endif
  }
  __device__ void sync() const { __syncwarp(); }
};

// For whole blocks; a barrier follows.
__device__ inline void clear(Round& round) {
  for (u32 at = threadIdx.x; at < kRoundPlaces; at += kTablesBlock) {
    round.groups[at] = kNoGroup;
    for (u32& word : round.members[at]) word = 0;
  }
}

// Packet `mine` comes to a group. -> the group's place.
__device__ inline u32 come(Round& round, u32 group, u32 mine) {
  u32 at = group % kRoundPlaces;
  for (;;) {
    const u32 there = atomicCAS(&round.groups[at], kNoGroup, group);
    if (there == kNoGroup || there == group) break;
    at = (at + 1) % kRoundPlaces;
  }
  atomicOr(&round.members[at][mine / 32], 1u << mine % 32);
  return at;
}

// Whether packet `mine` is its group's first.
__device__ inline bool is_first(const u32 (&members)[kMemberWords], u32 mine) {
  for (u32 word = 0; word < mine / 32; word++)
    if (members[word] != 0) return false;
  return (members[mine / 32] & ((1u << mine % 32) - 1u)) == 0;
}

// A place is free for the next round.
__device__ inline void leave(Round& round, u32 place) {
  for (u32& word : round.members[place]) word = 0;
  round.groups[place] = kNoGroup;
}

__device__ inline u32 count(const u32 (&members)[kMemberWords]) {
  u32 all = 0;
  for (const u32 word : members) all += __popc(word);
  return all;
}

__device__ inline void apply_all(const xg_batch& batch, Round& round, u32 place) {
  for (u32 word = 0; word < kMemberWords; word++) {
    for (u32 left = round.members[place][word]; left != 0; left &= left - 1) {
      const u32 packet = word * 32 + XG_LOWEST_BIT(left);
      round.outcomes[packet] =
          xg_stage_apply(batch, round.kinds[packet], round.bodies[packet], round.touches[packet]);
    }
  }
  leave(round, place);
}

#ifdef XG_KIND_SIGNATURES
// As apply_all(), by a warp whose lanes help the first one.
static __device__ __noinline__ void apply_helped(const xg_batch& batch, Round& round, u32 place) {
  for (u32 word = 0; word < kMemberWords; word++) {
    const u32 packet = word * kWarpLanes + threadIdx.x % kWarpLanes;
    if ((round.members[place][word] >> threadIdx.x % kWarpLanes & 1) != 0 &&
        round.kinds[packet] == XG_KIND_SIGNATURES + XG_KIND_STATEFUL)
      round.touches[packet].more[XG_STREAM_NEAR] |= XG_STREAM_HELPED;
  }
  __syncwarp();
  xg_warp::with_help(batch, [&] { apply_all(batch, round, place); });
}
#endif

// What the packets of those lanes that go bring to their places, one place after the other where a warp's
// lanes help each other; then each is `applied`. For whole warps.
template <class Applied>
__device__ inline void apply_places(const xg_batch& batch, Round& round, bool goes, u32 place,
                                    const Applied& applied) {
#ifdef XG_KIND_SIGNATURES
  bool helps = false;
  if (goes)
    for (u32 word = 0; word < kMemberWords; word++)
      for (u32 left = round.members[place][word]; left != 0; left &= left - 1)
        helps |= round.kinds[word * 32 + XG_LOWEST_BIT(left)] == XG_KIND_SIGNATURES + XG_KIND_STATEFUL;
  if (goes && !helps) {
    apply_all(batch, round, place);
    applied();
  }
  __syncwarp();
  for (u32 all = __ballot_sync(~0u, helps); all != 0; all &= all - 1) {
    const u32 whose = XG_LOWEST_BIT(all);
    const u32 its = __shfl_sync(~0u, place, int(whose));
    apply_helped(batch, round, its);
    if (threadIdx.x % kWarpLanes == whose) applied();
  }
#else
  if (goes) {
    apply_all(batch, round, place);
    applied();
  }
#endif
}

__device__ inline u32* own_record_cache(Round& round) {
  return round.record_caches[threadIdx.x / kWarpLanes];
}

// The block's own packets of a place; for whole warps.
static __device__ __noinline__ void apply_crowd(const xg_batch& batch, Round& round, u32 place) {
  Warp warp;
  xg_record_cache cache = xg_empty_record_cache({own_record_cache(round)});
  for (u32 word = 0; word < kMemberWords; word++) {
    const u32 members = round.members[place][word];
    if (members == 0) continue;
    const bool has = (members >> warp.lane() & 1) != 0;
    const u32 packet = word * kWarpLanes + warp.lane();
    const xg_touch touch = has ? round.touches[packet] : xg_untracked();
    const u32 outcome = xg_apply_lanes(warp, batch, has, has ? round.kinds[packet] : 0u,
                                       has ? round.bodies[packet] : 0u, touch, cache);
    if (has) round.outcomes[packet] = outcome;
  }
  xg_write_back(warp, batch, cache);
}

// Up to a warp's lanes of a crowd's packets, the first `count` of those found.
__device__ inline void apply_found(const xg_batch& batch, Crowd& crowd, const u32* found, u32 count,
                                   xg_record_cache& cache) {
  Warp warp;
  const bool has = warp.lane() < count;
  xg_touch touch = xg_untracked();
  u32 packet = 0, kind = 0, body = 0;
  if (has) {
    packet = found[warp.lane()];
    uint4 pieces[Crowd::kPieces + 1];
#pragma unroll
    for (u32 i = 0; i < Crowd::kPieces; i++) pieces[i] = __ldcg(&crowd.touches[packet][i]);
    // Also where the kind has no use for it: what is there of others is not looked at, and the load need not
    // wait for the kind.
    pieces[Crowd::kPieces] = __ldcg(&crowd.more[packet]);
    kind = __ldcg(&crowd.kinds[packet]);
    body = __ldcg(&crowd.bodies[packet]);
    memcpy(&touch, pieces, sizeof(touch));
#ifdef XG_WITH_PROGRAMS
    // The copy is in another block's memory.
    if (xg_stage_runs_programs(kind)) touch.key[XG_PROGRAM_TOUCH_BYTES] = 0;
#endif
  }
  const u32 outcome = xg_apply_lanes(warp, batch, has, kind, body, touch, cache);
  if (has) __stcg(&crowd.outcomes[packet], outcome);
}

// The blocks that have packets of a group, one after the other; for whole warps.
class Blocks {
 public:
  static constexpr u32 kNone = ~0u;
  static_assert(kTeamBlocks / 32 <= kWarpLanes);
  __device__ explicit Blocks(const u32* bits) {
    const u32 lane = threadIdx.x % kWarpLanes;
    left_ = lane < kTeamBlocks / 32 ? __ldcg(bits + lane) : 0;
  }
  __device__ u32 next() {
    const u32 words = __ballot_sync(~0u, left_ != 0);
    if (words == 0) return kNone;
    const u32 word = XG_LOWEST_BIT(words);
    const u32 bit = XG_LOWEST_BIT(__shfl_sync(~0u, left_, int(word)));
    if (threadIdx.x % kWarpLanes == word) left_ &= left_ - 1;
    return word * 32 + bit;
  }

 private:
  u32 left_;  // a word each of the first lanes
};

// The groups of a block's packets, a warp's lanes at a time.
struct BlockGroups {
  u32 of[kTablesWarps];
};
__device__ inline BlockGroups groups_of(const Crowd& crowd, u32 block) {
  BlockGroups groups;
#pragma unroll
  for (u32 part = 0; part < kTablesWarps; part++)
    groups.of[part] =
        __ldcg(&crowd.groups[block * kTablesBlock + part * kWarpLanes + threadIdx.x % kWarpLanes]);
  return groups;
}

// All packets of a group, in the order of the blocks that have some (a bit each) and of their numbers; for
// whole warps.
static __device__ __noinline__ void apply_gathered(const xg_batch& batch, Round& round, Crowd& crowd,
                                                   const u32* bits, u32 group) {
  const u32 lane = threadIdx.x % kWarpLanes;
  u32* found = round.found[threadIdx.x / kWarpLanes];
  Warp warp;
  xg_record_cache cache = xg_empty_record_cache({own_record_cache(round)});
  u32 filled = 0;
  Blocks blocks(bits);
  u32 block = blocks.next();
  BlockGroups groups = groups_of(crowd, block);
  while (block != Blocks::kNone) {
    // The next block's are on their way meanwhile.
    const u32 next = blocks.next();
    const BlockGroups ahead = groups_of(crowd, next != Blocks::kNone ? next : block);
#pragma unroll 1
    for (u32 part = 0; part < kTablesWarps; part++) {
      u32 its = groups.of[0];
#pragma unroll
      for (u32 i = 1; i < kTablesWarps; i++)
        if (part == i) its = groups.of[i];
      const bool is = its == group;
      const u32 these = __ballot_sync(~0u, is);
      if (is)
        found[filled + __popc(these & ((1u << lane) - 1u))] = block * kTablesBlock + part * kWarpLanes + lane;
      filled += __popc(these);
      __syncwarp();
      if (filled < kWarpLanes) continue;
      apply_found(batch, crowd, found, kWarpLanes, cache);
      filled -= kWarpLanes;
      const u32 rest = found[kWarpLanes + lane];
      __syncwarp();
      if (lane < filled) found[lane] = rest;
      __syncwarp();
    }
    block = next;
    groups = ahead;
  }
  if (filled != 0) apply_found(batch, crowd, found, filled, cache);
  xg_write_back(warp, batch, cache);
}

// Release and acquire (PTX ISA, 8.10), which is all that handing the tables over takes: __threadfence() is
// sequentially consistent, and slower.
__device__ inline void fence() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }

__device__ inline void lock(u32* at) {
  while (atomicCAS(at, 0u, 1u) != 0u) __nanosleep(100);
  fence();
}
__device__ inline void unlock(u32* at) {
  fence();
  atomicExch(at, 0u);
}

__device__ inline u32 look(const u32* at) { return *static_cast<const volatile u32*>(at); }

// One block that has the tables to itself.
class Alone {
 public:
  __device__ u32 number() const { return 0; }
  __device__ u32 size() const { return 1; }
  __device__ void meet() const { __syncthreads(); }
  __device__ void forget() const {}
  // For whole blocks, of threads that have come to a place or not: what has come is applied.
  __device__ void apply(const xg_batch& batch, Round& round, bool, bool first, u32, u32 place) {
    // apply_all() clears what the others look at.
    __syncthreads();
    apply_places(batch, round, first, place, [] {});
  }

  // The same in a crowded round, for which each thread has shown what it brings.
  __device__ void show(const Round&, bool, u32) const {}
  __device__ void apply_crowded(const xg_batch& batch, Round& round, bool, bool first, u32, u32 place) {
    __syncthreads();
    const bool crowd = first && count(round.members[place]) >= kCrowd;
    apply_places(batch, round, first && !crowd, place, [] {});
    __syncwarp();
    for (u32 crowds = __ballot_sync(~0u, crowd); crowds != 0; crowds &= crowds - 1)
      apply_crowd(batch, round, __shfl_sync(~0u, place, int(XG_LOWEST_BIT(crowds))));
    if (crowd) leave(round, place);
  }
};

// A block of a team, likewise.
class Together {
 public:
  __device__ Together(const Scratch& scratch, const Place& place)
      : turn_(*scratch.turn), team_(*scratch.team), place_(place) {}
  __device__ u32 number() const { return place_.number; }
  __device__ u32 size() const { return place_.size; }

  // Until all blocks of the team are here. What they did before, all threads see afterwards.
  __device__ void meet() {
    meetings_++;
    __syncthreads();
    if (threadIdx.x == 0) {
      fence();
      atomicAdd(&team_.met, 1u);
      while (look(&team_.met) < meetings_ * place_.size) {
      }
      fence();
    }
    __syncthreads();
  }

  __device__ void apply(const xg_batch& batch, Round& round, bool tracked, bool first, u32 group, u32 place) {
    // What was said here the time before may still be looked at, until the next meeting.
    const u32 now = times_++ % 2;
    u32* blocks = turn_.blocks[now][group];
    u32* applied = &turn_.applied[now][group];
    if (first) say(blocks);
    if (runs_ahead(batch)) {
      if (tracked && !only_finds(round)) say(turn_.changing[now][group]);
      meet();
      forget();
      // Where nobody changes anything there is no order to keep.
      if (tracked && nobody_in(turn_.changing[now][group])) {
        use(batch, round);
        if (first) {
          leave(round, place);
          quiet_ = group;
          quiet_time_ = now;
        }
        first = false;
      }
      // The last one through clears what the block's others look at.
      __syncthreads();
    } else {
      meet();
    }
    u32 before = 0, all = 0;  // blocks that have packets for these sets
    if (first) count(blocks, before, all);
    // By warps: a thread that has to wait keeps none from its turn.
    bool waits = first;
    while (__any_sync(~0u, waits)) {
      const bool goes = waits && (before == 0 || look(applied) == before);
      // What those before did to the sets is read after it was seen that they are through.
      if (goes && before != 0) fence();
      apply_places(batch, round, goes, place, [&] {
        if (before + 1 == all) {
          // Nobody looks here any more.
          clear(blocks, applied);
          if (runs_ahead(batch)) clear(turn_.changing[now][group]);
        } else {
          fence();
          *static_cast<volatile u32*>(applied) = before + 1;
        }
        waits = false;
      });
      if (!__any_sync(~0u, goes)) __nanosleep(50);
    }
  }

  // Behind a meeting: what was said of the last groups without an order is said no more.
  __device__ void forget() {
    if (quiet_ == kNoGroup) return;
    // Of the time before the one that has begun.
    atomicAnd(&turn_.blocks[quiet_time_][quiet_][place_.number / 32], ~(1u << place_.number % 32));
    quiet_ = kNoGroup;
  }

  __device__ void show(const Round& round, bool tracked, u32 group) const {
    const u32 packet = own_packet();
    __stcg(&turn_.crowd.groups[packet], tracked ? group : kNoGroup);
    if (!tracked) return;
    const uint4* pieces = reinterpret_cast<const uint4*>(&round.touches[threadIdx.x]);
#pragma unroll
    for (u32 i = 0; i < Crowd::kPieces; i++) __stcg(&turn_.crowd.touches[packet][i], pieces[i]);
    if (xg_stage_brings_more(round.kinds[threadIdx.x]))
      __stcg(&turn_.crowd.more[packet], pieces[Crowd::kPieces]);
    __stcg(&turn_.crowd.kinds[packet], round.kinds[threadIdx.x]);
    __stcg(&turn_.crowd.bodies[packet], round.bodies[threadIdx.x]);
  }

  __device__ void apply_crowded(const xg_batch& batch, Round& round, bool tracked, bool first, u32 group,
                                u32 place) {
    const u32 now = times_++ % 2;
    u32* blocks = turn_.blocks[now][group];
    if (first) say(blocks);
    meet();
    forget();
    u32 before = 0, all = 0;
    if (first) count(blocks, before, all);
    const bool crowd = first && (all > 1 || detail::count(round.members[place]) >= kCrowd);
    if (first) round.gathered[place] = crowd;
    apply_places(batch, round, first && !crowd, place, [] {});
    if (crowd) leave(round, place);
    __syncwarp();
    // The first blocks would have most of the groups to take.
    const bool takes = crowd && before == mixed(group) % all;
    for (u32 left = __ballot_sync(~0u, takes); left != 0; left &= left - 1) {
      const u32 its = __shfl_sync(~0u, group, int(XG_LOWEST_BIT(left)));
      apply_gathered(batch, round, turn_.crowd, turn_.blocks[now][its], its);
    }
    meet();
    if (first && before == 0) clear(blocks, &turn_.applied[now][group]);
    if (tracked && round.gathered[place])
      round.outcomes[threadIdx.x] = __ldcg(&turn_.crowd.outcomes[own_packet()]);
  }

 private:
  static constexpr u32 kWords = kTeamBlocks / 32;
  static_assert(kWords % 4 == 0 && offsetof(TablesTurn, blocks) % sizeof(uint4) == 0);

  __device__ static bool runs_ahead(const xg_batch& batch) {
#ifdef XG_WITH_PROGRAMS
    return batch.image.v[XG_IMAGE_AHEAD_AT] != 0;
#else
    return false;
#endif
  }
  // Whether the thread's packet has run, and did no more than find what its program asked for.
  __device__ static bool only_finds(const Round& round) {
#ifdef XG_WITH_PROGRAMS
    return xg_stage_runs_programs(round.kinds[threadIdx.x]) &&
           (round.touches[threadIdx.x].facts & XG_PROGRAM_HAS_FOUND_ONLY) != 0;
#else
    return false;
#endif
  }
  // What it found is used at its turn, among others that do no more either.
  __device__ void use(const xg_batch& batch, Round& round) const {
#ifdef XG_WITH_PROGRAMS
    const xg_touch& touch = round.touches[threadIdx.x];
    const xg_state maps = xg_program_maps(batch, round.bodies[threadIdx.x]);
    const u64 clock = xg_program_clock_of(batch, touch);
    atomicMax(reinterpret_cast<unsigned long long*>(maps.v + touch.more[3]), clock + 1 + own_packet());
    *reinterpret_cast<volatile u64*>(maps.v + touch.more[0] + XG_PROGRAM_CLOCK) = clock + XG_PROGRAM_RECORDS;
    round.outcomes[threadIdx.x] = xg_program_found_outcome(touch);
#endif
  }

  // This block has packets there.
  __device__ void say(u32* blocks) const { atomicOr(&blocks[place_.number / 32], 1u << place_.number % 32); }
  __device__ static bool nobody_in(const u32* blocks) {
    u32 some = 0;
#pragma unroll
    for (u32 piece = 0; piece < kWords / 4; piece++) {
      const uint4 four = __ldcg(reinterpret_cast<const uint4*>(blocks) + piece);
      some |= four.x | four.y | four.z | four.w;
    }
    return some == 0;
  }

  __device__ static u32 mixed(u32 group) { return group * 0x9e3779b1u >> 16; }

  // The place of this thread's packet among the crowd.
  __device__ u32 own_packet() const { return place_.number * kTablesBlock + threadIdx.x; }

  __device__ void count(const u32* blocks, u32& before, u32& all) const {
#pragma unroll
    for (u32 piece = 0; piece < kWords / 4; piece++) {
      const uint4 four = __ldcg(reinterpret_cast<const uint4*>(blocks) + piece);
      const u32 words[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
      for (u32 i = 0; i < 4; i++) {
        const u32 word = piece * 4 + i;
        all += __popc(words[i]);
        if (word < place_.number / 32) before += __popc(words[i]);
        if (word == place_.number / 32) before += __popc(words[i] & ((1u << place_.number % 32) - 1u));
      }
    }
  }

  __device__ static void clear(u32* blocks) {
#pragma unroll
    for (u32 piece = 0; piece < kWords / 4; piece++)
      __stcg(reinterpret_cast<uint4*>(blocks) + piece, make_uint4(0, 0, 0, 0));
  }
  __device__ static void clear(u32* blocks, u32* applied) {
    clear(blocks);
    *static_cast<volatile u32*>(applied) = 0;
  }

  TablesTurn& turn_;
  Team& team_;
  Place place_;
  u32 meetings_ = 0;
  u32 times_ = 0;  // that something was applied
  // Of the thread's group, when there was no order to keep in it the last time.
  u32 quiet_ = kNoGroup, quiet_time_ = 0;
};

// Brings a packet's set nearer while the block waits for the others.
__device__ inline void fetch_set(const xg_batch& batch, u32 body, const xg_touch& touch) {
  // A program has no sets there.
  const u32* set =
      xg_state_of(batch, body).v + xg_set_at(touch.set & (batch.image.v[body + XG_BODY_SETS] - 1u));
  asm volatile("prefetch.global.L2 [%0];" ::"l"(set));
  asm volatile("prefetch.global.L2 [%0];" ::"l"(set + 8));
}

#ifdef XG_KIND_SIGNATURES
// Brings the packets of those lanes that want it to their places in xg_batch.near, the warp's first one's
// being `first`; all lanes at once, so that the bus carries whole lines. Whether a lane's is there is for the
// packet's touch: 0, or 1 + its place.
__device__ inline u32 bring_near(const xg_batch& batch, const xg_descriptor& descriptor, u32 first,
                                 bool wants) {
  const u32 lane = threadIdx.x % kWarpLanes;
  const u64 begin = (descriptor.offset - XG_METADATA_SIZE) & ~u64{15};
  const u32 quads = wants ? u32((descriptor.offset + descriptor.length - begin + 15) / 16) : 0;
  const bool has = wants && quads < XG_NEAR_QUADS && begin + u64{quads} * 16 <= batch.frames_bytes;
  for (u32 all = __ballot_sync(~0u, has); all != 0; all &= all - 1) {
    const u32 packet = XG_LOWEST_BIT(all);
    const auto* from = reinterpret_cast<const uint4*>(reinterpret_cast<const u8*>(batch.frames.v) +
                                                      __shfl_sync(~0u, begin, int(packet)));
    const u32 its = __shfl_sync(~0u, quads, int(packet));
    uint4* to = reinterpret_cast<uint4*>(batch.near.v) + u64{first + packet} * XG_NEAR_QUADS + 1;
    constexpr u32 kEach = (XG_NEAR_QUADS + kWarpLanes - 1) / kWarpLanes;
    uint4 pieces[kEach];
#pragma unroll
    for (u32 i = 0; i < kEach; i++)
      if (lane + i * kWarpLanes < its) pieces[i] = from[lane + i * kWarpLanes];
#pragma unroll
    for (u32 i = 0; i < kEach; i++)
      if (lane + i * kWarpLanes < its) to[lane + i * kWarpLanes] = pieces[i];
  }
  if (!has) return 0;
  reinterpret_cast<uint4*>(batch.near.v)[u64{first + lane} * XG_NEAR_QUADS] = {
      u32(descriptor.offset), u32(descriptor.offset >> 32), descriptor.length, descriptor.flags};
  return 1 + first + lane;
}
#endif

// For whole blocks. way.kind 0: the packet takes no part. bytes: the packet's. kCrowds: rounds may be
// crowded.
template <bool kCrowds, class Blocks>
__device__ inline void go_through(const xg_batch& batch, u32 bytes, const xg_descriptor& descriptor,
                                  const xg_view& seen, xg_way& way, xg_result& r, Round& round,
                                  Blocks& blocks) {
  const u32 mine = threadIdx.x;
  const u32 rounds = batch.image.v[XG_IMAGE_ROUNDS_AT];
  for (u32 number = 0; number < rounds; number++) {
    const bool here = way.kind != 0 && batch.image.v[way.body + XG_BODY_ROUND] == number;
    const bool crowded = kCrowds && number < 32 && (batch.image.v[XG_IMAGE_CROWDED_AT] >> number & 1) != 0;
    u32 group = 0, place = 0;
    bool tracked = false;
    if (here) {
      xg_touch& touch = round.touches[mine];
      touch = xg_stage_touch(batch, way, seen, bytes);
      round.kinds[mine] = way.kind;
      round.bodies[mine] = way.body;
      round.outcomes[mine] = touch.facts;
      tracked = touch.tag != XG_UNTRACKED;
      group = (touch.set ^ way.body) % kSetGroups;
      if (tracked) {
        fetch_set(batch, way.body, touch);
        place = come(round, group, mine);
      }
    }
#ifdef XG_KIND_SIGNATURES
    const bool follows = tracked && way.kind == XG_KIND_SIGNATURES + XG_KIND_STATEFUL;
    const u32 near = bring_near(batch, descriptor,
                                blocks.number() * kTablesBlock + mine / kWarpLanes * kWarpLanes, follows);
    if (near != 0) round.touches[mine].more[XG_STREAM_NEAR] = near;
#endif
    if constexpr (kCrowds)
      if (crowded) blocks.show(round, tracked, group);
    __syncthreads();
    const bool first = tracked && is_first(round.members[place], mine);
    if constexpr (kCrowds)
      if (crowded) blocks.apply_crowded(batch, round, tracked, first, group, place);
    if (!crowded) blocks.apply(batch, round, tracked, first, group, place);
    __syncthreads();
    if (here) xg_settle(batch, seen, round.outcomes[mine], way, r);
  }
}

// Brings packet i's xg_patch, each lane's that has one, to where the batch's are. All lanes at once, a piece
// each: threads that wrote their own, sixteen bytes at a time, would have the bus carry more headers than
// pieces.
__device__ inline void bring_patches(xg_quads from, xg_quads to, u32 i, bool has_one) {
  constexpr u32 kHalf = kWarpLanes / 2;
  static_assert(XG_PATCH_QUADS <= kHalf + 1);
  const u32 lane = threadIdx.x % kWarpLanes, first = i - lane;
  const auto quad_of = [](xg_quads quads, u32 packet, u32 quad) {
    return reinterpret_cast<uint4*>(quads.v) + u64{packet} * XG_PATCH_QUADS + quad;
  };
  __syncwarp();
  const u32 all = __ballot_sync(~0u, has_one);
  if (all == 0) return;
  const u32 quads = has_one ? 1 + 4 * (__ldcg(quad_of(from, i, 0)).y >> 16) : 0;
#pragma unroll 4
  for (u32 pair = 0; pair < kHalf; pair++) {
    const u32 packet = pair * 2 + lane / kHalf;
    if (lane % kHalf < __shfl_sync(~0u, quads, int(packet)))
      *quad_of(to, first + packet, lane % kHalf) = __ldcg(quad_of(from, first + packet, lane % kHalf));
  }
  if (quads > kHalf) *quad_of(to, i, kHalf) = __ldcg(quad_of(from, i, kHalf));
}

// Packet i, each thread's, from the first table to its end. For whole blocks; lines: the warp's own. patches:
// where the batch's xg_patches go in the end.
template <bool kCrowds, class Blocks>
__device__ inline void finish_packet(const xg_batch& batch, xg_quads patches, u32 i, const Flows& flows,
                                     const Scratch& scratch, Round& round, Lines& own, Blocks& blocks) {
  const u32 lane = threadIdx.x % kWarpLanes;
  const u32 mark = i < batch.count ? __ldcg(scratch.marks + i) : 0u;
  // The lines that the first part kept, eight lanes each as they came.
  const u32 warp_first = i - lane;
#pragma unroll
  for (u32 load = 0; load < kLanesPerLine; load++) {
    const u32 packet = load * kLinesPerLoad + lane / kLanesPerLine;
    const u32 kept = __shfl_sync(~0u, mark, packet) & kMarkLine;
    if (kept != 0)
      own.of[packet].pieces[lane % kLanesPerLine] =
          __ldcg(scratch.lines + u64{warp_first + packet} * kLanesPerLine + lane % kLanesPerLine);
  }
  __syncwarp();
  xg_descriptor descriptor{};
  u32 bytes = 0;
  xg_view seen{};
  xg_result r = xg_no_result();
  xg_way way = xg_way_from(0);
  if (mark != 0) {
    const uint4 raw = __ldcg(scratch.descriptors + i);
    descriptor = {u64{raw.y} << 32 | raw.x, raw.z, raw.w};
    bytes = __ldcg(scratch.bytes + i);
    if ((mark & kMarkLine) != 0) {
      xg_batch copy = batch;
      copy.frames.v = reinterpret_cast<xg_word*>(&own.of[lane]);
      copy.frames_bytes = XG_METADATA_SIZE + XG_CHUNK_SIZE;
      xg_view_packet(copy, i, {XG_METADATA_SIZE, descriptor.length, descriptor.flags}, seen);
      xg_view_of(descriptor, i, seen);
    } else {
      xg_view_packet(batch, i, descriptor, seen);
    }
    xg_look_inside(batch, seen);
    way.position = (mark & kMarkPosition) - 1u;
    xg_resume(batch, seen, way);
  }
  go_through<kCrowds>(batch, bytes, descriptor, seen, way, r, round, blocks);
  __syncwarp();
  if (batch.image.v[XG_IMAGE_INSPECTS_AT] != 0)
    inspect_waiting<false>(batch, i, descriptor, ~u64{0}, way, r, own);
  if (flows.ports != nullptr)
    publish_result(batch, descriptor, seen, flows.ports, flows.receive_queue, r, own);
  store_results(batch, i, r, mark != 0);
#ifdef XG_WITH_PROGRAMS
  if (patches.v != nullptr) bring_patches(batch.patches, patches, i, (r.flags & XG_RES_PATCH) != 0);
#endif
  __syncwarp();
}

// The packets of the batch, by whole blocks.
template <bool kCrowds, class Blocks>
__device__ inline void finish_packets(const xg_batch& of, const Flows& flows, const Scratch& scratch,
                                      Lines& own, Blocks blocks) {
  __shared__ Round round;
  xg_batch batch = of;
  batch.states.v = batch.image.v + batch.image.v[XG_IMAGE_WORDS_AT];
  batch.near.v = reinterpret_cast<xg_quad*>(scratch.turn->near[0]);
#ifdef XG_WITH_PROGRAMS
  batch.ahead.v = scratch.turn->ahead;
  const bool runs_ahead = batch.image.v[XG_IMAGE_AHEAD_AT] != 0;
#else
  const bool runs_ahead = false;
#endif
  clear(round);
  __syncthreads();
  const u32 at_a_time = blocks.size() * kTablesBlock;
  for (u32 first = 0; first < batch.count; first += at_a_time) {
#ifdef XG_WITH_PROGRAMS
    if (of.patches.v != nullptr)
      batch.patches.v = reinterpret_cast<xg_quad*>(scratch.turn->patches[0]) - u64{first} * XG_PATCH_QUADS;
#endif
    finish_packet<kCrowds>(batch, of.patches, first + blocks.number() * kTablesBlock + threadIdx.x, flows,
                           scratch, round, own, blocks);
    if (runs_ahead) {
      // Nobody is at the tables any more for these packets when the next ones run.
      blocks.meet();
      blocks.forget();
    }
  }
}

}  // namespace detail

// For whole blocks of kTablesBlock threads, once decide_packet() has seen all packets of the batch and is
// known to have: a fence was passed. lines: one for each of the block's warps.
static __device__ __noinline__ void finish_tables(const xg_batch& batch, const Flows& flows,
                                                  const Scratch& scratch, Lines* lines) {
  if (threadIdx.x == 0) detail::lock(&scratch.turn->lock);
  __syncthreads();
  detail::finish_packets<true>(batch, flows, scratch, lines[threadIdx.x / kWarpLanes], detail::Alone());
  __syncthreads();
  if (threadIdx.x == 0) detail::unlock(&scratch.turn->lock);
}

// A block comes to its team; one thread of it. When this returns the tables are the team's, which the last
// block through gives back.
__device__ inline Place join_team(const Scratch& scratch) {
  // After so long without another block, those that are not there find no room.
  constexpr long long kGatherClocks = 10'000;
  Team& team = *scratch.team;
  const u32 number = atomicAdd(&team.arrived, 1u);
  if ((number & kTeamClosed) != 0) return {0, 0};
  if (number == 0) {
    long long since = clock64();
    for (u32 before = 1; before < gridDim.x && clock64() - since < kGatherClocks;) {
      const u32 now = detail::look(&team.arrived);
      if (now != before) since = clock64();
      before = now;
    }
    detail::lock(&scratch.turn->lock);
    const u32 size = atomicOr(&team.arrived, kTeamClosed);
    // What was done at the tables before is seen by whoever sees the size.
    detail::fence();
    *static_cast<volatile u32*>(&team.size) = size;
    return {0, size};
  }
  u32 size;
  while ((size = detail::look(&team.size)) == 0) __nanosleep(50);
  detail::fence();
  return {number, size};
}

// For whole blocks of kTablesBlock threads that have a place; all packets of the batch have been decided or
// kept before.
template <bool kCrowds>
__device__ inline void finish_in_team(const xg_batch& batch, const Flows& flows, const Scratch& scratch,
                                      Lines* lines, const Place& place) {
  detail::finish_packets<kCrowds>(batch, flows, scratch, lines[threadIdx.x / kWarpLanes],
                                  detail::Together(scratch, place));
}

}  // namespace xdpgpu::gpu::cuda
