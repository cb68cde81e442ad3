/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/program/turn.h: an instruction of an XDP program, for compilers that put a function's text
 * wherever it is called (GLSL). What it does is what gpu/stages/program_code.h says, in another order: each
 * function that is long is called at one place, and a machine's arrays stand in memory (xg_program_own).
 *
 * With XG_PROGRAM_IN_ORDER for all programs of the stage `program`; else for those that change no map, which
 * make no use of what changes one.
 *
 * An instruction may take several turns. One that writes to lines of the packet that the machine does not
 * have yet takes one of them in a turn. Where metadata move along with the packet's head, or a longer tail is
 * made 0, or an event is put out or reserved, a turn writes a word or two (m.moved). Until it is through it
 * is the next one again, and counts once.
 */
#ifndef XDPGPU_STAGES_PROGRAM_TURN_H
#define XDPGPU_STAGES_PROGRAM_TURN_H

#include "gpu/stages/program_helpers.h"

#define XG_PROGRAM_NOWHERE 16u

/* What a map has under a key; an update; a deletion; a redirect by it: a helper's R0. */
u64 xg_program_map_call(u32 which_machine, u32 operation) {
  u32 map = 0u;
  if (!xg_program_map_at(XG_PROGRAM_IT, m.own.r[1], map)) return u64(0);
  const u32 type = xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_TYPE);
  const u32 flags = xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_FLAGS);
  const bool redirects = operation == XG_PROGRAM_REDIRECT_MAP, erases = operation == XG_PROGRAM_ERASE;
  const bool looks = operation == XG_PROGRAM_LOOK_UP || redirects;
  const u32 where = xg_program_is_of_devices(type) ? XG_PROGRAM_BROADCAST | XG_PROGRAM_EXCLUDE_INGRESS : 0u;
  const u32 wanted = redirects ? xg_program_low(m.own.r[3]) : 0u;
  const bool broadcasts = (wanted & XG_PROGRAM_BROADCAST) != 0u;
  if (redirects) {
    if (!xg_program_redirects_by(type)) m.fault = XG_PROGRAM_WRONG_MAP;
  } else if (looks) {
    if (!xg_program_gives_values(type)) m.fault = XG_PROGRAM_WRONG_MAP;
  } else if ((flags & XG_PROGRAM_NOT_FOR_UPDATES) != 0u) {
    m.fault = XG_PROGRAM_WRONG_MAP;
  } else if ((flags & XG_PROGRAM_VALUES_READ_ONLY) != 0u) {
    m.fault = XG_PROGRAM_READ_ONLY;
  }
  /* The lower two bits: the action where nothing is found. */
  if (m.fault != 0u || (redirects && (m.own.r[3] & ~u64(3u | where)) != u64(0))) return u64(0);
  /* The key, and what an update puts there. */
  xg_program_place key_place, value;
  const bool has_value = !looks && !erases;
  for (u32 i = redirects ? 1u : 0u; i < (has_value ? 2u : 1u); i++) {
    XG_PROGRAM_TURN();
    key_place = value;
    if (!xg_program_buffer(XG_PROGRAM_IT, m.own.r[2u + i],
                           xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_KEY + i), value))
      return u64(0);
  }
  if (!has_value) key_place = value;
  const u32 entries = xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_ENTRIES);
  const u32 header = xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_HEADER);
  xg_program_key key = xg_program_number_key(xg_program_low(m.own.r[2]));
  if (!redirects) key = xg_program_key_of(XG_PROGRAM_IT, map, key_place);
  const bool is_table = xg_program_is_table(type);

  u64 answer = u64(0);
  bool puts = false; /* the value into slot `slot` - 1 */
  u32 slot = 0u;
  if (is_table) {
    const bool of_prefixes = type == XG_PROGRAM_TRIE, of_devices = type == XG_PROGRAM_DEVMAP_HASH;
    const u32 longest = of_prefixes ? xg_program_longest(key) : 0u;
    const bool scans = looks && of_prefixes;
    xg_program_key sought = key;
    xg_program_found found;
    found.slot = 0u;
    found.hash = 0u;
    u32 bit = longest - key.first; /* of a trie's lengths, the longest one's first */
    bool seeks = !broadcasts;
    if (of_prefixes && key.first > longest) {
      seeks = false;
      if (!looks) answer = xg_program_error(XG_PROGRAM_EINVAL);
    }
#ifdef XG_PROGRAM_IN_ORDER
    u32 bucket = 0u, hash = 0u;
    bool inserts = false, evicts = false;
    const u64 how = m.own.r[4];
    if (has_value && (how > u64(XG_PROGRAM_EXIST) ||
                      (of_devices && xg_program_read(XG_PROGRAM_IT, value, 4u) == u64(0)))) {
      seeks = false;
      answer = xg_program_error(XG_PROGRAM_EINVAL);
    }
#endif
    while (seeks) {
      XG_PROGRAM_TURN();
      bool is_there = true;
      if (scans) {
        /* The next length that some prefix has. */
        is_there = false;
        if ((bit >> 5) > (longest >> 5)) break;
        u32 bits = m.state.v[header + XG_PROGRAM_LENGTHS + longest + 1u + (bit >> 5)] & (~0u << (bit & 31u));
        bit = bit & ~31u;
        if (bits == 0u) {
          bit += 32u;
        } else {
          is_there = true;
          bit += XG_LOWEST_BIT(bits);
          sought.first = longest - bit;
          bit++;
        }
      }
      if (!is_there) continue;
      found = xg_program_seek(XG_PROGRAM_IT, map, sought);
      if (scans && found.slot == 0u) continue;
      seeks = false;
#ifdef XG_PROGRAM_IN_ORDER
      if (!has_value || evicts) break;
      bucket = found.bucket;
      hash = found.hash;
      slot = found.slot;
      if (slot != 0u && how == u64(XG_PROGRAM_NOEXIST)) {
        answer = xg_program_error(XG_PROGRAM_EEXIST);
      } else if (slot == 0u && how == u64(XG_PROGRAM_EXIST) && !of_devices) {
        answer = xg_program_error(XG_PROGRAM_ENOENT);
      } else if (slot != 0u && type == XG_PROGRAM_PERCPU_HASH) {
        puts = true;
      } else if (slot != 0u) {
        inserts = true;
      } else {
        const u32 shard = xg_program_shard(XG_PROGRAM_IT, map, hash);
        const bool is_full = m.state.v[xg_program_header(XG_PROGRAM_IT, map, shard) + XG_PROGRAM_USED] >=
                             xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_SHARD_ENTRIES);
        if (is_full && of_prefixes) {
          answer = xg_program_error(XG_PROGRAM_ENOSPC);
        } else if (is_full && type != XG_PROGRAM_LRU_HASH) {
          answer = xg_program_error(XG_PROGRAM_E2BIG);
        } else if (found.chain >= XG_PROGRAM_CHAIN) {
          answer = xg_program_error(XG_PROGRAM_ENOMEM);
        } else {
          inserts = true;
          u32 oldest = 0u;
          if (is_full && type == XG_PROGRAM_LRU_HASH) oldest = xg_program_oldest(XG_PROGRAM_IT, map, shard);
          if (oldest != 0u) {
            /* The element that was used before all others gives way. */
            evicts = true;
            seeks = true;
            xg_program_place at;
            at.memory = XG_PROGRAM_IN_STATE;
            at.at = (oldest + XG_PROGRAM_ELEMENT_KEY) * 4u;
            sought = xg_program_key_of(XG_PROGRAM_IT, map, at);
          }
        }
      }
#endif
    }
    if (looks) slot = found.slot;
