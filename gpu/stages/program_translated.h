/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/program_translated.h: what the text of a translated program is made of
 * (gpu/program_translation.hpp). Each of these does for one kind of memory what gpu/stages/program_memory.h
 * does for all: where it cannot, it says so, and the text hands the packet over to the interpreter. So
 * nothing here ends a program.
 *
 * The text defines xg_program_known_maps first: the maps' records, one behind the other.
 */
#ifndef XDPGPU_STAGES_PROGRAM_TRANSLATED_H
#define XDPGPU_STAGES_PROGRAM_TRANSLATED_H

#define XG_PROGRAM_KNOWN_MAPS
#include "gpu/stages/program_ahead.h"
#include "gpu/stages/program_units.h"

/* `bytes` of a size known to the compiler: 1, 2, 4 or 8. */

/* The stack of one function: an array of the text's own, which the compiler keeps in registers where all
 * places are known to it. `from`: the array's byte at which the function's `own` bytes begin. */
XG_FN bool xg_translated_in_stack(u64 address, u32 function, u32 own, u32 bytes) {
  const u32 offset = xg_program_low(address);
  return u32(address >> 32) == XG_PROGRAM_STACKS + function && offset >= XG_PROGRAM_STACK - own &&
         offset <= XG_PROGRAM_STACK && bytes <= XG_PROGRAM_STACK - offset;
}
XG_FN u32 xg_translated_stack_at(u64 address, u32 from, u32 own) {
  return xg_program_low(address) - (XG_PROGRAM_STACK - own) + from;
}
XG_FN bool xg_translated_is_packet(u64 address) { return u32(address >> 32) == XG_PROGRAM_PACKET; }
/* A packet that nobody has written to: bytes [first, first + room) of the address space. `from`: the first
 * byte's place in the frame, frame_bias and all. No word is touched that has none of the bytes. */
XG_FN bool xg_translated_in_packet(u64 address, u64 first, u64 room, u32 bytes) {
  const u64 offset = address - first;
  return offset <= room && u64(bytes) <= room - offset;
}
/* Where they stand. */
XG_RECORD(xg_translated_window) {
  const u8* frame; /* of place 0 */
#ifdef XG_PROGRAM_NEAR
  const u8* near; /* likewise, up to place near_end */
  u32 near_end;
#endif
};
XG_FN xg_translated_window xg_translated_window_of(XG_PROGRAM_MACHINE_READ) {
  xg_translated_window window;
  window.frame = reinterpret_cast<const u8*>(m.frame.v) + int(m.frame_bias);
#ifdef XG_PROGRAM_NEAR
  window.near = reinterpret_cast<const u8*>(m.near.v) + int(m.near_bias);
  window.near_end = m.near_end;
#endif
  return window;
}
/* Where the byte of place `at` stands, from which on bytes are read that end `end` bytes behind it. */
XG_FN const u8* xg_translated_byte(xg_translated_window window, u32 at, u32 end) {
#ifdef XG_PROGRAM_NEAR
  if (at + end <= window.near_end) return window.near + at;
#else
  (void)end;
#endif
  return window.frame + at;
}
XG_FN u64 xg_translated_get(const u8* from, u32 bytes) {
  if (bytes == 1u) return u64(from[0]);
  if (bytes == 2u) return u64(u32(from[0]) | (u32(from[1]) << 8));
  /* In whole words. */
  const u32 shift = u32(reinterpret_cast<u64>(from)) & 3u;
  const xg_words words = {reinterpret_cast<XG_WORD*>(reinterpret_cast<u64>(from) - u64(shift))};
  const u64 low = u64(XG_UNALIGNED(words, 0u, shift));
  return bytes == 4u ? low : (u64(XG_UNALIGNED(words, 1u, shift)) << 32) | low;
}
XG_FN u64 xg_translated_packet_get(xg_translated_window window, u32 at, u32 bytes) {
  return xg_translated_get(xg_translated_byte(window, at, bytes), bytes);
}
/* Of 1 to 4 bytes, of a key's last word. */
XG_FN u32 xg_translated_packet_word(xg_translated_window window, u32 at, u32 bytes) {
  if (bytes == 3u)
    return xg_program_low(xg_translated_packet_get(window, at, 2u)) |
           (xg_program_low(xg_translated_packet_get(window, at + 2u, 1u)) << 16);
  return xg_program_low(xg_translated_packet_get(window, at, bytes));
}

