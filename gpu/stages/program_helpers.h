/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/program_helpers.h: the helpers that XDP programs call, but for tail_call and loop, which change
 * where the program goes on. Of gpu/stages/program_code.h.
 */
#ifndef XDPGPU_STAGES_PROGRAM_HELPERS_H
#define XDPGPU_STAGES_PROGRAM_HELPERS_H

#include "gpu/stages/program_ahead.h"
#include "gpu/stages/program_routes.h"

XG_FN u32 xg_program_added(u32 a, u32 b) {
  const u32 sum = a + b;
  return sum + (sum < a ? 1u : 0u);
}
/* In ones' complement, of words from an address on; what is missing of the last one is 0. */
XG_SELDOM u32 xg_program_sum(XG_PROGRAM_MACHINE, u64 address, u32 bytes, u32 first) {
  xg_program_place place;
  u32 sum = first;
  if (bytes == 0u || m.fault != 0u || !xg_program_find(XG_PROGRAM_IT, address, bytes, false, place))
    return sum;
  m.steps += bytes / 8u;
  for (u32 done = 0u; done < bytes; done += 4u) {
    const u32 count = bytes - done < 4u ? bytes - done : 4u;
    sum = xg_program_added(sum, xg_program_low(xg_program_read(XG_PROGRAM_IT, place, count)));
    place.at += 4u;
  }
  return sum;
}
XG_SELDOM u64 xg_program_csum_diff(XG_PROGRAM_MACHINE) {
  const u32 from = xg_program_low(XG_PROGRAM_OWN.r[2]), to = xg_program_low(XG_PROGRAM_OWN.r[4]);
  u32 sum = xg_program_low(XG_PROGRAM_OWN.r[5]);
  if (from != 0u && to != 0u) {
    const u32 taken = xg_program_sum(XG_PROGRAM_IT, XG_PROGRAM_OWN.r[1], from, 0u);
    sum = xg_program_added(xg_program_sum(XG_PROGRAM_IT, XG_PROGRAM_OWN.r[3], to, sum), ~taken);
  } else if (from != 0u) {
    sum = ~xg_program_sum(XG_PROGRAM_IT, XG_PROGRAM_OWN.r[1], from, ~sum);
  } else {
    sum = xg_program_sum(XG_PROGRAM_IT, XG_PROGRAM_OWN.r[3], to, sum);
  }
  sum = (sum & 0xffffu) + (sum >> 16);
  sum = (sum & 0xffffu) + (sum >> 16);
  return u64(sum);
}

/* `by`: with its sign, as 32 bits. A packet is never shorter than XG_PROGRAM_LEAST. */
/* Whether the metadata, moved by so much, would stand in what the kernel keeps of the headroom: there they
 * may stand as they come. */
XG_FN bool xg_program_is_beyond_headroom(XG_PROGRAM_MACHINE_READ, u32 by) {
  return ((by & 0x80000000u) != 0u && 0u - by > m.meta) || m.meta + by < XG_PROGRAM_KEPT;
}
XG_FN bool xg_program_moves_head(XG_PROGRAM_MACHINE_READ, u32 by) {
  return !xg_program_is_beyond_headroom(XG_PROGRAM_IT, by) &&
         ((by & 0x80000000u) != 0u || by <= m.end - XG_PROGRAM_LEAST - m.data);
}
XG_FN bool xg_program_moves_tail(XG_PROGRAM_MACHINE_READ, u32 by) {
  return (by & 0x80000000u) != 0u ? 0u - by <= m.end - m.data - XG_PROGRAM_LEAST
                                  : by <= XG_PROGRAM_FRAME - m.end;
}
XG_SELDOM u64 xg_program_adjust_meta(XG_PROGRAM_MACHINE, u32 by) {
  const bool less = (by & 0x80000000u) != 0u;
  if (xg_program_is_beyond_headroom(XG_PROGRAM_IT, by) || (!less && by > m.data - m.meta))
    return xg_program_error(XG_PROGRAM_EINVAL);
  const u32 metadata = m.data - (m.meta + by);
  if ((metadata & 3u) != 0u || metadata > XG_PROGRAM_MOST_METADATA)
    return xg_program_error(XG_PROGRAM_EACCES);
  m.meta += by;
  return u64(0);
}

