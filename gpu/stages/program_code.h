/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/program_code.h: an XDP program run on a device: one packet, one thread, an instruction after the
 * other. gpu/program_code.hpp makes the words of it. What it answers is what gpu/reference/program.hpp says.
 *
 * An instruction has four words. What RFC 9669 lets be wrong was found when they were made: operations,
 * registers, jumps and maps are known to be there, so only memory and steps are looked at here.
 *
 *   0     operation | destination << 8 | source << 12 | log2 of a memory's bytes << 16 |
 *         XG_PROGRAM_X, _32, _SIGNED
 *   1     what is added to an address; where a jump goes; a map's number
 *   2, 3  the immediate with its sign, the lower half first
 *
 * A map has four words: its entries, bytes from one entry to the next, the first one's place in the maps'
 * memory, bytes of a queue's entries (0: all queues have the same).
 *
 * Pointers are those of gpu/reference/program_memory.hpp, but for values: XG_PROGRAM_VALUES + the map's
 * number, and an offset among all of the map's values. Of memory that threads share, changes are not atomic
 * here: a program that writes to maps has its packets one after the other.
 */
#ifndef XDPGPU_STAGES_PROGRAM_CODE_H
#define XDPGPU_STAGES_PROGRAM_CODE_H

#include "gpu/stages/dialect.h"

/* Numbers of gpu/reference/program.hpp, which are the kernel's. */
#define XG_PROGRAM_STEPS 1048576u
#define XG_PROGRAM_FRAMES 8u
#define XG_PROGRAM_STACK 512u
#define XG_PROGRAM_HEADROOM 256u
#define XG_PROGRAM_KEPT 40u
#define XG_PROGRAM_FRAME 3776u
#define XG_PROGRAM_LEAST 14u
#define XG_PROGRAM_MOST_METADATA 252u
#define XG_PROGRAM_MEMORY_WORDS ((XG_PROGRAM_FRAMES * XG_PROGRAM_STACK + XG_PROGRAM_FRAME) / 4u)

#define XG_PROGRAM_X 0x100000u
#define XG_PROGRAM_32 0x200000u
#define XG_PROGRAM_SIGNED 0x400000u

#define XG_PROGRAM_ADD 0u
#define XG_PROGRAM_SUB 1u
#define XG_PROGRAM_MUL 2u
#define XG_PROGRAM_DIV 3u
#define XG_PROGRAM_MOD 4u
#define XG_PROGRAM_OR 5u
#define XG_PROGRAM_AND 6u
#define XG_PROGRAM_XOR 7u
#define XG_PROGRAM_LSH 8u
#define XG_PROGRAM_RSH 9u
#define XG_PROGRAM_ARSH 10u
#define XG_PROGRAM_MOV 11u /* word 1: how many bits count, with their sign */
#define XG_PROGRAM_NEG 12u
#define XG_PROGRAM_SWAP 13u /* word 1: bits */
#define XG_PROGRAM_CUT 14u  /* word 1: bits */
/* Conditions: a jump if it holds. */
#define XG_PROGRAM_JEQ 16u
#define XG_PROGRAM_JNE 17u
#define XG_PROGRAM_JGT 18u
#define XG_PROGRAM_JGE 19u
#define XG_PROGRAM_JLT 20u
#define XG_PROGRAM_JLE 21u
#define XG_PROGRAM_JSET 22u
#define XG_PROGRAM_JSGT 23u
#define XG_PROGRAM_JSGE 24u
#define XG_PROGRAM_JSLT 25u
#define XG_PROGRAM_JSLE 26u
#define XG_PROGRAM_JA 27u
#define XG_PROGRAM_LOAD 32u
#define XG_PROGRAM_STORE 33u
#define XG_PROGRAM_ATOMIC 34u /* the immediate: as in RFC 9669 */
#define XG_PROGRAM_NUMBER 35u
#define XG_PROGRAM_CALL 36u /* of a function: word 1 */
#define XG_PROGRAM_EXIT 37u
/* Helpers. */
#define XG_PROGRAM_LOOK_UP 48u
#define XG_PROGRAM_UPDATE 49u
#define XG_PROGRAM_ADJUST_HEAD 50u
#define XG_PROGRAM_ADJUST_META 51u
#define XG_PROGRAM_ADJUST_TAIL 52u
#define XG_PROGRAM_CSUM_DIFF 53u
#define XG_PROGRAM_TIME 54u
#define XG_PROGRAM_RANDOM 55u
#define XG_PROGRAM_QUEUE 56u

