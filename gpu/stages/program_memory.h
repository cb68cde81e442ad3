/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/program_memory.h: what an XDP program's pointers point into. Of gpu/stages/program_code.h.
 *
 * A packet is not copied. What a program does not write is read where it stands; of what it writes, the lines
 * of XG_PROGRAM_LINE_WORDS words are the machine's own from then on. Lines and words are counted from the
 * frame's place 0, XG_PROGRAM_HEADROOM bytes in front of the packet, wherever that is in memory.
 */
#ifndef XDPGPU_STAGES_PROGRAM_MEMORY_H
#define XDPGPU_STAGES_PROGRAM_MEMORY_H

#include "gpu/stages/program_operations.h"
#include "gpu/stages/program_record.h"

/* Memory that bytes can stand in, each counted in bytes from its own beginning. */
#define XG_PROGRAM_IN_STACK 0u
#define XG_PROGRAM_IN_STATE 1u
#define XG_PROGRAM_IN_FRAME 2u
#define XG_PROGRAM_IN_ARGUMENTS 3u
#define XG_PROGRAM_IN_EVENT 4u  /* where a machine's arrays stand in memory */
#define XG_PROGRAM_IN_RECORD 5u /* where they do not */
XG_RECORD(xg_program_place) { u32 memory, at; };

/* Words of the tables (DeviceCode::tables), and of a map's record there. */
#define XG_PROGRAM_TABLE_MAPS 0u
#define XG_PROGRAM_TABLE_RECORDS 1u /* where the maps' records stand, one after the other */
#define XG_PROGRAM_TABLE_PAGES \
  2u /* where the pages stand: of each 65,536 values' numbers, the map's number */
#define XG_PROGRAM_TABLE_PAGE_COUNT 3u
#define XG_PROGRAM_TABLE_PROGRAMS 4u
#define XG_PROGRAM_TABLE_FIRST 5u /* where the programs' first instructions stand */
#define XG_PROGRAM_TABLE_INSTRUCTIONS 6u
#define XG_PROGRAM_TABLE_WORDS 8u

#define XG_PROGRAM_MAP_TYPE 0u /* bpf_map_type */
#define XG_PROGRAM_MAP_ENTRIES 1u
#define XG_PROGRAM_MAP_KEY 2u   /* bytes */
#define XG_PROGRAM_MAP_VALUE 3u /* bytes */
#define XG_PROGRAM_MAP_FLAGS 4u
#define XG_PROGRAM_MAP_FIRST 5u  /* the first value's number, a multiple of 65,536 */
#define XG_PROGRAM_MAP_SLOTS 6u  /* values of a queue */
#define XG_PROGRAM_MAP_QUEUES 7u /* 1: all queues have the same */
/* Places in the maps' memory, in words; gpu/stages/program_maps.h has what stands there. */
#define XG_PROGRAM_MAP_HEADER 8u
#define XG_PROGRAM_MAP_BUCKETS 9u
#define XG_PROGRAM_MAP_ELEMENTS 10u
#define XG_PROGRAM_MAP_FREE 11u
#define XG_PROGRAM_MAP_VALUES 12u
#define XG_PROGRAM_MAP_STRIDE 13u        /* words from one value to the next: 1 or an even number */
#define XG_PROGRAM_MAP_BUCKET_MASK 14u   /* buckets of a shard, a power of two, - 1 */
#define XG_PROGRAM_MAP_ELEMENT_WORDS 15u /* words from one element to the next */
#define XG_PROGRAM_MAP_SHARD_SHIFT 16u   /* of a hash, so that what is left is a shard's number */
#define XG_PROGRAM_MAP_SHARD_SLOTS 17u   /* elements of a shard */
#define XG_PROGRAM_MAP_SHARD_ENTRIES 18u /* the most that are in one */
#define XG_PROGRAM_MAP_STAMPS 19u        /* of one that is sharded */
#define XG_PROGRAM_MAP_WORDS 20u

#define XG_PROGRAM_VALUES_READ_ONLY 1u /* for programs: neither stores nor updates */
#define XG_PROGRAM_NOT_FOR_UPDATES 2u  /* programs do not update it and do not delete from it */