#ifndef XG_PROGRAM_IN_BUFFER
XG_SELDOM u64 xg_program_adjust_head(XG_PROGRAM_MACHINE, u32 by) {
  const u32 metadata = m.data - m.meta;
  const bool less = (by & 0x80000000u) != 0u;
  if (!xg_program_moves_head(XG_PROGRAM_IT, by)) return xg_program_error(XG_PROGRAM_EINVAL);
  xg_program_place from, to;
  from.memory = XG_PROGRAM_IN_FRAME;
  to.memory = XG_PROGRAM_IN_FRAME;
  for (u32 i = 0u; i < metadata; i += 4u) {
    /* Upwards the last ones first: they are where others come. */
    from.at = m.meta + (less ? i : metadata - 4u - i);
    to.at = from.at + by;
    xg_program_write(XG_PROGRAM_IT, to, 4u, xg_program_read(XG_PROGRAM_IT, from, 4u));
  }
  m.data += by;
  m.meta += by;
  m.steps += metadata / 8u;
  return u64(0);
}
XG_SELDOM u64 xg_program_adjust_tail(XG_PROGRAM_MACHINE, u32 by) {
  const bool less = (by & 0x80000000u) != 0u;
  if (!xg_program_moves_tail(XG_PROGRAM_IT, by)) return xg_program_error(XG_PROGRAM_EINVAL);
  const u32 end = m.end + by;
  if (less) {
    /* What it grows by again is 0. */
    if (end < m.last) m.last = end;
  } else {
    /* Only the machine's own lines have anything else there. */
    xg_program_place place;
    place.memory = XG_PROGRAM_IN_FRAME;
    u32 at = m.end;
    while (at < end) {
      const u32 next = (at / 4u + 1u) * 4u < end ? (at / 4u + 1u) * 4u : end;
      place.at = at;
      if (xg_program_own_line(XG_PROGRAM_IT, at / (XG_PROGRAM_LINE_WORDS * 4u)) != 0u)
        xg_program_write(XG_PROGRAM_IT, place, next - at, u64(0));
      at = next;
    }
  }
  m.end = end;
  if (!less) m.steps += by / 8u;
  return u64(0);
}

#endif

/* A pointer to a map. False, with the fault: it is none. */
XG_FN bool xg_program_map_at(XG_PROGRAM_MACHINE, u64 pointer, XG_INOUT(u32) map) {
  map = u32(pointer >> 32) - XG_PROGRAM_MAPS;
  if (map < m.tables.v[XG_PROGRAM_TABLE_MAPS] && xg_program_low(pointer) == 0u) return true;
  m.fault = XG_PROGRAM_WRONG_MAP;
  return false;
}
/* A helper's buffer. */
XG_FN bool xg_program_buffer(XG_PROGRAM_MACHINE, u64 address, u32 bytes, XG_INOUT(xg_program_place) place) {
  m.steps += bytes / 8u;
  return xg_program_find(XG_PROGRAM_IT, address, bytes, false, place);
}

/* Whether there is room for an event of the packet's. */
XG_FN bool xg_program_has_room(XG_PROGRAM_MACHINE_READ) { return m.has_event == 0u && m.record == 0u; }
/* What a program that puts out so many bytes is answered, of a map of the right type; and how much of its
 * packet it asks for. 0: this is the packet's event. */