#ifdef XG_PROGRAM_IN_ORDER
    if (looks && slot != 0u && type == XG_PROGRAM_LRU_HASH) {
      xg_program_use(XG_PROGRAM_IT, map, slot - 1u);
    }
    m.key_hash = has_value ? hash : found.hash;
    if ((erases || inserts) && found.slot != 0u) xg_program_remove(XG_PROGRAM_IT, map, found);
    if (erases && found.slot == 0u && answer == u64(0)) answer = xg_program_error(XG_PROGRAM_ENOENT);
    if (inserts) {
      slot = xg_program_insert(XG_PROGRAM_IT, map, key, hash, bucket);
      puts = slot != 0u;
      if (!puts) answer = xg_program_error(XG_PROGRAM_ENOMEM);
    }
#endif
  } else {
    const u32 index = key.first;
    const bool is_there = index < entries;
    const bool is_array = type == XG_PROGRAM_ARRAY || type == XG_PROGRAM_PERCPU_ARRAY;
    const u32 at = is_there ? xg_program_value_at(XG_PROGRAM_IT, map, index) : 0u;
    const u32 word = m.state.v[at];
    if (looks) {
      if (is_there && (is_array || word != 0u)) slot = index + 1u;
    }
#ifdef XG_PROGRAM_IN_ORDER
    else if (erases) {
      if (is_array) {
        answer = xg_program_error(XG_PROGRAM_EINVAL);
      } else if (!is_there) {
        answer = xg_program_error(type == XG_PROGRAM_DEVMAP     ? XG_PROGRAM_EINVAL
                                  : type == XG_PROGRAM_PROGRAMS ? XG_PROGRAM_E2BIG
                                                                : XG_PROGRAM_ENOENT);
      } else {
        m.state.v[at] = 0u;
        m.state.v[at + 1u] = 0u;
        if (word == 0u && type != XG_PROGRAM_DEVMAP) answer = xg_program_error(XG_PROGRAM_ENOENT);
      }
    } else {
      const u64 how = m.own.r[4];
      const u64 others = is_array ? how & ~u64(XG_PROGRAM_LOCK) : how;
      if (type == XG_PROGRAM_ARRAY_OF_MAPS || others > u64(XG_PROGRAM_EXIST) ||
          (type == XG_PROGRAM_PROGRAMS && how != u64(0)))
        answer = xg_program_error(XG_PROGRAM_EINVAL);
      else if (!is_there)
        answer = xg_program_error(XG_PROGRAM_E2BIG);
      else if ((how & u64(XG_PROGRAM_NOEXIST)) != u64(0))
        answer = xg_program_error(XG_PROGRAM_EEXIST);
      else if (is_array && (how & u64(XG_PROGRAM_LOCK)) != u64(0))
        answer = xg_program_error(XG_PROGRAM_EINVAL);
      else if (type == XG_PROGRAM_PROGRAMS)
        m.state.v[at] = xg_program_low(xg_program_read(XG_PROGRAM_IT, value, 4u)) + 1u;
      else {
        puts = true;
        slot = index + 1u;
      }
    }
#endif
  }
  const u32 of_queue = slot - 1u + xg_program_queue_slots(XG_PROGRAM_IT, map);
