/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/warp.h: what threads that come in warps do together; C++ and CUDA alone. A lane's own values are
 * plain variables; what lanes tell each other goes through a Warp:
 *
 *   u32 lane()                number of this one, 0 to 31
 *   u32 ballot(bool)          bit a lane that says so
 *   u32 same(u32)             bit a lane that has the same value
 *   T from(T, u32 lane)       that lane's value; u32 or u64
 *   u32 sum(u32)              of all lanes' values
 *   void sync()               what a lane wrote before, all read after
 *
 * All lanes call each of them together.
 */
#ifndef XDPGPU_STAGES_WARP_H
#define XDPGPU_STAGES_WARP_H

#include "gpu/stages/table.h"

#ifdef __CUDACC__
#define XG_WARP_FN static __device__ __forceinline__
#define XG_WARP_UNROLL _Pragma("unroll")
#else
#define XG_WARP_FN static inline
#define XG_WARP_UNROLL
#endif

#define XG_LANES 32u
#define XG_RECORD_CACHE_WORDS 612u /* of the largest record */
/* Number of the highest bit that is set; x is not 0. */
XG_WARP_FN u32 xg_highest_bit(u32 x) {
#ifdef __CUDA_ARCH__
  return 31u - u32(__clz(int(x)));
#else
  return 31u - u32(__builtin_clz(x));
#endif
}

/* The lanes up to this one. */
XG_WARP_FN u32 xg_lanes_up_to(u32 lane) { return (2u << lane) - 1u; }

/* Sum of the values of the lanes up to this one. */
template <class Warp>
XG_WARP_FN u32 xg_sum_up_to_here(Warp& warp, u32 value) {
  XG_WARP_UNROLL for (u32 step = 1u; step < XG_LANES; step *= 2u) {
    u32 before = warp.from(value, (warp.lane() - step) & (XG_LANES - 1u));
    if (warp.lane() >= step) value += before;
  }
  return value;
}

/* Largest value of the lanes up to this one. */
template <class Warp>
XG_WARP_FN u64 xg_most_up_to_here(Warp& warp, u64 value) {
  XG_WARP_UNROLL for (u32 step = 1u; step < XG_LANES; step *= 2u) {
    u64 before = warp.from(value, (warp.lane() - step) & (XG_LANES - 1u));
    if (warp.lane() >= step && before > value) value = before;
  }
  return value;
}

/* The target that is on a warp's cache; all lanes have the same. */
struct xg_record_cache {
  xg_state words; /* XG_RECORD_CACHE_WORDS */
  bool used;
  bool news; /* its entry is to be told of it: for the stage's apply */
  u32 kind;
  u32 body;
  u32 entry; /* its words in the table, as the next one */
  u32 record;
  u32 rank; /* what the entry will have when it is put back */
  u64 deadline;
  u32 share; /* that was found last */
};

XG_WARP_FN xg_record_cache xg_empty_record_cache(xg_state words) {
  xg_record_cache cache;
  cache.words = words;
  cache.used = cache.news = false;
  cache.kind = cache.body = cache.entry = cache.record = cache.rank = cache.share = 0u;
  cache.deadline = u64(0);
  return cache;
}

#endif
