// SPDX-License-Identifier: MIT
//
// gpu/stages/signatures/find_avx2.hpp: xg_signatures_find() at 32 places at a time, with the same answer and
// the same work.
#pragma once

#include <immintrin.h>

#include "gpu/stages/signatures/packet.h"

// Upper-case letters among the bytes as lower-case ones, as xg_lower32() has them.
__attribute__((target("avx2"), always_inline)) inline __m256i xg_avx2_lower(__m256i bytes) {
  // 'A' to 'Z' become the largest numbers that there are with a sign.
  const __m256i moved = _mm256_add_epi8(bytes, _mm256_set1_epi8(0x7f - 'Z'));
  const __m256i upper = _mm256_cmpgt_epi8(moved, _mm256_set1_epi8(0x7f - 26));
  return _mm256_or_si256(bytes, _mm256_and_si256(upper, _mm256_set1_epi8('a' - 'A')));
}

// The byte at `offset` and those behind it, up to their buffer's end; nullptr: the `bytes` from there on are
// not all in one.
XG_FN const u8* xg_in_one_buffer(const xg_batch& b, xg_payload_cursor& c, u32 offset, u32 bytes) {
  if (bytes == 0u || !xg_payload_has(c, offset, bytes)) return nullptr;
  xg_payload_seek(b, offset, c);
  if (c.behind - offset < bytes) return nullptr;
  return reinterpret_cast<const u8*>(c.words.v) + c.shift + (offset - c.first);
}

template <class Word>
XG_FN Word xg_load(const u8* at) {
  Word word;
  __builtin_memcpy(&word, at, sizeof(word));
  return word;
}

// Whether `size` bytes, more than three, are the pattern's.
XG_FN bool xg_same_bytes(const u8* text, const u8* pattern, u32 size, bool nocase) {
  const auto same = [&](u32 at) {
    const u32 bytes = xg_load<u32>(text + at);
    return (nocase ? xg_lower32(bytes) : bytes) == xg_load<u32>(pattern + at);
  };
  for (u32 at = 0u; at + 4u < size; at += 4u)
    if (!same(at)) return false;
  return same(size - 4u);
}

XG_AVX2 u32 xg_signatures_find_avx2(const xg_batch& b, u32 step, xg_payload_cursor& c,
                                    xg_signatures_inspection& n, u32 first, u32 end) {
  constexpr u32 kPlaces = 32u;
  const u32 flags = b.image.v[step];
  const u32 size = b.image.v[step + 2u];
  const u32 begins = size < 4u ? size : 4u;
  const u8* text = nullptr;
  if (first < end && end - first >= kPlaces - 1u + size && (end == n.bytes || (flags & XG_STEP_ENDS) == 0u))
    text = xg_in_one_buffer(b, c, n.payload + first, end - first);
  if (text == nullptr) return xg_signatures_find(b, step, c, n, first, end);

  const bool nocase = (flags & XG_STEP_NOCASE) != 0u;
  const u8* const pattern = reinterpret_cast<const u8*>(b.image.v + b.image.v[step + 1u]);
  const auto letter = [&](u32 i) __attribute__((target("avx2"))) {
    return _mm256_set1_epi8(static_cast<char>(pattern[i]));
  };
  const __m256i one = letter(0u), last_one = letter(begins - 1u);
  n.work += 1u;
  const u32 last = end - first - size;
  u32 found = ~0u;
  for (u32 at = 0u; found == ~0u && at <= last; at += kPlaces) {
    // The last ones are looked at with those in front of them, so that nothing behind the end is read.
    const u32 from = last - at < kPlaces - 1u ? last - (kPlaces - 1u) : at;
    const auto equal = [&](u32 i, __m256i wanted) __attribute__((target("avx2"))) {
      __m256i here = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(text + from + i));
      if (nocase) here = xg_avx2_lower(here);
      return static_cast<u32>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(here, wanted)));
    };
    u32 candidates = (equal(0u, one) & equal(begins - 1u, last_one)) >> (at - from);
    for (u32 i = 1u; candidates != 0u && i + 1u < begins; i++)
      candidates &= equal(i, letter(i)) >> (at - from);
    for (; candidates != 0u && found == ~0u; candidates &= candidates - 1u) {
      const u32 place = at + XG_LOWEST_BIT(candidates);
      if (size > 4u) n.work += (size + 15u) / XG_SIGNATURES_PER_WORK;
      if (size <= 4u || xg_same_bytes(text + place, pattern, size, nocase)) found = place;
    }
  }
  n.work += ((found == ~0u ? last : found) + 1u) / XG_SIGNATURES_PER_WORK;
  return found == ~0u ? found : first + found;
}

#define XG_SIGNATURES_FIND(b, step, c, n, first, end)                           \
  (XG_HAS_AVX2 ? xg_signatures_find_avx2((b), (step), (c), (n), (first), (end)) \
               : xg_signatures_find((b), (step), (c), (n), (first), (end)))