/* Upper halves of pointers. */
#define XG_PROGRAM_CONTEXT 1u
#define XG_PROGRAM_PACKET 2u
#define XG_PROGRAM_STACKS 16u
#define XG_PROGRAM_MAPS 0x10000000u
#define XG_PROGRAM_VALUES 0x20000000u

/* Why one was ended: ProgramFault's numbers. */
#define XG_PROGRAM_OUT_OF_BOUNDS 1u
#define XG_PROGRAM_READ_ONLY 2u
#define XG_PROGRAM_WRONG_MAP 5u
#define XG_PROGRAM_TOO_MANY_STEPS 7u
#define XG_PROGRAM_TOO_MANY_CALLS 8u

/* Of an update: bpf.h's flags, errno.h's numbers. */
#define XG_PROGRAM_LOCK 4u
#define XG_PROGRAM_E2BIG 7u
#define XG_PROGRAM_EACCES 13u
#define XG_PROGRAM_EEXIST 17u
#define XG_PROGRAM_EINVAL 22u

XG_RECORD(xg_program_machine) {
  u64 r[11];
  u64 time;
  u32 random, queue, ingress, egress;
  /* The functions' stacks, the entry's first, and behind them the packet's frame with its headroom. */
  u32 memory[XG_PROGRAM_MEMORY_WORDS];
  u32 meta, data, end; /* places in the frame */
  u32 next, frames, steps, fault;
  u32 return_to[XG_PROGRAM_FRAMES];
  u64 saved[4u * XG_PROGRAM_FRAMES];
};

XG_FN u64 xg_program_pointer(u32 object, u32 offset) { return (u64(object) << 32) | u64(offset); }
XG_FN u64 xg_program_error(u32 number) { return u64(0) - u64(number); }

/* A number of `bits` with its sign. */
XG_FN u64 xg_program_signed(u64 x, u32 bits) {
  if (bits == 64u) return x;
  const u64 sign = u64(1) << (bits - 1u);
  const u64 lower = x & ((sign << 1) - u64(1));
  return (lower ^ sign) - sign;
}
XG_FN u64 xg_program_cut(u64 x, u32 bits) { return bits == 64u ? x : x & ((u64(1) << bits) - u64(1)); }

XG_FN u64 xg_program_swapped(u64 x, u32 bits) {
  const u64 all = (u64(xg_swap32(u32(x & u64(0xffffffffu)))) << 32) | u64(xg_swap32(u32(x >> 32)));
  return all >> (64u - bits);
}

/* a / b or a % b; is_signed: both have `bits`, with their signs. */
XG_FN u64 xg_program_divided(u64 a, u64 b, bool modulo, bool is_signed, u32 bits) {
  if (b == u64(0)) return modulo ? a : u64(0);
  if (!is_signed) return modulo ? a % b : a / b;
  const u64 sign = u64(1) << 63;
  u64 x = xg_program_signed(a, bits), y = xg_program_signed(b, bits);
  const bool x_less = (x & sign) != u64(0), y_less = (y & sign) != u64(0);
  if (x_less) x = u64(0) - x;
  if (y_less) y = u64(0) - y;
  u64 result = modulo ? x % y : x / y;
  if (modulo ? x_less : x_less != y_less) result = u64(0) - result;
  return result;
}

