// SPDX-License-Identifier: MIT
//
// gpu/stages/signatures/search_avx2.hpp: xg_signatures_search() at 32 places at a time, with the same
// patterns found, by filters of its own (XG_WINDOWS_WIDE, XG_WINDOWS_HALVES, XG_WINDOWS_SINGLE). What passes
// the first has four of a pattern's bytes, but for few places, and often six; it takes one load a place from
// a table that a core's own cache holds. The others are tables in registers.
#pragma once

#include <array>

#include "gpu/stages/signatures/find_avx2.hpp"

// The bytes of a payload or a name, one behind the other: as they are, and in lower case with zeros behind.
struct xg_wide_text {
  static constexpr u32 kBehind = 64u;
  const u8* bytes;
  u32 count;
  std::array<u8, XG_PACKET_MAX + kBehind> lower;
  std::array<u8, XG_PACKET_MAX> joined;  // where they are of several buffers
};

XG_AVX2 void xg_wide_read(const xg_batch& b, xg_payload_cursor& c, u32 first, u32 count, xg_wide_text& text) {
  text.count = count;
  text.bytes = xg_in_one_buffer(b, c, first, count);
  if (text.bytes == nullptr) {
    text.bytes = text.joined.data();
    for (u32 at = 0u; at < count;) {
      xg_payload_seek(b, first + at, c);
      const u32 left = c.behind - (first + at);
      const u32 size = left < count - at ? left : count - at;
      __builtin_memcpy(text.joined.data() + at,
                       reinterpret_cast<const u8*>(c.words.v) + c.shift + (first + at - c.first), size);
      at += size;
    }
  }
  u8* const to = text.lower.data();
  const auto lower = [&](const u8* from, u32 at) __attribute__((target("avx2"))) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + at),
                        xg_avx2_lower(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))));
  };
  u32 at = 0u;
  for (; count - at >= 32u; at += 32u) lower(text.bytes + at, at);
  std::array<u8, xg_wide_text::kBehind> rest{};
  __builtin_memcpy(rest.data(), text.bytes + at, count - at);
  lower(rest.data(), at);
  lower(rest.data() + 32u, at + 32u);
}

// which: of an entry, the pattern of which a window stands at `at`: whether it is there.
XG_FN void xg_wide_compare(const xg_batch& b, u32 patterns, u32 which, u32 at, const xg_wide_text& text,
                           xg_state f) {
  const u32 pattern = which & 0xffffffu;
  const u32 before = which >> 24;
  const u32 record = patterns + pattern * XG_SIGNATURES_PATTERN;
  const u32 size = b.image.v[record + XG_PATTERN_SIZE] & ~XG_PATTERN_NOCASE;
  if (before > at || size > text.count - (at - before)) return;
  const bool nocase = (b.image.v[record + XG_PATTERN_SIZE] & XG_PATTERN_NOCASE) != 0u;
  const u8* const wanted = reinterpret_cast<const u8*>(b.image.v + b.image.v[record + XG_PATTERN_BYTES]);
  const u8* const here = (nocase ? text.lower.data() : text.bytes) + (at - before);
  bool same = true;
  if (size >= 4u)
    same = xg_same_bytes(here, wanted, size, false);
  else
    for (u32 i = 0u; i < size; i++) same = same && here[i] == wanted[i];
  if (same) xg_signatures_see_pattern(f, pattern, at - before);
}

// The first entry of a window's bucket, and the end of its last one.
XG_FN u32 xg_wide_bucket(const xg_batch& b, u32 windows, u32 window, u32& end) {
  const u32 hash = window * 0x9e3779b1u;
  const u32 bucket =
      b.image.v[windows + XG_WINDOW_BUCKETS] + (hash >> (32u - b.image.v[windows + XG_WINDOW_BUCKET_BITS]));
  end = b.image.v[bucket + 1u];
  return b.image.v[bucket];
}

// The patterns that have this window, which stands at `at`, of XG_WINDOWS_WIDE; and of the other ones.
XG_FN void xg_wide_confirm_three(const xg_batch& b, u32 patterns, u32 windows, u32 window, u32 at,
                                 const xg_wide_text& text, xg_state f) {
  u32 end = 0u;
  for (u32 entry = xg_wide_bucket(b, windows, window, end); entry < end; entry += XG_WIDE_ENTRY) {
    const u32 first = b.image.v[entry], which = b.image.v[entry + 1u];
    const u32 before = which >> 24, more = first >> 24;
    if ((first & 0xffffffu) != window || before > at) continue;
    if (more != XG_WIDE_NO_MORE) {
      const u32 place = at - before + more;
      if (place + 4u > text.count || xg_load<u32>(text.lower.data() + place) != b.image.v[entry + 2u])
        continue;
    }
    xg_wide_compare(b, patterns, which, at, text, f);
  }
}
XG_FN void xg_wide_confirm(const xg_batch& b, u32 patterns, u32 windows, u32 window, u32 at,
                           const xg_wide_text& text, xg_state f) {
  u32 end = 0u;
  for (u32 entry = xg_wide_bucket(b, windows, window, end); entry < end; entry += XG_SIGNATURES_ENTRY)
    if (b.image.v[entry] == window) xg_wide_compare(b, patterns, b.image.v[entry + 1u], at, text, f);
}