/* A map's values. */
XG_FN bool xg_translated_in_value(XG_PROGRAM_MACHINE_READ, u64 address, u32 map, u32 bytes) {
  const u32 slot = u32(address >> 32) -
                   (XG_PROGRAM_VALUES + xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_FIRST));
  const u32 size = xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_VALUE);
  const u32 offset = xg_program_low(address);
  return u32(address >> 32) >= XG_PROGRAM_VALUES &&
         slot < xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_SLOTS) *
                    xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_QUEUES) &&
         offset <= size && bytes <= size - offset;
}
/* The byte of the maps' memory. */
XG_FN u32 xg_translated_value_at(XG_PROGRAM_MACHINE_READ, u64 address, u32 map) {
  const u32 slot = u32(address >> 32) -
                   (XG_PROGRAM_VALUES + xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_FIRST));
  return xg_program_value_at(XG_PROGRAM_IT, map, slot) * 4u + xg_program_low(address);
}
XG_FN u64 xg_translated_state_get(xg_state state, u32 at, u32 bytes) {
  const u32 i = at >> 2, shift = (at & 3u) * 8u;
  const u64 first = u64(XG_LOOK(state, i));
  if (bytes <= 4u && shift + bytes * 8u <= 32u) return xg_program_cut(first >> shift, bytes * 8u);
  const u64 low = (u64(XG_LOOK(state, i + 1u)) << 32) | first;
  if (shift + bytes * 8u <= 64u) return xg_program_cut(low >> shift, bytes * 8u);
  return xg_program_cut((low >> shift) | (u64(XG_LOOK(state, i + 2u)) << (64u - shift)), bytes * 8u);
}
/* Whether the next one can be used. */
XG_FN bool xg_translated_is_aligned(u32 at, u32 bytes) {
  return bytes <= 4u ? (at & 3u) + bytes <= 4u : (at & 3u) == 0u;
}
XG_FN void xg_translated_state_set(xg_state state, u32 at, u32 bytes, u64 value) {
  const u32 i = at >> 2, shift = (at & 3u) * 8u;
  if (bytes == 8u) {
    state.v[i] = xg_program_low(value);
    state.v[i + 1u] = u32(value >> 32);
  } else if (bytes == 4u) {
    state.v[i] = xg_program_low(value);
  } else {
    const u32 mask = xg_program_low(xg_program_cut(~u64(0), bytes * 8u)) << shift;
    state.v[i] = xg_program_put_bits(state.v[i], mask, xg_program_low(value) << shift);
  }
}
/* Of 4 or 8 bytes, as xg_program_add_to() does it: where no run is ahead of its turn; and where some are. */
XG_FN void xg_translated_add_now(xg_state state, u32 at, u32 bytes, u64 by) {
  const u32 i = at >> 2;
  if (bytes == 8u) {
    XG_ADD64(state, i, by);
  } else {
    XG_ADD(state, i, xg_program_low(by));
  }
}
XG_FN void xg_translated_add(XG_PROGRAM_MACHINE, xg_state state, u32 at, u32 bytes, u64 by) {
  if (m.seeks_key == XG_PROGRAM_IS_AHEAD) xg_program_count_ahead(XG_PROGRAM_IT, at >> 2, bytes, by);
  if (m.seeks_key == 0u) xg_translated_add_now(state, at, bytes, by);
}

/* What the run has reserved. */
XG_FN bool xg_translated_in_record(XG_PROGRAM_MACHINE_READ, u64 address, u32 bytes) {
  const u32 offset = xg_program_low(address), size = XG_PROGRAM_RECORD_BYTES(m.record);
  return u32(address >> 32) == XG_PROGRAM_RECORD && offset <= size && bytes <= size - offset;
}

/* What the context says, of four bytes. Sums, so that the compiler sees what is the same in two of them. */
XG_FN u64 xg_translated_packet_pointer(u32 at) { return (u64(XG_PROGRAM_PACKET) << 32) + u64(at); }
XG_FN bool xg_translated_in_context(u64 address) {
  return u32(address >> 32) == XG_PROGRAM_CONTEXT && xg_program_low(address) <= 20u &&
         (xg_program_low(address) & 3u) == 0u;
}
XG_FN u64 xg_translated_context_get(XG_PROGRAM_MACHINE_READ, u64 address) {
  const u32 offset = xg_program_low(address);
  if (offset == 0u) return xg_translated_packet_pointer(m.data);
  if (offset == 4u) return xg_translated_packet_pointer(m.end);
  if (offset == 8u) return xg_translated_packet_pointer(m.meta);
  if (offset == 12u) return u64(m.ingress);
  return offset == 16u ? u64(m.queue) : u64(m.egress);
}

/* A key of a map, of which `words` are given; and what the map has under it. A run that seeks its key has
 * found it. */
XG_FN xg_program_key xg_translated_key(XG_PROGRAM_MACHINE_READ, u32 map, const u32* words) {
  xg_program_key key;
  key.words = words;
  key.bytes = xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_KEY);
  key.first = words[0];
  key.is_prefix = xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_TYPE) == XG_PROGRAM_TRIE ? 1u : 0u;
  return key;
}
XG_FN u64 xg_translated_look_up(xg_program_machine& m, u32 map, const u32* words) {
  const xg_program_key key = xg_translated_key(m, map, words);
  if (xg_program_is_sharded(m, map) && m.seeks_key == XG_PROGRAM_IS_AHEAD)
    return xg_program_look_ahead(m, map, key);
  if (xg_program_is_sharded(m, map) && m.seeks_key != 0u) {
    m.key_hash = xg_program_hash(m, key);
    m.fault = XG_PROGRAM_KEY_FOUND;
    return u64(0);
  }
  return xg_program_get(m, map, key);
}

#endif
