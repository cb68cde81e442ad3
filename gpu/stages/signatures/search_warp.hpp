// SPDX-License-Identifier: MIT
//
// gpu/stages/signatures/search_warp.hpp: xg_signatures_search() by the lanes of a CUDA warp, with the same
// patterns found. They look at 256 places together. Where a pattern may stand waits until there are as many
// such places as lanes, and then each lane confirms one: few places need it, in few lanes at a time, and as
// they come a warp would do it with most of its lanes idle. All that is asked of the packet is in registers.
#pragma once

#include "gpu/stages/signatures/steps.h"

namespace xg_warp {

constexpr u32 kLanes = 32, kAtOnce = 8;  // places a lane
constexpr u32 kWindows = 3;              // kinds: of one, two and four bytes
// Places that wait stand where the first lane has names afterwards, which begin with zeros.
static_assert(XG_INSPECTION_WORDS - XG_SIGNATURES_FOUND_NAMES >= 2 * kLanes);

__device__ __forceinline__ u32 mask_of(u32 kind) { return kind == 2u ? ~0u : kind == 1u ? 0xffffu : 0xffu; }
__device__ __forceinline__ u32 size_of(u32 kind) { return kind == 2u ? 4u : kind + 1u; }
__device__ __forceinline__ u32 hash_of(u32 window) { return window * 0x9e3779b1u; }

// What is searched, of one buffer.
struct Text {
  const xg_word* words;
  u32 shift, last;  // bytes of the first word in front of it; the word in which it ends
  u32 bytes;