#ifdef XG_PROGRAM_IN_ORDER
  if (puts) xg_program_set_value(XG_PROGRAM_IT, map, of_queue, value);
#endif
  if (looks && slot != 0u) answer = xg_program_value(XG_PROGRAM_IT, map, of_queue);
  if (looks && slot != 0u && type == XG_PROGRAM_ARRAY_OF_MAPS)
    answer = xg_program_pointer(
        XG_PROGRAM_MAPS + m.state.v[xg_program_value_at(XG_PROGRAM_IT, map, slot - 1u)] - 1u, 0u);
  if (!redirects) return answer;
  u32 ifindex = 0u;
  if (!broadcasts && slot != 0u) ifindex = m.state.v[xg_program_value_at(XG_PROGRAM_IT, map, slot - 1u)];
  if (!broadcasts && ifindex == 0u) {
    /* Of an earlier call the number stays, as an interface's. */
    if (m.redirect_to >= 2u) m.redirect_ifindex = m.redirect_key;
    if (m.redirect_to != 0u) m.redirect_to = 1u;
    m.redirect_key = 0u;
    m.redirect_flags = 0u;
    return u64(wanted & 3u);
  }
  m.redirect_to = type == XG_PROGRAM_CPUMAP ? XG_PROGRAM_TO_PROCESSOR : 2u;
  m.redirect_key = xg_program_low(m.own.r[2]);
  m.redirect_ifindex = ifindex;
  m.redirect_flags = broadcasts ? wanted & where : 0u;
  return u64(XG_PROGRAM_REDIRECTED);
}

/* The sums of bpf_csum_diff, as gpu/stages/program_helpers.h has them. */
u64 xg_program_difference(u32 which_machine) {
  const u32 from = xg_program_low(m.own.r[2]), to = xg_program_low(m.own.r[4]);
  const u32 seed = xg_program_low(m.own.r[5]);
  u32 taken = 0u, sum = seed;
  for (u32 i = 0u; i < 2u; i++) {
    XG_PROGRAM_TURN();
    const u32 bytes = i == 0u ? from : to;
    xg_program_place place;
    u32 part = i == 0u ? (to == 0u ? ~seed : 0u) : seed;
    if (bytes != 0u && m.fault == 0u &&
        xg_program_find(XG_PROGRAM_IT, m.own.r[i == 0u ? 1u : 3u], bytes, false, place)) {
      m.steps += bytes / 8u;
      /* Of one that takes more steps than there are, nobody asks for the sum. */
      for (u32 done = 0u; done < bytes && m.steps <= m.most_steps; done += 4u) {
        XG_PROGRAM_TURN();
        const u32 count = bytes - done < 4u ? bytes - done : 4u;
        part = xg_program_added(part, xg_program_low(xg_program_read(XG_PROGRAM_IT, place, count)));
        place.at += 4u;
      }
    }
    if (i == 0u)
      taken = part;
    else
      sum = part;
  }
  if (from != 0u) sum = to != 0u ? xg_program_added(sum, ~taken) : ~taken;
  sum = (sum & 0xffffu) + (sum >> 16);
  sum = (sum & 0xffffu) + (sum >> 16);
  return u64(sum);
}