XG_FN u64 xg_program_output_answer(XG_PROGRAM_MACHINE_READ, u32 operation, u32 map, u32 bytes,
                                   XG_INOUT(u32) asked) {
  const bool of_ring = operation == XG_PROGRAM_RING_OUTPUT;
  const u64 flags = of_ring ? XG_PROGRAM_OWN.r[4] : XG_PROGRAM_OWN.r[3];
  asked = 0u;
  if (of_ring) {
    if (flags > u64(XG_PROGRAM_WAKE_UPS)) return xg_program_error(XG_PROGRAM_EINVAL);
    if (bytes > XG_EVENT_BYTES || !xg_program_has_room(XG_PROGRAM_IT))
      return xg_program_error(XG_PROGRAM_EAGAIN);
    return u64(0);
  }
  asked = u32(flags >> 32);
  if (asked > XG_PROGRAM_MOST_ASKED) return xg_program_error(XG_PROGRAM_EINVAL);
  if (asked > m.end - m.data) return xg_program_error(XG_PROGRAM_EFAULT);
  const u32 wanted = xg_program_low(flags);
  const u32 index = wanted == XG_PROGRAM_ITS_OWN ? m.queue : wanted;
  if (index >= xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_ENTRIES))
    return xg_program_error(XG_PROGRAM_E2BIG);
  if (index != m.queue) return xg_program_error(XG_PROGRAM_EOPNOTSUPP);
  if (bytes > XG_EVENT_BYTES) return xg_program_error(XG_PROGRAM_E2BIG);
  return xg_program_has_room(XG_PROGRAM_IT) ? u64(0) : xg_program_error(XG_PROGRAM_ENOSPC);
}
/* The map that a program puts out to. False, with the fault: it is none for that. */
XG_FN bool xg_program_output_map(XG_PROGRAM_MACHINE, u32 operation, XG_INOUT(u32) map) {
  const bool of_ring = operation != XG_PROGRAM_PERF_OUTPUT;
  if (!of_ring && XG_PROGRAM_OWN.r[1] != xg_program_pointer(XG_PROGRAM_CONTEXT, 0u)) {
    m.fault = XG_PROGRAM_OUT_OF_BOUNDS;
    return false;
  }
  if (!xg_program_map_at(XG_PROGRAM_IT, of_ring ? XG_PROGRAM_OWN.r[1] : XG_PROGRAM_OWN.r[2], map))
    return false;
  if (xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_TYPE) ==
      (of_ring ? XG_PROGRAM_RINGBUF : XG_PROGRAM_PERF_EVENTS))
    return true;
  m.fault = XG_PROGRAM_WRONG_MAP;
  return false;
}
/* Whether a program that reserves a record of a ringbuf gets it, where there is such a one. */
XG_FN bool xg_program_may_reserve(XG_PROGRAM_MACHINE_READ) {
  return XG_PROGRAM_OWN.r[2] <= u64(XG_EVENT_BYTES) && XG_PROGRAM_OWN.r[3] == u64(0) &&
         xg_program_has_room(XG_PROGRAM_IT);
}
/* Whether R1 is the record. False, with the fault: it is not, or there is none. */
XG_FN bool xg_program_is_record(XG_PROGRAM_MACHINE) {
  if (m.record != 0u && XG_PROGRAM_OWN.r[1] == xg_program_pointer(XG_PROGRAM_RECORD, 0u)) return true;
  m.fault = XG_PROGRAM_OUT_OF_BOUNDS;
  return false;
}
#ifndef XG_PROGRAM_IN_BUFFER
/* So many bytes from that place on are the packet's event. A quad of it at a time: its memory may be the
 * host's. */