XG_FN u64 xg_program_computed(u32 operation, u32 flags, u32 what, u64 d, u64 s) {
  const bool narrow = (flags & XG_PROGRAM_32) != 0u;
  const u32 bits = narrow ? 32u : 64u;
  const u64 a = xg_program_cut(d, bits), b = xg_program_cut(s, bits);
  const u32 shift = u32(b & u64(bits - 1u));
  u64 result = b;
  if (operation == XG_PROGRAM_ADD) result = a + b;
  if (operation == XG_PROGRAM_SUB) result = a - b;
  if (operation == XG_PROGRAM_MUL) result = a * b;
  if (operation == XG_PROGRAM_DIV || operation == XG_PROGRAM_MOD)
    result = xg_program_divided(a, b, operation == XG_PROGRAM_MOD, (flags & XG_PROGRAM_SIGNED) != 0u, bits);
  if (operation == XG_PROGRAM_OR) result = a | b;
  if (operation == XG_PROGRAM_AND) result = a & b;
  if (operation == XG_PROGRAM_XOR) result = a ^ b;
  if (operation == XG_PROGRAM_LSH) result = a << shift;
  if (operation == XG_PROGRAM_RSH) result = a >> shift;
  if (operation == XG_PROGRAM_ARSH) {
    const u64 wide = xg_program_signed(a, bits);
    const u64 above = (wide >> 63) != u64(0) && shift != 0u ? ~(~u64(0) >> shift) : u64(0);
    result = (wide >> shift) | above;
  }
  if (operation == XG_PROGRAM_MOV) result = xg_program_signed(b, what);
  if (operation == XG_PROGRAM_NEG) result = u64(0) - a;
  if (operation == XG_PROGRAM_SWAP) return xg_program_swapped(d, what);
  if (operation == XG_PROGRAM_CUT) return xg_program_cut(d, what);
  return xg_program_cut(result, bits);
}

XG_FN bool xg_program_holds(u32 operation, u32 flags, u64 d, u64 s) {
  const u32 bits = (flags & XG_PROGRAM_32) != 0u ? 32u : 64u;
  const u64 a = xg_program_cut(d, bits), b = xg_program_cut(s, bits);
  /* With the sign's bit turned over, numbers with signs have the order of those without. */
  const u64 x = a ^ (u64(1) << (bits - 1u)), y = b ^ (u64(1) << (bits - 1u));
  if (operation == XG_PROGRAM_JEQ) return a == b;
  if (operation == XG_PROGRAM_JNE) return a != b;
  if (operation == XG_PROGRAM_JGT) return a > b;
  if (operation == XG_PROGRAM_JGE) return a >= b;
  if (operation == XG_PROGRAM_JLT) return a < b;
  if (operation == XG_PROGRAM_JLE) return a <= b;
  if (operation == XG_PROGRAM_JSET) return (a & b) != u64(0);
  if (operation == XG_PROGRAM_JSGT) return x > y;
  if (operation == XG_PROGRAM_JSGE) return x >= y;
  if (operation == XG_PROGRAM_JSLT) return x < y;
  if (operation == XG_PROGRAM_JSLE) return x <= y;
  return true;
}

/* Where `bytes` at an address stand: of the machine's own memory (is_map: of the maps'), from byte `at` on.
 * False, with the fault: nowhere. */
XG_FN bool xg_program_find(XG_INOUT(xg_program_machine) m, xg_words maps, u32 map_count, u64 address,
                           u32 bytes, bool writes, XG_INOUT(bool) is_map, XG_INOUT(u32) at) {
  const u32 object = u32(address >> 32), offset = u32(address & u64(0xffffffffu));
  u32 first = 0u, size = 0u, begin = 0u;
  is_map = false;
  if (object == XG_PROGRAM_PACKET) {
    first = m.meta;
    size = m.end;
    begin = XG_PROGRAM_FRAMES * XG_PROGRAM_STACK;
  } else if (object >= XG_PROGRAM_STACKS && object < XG_PROGRAM_STACKS + m.frames) {
    size = XG_PROGRAM_STACK;
    begin = (object - XG_PROGRAM_STACKS) * XG_PROGRAM_STACK;
  } else if (object >= XG_PROGRAM_VALUES && object - XG_PROGRAM_VALUES < map_count) {
    const u32 map = (object - XG_PROGRAM_VALUES) * 4u;
    /* A queue's entries are another map's as far as bounds go. */
    const u32 queues = maps.v[map + 3u] == 0u ? 1u : m.queue + 1u;
    size = maps.v[map] * maps.v[map + 1u] * queues;
    begin = maps.v[map + 2u];
    is_map = true;
  }
  if (offset < first || offset > size || bytes > size - offset) {
    m.fault = writes && object == XG_PROGRAM_CONTEXT ? XG_PROGRAM_READ_ONLY : XG_PROGRAM_OUT_OF_BOUNDS;
    return false;
  }
  at = begin + offset;
  return true;
}