#ifdef XG_PROGRAM_KNOWN_MAPS
/* Of a program that is translated they are numbers in its text. */
XG_FN u32 xg_program_map_word(const xg_program_machine&, u32 map, u32 word) {
  return xg_program_known_maps[map * XG_PROGRAM_MAP_WORDS + word];
}
#else
XG_FN u32 xg_program_map_word(XG_PROGRAM_MACHINE_READ, u32 map, u32 word) {
  return m.tables.v[m.tables.v[XG_PROGRAM_TABLE_RECORDS] + map * XG_PROGRAM_MAP_WORDS + word];
}
#endif

/* A value's number among all maps': which map has it. False: none. */
XG_FN bool xg_program_map_of(XG_PROGRAM_MACHINE_READ, u32 value, XG_INOUT(u32) map, XG_INOUT(u32) slot) {
  const u32 page = value >> 16;
  if (page >= m.tables.v[XG_PROGRAM_TABLE_PAGE_COUNT]) return false;
  map = m.tables.v[m.tables.v[XG_PROGRAM_TABLE_PAGES] + page];
  slot = value - xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_FIRST);
  return slot < xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_SLOTS) *
                    xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_QUEUES);
}
XG_FN u32 xg_program_value_at(XG_PROGRAM_MACHINE_READ, u32 map, u32 slot) {
  return xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_VALUES) +
         slot * xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_STRIDE);
}

/* Where `bytes` at an address stand. False, with the fault: nowhere. */
XG_FN bool xg_program_find(XG_PROGRAM_MACHINE, u64 address, u32 bytes, bool writes,
                           XG_INOUT(xg_program_place) place) {
  const u32 object = u32(address >> 32), offset = xg_program_low(address);
  u32 first = 0u, size = 0u, begin = 0u;
  bool read_only = false;
  place.memory = XG_PROGRAM_IN_STACK;
  if (object == XG_PROGRAM_PACKET) {
    first = m.meta;
    size = m.end;
    place.memory = XG_PROGRAM_IN_FRAME;
  } else if (object == XG_PROGRAM_RECORD) {
    size = XG_PROGRAM_RECORD_BYTES(m.record);
    /* None has no place, and not one of no bytes either. */
    if (m.record == 0u) first = 1u;
#ifdef XG_PROGRAM_IN_BUFFER
    begin = 16u;
    place.memory = XG_PROGRAM_IN_EVENT;
#else
    place.memory = XG_PROGRAM_IN_RECORD;
#endif
  } else if (object >= XG_PROGRAM_STACKS && object < XG_PROGRAM_STACKS + m.frames) {
    const u32 function = object - XG_PROGRAM_STACKS;
    size = XG_PROGRAM_STACK;
    first = size - XG_PROGRAM_OWN.stack_bytes[function];
    begin = XG_PROGRAM_OWN.stack_from[function] - first;
  } else if (object >= XG_PROGRAM_VALUES) {
    u32 map = 0u, slot = 0u;
    if (xg_program_map_of(XG_PROGRAM_IT, object - XG_PROGRAM_VALUES, map, slot)) {
      size = xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_VALUE);
      begin = xg_program_value_at(XG_PROGRAM_IT, map, slot) * 4u;
      read_only =
          (xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_FLAGS) & XG_PROGRAM_VALUES_READ_ONLY) != 0u;
    }
    place.memory = XG_PROGRAM_IN_STATE;
  }
  if (offset < first || offset > size || bytes > size - offset) {
    m.fault = writes && object == XG_PROGRAM_CONTEXT ? XG_PROGRAM_READ_ONLY : XG_PROGRAM_OUT_OF_BOUNDS;
    return false;
  }
  if (writes && read_only) {
    m.fault = XG_PROGRAM_READ_ONLY;
    return false;
  }
  place.at = begin + offset;
  return true;
}

#ifdef XG_PROGRAM_IN_BUFFER