XG_FN void xg_program_make_event(XG_PROGRAM_MACHINE, u32 map, u32 asked, xg_program_place place, u32 bytes) {
  m.has_event = 1u;
  if (!XG_IS_THERE(m.event) || m.seeks_key == XG_PROGRAM_SEEKS) return;
  m.event.v[0] = XG_QUAD(map | bytes << 16, asked, 0u, 0u);
  for (u32 done = 0u; done < bytes; done += 16u) {
    const u32 left = bytes - done;
    const u64 first = xg_program_read(XG_PROGRAM_IT, place, left < 8u ? left : 8u);
    place.at += 8u;
    u64 second = u64(0);
    if (left > 8u) second = xg_program_read(XG_PROGRAM_IT, place, left < 16u ? left - 8u : 8u);
    place.at += 8u;
    m.event.v[1u + done / 16u] =
        XG_QUAD(xg_program_low(first), u32(first >> 32), xg_program_low(second), u32(second >> 32));
  }
}
XG_SELDOM u64 xg_program_put_out(XG_PROGRAM_MACHINE, u32 operation) {
  const bool of_ring = operation == XG_PROGRAM_RING_OUTPUT;
  const u32 bytes = xg_program_low(of_ring ? XG_PROGRAM_OWN.r[3] : XG_PROGRAM_OWN.r[5]);
  u32 map = 0u, asked = 0u;
  xg_program_place place;
  place.memory = XG_PROGRAM_IN_STACK;
  place.at = 0u;
  if (!xg_program_output_map(XG_PROGRAM_IT, operation, map)) return u64(0);
  if (bytes != 0u &&
      !xg_program_buffer(XG_PROGRAM_IT, of_ring ? XG_PROGRAM_OWN.r[2] : XG_PROGRAM_OWN.r[4], bytes, place))
    return u64(0);
  const u64 answer = xg_program_output_answer(XG_PROGRAM_IT, operation, map, bytes, asked);
  if (answer != u64(0)) return answer;
  xg_program_make_event(XG_PROGRAM_IT, map, asked, place, bytes);
  return u64(0);
}
XG_SELDOM u64 xg_program_reserve(XG_PROGRAM_MACHINE) {
  u32 map = 0u;
  if (!xg_program_output_map(XG_PROGRAM_IT, XG_PROGRAM_RESERVE, map) ||
      !xg_program_may_reserve(XG_PROGRAM_IT))
    return u64(0);
  const u32 bytes = xg_program_low(XG_PROGRAM_OWN.r[2]);
  for (u32 i = 0u; i < (bytes + 3u) / 4u; i++) m.record_words[i] = 0u;
  m.record = XG_PROGRAM_HAS_RECORD | bytes << 16 | map;
  m.steps += bytes / 8u;
  return xg_program_pointer(XG_PROGRAM_RECORD, 0u);
}
XG_SELDOM u64 xg_program_leave_record(XG_PROGRAM_MACHINE, bool submits) {
  if (!xg_program_is_record(XG_PROGRAM_IT)) return u64(0);
  const u32 bytes = XG_PROGRAM_RECORD_BYTES(m.record), map = XG_PROGRAM_RECORD_MAP(m.record);
  m.record = 0u;
  if (!submits) return u64(0);
  xg_program_place place;
  place.memory = XG_PROGRAM_IN_RECORD;
  place.at = 0u;
  xg_program_make_event(XG_PROGRAM_IT, map, 0u, place, bytes);
  m.steps += bytes / 8u;
  return u64(0);
}
/* Whether the run is not in its turn, and asks for something of that map only. */
XG_FN bool xg_program_only_asks(XG_PROGRAM_MACHINE_READ, u32 map) {
  return m.seeks_key != 0u && xg_program_is_sharded(XG_PROGRAM_IT, map);
}
/* It has found its key. */
XG_FN void xg_program_key_found(XG_PROGRAM_MACHINE, XG_IN(xg_program_key) key) {
  if (m.seeks_key == XG_PROGRAM_SEEKS || (m.ahead_how & XG_PROGRAM_HAS_ASKED) == 0u)
    m.key_hash = xg_program_hash(XG_PROGRAM_IT, key);
  m.ahead_how |= XG_PROGRAM_HAS_ASKED;
  m.fault = XG_PROGRAM_KEY_FOUND;
}
XG_SELDOM u64 xg_program_look_up(XG_PROGRAM_MACHINE) {
  u32 map = 0u;
  xg_program_place place;
  if (!xg_program_map_at(XG_PROGRAM_IT, XG_PROGRAM_OWN.r[1], map)) return u64(0);
  if (!xg_program_gives_values(xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_TYPE))) {
    m.fault = XG_PROGRAM_WRONG_MAP;
    return u64(0);
  }
  if (!xg_program_buffer(XG_PROGRAM_IT, XG_PROGRAM_OWN.r[2],
                         xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_KEY), place))
    return u64(0);
  const xg_program_key key = xg_program_key_of(XG_PROGRAM_IT, map, place);
  if (!xg_program_only_asks(XG_PROGRAM_IT, map)) return xg_program_get(XG_PROGRAM_IT, map, key);
  if (m.seeks_key == XG_PROGRAM_IS_AHEAD) return xg_program_look_ahead(XG_PROGRAM_IT, map, key);
  xg_program_key_found(XG_PROGRAM_IT, key);
  return u64(0);
}
XG_SELDOM u64 xg_program_change(XG_PROGRAM_MACHINE, bool erases) {
  u32 map = 0u;
  xg_program_place key_place, value;
  if (!xg_program_map_at(XG_PROGRAM_IT, XG_PROGRAM_OWN.r[1], map)) return u64(0);
  const u32 flags = xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_FLAGS);
  if ((flags & XG_PROGRAM_NOT_FOR_UPDATES) != 0u) m.fault = XG_PROGRAM_WRONG_MAP;
  if (m.fault == 0u && (flags & XG_PROGRAM_VALUES_READ_ONLY) != 0u) m.fault = XG_PROGRAM_READ_ONLY;
  if (m.fault != 0u ||
      !xg_program_buffer(XG_PROGRAM_IT, XG_PROGRAM_OWN.r[2],
                         xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_KEY), key_place))
    return u64(0);
  const xg_program_key key = xg_program_key_of(XG_PROGRAM_IT, map, key_place);
  const bool only_asks = xg_program_only_asks(XG_PROGRAM_IT, map);
  if (only_asks && (m.seeks_key == XG_PROGRAM_SEEKS || erases || XG_PROGRAM_OWN.r[4] != u64(0))) {
    xg_program_key_found(XG_PROGRAM_IT, key);
    return u64(0);
  }
  if (erases) return xg_program_drop(XG_PROGRAM_IT, map, key);
  if (!xg_program_buffer(XG_PROGRAM_IT, XG_PROGRAM_OWN.r[3],
                         xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_VALUE), value))
    return u64(0);
  if (only_asks) return xg_program_put_ahead(XG_PROGRAM_IT, map, key, value);
  return xg_program_put(XG_PROGRAM_IT, map, key, value, XG_PROGRAM_OWN.r[4]);
}

