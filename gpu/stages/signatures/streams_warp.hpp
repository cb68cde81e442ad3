// SPDX-License-Identifier: MIT
//
// gpu/stages/signatures/streams_warp.hpp: the parts of streams.h that go through a packet's bytes, by the
// lanes of a CUDA warp. The first lane has the packet; the others wait (help_until_end()) for what it asks of
// them all (together()), and do their part. Where nobody waits, the packet's own lane does it alone.
#pragma once

namespace xg_warp {

constexpr u32 kAllLanes = 32;
enum class Op : u32 { end, copy, has, add, slide, search };

// What the first lane has.
template <class T>
__device__ __forceinline__ T of_first(const T& own) {
  static_assert(sizeof(T) % sizeof(u32) == 0);
  u32 words[sizeof(T) / sizeof(u32)];
  memcpy(words, &own, sizeof(T));
  for (u32& word : words) word = __shfl_sync(~0u, word, 0);
  T all;
  memcpy(&all, words, sizeof(T));
  return all;
}

// What it asks for.
struct Asked {
  Op op;
  u32 first, second, third, fourth;
};

__device__ inline u32 power_of(u32 base, u32 exponent) {
  u32 power = 1;
  for (; exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) power = xg_digest_times(power, base);
    base = xg_digest_times(base, base);
  }
  return power;
}

// As xg_side_add(), of one of the digests: word by word, each lane one of 32 that follow each other.
__device__ inline void add(const xg_batch& b, const xg_stream& a, u32 from, u32 to, u32 which) {
  const u32 lane = threadIdx.x % kAllLanes;
  const u32 sum = xg_side(a, XG_SIDE_SUMS + which), power = xg_side(a, XG_SIDE_POWERS + which);
  xg_digest d = xg_digest_of(b, a, which, sum, power);
  // Those in front of the first whole word are everybody's, and count once.
  const u32 whole = min((from + 3) & ~3u, to);
  if (whole != from)
    xg_digest_add(d, xg_side(a, XG_SIDE_BYTES + (from >> 2)) >> (from & 3) * 8, whole - from);
  const u32 on = xg_digest_times(d.power, power_of(d.point, to - whole));
  if (lane != 0) d.sum = 0;
  d.power = xg_digest_times(d.power, power_of(d.fourth, lane));
  // What 31 words between two of a lane's count; its own is in it already.
  const u32 between = power_of(d.fourth, kAllLanes - 1);
  for (u32 at = whole + lane * 4; at < to; at += kAllLanes * 4) {
    xg_digest_add(d, xg_side(a, XG_SIDE_BYTES + (at >> 2)), to - at);
    d.power = xg_digest_times(d.power, between);
  }
  for (u32 step = kAllLanes / 2; step != 0; step /= 2)
    d.sum = xg_digest_plus(d.sum, __shfl_xor_sync(~0u, d.sum, int(step)));
  __syncwarp();
  if (lane != 0) return;
  xg_set_side(a, XG_SIDE_SUMS + which, d.sum);
  xg_set_side(a, XG_SIDE_POWERS + which, on);
}

// So many words of the text come to stand `by` words in front of where they are, 32 at a time.
__device__ inline void slide(const xg_stream& a, u32 by, u32 words) {
  for (u32 first = by; first < words; first += kAllLanes) {
    const u32 i = first + threadIdx.x % kAllLanes;
    const u32 word = i < words ? xg_side(a, XG_SIDE_BYTES + i) : 0;
    __syncwarp();
    if (i < words) xg_set_side(a, XG_SIDE_BYTES + i - by, word);
  }
}

// Each lane's part of what the first one asks for. -> whether that is something; `all`: of Op::has, whether
// all bytes are there.
static __device__ __noinline__ bool do_together(const xg_batch& b, const Asked& asked, const xg_stream& side,
                                                const xg_payload_cursor& text, bool& all) {
  const Asked what = of_first(asked);
  if (what.op == Op::end) return false;
  const u32 lane = threadIdx.x % kAllLanes;
  const xg_stream a = of_first(side);
  if (what.op == Op::slide) {
    slide(a, what.first, what.second);
  } else if (what.op == Op::add) {
    add(b, a, what.first, what.second, 0);
    add(b, a, what.first, what.second, 1);
  } else {
    xg_payload_cursor c = of_first(text);
    if (what.op == Op::copy)
      xg_side_copy(b, a, c, what.first, what.second, what.third, lane, kAllLanes);
    else if (what.op == Op::has)
      all = __all_sync(~0u, xg_side_has(b, a, c, what.first, what.second, what.third, lane, kAllLanes));
    else
      xg_signatures_search_from(b, a.rules, what.first, c, what.third, what.second, c.end,
                                xg_found_at(a, what.fourth), lane, kAllLanes);
  }
  __syncwarp();
  return true;
}

// Of the first lane.
__device__ inline bool together(const xg_batch& b, const Asked& asked, const xg_stream& a,
                                const xg_payload_cursor& c) {
  bool all = true;
  do_together(b, asked, a, c, all);
  return all;
}
// What is asked about the text that is kept alone.
__device__ inline bool together(const xg_batch& b, const Asked& asked, const xg_stream& a) {
  return together(b, asked, a, xg_payload_cursor{});
}

// For whole warps: `work` is done by the first lane, whom the others help.
template <class Work>
__device__ inline void with_help(const xg_batch& b, const Work& work) {
  if (threadIdx.x % kAllLanes == 0) work();
  bool all = true;
  while (do_together(b, {Op::end, 0, 0, 0, 0}, xg_stream{}, xg_payload_cursor{}, all)) {
  }
  __syncwarp();
}

}  // namespace xg_warp

#define XG_SIDE_COPY(b, a, c, from, at, bytes)                                                               \
  ((a).helped != 0u ? (void)xg_warp::together((b), {xg_warp::Op::copy, (from), (at), (bytes), 0u}, (a), (c)) \
                    : xg_side_copy((b), (a), (c), (from), (at), (bytes), 0u, 1u))
#define XG_SIDE_HAS(b, a, c, from, at, bytes)                                                         \
  ((a).helped != 0u ? xg_warp::together((b), {xg_warp::Op::has, (from), (at), (bytes), 0u}, (a), (c)) \
                    : xg_side_has((b), (a), (c), (from), (at), (bytes), 0u, 1u))
#define XG_SIDE_ADD(b, a, from, to)                                                               \
  ((a).helped != 0u ? (void)xg_warp::together((b), {xg_warp::Op::add, (from), (to), 0u, 0u}, (a)) \
                    : xg_side_add((b), (a), (from), (to)))
#define XG_SIDE_SLIDE(b, a, by, words)                                                               \
  ((a).helped != 0u ? (void)xg_warp::together((b), {xg_warp::Op::slide, (by), (words), 0u, 0u}, (a)) \
                    : xg_side_slide((a), (by), (words)))
#define XG_SIDE_SEARCH(b, a, windows, c, first, from, found)                                                \
  ((a).helped != 0u                                                                                         \
       ? (void)xg_warp::together((b), {xg_warp::Op::search, (windows), (from), (first), (found)}, (a), (c)) \
       : xg_signatures_search_from((b), (a).rules, (windows), (c), (first), (from), (c).end,                \
                                   xg_found_at((a), (found)), 0u, 1u))