/* All memory is a device's: so each place but the packet's is an address. */
u64 xg_program_address_of(u32 which_machine, xg_program_place place) {
  if (place.memory == XG_PROGRAM_IN_STATE) return u64(m.state) + u64(place.at);
  if (place.memory == XG_PROGRAM_IN_EVENT) return u64(m.event) + u64(place.at);
  return u64(m.own) + u64(place.at);
}
/* Which of the machine's lines has that one, from 1 on; 0: none. */
u32 xg_program_own_line(u32 which_machine, u32 line) {
  /* Of each byte that is the same its highest bit. Above the lowest of these there may be more. */
  const u32 differ = m.line_numbers ^ ((line & 0x7fu) * 0x01010101u);
  const u32 same = (differ - 0x01010101u) & ~differ & 0x80808080u;
  return same == 0u ? 0u : (XG_LOWEST_BIT(same) + 1u) / 8u;
}
/* Where the line `own` - 1 of the machine's has a place, or would have it. In 32 bits, as the margin in front
 * of the frame's first line is. */
u32 xg_program_at_in_line(u32 which_machine, u32 own, u32 at) {
  const u32 line = (m.line_numbers >> ((own - 1u) * 8u)) & 0xffu;
  return at + XG_PROGRAM_MARGIN - line * XG_PROGRAM_LINE_BYTES;
}
u64 xg_program_line_address(u32 which_machine, u32 own) {
  return u64(m.own) + u64(XG_PROGRAM_STACK_BYTES + (own - 1u) * XG_PROGRAM_WIDE_LINE);
}
/* `bytes`: 0 to 8, at any place. No word is touched that has none of them; of the packet's, none that has
 * none of those that came. */
u64 xg_program_read(u32 which_machine, xg_program_place place, u32 bytes) {
  u32 count = bytes, skips = 0u;
  u64 address = xg_program_address_of(which_machine, place);
  if (place.memory == XG_PROGRAM_IN_FRAME) {
    u32 own = xg_program_own_line(which_machine, place.at / XG_PROGRAM_LINE_BYTES);
    if (own == 0u) own = xg_program_own_line(which_machine, (place.at + bytes - 1u) / XG_PROGRAM_LINE_BYTES);
    if (own != 0u) {
      address = xg_program_line_address(which_machine, own) +
                u64(xg_program_at_in_line(which_machine, own, place.at));
    } else {
      count = place.at >= m.last ? 0u : m.last - place.at < bytes ? m.last - place.at : bytes;
      if (place.at < XG_PROGRAM_HEADROOM) skips = XG_PROGRAM_HEADROOM - place.at;
      if (skips > count) skips = count;
      count -= skips;
      address = u64(m.frame) + u64(place.at + skips + m.frame_bias);
    }
  }
  const u32 shift = xg_program_low(address) & 3u;
  xg_state words = xg_state(address - u64(shift));
  u32 w0 = 0u, w1 = 0u, w2 = 0u;
  if (count != 0u) w0 = words.v[0];
  if (count != 0u && shift + count > 4u) w1 = words.v[1];
  if (shift + count > 8u) w2 = words.v[2];
  u64 result = ((u64(w1) << 32) | u64(w0)) >> (shift * 8u);
  if (shift != 0u) result |= u64(w2) << (64u - shift * 8u);
  return count == 0u ? u64(0) : xg_program_cut(result, count * 8u) << (skips * 8u);
}
/* At an address; likewise. */
void xg_program_write_at(u64 address, u32 bytes, u64 value) {
  const u32 shift = xg_program_low(address) & 3u;
  xg_state words = xg_state(address - u64(shift));
  u64 keeps = ~xg_program_cut(~u64(0), bytes * 8u), above = ~u64(0);
  const u64 put = xg_program_cut(value, bytes * 8u);
  u64 puts_above = u64(0);
  if (shift != 0u) {
    above = ~(~keeps >> (64u - shift * 8u));
    puts_above = put >> (64u - shift * 8u);
  }
  keeps = ~(~keeps << (shift * 8u));
  const u64 puts = put << (shift * 8u);
  if (xg_program_low(~keeps) != 0u) words.v[0] = (words.v[0] & xg_program_low(keeps)) | xg_program_low(puts);
  if (u32(~keeps >> 32) != 0u) words.v[1] = (words.v[1] & u32(keeps >> 32)) | u32(puts >> 32);
  if (xg_program_low(~above) != 0u)
    words.v[2] = (words.v[2] & xg_program_low(above)) | xg_program_low(puts_above);
}
/* To any place but the packet's, which only instructions write to (gpu/stages/program/turn.h). */
void xg_program_write(u32 which_machine, xg_program_place place, u32 bytes, u64 value) {
  xg_program_write_at(xg_program_address_of(which_machine, place), bytes, value);
}