XG_FN u64 xg_program_redirect(XG_PROGRAM_MACHINE) {
  if (XG_PROGRAM_OWN.r[2] != u64(0)) return u64(0);
  m.redirect_to = 1u;
  m.redirect_map = 0u;
  m.redirect_key = 0u;
  m.redirect_ifindex = xg_program_low(XG_PROGRAM_OWN.r[1]);
  m.redirect_flags = 0u;
  return u64(XG_PROGRAM_REDIRECTED);
}
XG_SELDOM u64 xg_program_redirect_map(XG_PROGRAM_MACHINE) {
  u32 map = 0u;
  if (!xg_program_map_at(XG_PROGRAM_IT, XG_PROGRAM_OWN.r[1], map)) return u64(0);
  const u32 type = xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_TYPE);
  if (!xg_program_redirects_by(type)) {
    m.fault = XG_PROGRAM_WRONG_MAP;
    return u64(0);
  }
  const u64 flags = XG_PROGRAM_OWN.r[3];
  const u32 where = xg_program_is_of_devices(type) ? XG_PROGRAM_BROADCAST | XG_PROGRAM_EXCLUDE_INGRESS : 0u;
  /* The lower two bits: the action where nothing is found. */
  if ((flags & ~u64(3u | where)) != u64(0)) return u64(0);
  const u32 wanted = xg_program_low(flags);
  u32 ifindex = 0u;
  if ((wanted & XG_PROGRAM_BROADCAST) == 0u) {
    const u64 found =
        xg_program_get(XG_PROGRAM_IT, map, xg_program_number_key(xg_program_low(XG_PROGRAM_OWN.r[2])));
    if (found != u64(0)) ifindex = xg_program_low(xg_program_load(XG_PROGRAM_IT, found, 4u));
    if (ifindex == 0u) {
      /* Of an earlier call the number stays, as an interface's. */
      if (m.redirect_to >= 2u) m.redirect_ifindex = m.redirect_key;
      if (m.redirect_to != 0u) m.redirect_to = 1u;
      m.redirect_map = 0u;
      m.redirect_key = 0u;
      m.redirect_flags = 0u;
      return u64(wanted & 3u);
    }
  }
  m.redirect_to = type == XG_PROGRAM_CPUMAP ? XG_PROGRAM_TO_PROCESSOR : 2u;
  m.redirect_map = map;
  m.redirect_key = xg_program_low(XG_PROGRAM_OWN.r[2]);
  m.redirect_ifindex = ifindex;
  m.redirect_flags = (wanted & XG_PROGRAM_BROADCAST) != 0u ? wanted & where : 0u;
  return u64(XG_PROGRAM_REDIRECTED);
}