/* The last function is at its beginning: it has a stack, all 0, as large as it needs. */
void xg_program_begins(u32 which_machine) {
  const u32 last = m.frames - 1u;
  u32 from = 0u;
  if (last != 0u) from = m.own.stack_from[last - 1u] + m.own.stack_bytes[last - 1u];
  u32 bytes = ((m.code.v[m.next * 4u] >> 24) & 0x7fu) * 8u;
  if (bytes > XG_PROGRAM_STACK_BYTES - from) bytes = XG_PROGRAM_STACK_BYTES - from;
  m.own.stack_from[last] = from;
  m.own.stack_bytes[last] = bytes;
  for (u32 i = 0u; i < bytes / 4u; i += 2u) {
    XG_PROGRAM_TURN();
    m.own.stack[from / 4u + i] = 0u;
    m.own.stack[from / 4u + i + 1u] = 0u;
  }
}

/* What an instruction does to memory in a turn: `bytes` are read, those are written. */
struct xg_program_access {
  xg_program_place from, to;
  u32 bytes; /* 0: none; up to 8 */
  bool reads, writes;
  bool takes; /* lines of the packet that are written to; else only those are that the machine has */
  bool waits; /* it has taken one, and has not written yet */
};

/* What is read. Where a line has to be taken, only that is done. */
u64 xg_program_fetch(u32 which_machine, inout xg_program_access a) {
  u32 line = a.to.at / XG_PROGRAM_LINE_BYTES;
  if (xg_program_own_line(XG_PROGRAM_IT, line) != 0u) line = (a.to.at + a.bytes - 1u) / XG_PROGRAM_LINE_BYTES;
  a.waits = a.bytes != 0u && a.takes && a.writes && a.to.memory == XG_PROGRAM_IN_FRAME &&
            xg_program_own_line(XG_PROGRAM_IT, line) == 0u;
  u32 pieces = a.bytes != 0u && a.reads ? 1u : 0u, bytes = a.bytes;
  if (a.waits) {
    if (m.lines_used >= m.most_lines || m.lines_used >= XG_PROGRAM_LINES) {
      m.fault = m.most_lines == 0u ? XG_PROGRAM_WRITES_PACKET : XG_PROGRAM_TOO_MUCH_WRITTEN;
      return u64(0);
    }
    a.from.memory = XG_PROGRAM_IN_FRAME;
    a.from.at = line * XG_PROGRAM_LINE_BYTES - XG_PROGRAM_MARGIN;
    bytes = 8u;
    pieces = XG_PROGRAM_WIDE_LINE / 8u;
  }
  u64 value = u64(0);
  for (u32 i = 0u; i < pieces; i++) {
    value = xg_program_read(XG_PROGRAM_IT, a.from, bytes);
    if (a.waits) {
      XG_PROGRAM_TURN();
      m.own.lines[m.lines_used * (XG_PROGRAM_WIDE_LINE / 8u) + i] = value;
      a.from.at += 8u;
    }
  }
  if (a.waits) {
    m.line_numbers ^= (0xffu ^ line) << (m.lines_used * 8u);
    m.lines_used++;
  }
  return value;
}

/* What is written. Of the packet it stands in each of the machine's lines that have it, or have it in a
 * margin: two at most. */