#else

#ifndef XG_GLSL

/* 1, 2, 4 or 8 bytes of an array, at any place. */
XG_FN u64 xg_program_words_get(const u32* words, u32 at, u32 bytes) {
  const u32 i = at >> 2, shift = (at & 3u) * 8u;
  if (bytes <= 4u) {
    if (shift + bytes * 8u <= 32u) return xg_program_cut(u64(words[i] >> shift), bytes * 8u);
    return xg_program_cut(((u64(words[i + 1u]) << 32) | u64(words[i])) >> shift, bytes * 8u);
  }
  const u64 low = (u64(words[i + 1u]) << 32) | u64(words[i]);
  return shift == 0u ? low : (low >> shift) | (u64(words[i + 2u]) << (64u - shift));
}
XG_FN u32 xg_program_put_bits(u32 word, u32 mask, u32 value) { return (word & ~mask) | (value & mask); }
XG_FN void xg_program_words_set(u32* words, u32 at, u32 bytes, u64 value) {
  const u32 i = at >> 2, shift = (at & 3u) * 8u;
  if (bytes <= 4u && shift + bytes * 8u <= 32u) {
    const u32 mask = xg_program_low(xg_program_cut(~u64(0), bytes * 8u)) << shift;
    words[i] = xg_program_put_bits(words[i], mask, xg_program_low(value) << shift);
    return;
  }
  const u64 mask = xg_program_cut(~u64(0), bytes * 8u), puts = value & mask;
  words[i] = xg_program_put_bits(words[i], xg_program_low(mask << shift), xg_program_low(puts << shift));
  words[i + 1u] = xg_program_put_bits(words[i + 1u], u32((mask << shift) >> 32), u32((puts << shift) >> 32));
  if (shift + bytes * 8u > 64u)
    words[i + 2u] = xg_program_put_bits(words[i + 2u], xg_program_low(mask >> (64u - shift)),
                                        xg_program_low(puts >> (64u - shift)));
}

#endif

/* The frame's word at 4 * index as it came: 0 where nothing did. No byte is touched that did not come, but
 * for those in the same words. */
XG_FN u32 xg_program_word_that_came(XG_PROGRAM_MACHINE_READ, u32 index) {
  const u32 at = index * 4u, from = at + m.frame_bias;
#ifdef XG_PROGRAM_NEAR
  if (at >= m.first && at + 4u <= m.last && at + 4u <= m.near_end)
    return XG_UNALIGNED(m.near, (at + m.near_bias) >> 2, (at + m.near_bias) & 3u);
#endif
  if (at >= m.first && at + 4u <= m.last) return XG_UNALIGNED(m.frame, from >> 2, from & 3u);
  u32 word = 0u;
  for (u32 i = 0u; i < 4u; i++) {
    if (at + i < m.first || at + i >= m.last) continue;
    xg_words words = m.frame;
    u32 byte = from + i;
#ifdef XG_PROGRAM_NEAR
    if (at + i < m.near_end) {
      words = m.near;
      byte = at + i + m.near_bias;
    }
#endif
    word |= ((words.v[byte >> 2] >> ((byte & 3u) * 8u)) & 0xffu) << (i * 8u);
  }
  return word;
}
/* Which of the machine's lines has it, from 1 on; 0: none. */
XG_FN u32 xg_program_own_line(XG_PROGRAM_MACHINE_READ, u32 line) {
#ifdef XG_PROGRAM_FEW_LINES
  for (u32 i = 0u; i < m.lines_used; i++)
    if (((m.line_numbers >> (i * 8u)) & 0xffu) == line) return i + 1u;
  return 0u;
#else
  return (m.line_of[line >> 2] >> ((line & 3u) * 8u)) & 0xffu;
#endif
}
/* The next of the machine's lines is that one. */
XG_FN void xg_program_take_line(XG_PROGRAM_MACHINE, u32 line) {
#ifdef XG_PROGRAM_FEW_LINES
  const u32 before = (1u << (m.lines_used * 8u)) - 1u;
  m.line_numbers = (m.line_numbers & before) | (line << (m.lines_used * 8u));
  m.lines_used++;
#else
  m.lines_used++;
  m.line_of[line >> 2] |= m.lines_used << ((line & 3u) * 8u);
#endif
}
XG_FN u32 xg_program_frame_word(XG_PROGRAM_MACHINE_READ, u32 index) {
  const u32 own = xg_program_own_line(XG_PROGRAM_IT, index / XG_PROGRAM_LINE_WORDS);
  if (own == 0u) return xg_program_word_that_came(XG_PROGRAM_IT, index);
  return m.lines[(own - 1u) * XG_PROGRAM_LINE_WORDS + index % XG_PROGRAM_LINE_WORDS];
}
XG_FN void xg_program_set_frame_word(XG_PROGRAM_MACHINE, u32 index, u32 word) {
  const u32 line = index / XG_PROGRAM_LINE_WORDS;
  u32 own = xg_program_own_line(XG_PROGRAM_IT, line);
  if (own == 0u) {
    if (m.lines_used >= m.most_lines || m.lines_used >= XG_PROGRAM_LINES) {
      m.fault = m.most_lines == 0u ? XG_PROGRAM_WRITES_PACKET : XG_PROGRAM_TOO_MUCH_WRITTEN;
      return;
    }
    for (u32 i = 0u; i < XG_PROGRAM_LINE_WORDS; i++)
      m.lines[m.lines_used * XG_PROGRAM_LINE_WORDS + i] =
          xg_program_word_that_came(XG_PROGRAM_IT, line * XG_PROGRAM_LINE_WORDS + i);
    xg_program_take_line(XG_PROGRAM_IT, line);
    own = m.lines_used;
  }
  m.lines[(own - 1u) * XG_PROGRAM_LINE_WORDS + index % XG_PROGRAM_LINE_WORDS] = word;
}