// Sixteen bytes, twice.
__attribute__((target("avx2"), always_inline)) inline __m256i xg_avx2_twice(const void* bytes) {
  return _mm256_broadcastsi128_si256(_mm_loadu_si128(static_cast<const __m128i*>(bytes)));
}
__attribute__((target("avx2"), always_inline)) inline __m256i xg_avx2_load(const u8* bytes) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes));
}
__attribute__((target("avx2"), always_inline)) inline __m256i xg_avx2_high(__m256i bytes) {
  return _mm256_and_si256(_mm256_srli_epi16(bytes, 4), _mm256_set1_epi8(15));
}

// A bit for each place of a text, in words of 32.
using xg_wide_places = std::array<u32, (XG_PACKET_MAX + 31u) / 32u>;

// Where a pattern may have its window of three bytes.
XG_AVX2 void xg_wide_three(const xg_wide_text& text, const xg_word* words, u32 bits, xg_wide_places& places) {
  // Of sixteen bytes, for each of eight places; a negative number gives 0.
  const __m256i window = _mm256_setr_epi8(0, 1, 2, -1, 1, 2, 3, -1, 2, 3, 4, -1, 3, 4, 5, -1,  //
                                          4, 5, 6, -1, 5, 6, 7, -1, 6, 7, 8, -1, 7, 8, 9, -1);
  const __m256i behind = _mm256_setr_epi32(-256 + 3, -256 + 4, -256 + 5, -256 + 6,  //
                                           -256 + 7, -256 + 8, -256 + 9, -256 + 10);
  const __m256i second = _mm256_add_epi32(behind, _mm256_set1_epi32(1));
  const __m256i factor = _mm256_set1_epi32(static_cast<int>(0x9e3779b1u));
  const __m256i place = _mm256_set1_epi32(static_cast<int>(32u - bits));
  const __m256i of_hash = _mm256_set1_epi32(static_cast<int>(29u - bits));
  const auto eight = [&](const u8* lower) __attribute__((target("avx2"), always_inline)) {
    const __m256i bytes = xg_avx2_twice(lower);
    const __m256i hash = _mm256_mullo_epi32(_mm256_shuffle_epi8(bytes, window), factor);
    const __m256i word =
        _mm256_i32gather_epi32(reinterpret_cast<const int*>(words), _mm256_srlv_epi32(hash, place), 4);
    // The bit that each says comes to be the sign.
    const __m256i by_hash =
        _mm256_sllv_epi32(word, _mm256_and_si256(_mm256_srlv_epi32(hash, of_hash), _mm256_set1_epi32(7)));
    const __m256i by_behind = _mm256_sllv_epi32(
        word,
        _mm256_shuffle_epi8(_mm256_add_epi8(_mm256_and_si256(bytes, _mm256_set1_epi8(XG_WIDE_BEHIND_MASK)),
                                            _mm256_set1_epi8(XG_WIDE_BEHIND)),
                            behind));
    const __m256i by_second = _mm256_sllv_epi32(
        word,
        _mm256_shuffle_epi8(_mm256_add_epi8(_mm256_and_si256(bytes, _mm256_set1_epi8(XG_WIDE_SECOND_MASK)),
                                            _mm256_set1_epi8(XG_WIDE_SECOND)),
                            second));
    const __m256i all = _mm256_and_si256(_mm256_and_si256(by_hash, by_behind), by_second);
    return static_cast<u32>(_mm256_movemask_ps(_mm256_castsi256_ps(all)));
  };
  const u8* lower = text.lower.data();
  for (u32 i = 0u; i * 32u < text.count; i++, lower += 32)
    places[i] = eight(lower) | eight(lower + 8) << 8 | eight(lower + 16) << 16 | eight(lower + 24) << 24;
}

// Where a pattern of two bytes may stand.
XG_AVX2 void xg_wide_two(const xg_wide_text& text, const xg_word* halves, xg_wide_places& places) {
  const __m256i first_low = xg_avx2_twice(halves), first_high = xg_avx2_twice(halves + 4);
  const __m256i second_low = xg_avx2_twice(halves + 8), second_high = xg_avx2_twice(halves + 12);
  const __m256i half = _mm256_set1_epi8(15);
  const u8* lower = text.lower.data();
  for (u32 i = 0u; i * 32u < text.count; i++, lower += 32) {
    const __m256i first = xg_avx2_load(lower), second = xg_avx2_load(lower + 1);
    const __m256i groups =
        _mm256_and_si256(_mm256_and_si256(_mm256_shuffle_epi8(first_low, _mm256_and_si256(first, half)),
                                          _mm256_shuffle_epi8(first_high, xg_avx2_high(first))),
                         _mm256_and_si256(_mm256_shuffle_epi8(second_low, _mm256_and_si256(second, half)),
                                          _mm256_shuffle_epi8(second_high, xg_avx2_high(second))));
    places[i] = ~static_cast<u32>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(groups, _mm256_setzero_si256())));
  }
}