void xg_program_put_back(u32 which_machine, xg_program_access a, u64 value) {
  if (a.bytes == 0u || !a.writes || a.waits) return;
  const bool of_packet = a.to.memory == XG_PROGRAM_IN_FRAME;
  const u32 begin = of_packet ? (a.to.at - XG_PROGRAM_MARGIN) / XG_PROGRAM_LINE_BYTES : 0u;
  const u32 last = of_packet ? (a.to.at + a.bytes + XG_PROGRAM_MARGIN - 1u) / XG_PROGRAM_LINE_BYTES : 0u;
  for (u32 line = begin; line <= last; line++) {
    u64 address = xg_program_address_of(XG_PROGRAM_IT, a.to);
    u32 bytes = a.bytes, skips = 0u;
    if (of_packet) {
      const u32 own = xg_program_own_line(XG_PROGRAM_IT, line);
      u32 at = a.to.at + XG_PROGRAM_MARGIN - line * XG_PROGRAM_LINE_BYTES;
      if ((at & 0x80000000u) != 0u) skips = 0u - at;
      at += skips;
      bytes -= skips;
      if (bytes > XG_PROGRAM_WIDE_LINE - at) bytes = XG_PROGRAM_WIDE_LINE - at;
      if (own == 0u) bytes = 0u;
      address = xg_program_line_address(XG_PROGRAM_IT, own) + u64(at);
    }
    xg_program_write_at(address, bytes, value >> (skips * 8u));
  }
}

/* A turn of what moves the packet's head, metadata or tail: R0, where it is through; else what it writes. */
u64 xg_program_move(u32 which_machine, u32 operation, inout xg_program_access a) {
  const u32 by = xg_program_low(m.own.r[2]), metadata = m.data - m.meta;
  const bool less = (by & 0x80000000u) != 0u, is_head = operation == XG_PROGRAM_ADJUST_HEAD;
  if (m.own.r[1] != xg_program_pointer(XG_PROGRAM_CONTEXT, 0u)) {
    m.fault = XG_PROGRAM_OUT_OF_BOUNDS;
    return u64(0);
  }
  if (operation == XG_PROGRAM_ADJUST_META) return xg_program_adjust_meta(XG_PROGRAM_IT, by);
  if (is_head ? !xg_program_moves_head(XG_PROGRAM_IT, by) : !xg_program_moves_tail(XG_PROGRAM_IT, by))
    return xg_program_error(XG_PROGRAM_EINVAL);
  /* Metadata move upwards the last ones first: they are where others come. Behind the tail, only the
   * machine's own lines have anything but 0. */
  const u32 all = is_head ? metadata : !less && m.lines_used != 0u ? by : 0u;
  if (m.moved < all) {
    a.bytes = is_head ? 4u : all - m.moved < 8u ? all - m.moved : 8u;
    a.reads = is_head;
    a.writes = true;
    a.takes = is_head;
    a.from.memory = XG_PROGRAM_IN_FRAME;
    a.from.at = m.meta + (less ? m.moved : metadata - 4u - m.moved);
    a.to.memory = XG_PROGRAM_IN_FRAME;
    a.to.at = is_head ? a.from.at + by : m.end + m.moved;
    return u64(0);
  }
  m.moved = 0u;
  if (is_head) {
    m.data += by;
    m.meta += by;
    m.steps += metadata / 8u;
  } else {
    m.end += by;
    if (m.end < m.last) m.last = m.end;
    if (!less) m.steps += by / 8u;
  }
  return u64(0);
}

/* A turn of what puts out so many bytes, which stand from a.from on, or of what reserves them: R0, where it
 * is through; else what it writes. */
u64 xg_program_put_out(u32 which_machine, u32 operation, u32 map, u32 size, inout xg_program_access a) {
  const bool reserves = operation == XG_PROGRAM_RESERVE;
  const u32 bytes = reserves ? xg_program_low(m.own.r[2]) : size;
  u32 asked = 0u;
  u64 answer = u64(0);
  if (!reserves)
    answer = xg_program_output_answer(XG_PROGRAM_IT, operation, map, bytes, asked);
  else if (!xg_program_may_reserve(XG_PROGRAM_IT))
    return u64(0);
  if (answer == u64(0) && m.moved < bytes) {
    a.bytes = bytes - m.moved < 8u ? bytes - m.moved : 8u;
    a.reads = !reserves;
    a.writes = true;
    a.from.at += m.moved;
    a.to.memory = XG_PROGRAM_IN_EVENT;
    a.to.at = 16u + m.moved;
    return u64(0);
  }
  m.moved = 0u;
  m.steps += bytes / 8u;
  if (answer != u64(0)) return answer;
  if (reserves) {
    m.record = XG_PROGRAM_HAS_RECORD | bytes << 16 | map;
    return xg_program_pointer(XG_PROGRAM_RECORD, 0u);
  }
  m.has_event = 1u;
  m.event.v[0] = XG_QUAD(map | bytes << 16, asked, 0u, 0u);
  return u64(0);
}
/* Of what is reserved, which stands there already. */
void xg_program_leave_record(u32 which_machine, bool submits) {
  if (!xg_program_is_record(XG_PROGRAM_IT)) return;
  const u32 record = m.record;
  m.record = 0u;
  if (!submits) return;
  m.has_event = 1u;
  m.steps += XG_PROGRAM_RECORD_BYTES(record) / 8u;
  m.event.v[0] = XG_QUAD(XG_PROGRAM_RECORD_MAP(record) | XG_PROGRAM_RECORD_BYTES(record) << 16, 0u, 0u, 0u);
}