XG_FN u32 xg_program_word(XG_PROGRAM_MACHINE_READ, u32 memory, u32 index) {
  if (memory == XG_PROGRAM_IN_STATE) return XG_LOOK(m.state, index);
  if (memory == XG_PROGRAM_IN_FRAME) return xg_program_frame_word(XG_PROGRAM_IT, index);
  if (memory == XG_PROGRAM_IN_ARGUMENTS) return m.arguments.v[index];
  if (memory == XG_PROGRAM_IN_RECORD) return m.record_words[index];
  return XG_PROGRAM_OWN.stack[index];
}
XG_FN void xg_program_set_word(XG_PROGRAM_MACHINE, u32 memory, u32 index, u32 word) {
  if (memory == XG_PROGRAM_IN_STATE)
    m.state.v[index] = word;
  else if (memory == XG_PROGRAM_IN_FRAME)
    xg_program_set_frame_word(XG_PROGRAM_IT, index, word);
  else if (memory == XG_PROGRAM_IN_RECORD)
    m.record_words[index] = word;
  else
    XG_PROGRAM_OWN.stack[index] = word;
}

/* Whether `bytes` of the packet at an address stand in one of the machine's lines: from which byte of all of
 * them on. */
XG_FN bool xg_program_in_own_line(XG_PROGRAM_MACHINE_READ, u64 address, u32 bytes, XG_INOUT(u32) at) {
  const u32 place = xg_program_low(address), line = place / (XG_PROGRAM_LINE_WORDS * 4u);
  if (u32(address >> 32) != XG_PROGRAM_PACKET || place < m.meta || m.end - m.meta < bytes ||
      place - m.meta > m.end - m.meta - bytes || (place + bytes - 1u) / (XG_PROGRAM_LINE_WORDS * 4u) != line)
    return false;
  const u32 own = xg_program_own_line(XG_PROGRAM_IT, line);
  at = (own - 1u) * (XG_PROGRAM_LINE_WORDS * 4u) + place % (XG_PROGRAM_LINE_WORDS * 4u);
  return own != 0u;
}