  __device__ __forceinline__ u32 word(u32 i) const { return words[min(i, last)]; }
  // The four bytes from `at` on; those behind the end are any.
  __device__ __forceinline__ u32 load(u32 at) const {
    const u32 place = shift + at;
    return __funnelshift_r(word(place / 4), word(place / 4 + 1), place % 4 * 8);
  }
};

__device__ __forceinline__ bool is_there(const Text& text, u32 at, const xg_word* pattern, u32 size,
                                         bool nocase) {
  for (u32 i = 0; i < size; i += 4) {
    const u32 bytes = text.load(at + i);
    const u32 other = (nocase ? xg_lower32(bytes) : bytes) ^ pattern[i / 4];
    if ((size - i < 4 ? other << (32 - (size - i) * 8) : other) != 0) return false;
  }
  return true;
}

// The patterns that have a window of this kind at `at`.
__device__ __forceinline__ void confirm(const xg_word* image, u32 body, u32 windows, const Text& text,
                                        u32 kind, u32 at, xg_state f) {
  const u32 window = xg_lower32(text.load(at)) & mask_of(kind);
  const xg_word* const of_kind = image + windows + kind * XG_SIGNATURES_WINDOW;
  const u32 bucket = of_kind[XG_WINDOW_BUCKETS] + (hash_of(window) >> (32 - of_kind[XG_WINDOW_BUCKET_BITS]));
  const u32 end = image[bucket + 1];
  for (u32 entry = image[bucket];; entry += XG_SIGNATURES_ENTRY) {
    while (entry < end && image[entry] != window) entry += XG_SIGNATURES_ENTRY;
    if (entry >= end) return;
    const u32 which = image[entry + 1];
    const u32 pattern = which & 0xffffffu, before = which >> 24;
    const xg_word* const record =
        image + image[body + XG_SIGNATURES_PATTERNS] + pattern * XG_SIGNATURES_PATTERN;
    const u32 said = record[XG_PATTERN_SIZE];
    const u32 size = said & ~XG_PATTERN_NOCASE;
    if (before > at || at - before + size > text.bytes) continue;
    if (is_there(text, at - before, image + record[XG_PATTERN_BYTES], size, (said & XG_PATTERN_NOCASE) != 0))
      xg_signatures_see_pattern(f, pattern, at - before);
  }
}

// All lanes of the warp, with the same arguments but for `lane`.
__device__ __noinline__ void search(const xg_batch& b, u32 body, u32 windows, xg_payload_cursor& c, u32 first,
                                    u32 end, xg_state f, u32 lane) {
  if (end <= first) return;
  const xg_signatures_run run = xg_signatures_run_at(b, c, first);
  if (run.bytes < end - first) return xg_signatures_search(b, body, windows, c, first, end, f, lane, kLanes);
  const Text text{run.words.v + run.word, run.shift, (run.shift + end - first - 1) / 4, end - first};
  const xg_word* const image = b.image.v;
  u32* const places = f.v + XG_SIGNATURES_FOUND_NAMES;
  const u32 lower_lanes = (1u << lane) - 1u;
  const xg_word* filters[kWindows];
  u32 bits[kWindows];  // 0: no pattern has such a window
#pragma unroll
  for (u32 kind = 0; kind < kWindows; kind++) {
    filters[kind] = image + image[windows + kind * XG_SIGNATURES_WINDOW + XG_WINDOW_FILTER];
    bits[kind] = image[windows + kind * XG_SIGNATURES_WINDOW + XG_WINDOW_FILTER_BITS];
  }
  u32 waiting = 0;
  for (u32 from = 0; from < text.bytes; from += kLanes * kAtOnce) {
    const u32 at = from + lane * kAtOnce;
    u32 candidates = 0;  // bit i * 4 + kind: a pattern may have such a window at place i
    if (at < text.bytes) {
      const u32 place = text.shift + at;
      u32 bytes[kAtOnce / 4 + 1];
#pragma unroll
      for (u32 i = 0; i <= kAtOnce / 4; i++)
        bytes[i] = xg_lower32(
            __funnelshift_r(text.word(place / 4 + i), text.word(place / 4 + i + 1), place % 4 * 8));
      const u32 left = text.bytes - at;
#pragma unroll
      for (u32 kind = 0; kind < kWindows; kind++) {
        if (bits[kind] == 0) continue;
        u32 hashed[kAtOnce], word[kAtOnce];
#pragma unroll
        for (u32 i = 0; i < kAtOnce; i++) {
          hashed[i] = hash_of(__funnelshift_r(bytes[i / 4], bytes[i / 4 + 1], i % 4 * 8) & mask_of(kind)) >>
                      (32 - bits[kind]);
          word[i] = filters[kind][hashed[i] / 32];
        }
#pragma unroll
        for (u32 i = 0; i < kAtOnce; i++)
          if (left >= size_of(kind) + i) candidates |= (word[i] >> hashed[i] % 32 & 1u) << (i * 4 + kind);
      }
    }
    const bool is_last = from + kLanes * kAtOnce >= text.bytes;
    for (;;) {
      // One of each lane that has some left.
      const u32 these = __ballot_sync(~0u, candidates != 0);
      if (these == 0 && !(is_last && waiting != 0)) break;
      if (candidates != 0) {
        const u32 bit = __ffs(static_cast<int>(candidates)) - 1;
        candidates &= candidates - 1;
        places[waiting + __popc(these & lower_lanes)] = (at + bit / 4) << 2 | bit % 4;
      }
      waiting += __popc(these);
      if (waiting < kLanes && these != 0) continue;
      __syncwarp();
      const u32 left = waiting > kLanes ? waiting - kLanes : 0;
      if (left + lane < waiting) {
        const u32 place = places[left + lane];
        confirm(image, body, windows, text, place & 3u, place >> 2, f);
      }
      waiting = left;
      __syncwarp();
      if (__any_sync(~0u, f.v[XG_SIGNATURES_FOUND_OVER] != 0)) return;
    }
  }
  places[lane] = places[kLanes + lane] = 0;
  __syncwarp();
}

}  // namespace xg_warp

#define XG_SIGNATURES_SEARCH(b, body, windows, c, first, end, f, lane, lanes) \
  xg_warp::search((b), (body), (windows), (c), (first), (end), (f), (lane))
#define XG_SIGNATURES_SEARCH_ALONE(b, body, windows, c, first, end, f) \
  xg_signatures_search((b), (body), (windows), (c), (first), (end), (f), 0u, 1u)