/* The next instruction. Where a function begins with the one behind it, xg_program_begins() has to follow. */
void xg_program_turn(u32 which_machine) {
  m.steps++;
  if (m.steps > m.most_steps) {
    m.fault = XG_PROGRAM_TOO_MANY_STEPS;
    return;
  }
  const u32 at = m.next * 4u;
  const u32 flags = m.code.v[at], what = m.code.v[at + 1u];
  const u32 d = (flags >> 8) & 15u, s = (flags >> 12) & 15u;
  u32 operation = flags & 0xffu;
  const u64 immediate = (u64(m.code.v[at + 3u]) << 32) | u64(m.code.v[at + 2u]);
  const u64 r_d = m.own.r[d], r_s = m.own.r[s], r_0 = m.own.r[0];
  const u64 operand = (flags & XG_PROGRAM_X) != 0u ? r_s : immediate;
  const u32 bytes = 1u << ((flags >> 16) & 3u);
  m.next++;
#ifdef XG_PROGRAM_IN_ORDER
  /* One packet after the other, a count is what it was before it was known to be one. */
  if (operation == XG_PROGRAM_LOAD_COUNT) operation = XG_PROGRAM_LOAD;
  if (operation == XG_PROGRAM_ADD_UP) operation = XG_PROGRAM_STORE;
  if (operation == XG_PROGRAM_ADD_TO) operation = XG_PROGRAM_ATOMIC;
#endif
  u32 to = XG_PROGRAM_NOWHERE; /* which register gets the result */
  u64 result = u64(0);
  bool forgets = false, begins = false; /* registers 1 to 5; a function */
  u64 first = u64(0), second = u64(0);  /* R1 and R2 after that */
  const bool loads = operation == XG_PROGRAM_LOAD, is_atomic = operation == XG_PROGRAM_ATOMIC;
  xg_program_access a;
  a.bytes = 0u;
  a.takes = false;
  const bool reserves = operation == XG_PROGRAM_RESERVE;
  const bool puts_out =
      operation == XG_PROGRAM_PERF_OUTPUT || operation == XG_PROGRAM_RING_OUTPUT || reserves;

  if (operation < XG_PROGRAM_JEQ) {
    to = d;
    result = xg_program_computed(operation, flags, what, r_d, operand);
  } else if (operation <= XG_PROGRAM_JA) {
    if (xg_program_holds(operation, flags, r_d, operand)) m.next = what;
  } else if (operation <= XG_PROGRAM_ATOMIC || puts_out) {
    u64 address = (loads ? r_s : r_d) + xg_program_signed(u64(what), 32u);
    u32 size = bytes, map = 0u;
    if (puts_out) {
      /* A helper's buffer, as a whole. */
      const u32 first_of = operation == XG_PROGRAM_RING_OUTPUT ? 2u : 4u;
      address = m.own.r[first_of];
      size = xg_program_low(m.own.r[first_of + 1u]);
      to = 0u;
      forgets = true;
      if (!xg_program_output_map(XG_PROGRAM_IT, operation, map) || reserves) size = 0u;
    }
    const u32 offset = xg_program_low(address);
    if (!puts_out && u32(address >> 32) == XG_PROGRAM_CONTEXT && operation != XG_PROGRAM_STORE &&
        bytes == 4u && offset <= 20u && (offset & 3u) == 0u) {
      if (is_atomic) m.fault = XG_PROGRAM_READ_ONLY;
      to = d;
      if (offset == 0u) result = xg_program_pointer(XG_PROGRAM_PACKET, m.data);
      if (offset == 4u) result = xg_program_pointer(XG_PROGRAM_PACKET, m.end);
      if (offset == 8u) result = xg_program_pointer(XG_PROGRAM_PACKET, m.meta);
      if (offset == 12u) result = u64(m.ingress);
      if (offset == 16u) result = u64(m.queue);
      if (offset == 20u) result = u64(m.egress);
      if ((flags & XG_PROGRAM_SIGNED) != 0u) result = xg_program_signed(result, 32u);
    } else {
      /* What is written has to be read, too: but for where it may not be written, both say the same. */
      if (size != 0u && xg_program_find(XG_PROGRAM_IT, address, size, !loads && !puts_out, a.to)) {
        a.from = a.to;
      }
      if (puts_out) {
        if (m.fault == 0u) result = xg_program_put_out(XG_PROGRAM_IT, operation, map, size, a);
      } else if (m.fault == 0u) {
        a.bytes = bytes;
        a.reads = operation != XG_PROGRAM_STORE;
        a.writes = !loads;
        a.takes = true;
      } else if (is_atomic && m.fault == XG_PROGRAM_READ_ONLY && u32(address >> 32) == XG_PROGRAM_CONTEXT) {
        m.fault = XG_PROGRAM_OUT_OF_BOUNDS;
      }
    }
  } else if (operation == XG_PROGRAM_NUMBER) {
    to = d;
    result = immediate;
    m.next++;
  } else if (operation == XG_PROGRAM_CALL || operation == XG_PROGRAM_EXIT || operation == XG_PROGRAM_LOOP) {
    u32 last = m.frames - 1u;
    bool enters = operation == XG_PROGRAM_CALL, turns = false;
    u32 function = what;
    u64 all_turns = u64(0), context = u64(0);
    if (operation == XG_PROGRAM_LOOP) {
      const u64 pointer = m.own.r[2], r_4 = m.own.r[4];
      all_turns = m.own.r[1];
      context = m.own.r[3];
      function = xg_program_low(pointer);
      if (u32(pointer >> 32) != XG_PROGRAM_FUNCTION ||
          function >= m.tables.v[XG_PROGRAM_TABLE_INSTRUCTIONS]) {
        m.fault = XG_PROGRAM_OUTSIDE;
      } else if (r_4 != u64(0) || all_turns > u64(XG_PROGRAM_LOOPS) || all_turns == u64(0)) {
        to = 0u;
        result = all_turns == u64(0) ? u64(0) : u64(0u - XG_PROGRAM_E2BIG);
        if (r_4 != u64(0)) result = xg_program_error(XG_PROGRAM_EINVAL);
        forgets = true;
      } else {
        enters = true;
      }
    }
    if (enters && m.frames == XG_PROGRAM_FRAMES) {
      m.fault = XG_PROGRAM_TOO_MANY_CALLS;
    } else if (enters) {
      last = m.frames;
      m.frames++;
      m.own.return_to[last] = m.next;
      m.own.loop_turns[last] = all_turns;
      m.own.loop_turn[last] = u64(0);
      m.own.loop_context[last] = context;
      m.own.loop_function[last] = function;
      for (u32 i = 0u; i < 4u; i++) m.own.saved[last * 4u + i] = m.own.r[6u + i];
      m.own.r[10] = xg_program_pointer(XG_PROGRAM_STACKS + last, XG_PROGRAM_STACK);
      begins = true;
      turns = operation == XG_PROGRAM_LOOP;
    } else if (operation == XG_PROGRAM_EXIT) {
      all_turns = m.own.loop_turns[last];
      const u64 turn = m.own.loop_turn[last] + u64(1);
      if (all_turns != u64(0)) {
        m.own.loop_turn[last] = turn;
        turns = r_0 == u64(0) && turn < all_turns;
      }
      if (turns) {
        function = m.own.loop_function[last];
        first = turn;
        context = m.own.loop_context[last];
        begins = true;
      } else {
        m.frames = last;
        if (last != 0u) {
          if (all_turns != u64(0)) {
            to = 0u;
            result = turn;
          }
          for (u32 i = 0u; i < 4u; i++) m.own.r[6u + i] = m.own.saved[last * 4u + i];
          m.own.r[10] = xg_program_pointer(XG_PROGRAM_STACKS + last - 1u, XG_PROGRAM_STACK);
          m.next = m.own.return_to[last];
          forgets = true;
        }
      }
    }
    if (turns) {
      forgets = true;
      second = context;
    }
    if (begins) m.next = function;
  } else if (operation == XG_PROGRAM_TAIL_CALL) {
    forgets = true;
    u32 map = 0u, program = 0u;
    const u32 index = xg_program_low(m.own.r[3]);
    if (xg_program_map_at(XG_PROGRAM_IT, m.own.r[2], map)) {
      if (xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_TYPE) != XG_PROGRAM_PROGRAMS)
        m.fault = XG_PROGRAM_WRONG_MAP;
      else if (m.own.r[1] != xg_program_pointer(XG_PROGRAM_CONTEXT, 0u))
        m.fault = XG_PROGRAM_OUT_OF_BOUNDS;
      else if (index < xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_ENTRIES) &&
               m.tails < XG_PROGRAM_TAIL_CALLS)
        program = m.state.v[xg_program_value_at(XG_PROGRAM_IT, map, index)];
    }
    if (program > m.tables.v[XG_PROGRAM_TABLE_PROGRAMS]) {
      m.fault = XG_PROGRAM_OUTSIDE;
    } else if (program != 0u) {
      m.tails++;
      first = xg_program_pointer(XG_PROGRAM_CONTEXT, 0u);
      begins = true;
      m.next = m.tables.v[m.tables.v[XG_PROGRAM_TABLE_FIRST] + program - 1u];
    }
  } else if (operation == XG_PROGRAM_NONE) {
    m.fault = XG_PROGRAM_UNKNOWN_INSTRUCTION;
  } else {
    to = 0u;
    forgets = true;
    if (operation <= XG_PROGRAM_ERASE || operation == XG_PROGRAM_REDIRECT_MAP)
      result = xg_program_map_call(XG_PROGRAM_IT, operation);
    if (operation >= XG_PROGRAM_ADJUST_HEAD && operation <= XG_PROGRAM_ADJUST_TAIL)
      result = xg_program_move(XG_PROGRAM_IT, operation, a);
    if (operation == XG_PROGRAM_FIB_LOOKUP) {
      if (m.own.r[1] != xg_program_pointer(XG_PROGRAM_CONTEXT, 0u))
        m.fault = XG_PROGRAM_OUT_OF_BOUNDS;
      else
        result = xg_program_fib_lookup(XG_PROGRAM_IT);
    }
    if (operation == XG_PROGRAM_SUBMIT || operation == XG_PROGRAM_DISCARD)
      xg_program_leave_record(XG_PROGRAM_IT, operation == XG_PROGRAM_SUBMIT);
    if (operation == XG_PROGRAM_CSUM_DIFF) result = xg_program_difference(XG_PROGRAM_IT);
    if (operation == XG_PROGRAM_TIME) result = m.time;
    if (operation == XG_PROGRAM_RANDOM) result = u64(m.random);
    if (operation == XG_PROGRAM_QUEUE) result = u64(m.queue);
    if (operation == XG_PROGRAM_REDIRECT && m.own.r[2] == u64(0)) {
      m.redirect_to = 1u;
      m.redirect_key = 0u;
      m.redirect_ifindex = xg_program_low(m.own.r[1]);
      m.redirect_flags = 0u;
      result = u64(XG_PROGRAM_REDIRECTED);
    }
  }
  const u64 before = xg_program_fetch(XG_PROGRAM_IT, a);
  if (m.fault != 0u) return;
  u64 after = operand;
  bool again = false;
  if (a.bytes != 0u) {
    if (loads) {
      to = d;
      result = (flags & XG_PROGRAM_SIGNED) != 0u ? xg_program_signed(before, bytes * 8u) : before;
    } else if (is_atomic) {
      const u32 change = xg_program_low(immediate) & 0xffu;
      after = xg_program_changed(change, before, r_s, xg_program_cut(r_0, bytes * 8u));
      result = before;
      if ((change & 0xf0u) == 0xf0u)
        to = 0u;
      else if ((change & 1u) != 0u)
        to = s;
    } else if (operation != XG_PROGRAM_STORE) {
      after = before;
      again = true;
      if (!a.waits) m.moved += a.bytes;
      /* Behind an event's last byte there is room, for zeros. */
      if (puts_out) a.bytes = 8u;
    }
    xg_program_put_back(XG_PROGRAM_IT, a, after);
  }
  if (again || a.waits) {
    m.next--;
    m.steps--;
    to = XG_PROGRAM_NOWHERE;
    forgets = false;
  }
  if (to != XG_PROGRAM_NOWHERE) m.own.r[to] = result;
  if (forgets) {
    m.own.r[1] = first;
    m.own.r[2] = second;
    for (u32 i = 3u; i < 6u; i++) m.own.r[i] = u64(0);
  }
  m.begins = begins ? 1u : 0u;
}

#endif