XG_FN u64 xg_program_help(XG_PROGRAM_MACHINE, u32 operation) {
  const u32 by = xg_program_low(XG_PROGRAM_OWN.r[2]);
  if (operation == XG_PROGRAM_LOOK_UP) return xg_program_look_up(XG_PROGRAM_IT);
  if (operation == XG_PROGRAM_UPDATE) return xg_program_change(XG_PROGRAM_IT, false);
  if (operation == XG_PROGRAM_ERASE) return xg_program_change(XG_PROGRAM_IT, true);
  if (operation == XG_PROGRAM_CSUM_DIFF) return xg_program_csum_diff(XG_PROGRAM_IT);
  if (operation == XG_PROGRAM_TIME) return m.time;
  if (operation == XG_PROGRAM_RANDOM) return u64(m.random);
  if (operation == XG_PROGRAM_QUEUE) return u64(m.queue);
  if (operation == XG_PROGRAM_REDIRECT) return xg_program_redirect(XG_PROGRAM_IT);
  if (operation == XG_PROGRAM_REDIRECT_MAP) return xg_program_redirect_map(XG_PROGRAM_IT);
  if (operation == XG_PROGRAM_PERF_OUTPUT || operation == XG_PROGRAM_RING_OUTPUT)
    return xg_program_put_out(XG_PROGRAM_IT, operation);
  if (operation == XG_PROGRAM_RESERVE) return xg_program_reserve(XG_PROGRAM_IT);
  if (operation == XG_PROGRAM_SUBMIT || operation == XG_PROGRAM_DISCARD)
    return xg_program_leave_record(XG_PROGRAM_IT, operation == XG_PROGRAM_SUBMIT);
  if (XG_PROGRAM_OWN.r[1] != xg_program_pointer(XG_PROGRAM_CONTEXT, 0u)) {
    m.fault = XG_PROGRAM_OUT_OF_BOUNDS;
    return u64(0);
  }
  if (operation == XG_PROGRAM_FIB_LOOKUP) return xg_program_fib_lookup(XG_PROGRAM_IT);
  if (operation == XG_PROGRAM_ADJUST_HEAD) return xg_program_adjust_head(XG_PROGRAM_IT, by);
  if (operation == XG_PROGRAM_ADJUST_META) return xg_program_adjust_meta(XG_PROGRAM_IT, by);
  return xg_program_adjust_tail(XG_PROGRAM_IT, by);
}

#endif

#endif