XG_FN u32 xg_program_word(XG_INOUT(xg_program_machine) m, xg_words values, bool is_map, u32 index) {
  return is_map ? values.v[index] : m.memory[index];
}
XG_FN void xg_program_set_word(XG_INOUT(xg_program_machine) m, xg_words values, bool is_map, u32 index,
                               u32 word) {
  if (is_map)
    values.v[index] = word;
  else
    m.memory[index] = word;
}

/* `bytes`: 1, 2, 4 or 8, at any place. */
XG_FN u64 xg_program_read(XG_INOUT(xg_program_machine) m, xg_words values, bool is_map, u32 at, u32 bytes) {
  u64 result = u64(0);
  u32 done = 0u;
  while (done < bytes) {
    const u32 shift = (at + done) & 3u;
    u32 count = 4u - shift;
    if (count > bytes - done) count = bytes - done;
    const u64 word = u64(xg_program_word(m, values, is_map, (at + done) >> 2)) >> (shift * 8u);
    result |= xg_program_cut(word, count * 8u) << (done * 8u);
    done += count;
  }
  return result;
}
XG_FN void xg_program_write(XG_INOUT(xg_program_machine) m, xg_words values, bool is_map, u32 at, u32 bytes,
                            u64 value) {
  u32 done = 0u;
  while (done < bytes) {
    const u32 shift = (at + done) & 3u;
    u32 count = 4u - shift;
    if (count > bytes - done) count = bytes - done;
    const u32 index = (at + done) >> 2;
    const u32 mask = u32(xg_program_cut(~u64(0), count * 8u)) << (shift * 8u);
    const u32 word = u32((value >> (done * 8u)) & u64(0xffffffffu)) << (shift * 8u);
    xg_program_set_word(m, values, is_map, index,
                        (xg_program_word(m, values, is_map, index) & ~mask) | (word & mask));
    done += count;
  }
}

XG_FN u64 xg_program_load(XG_INOUT(xg_program_machine) m, xg_words maps, u32 map_count, xg_words values,
                          u64 address, u32 bytes) {
  if (u32(address >> 32) == XG_PROGRAM_CONTEXT && bytes == 4u) {
    const u32 offset = u32(address & u64(0xffffffffu));
    if (offset == 0u) return xg_program_pointer(XG_PROGRAM_PACKET, m.data);
    if (offset == 4u) return xg_program_pointer(XG_PROGRAM_PACKET, m.end);
    if (offset == 8u) return xg_program_pointer(XG_PROGRAM_PACKET, m.meta);
    if (offset == 12u) return u64(m.ingress);
    if (offset == 16u) return u64(m.queue);
    if (offset == 20u) return u64(m.egress);
  }
  bool is_map = false;
  u32 at = 0u;
  if (!xg_program_find(m, maps, map_count, address, bytes, false, is_map, at)) return u64(0);
  return xg_program_read(m, values, is_map, at, bytes);
}
XG_FN void xg_program_store(XG_INOUT(xg_program_machine) m, xg_words maps, u32 map_count, xg_words values,
                            u64 address, u32 bytes, u64 value) {
  bool is_map = false;
  u32 at = 0u;
  if (xg_program_find(m, maps, map_count, address, bytes, true, is_map, at))
    xg_program_write(m, values, is_map, at, bytes, value);
}

/* RFC 9669, 5.3: what memory becomes. */
XG_FN u64 xg_program_changed(u32 operation, u64 memory, u64 source, u64 compared) {
  const u32 what = operation & 0xf0u;
  if (what == 0xe0u) return source;
  if (what == 0xf0u) return memory == compared ? source : memory;
  if (what == 0x40u) return memory | source;
  if (what == 0x50u) return memory & source;
  if (what == 0xa0u) return memory ^ source;
  return memory + source;
}