/* `bytes`: 0 to 8, at any place. */
XG_FN u64 xg_program_read(XG_PROGRAM_MACHINE_READ, xg_program_place place, u32 bytes) {
  u64 result = u64(0);
  u32 done = 0u;
  while (done < bytes) {
    const u32 shift = (place.at + done) & 3u;
    u32 count = 4u - shift;
    if (count > bytes - done) count = bytes - done;
    const u64 word =
        u64(xg_program_word(XG_PROGRAM_IT, place.memory, (place.at + done) >> 2)) >> (shift * 8u);
    result |= xg_program_cut(word, count * 8u) << (done * 8u);
    done += count;
  }
  return result;
}
XG_FN void xg_program_write(XG_PROGRAM_MACHINE, xg_program_place place, u32 bytes, u64 value) {
  u32 done = 0u;
  while (done < bytes) {
    const u32 shift = (place.at + done) & 3u;
    u32 count = 4u - shift;
    if (count > bytes - done) count = bytes - done;
    const u32 index = (place.at + done) >> 2;
    const u32 mask = xg_program_low(xg_program_cut(~u64(0), count * 8u)) << (shift * 8u);
    const u32 word = xg_program_low(value >> (done * 8u)) << (shift * 8u);
    xg_program_set_word(XG_PROGRAM_IT, place.memory, index,
                        (xg_program_word(XG_PROGRAM_IT, place.memory, index) & ~mask) | (word & mask));
    done += count;
  }
}

XG_FN u64 xg_program_load(XG_PROGRAM_MACHINE, u64 address, u32 bytes) {
  if (u32(address >> 32) == XG_PROGRAM_CONTEXT && bytes == 4u) {
    const u32 offset = xg_program_low(address);
    if (offset == 0u) return xg_program_pointer(XG_PROGRAM_PACKET, m.data);
    if (offset == 4u) return xg_program_pointer(XG_PROGRAM_PACKET, m.end);
    if (offset == 8u) return xg_program_pointer(XG_PROGRAM_PACKET, m.meta);
    if (offset == 12u) return u64(m.ingress);
    if (offset == 16u) return u64(m.queue);
    if (offset == 20u) return u64(m.egress);
  }
  xg_program_place place;
#ifndef XG_GLSL
  /* As soon as there is one, most accesses are to it. */
  if (m.lines_used != 0u && xg_program_in_own_line(XG_PROGRAM_IT, address, bytes, place.at))
    return xg_program_words_get(m.lines, place.at, bytes);
#endif
  if (!xg_program_find(XG_PROGRAM_IT, address, bytes, false, place)) return u64(0);
  return xg_program_read(XG_PROGRAM_IT, place, bytes);
}
XG_FN void xg_program_store(XG_PROGRAM_MACHINE, u64 address, u32 bytes, u64 value) {
  xg_program_place place;
#ifndef XG_GLSL
  if (m.lines_used != 0u && xg_program_in_own_line(XG_PROGRAM_IT, address, bytes, place.at)) {
    xg_program_words_set(m.lines, place.at, bytes, value);
    return;
  }
#endif
  if (!xg_program_find(XG_PROGRAM_IT, address, bytes, true, place)) return;
#ifndef XG_PROGRAM_IN_BUFFER
  if (m.seeks_key == XG_PROGRAM_IS_AHEAD && place.memory == XG_PROGRAM_IN_STATE) {
    xg_program_turn_back(XG_PROGRAM_IT);
    return;
  }
#endif
  xg_program_write(XG_PROGRAM_IT, place, bytes, value);
}

/* To 4 or 8 bytes of a value, at a multiple of as many, as one step. */
XG_FN void xg_program_add_to(XG_PROGRAM_MACHINE, u64 address, u32 bytes, u64 by) {
  xg_program_place place;
  if (!xg_program_find(XG_PROGRAM_IT, address, bytes, true, place)) return;
  if (place.memory != XG_PROGRAM_IN_STATE) {
    m.fault = XG_PROGRAM_OUT_OF_BOUNDS;
    return;
  }
#ifndef XG_PROGRAM_IN_BUFFER
  if (m.seeks_key == XG_PROGRAM_IS_AHEAD) xg_program_count_ahead(XG_PROGRAM_IT, place.at >> 2, bytes, by);
  if (m.seeks_key != 0u) return;
#endif
  const u32 index = place.at >> 2;
  if (bytes == 8u) {
    XG_ADD64(m.state, index, by);
  } else {
    XG_ADD(m.state, index, xg_program_low(by));
  }
}

/* The frame's byte, as the program left it. */
XG_FN u32 xg_program_frame_byte(XG_PROGRAM_MACHINE_READ, u32 at) {
  return (xg_program_frame_word(XG_PROGRAM_IT, at >> 2) >> ((at & 3u) * 8u)) & 0xffu;
}

#endif

#endif