// The first place from `at` on that has one of a set of bytes; the text's end: there is none.
XG_AVX2 u32 xg_wide_one(const xg_wide_text& text, const u8* set, u32 at) {
  const __m256i below = xg_avx2_twice(set), above = xg_avx2_twice(set + 16);
  const __m256i bits = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201u));
  for (; at < text.count; at += 32u) {
    const __m256i bytes = xg_avx2_load(text.lower.data() + at);
    // A shuffle gives 0 where the highest bit is set.
    const __m256i rest = _mm256_or_si256(
        _mm256_shuffle_epi8(below, bytes),
        _mm256_shuffle_epi8(above, _mm256_xor_si256(bytes, _mm256_set1_epi8(static_cast<char>(0x80)))));
    const __m256i bit = _mm256_shuffle_epi8(bits, xg_avx2_high(bytes));
    const u32 some =
        static_cast<u32>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_and_si256(rest, bit), bit)));
    if (some != 0u) return at + XG_LOWEST_BIT(some) < text.count ? at + XG_LOWEST_BIT(some) : text.count;
  }
  return text.count;
}

// The patterns that have a window, `bytes` long, at one of these places.
XG_FN void xg_wide_confirm_all(const xg_batch& b, u32 patterns, u32 windows, u32 bytes,
                               const xg_wide_text& text, const xg_wide_places& places, xg_state f) {
  for (u32 i = 0u; i * 32u < text.count; i++)
    for (u32 some = places[i]; some != 0u; some &= some - 1u) {
      const u32 at = i * 32u + XG_LOWEST_BIT(some);
      if (text.count - at < bytes || f.v[XG_SIGNATURES_FOUND_OVER] != 0u) return;
      const u32 window = xg_load<u32>(text.lower.data() + at) & ((1u << (bytes * 8u)) - 1u);
      if (bytes == 3u)
        xg_wide_confirm_three(b, patterns, windows, window, at, text, f);
      else
        xg_wide_confirm(b, patterns, windows, window, at, text, f);
    }
}

XG_AVX2 void xg_signatures_search_avx2(const xg_batch& b, u32 body, u32 windows, xg_payload_cursor& c,
                                       u32 first, u32 end, xg_state f) {
  if (end <= first) return;
  const u32 wide = windows + XG_WINDOWS_WIDE;
  const u32 bits = b.image.v[wide + XG_WINDOW_FILTER_BITS];
  if (bits == XG_WIDE_FULL) return xg_signatures_search(b, body, windows, c, first, end, f, 0u, 1u);
  xg_wide_text text;
  xg_wide_places places;
  xg_wide_read(b, c, first, end - first, text);
  const u32 patterns = b.image.v[body + XG_SIGNATURES_PATTERNS];
  if (bits != 0u) {
    xg_wide_three(text, b.image.v + b.image.v[wide + XG_WINDOW_FILTER], bits, places);
    xg_wide_confirm_all(b, patterns, wide, 3u, text, places, f);
  }
  if (const u32 halves = b.image.v[windows + XG_WINDOWS_HALVES]; halves != 0u) {
    xg_wide_two(text, b.image.v + halves, places);
    xg_wide_confirm_all(b, patterns, windows + XG_SIGNATURES_WINDOW, 2u, text, places, f);
  }
  if (const u32 single = b.image.v[windows + XG_WINDOWS_SINGLE]; single != 0u) {
    // Those that are still looked for.
    std::array<u8, 32> set;
    __builtin_memcpy(set.data(), b.image.v + single, set.size());
    for (u32 at = 0u; (at = xg_wide_one(text, set.data(), at)) < text.count; at++) {
      const u32 byte = text.lower[at];
      xg_wide_confirm(b, patterns, windows, byte, at, text, f);
      // A letter stands for two, of which a pattern may be one.
      if (byte < 'a' || byte > 'z')
        set[(byte >> 7) * 16u + (byte & 15u)] &= static_cast<u8>(~(1u << (byte >> 4 & 7u)));
    }
  }
}

#define XG_SIGNATURES_SEARCH_ALONE(b, body, windows, c, first, end, f) \
  XG_SIGNATURES_SEARCH(b, body, windows, c, first, end, f, 0u, 1u)
#define XG_SIGNATURES_SEARCH(b, body, windows, c, first, end, f, lane, lanes)                \
  (XG_HAS_AVX2 ? xg_signatures_search_avx2((b), (body), (windows), (c), (first), (end), (f)) \
               : xg_signatures_search((b), (body), (windows), (c), (first), (end), (f), (lane), (lanes)))