XG_FN u32 xg_program_added(u32 a, u32 b) {
  const u32 sum = a + b;
  return sum + (sum < a ? 1u : 0u);
}
/* In ones' complement, of words from an address on; what is missing of the last one is 0. */
XG_SELDOM u32 xg_program_sum(XG_INOUT(xg_program_machine) m, xg_words maps, u32 map_count, xg_words values,
                             u64 address, u32 bytes, u32 first) {
  bool is_map = false;
  u32 at = 0u, sum = first;
  if (bytes == 0u || !xg_program_find(m, maps, map_count, address, bytes, false, is_map, at)) return sum;
  m.steps += bytes / 8u;
  for (u32 done = 0u; done < bytes; done += 4u) {
    const u32 count = bytes - done < 4u ? bytes - done : 4u;
    u32 word = 0u;
    for (u32 i = 0u; i < count; i++)
      word |= u32(xg_program_read(m, values, is_map, at + done + i, 1u)) << (i * 8u);
    sum = xg_program_added(sum, word);
  }
  return sum;
}
XG_SELDOM u64 xg_program_csum_diff(XG_INOUT(xg_program_machine) m, xg_words maps, u32 map_count,
                                   xg_words values) {
  const u32 from = u32(m.r[2] & u64(0xffffffffu)), to = u32(m.r[4] & u64(0xffffffffu));
  u32 sum = u32(m.r[5] & u64(0xffffffffu));
  if (from != 0u && to != 0u) {
    const u32 taken = xg_program_sum(m, maps, map_count, values, m.r[1], from, 0u);
    sum = xg_program_added(xg_program_sum(m, maps, map_count, values, m.r[3], to, sum), ~taken);
  } else if (from != 0u) {
    sum = ~xg_program_sum(m, maps, map_count, values, m.r[1], from, ~sum);
  } else {
    sum = xg_program_sum(m, maps, map_count, values, m.r[3], to, sum);
  }
  sum = (sum & 0xffffu) + (sum >> 16);
  sum = (sum & 0xffffu) + (sum >> 16);
  return u64(sum);
}

/* `by`: with its sign, as 32 bits. A packet is never shorter than XG_PROGRAM_LEAST. */
XG_SELDOM u64 xg_program_adjust_head(XG_INOUT(xg_program_machine) m, u32 by) {
  const u32 metadata = m.data - m.meta;
  const bool less = (by & 0x80000000u) != 0u;
  if (less ? 0u - by > m.meta - XG_PROGRAM_KEPT : by > m.end - XG_PROGRAM_LEAST - m.data)
    return xg_program_error(XG_PROGRAM_EINVAL);
  const u32 from = XG_PROGRAM_FRAMES * XG_PROGRAM_STACK + m.meta;
  xg_words none = XG_HANDLE(xg_words, u64(0));
  for (u32 i = 0u; i < metadata; i += 4u) {
    /* Upwards the last ones first: they are where others come. */
    const u32 at = from + (less ? i : metadata - 4u - i);
    xg_program_write(m, none, false, at + by, 4u, xg_program_read(m, none, false, at, 4u));
  }
  m.data += by;
  m.meta += by;
  return u64(0);
}
XG_SELDOM u64 xg_program_adjust_meta(XG_INOUT(xg_program_machine) m, u32 by) {
  const bool less = (by & 0x80000000u) != 0u;
  if (less ? 0u - by > m.meta - XG_PROGRAM_KEPT : by > m.data - m.meta)
    return xg_program_error(XG_PROGRAM_EINVAL);
  const u32 metadata = m.data - (m.meta + by);
  if ((metadata & 3u) != 0u || metadata > XG_PROGRAM_MOST_METADATA)
    return xg_program_error(XG_PROGRAM_EACCES);
  m.meta += by;
  return u64(0);
}
XG_SELDOM u64 xg_program_adjust_tail(XG_INOUT(xg_program_machine) m, u32 by) {
  const bool less = (by & 0x80000000u) != 0u;
  if (less ? 0u - by > m.end - m.data - XG_PROGRAM_LEAST : by > XG_PROGRAM_FRAME - m.end)
    return xg_program_error(XG_PROGRAM_EINVAL);
  xg_words none = XG_HANDLE(xg_words, u64(0));
  if (!less)
    for (u32 i = 0u; i < by; i++)
      xg_program_write(m, none, false, XG_PROGRAM_FRAMES * XG_PROGRAM_STACK + m.end + i, 1u, u64(0));
  m.end += by;
  return u64(0);
}

/* An array's value, 0: there is none of that key. */
XG_SELDOM u64 xg_program_look_up(XG_INOUT(xg_program_machine) m, xg_words maps, u32 map_count,
                                 xg_words values) {
  const u32 map = u32(m.r[1] >> 32) - XG_PROGRAM_MAPS;
  if (map >= map_count || (m.r[1] & u64(0xffffffffu)) != u64(0)) {
    m.fault = XG_PROGRAM_WRONG_MAP;
    return u64(0);
  }
  const u32 key = u32(xg_program_load(m, maps, map_count, values, m.r[2], 4u));
  if (key >= maps.v[map * 4u]) return u64(0);
  return xg_program_pointer(XG_PROGRAM_VALUES + map,
                            key * maps.v[map * 4u + 1u] + m.queue * maps.v[map * 4u + 3u]);
}
XG_SELDOM u64 xg_program_update(XG_INOUT(xg_program_machine) m, xg_words maps, u32 map_count,
                                xg_words values) {
  const u64 flags = m.r[4];
  const u64 place = xg_program_look_up(m, maps, map_count, values);
  if (m.fault != 0u) return u64(0);
  const u32 map = u32(m.r[1] >> 32) - XG_PROGRAM_MAPS;
  /* Values are whole words: that is a condition for a map to be here. */
  const u32 bytes = maps.v[map * 4u + 1u];
  bool from_map = false, to_map = false;
  u32 from = 0u, to = 0u;
  if (!xg_program_find(m, maps, map_count, m.r[3], bytes, false, from_map, from)) return u64(0);
  m.steps += bytes / 8u;
  if ((flags & ~u64(XG_PROGRAM_LOCK)) > u64(2)) return xg_program_error(XG_PROGRAM_EINVAL);
  if (place == u64(0)) return xg_program_error(XG_PROGRAM_E2BIG);
  if ((flags & u64(1)) != u64(0)) return xg_program_error(XG_PROGRAM_EEXIST);
  if ((flags & u64(XG_PROGRAM_LOCK)) != u64(0)) return xg_program_error(XG_PROGRAM_EINVAL);
  if (!xg_program_find(m, maps, map_count, place, bytes, true, to_map, to)) return u64(0);
  for (u32 i = 0u; i < bytes; i += 4u)
    xg_program_write(m, values, to_map, to + i, 4u, xg_program_read(m, values, from_map, from + i, 4u));
  return u64(0);
}

XG_FN u64 xg_program_help(XG_INOUT(xg_program_machine) m, xg_words maps, u32 map_count, xg_words values,
                          u32 operation) {
  const u32 by = u32(m.r[2] & u64(0xffffffffu));
  if (operation == XG_PROGRAM_LOOK_UP) return xg_program_look_up(m, maps, map_count, values);
  if (operation == XG_PROGRAM_UPDATE) return xg_program_update(m, maps, map_count, values);
  if (operation == XG_PROGRAM_CSUM_DIFF) return xg_program_csum_diff(m, maps, map_count, values);
  if (operation == XG_PROGRAM_TIME) return m.time;
  if (operation == XG_PROGRAM_RANDOM) return u64(m.random);
  if (operation == XG_PROGRAM_QUEUE) return u64(m.queue);
  if (m.r[1] != xg_program_pointer(XG_PROGRAM_CONTEXT, 0u)) {
    m.fault = XG_PROGRAM_OUT_OF_BOUNDS;
    return u64(0);
  }
  if (operation == XG_PROGRAM_ADJUST_HEAD) return xg_program_adjust_head(m, by);
  if (operation == XG_PROGRAM_ADJUST_META) return xg_program_adjust_meta(m, by);
  return xg_program_adjust_tail(m, by);
}

XG_FN void xg_program_forget(XG_INOUT(xg_program_machine) m) {
  for (u32 i = 1u; i < 6u; i++) m.r[i] = u64(0);
}

/* A function begins: it has a stack, all 0. */
XG_FN void xg_program_enter(XG_INOUT(xg_program_machine) m) {
  const u32 first = m.frames * (XG_PROGRAM_STACK / 4u);
  for (u32 i = 0u; i < XG_PROGRAM_STACK / 4u; i++) m.memory[first + i] = 0u;
  m.r[10] = xg_program_pointer(XG_PROGRAM_STACKS + m.frames, XG_PROGRAM_STACK);
  m.frames++;
}

/* Runs it for the packet in the machine's memory, of which `meta`, `data`, `end`, `time`, `random`, `queue`,
 * `ingress` and `egress` are set. R0 is the action, where `fault` is 0. `values`: the maps' memory. */
XG_FN void xg_program_run(xg_words code, xg_words maps, u32 map_count, xg_words values,
                          XG_INOUT(xg_program_machine) m) {
  for (u32 i = 0u; i < 11u; i++) m.r[i] = u64(0);
  m.r[1] = xg_program_pointer(XG_PROGRAM_CONTEXT, 0u);
  m.next = 0u;
  m.frames = 0u;
  m.steps = 0u;
  m.fault = 0u;
  xg_program_enter(m);
  while (m.frames != 0u && m.fault == 0u) {
    m.steps++;
    if (m.steps > XG_PROGRAM_STEPS) {
      m.fault = XG_PROGRAM_TOO_MANY_STEPS;
      return;
    }
    const u32 at = m.next * 4u;
    const u32 flags = code.v[at], what = code.v[at + 1u];
    const u32 operation = flags & 0xffu, d = (flags >> 8) & 15u, s = (flags >> 12) & 15u;
    const u64 immediate = (u64(code.v[at + 3u]) << 32) | u64(code.v[at + 2u]);
    const u64 operand = (flags & XG_PROGRAM_X) != 0u ? m.r[s] : immediate;
    const u32 bytes = 1u << ((flags >> 16) & 3u);
    const u64 offset = xg_program_signed(u64(what), 32u);
    m.next++;
    if (operation < XG_PROGRAM_JEQ) {
      m.r[d] = xg_program_computed(operation, flags, what, m.r[d], operand);
    } else if (operation <= XG_PROGRAM_JA) {
      if (xg_program_holds(operation, flags, m.r[d], operand)) m.next = what;
    } else if (operation == XG_PROGRAM_LOAD) {
      const u64 value = xg_program_load(m, maps, map_count, values, m.r[s] + offset, bytes);
      m.r[d] = (flags & XG_PROGRAM_SIGNED) != 0u ? xg_program_signed(value, bytes * 8u) : value;
    } else if (operation == XG_PROGRAM_STORE) {
      xg_program_store(m, maps, map_count, values, m.r[d] + offset, bytes, operand);
    } else if (operation == XG_PROGRAM_ATOMIC) {
      const u32 change = u32(immediate & u64(0xffu));
      const u64 before = xg_program_load(m, maps, map_count, values, m.r[d] + offset, bytes);
      const u64 after = xg_program_changed(change, before, m.r[s], xg_program_cut(m.r[0], bytes * 8u));
      if (m.fault == 0u) xg_program_store(m, maps, map_count, values, m.r[d] + offset, bytes, after);
      if ((change & 0xf0u) == 0xf0u)
        m.r[0] = before;
      else if ((change & 1u) != 0u)
        m.r[s] = before;
    } else if (operation == XG_PROGRAM_NUMBER) {
      m.r[d] = immediate;
      m.next++; /* its second half, which is no instruction */
    } else if (operation == XG_PROGRAM_CALL) {
      if (m.frames == XG_PROGRAM_FRAMES) {
        m.fault = XG_PROGRAM_TOO_MANY_CALLS;
        return;
      }
      m.return_to[m.frames] = m.next;
      for (u32 i = 0u; i < 4u; i++) m.saved[m.frames * 4u + i] = m.r[6u + i];
      xg_program_enter(m);
      m.next = what;
    } else if (operation == XG_PROGRAM_EXIT) {
      m.frames--;
      if (m.frames != 0u) {
        for (u32 i = 0u; i < 4u; i++) m.r[6u + i] = m.saved[m.frames * 4u + i];
        m.r[10] = xg_program_pointer(XG_PROGRAM_STACKS + m.frames - 1u, XG_PROGRAM_STACK);
        m.next = m.return_to[m.frames];
        xg_program_forget(m);
      }
    } else {
      m.r[0] = xg_program_help(m, maps, map_count, values, operation);
      xg_program_forget(m);
    }
  }
}

#endif
