/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/program_map_calls.h: look-ups, updates and deletions in the maps of XDP programs
 * (gpu/stages/program_maps.h), by any kind of map. Of gpu/stages/program_code.h.
 */
#ifndef XDPGPU_STAGES_PROGRAM_MAP_CALLS_H
#define XDPGPU_STAGES_PROGRAM_MAP_CALLS_H

#include "gpu/stages/program_maps.h"

#ifndef XG_PROGRAM_KNOWN_MAPS
XG_FN void xg_program_copy(XG_PROGRAM_MACHINE, xg_program_place to, xg_program_place from, u32 bytes) {
  for (u32 i = 0u; i < bytes; i += 4u) {
    XG_PROGRAM_TURN();
    const u32 count = bytes - i < 4u ? bytes - i : 4u;
    xg_program_write(XG_PROGRAM_IT, to, count, xg_program_read(XG_PROGRAM_IT, from, count));
    from.at += 4u;
    to.at += 4u;
  }
}

#endif

/* The value of that slot. */
XG_FN u64 xg_program_value(XG_PROGRAM_MACHINE_READ, u32 map, u32 slot) {
  return xg_program_pointer(
      XG_PROGRAM_VALUES + xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_FIRST) + slot, 0u);
}
#ifndef XG_PROGRAM_KNOWN_MAPS
XG_FN void xg_program_set_value(XG_PROGRAM_MACHINE, u32 map, u32 slot, xg_program_place from) {
  xg_program_place to;
  to.memory = XG_PROGRAM_IN_STATE;
  to.at = xg_program_value_at(XG_PROGRAM_IT, map, slot) * 4u;
  xg_program_copy(XG_PROGRAM_IT, to, from, xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_VALUE));
}
#endif
/* What a map that has its values by queue adds to a slot. */
XG_FN u32 xg_program_queue_slots(XG_PROGRAM_MACHINE_READ, u32 map) {
  return m.queue < xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_QUEUES)
             ? m.queue * xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_SLOTS)
             : 0u;
}

#ifndef XG_PROGRAM_KNOWN_MAPS
/* A key that is a number, and one that stands at a place. */
XG_FN xg_program_key xg_program_number_key(u32 number) {
  xg_program_key key;
  key.place.memory = XG_PROGRAM_IN_STACK;
  key.place.at = 0u;
  key.bytes = 4u;
  key.first = number;
  key.is_prefix = 0u;
  return key;
}
XG_FN xg_program_key xg_program_key_of(XG_PROGRAM_MACHINE_READ, u32 map, xg_program_place place) {
  xg_program_key key;
  key.place = place;
  key.bytes = xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_KEY);
  key.is_prefix = xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_TYPE) == XG_PROGRAM_TRIE ? 1u : 0u;
  key.first = xg_program_low(xg_program_read(XG_PROGRAM_IT, place, key.bytes < 4u ? key.bytes : 4u));
  return key;
}
#endif
XG_FN u32 xg_program_longest(XG_IN(xg_program_key) key) { return (key.bytes - 4u) * 8u; }

/* The longest prefix of a trie that the key begins with: its slot + 1, 0: there is none. */
XG_SELDOM u32 xg_program_match(XG_PROGRAM_MACHINE_READ, u32 map, xg_program_key key) {
  const u32 longest = xg_program_longest(key);
  if (key.first > longest) return 0u;
  const u32 first = longest - key.first;
  const u32 lengths =
      xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_HEADER) + XG_PROGRAM_LENGTHS + longest + 1u;
  for (u32 i = first >> 5; i <= longest >> 5; i++) {
    u32 bits = m.state.v[lengths + i];
    if (i == first >> 5) bits &= ~0u << (first & 31u);
    while (bits != 0u) {
      key.first = longest - (i * 32u + XG_LOWEST_BIT(bits));
      const xg_program_found found = xg_program_seek(XG_PROGRAM_IT, map, key);
      if (found.slot != 0u) return found.slot;
      bits &= bits - 1u;
    }
  }
  return 0u;
}

/* A pointer to what the map has under a key: a value, or a map. 0: nothing. */
XG_SELDOM u64 xg_program_get(XG_PROGRAM_MACHINE, u32 map, xg_program_key key) {
  const u32 type = xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_TYPE);
  u32 slot = 0u;
  if (type == XG_PROGRAM_TRIE) {
    slot = xg_program_match(XG_PROGRAM_IT, map, key);
  } else if (xg_program_is_table(type)) {
    const xg_program_found found = xg_program_seek(XG_PROGRAM_IT, map, key);
    if (!xg_program_is_own(XG_PROGRAM_IT, map, found.hash)) return u64(0);
    slot = found.slot;
    if (slot != 0u && type == XG_PROGRAM_LRU_HASH) {
      xg_program_use(XG_PROGRAM_IT, map, slot - 1u);
#ifndef XG_PROGRAM_IN_BUFFER
      if (m.key_bits != 0u) xg_program_renew(XG_PROGRAM_IT, map, slot - 1u);
#endif
    }
  } else if (key.first < xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_ENTRIES)) {
    slot = key.first + 1u;
    const u32 word = m.state.v[xg_program_value_at(XG_PROGRAM_IT, map, key.first)];
    if (type == XG_PROGRAM_ARRAY_OF_MAPS)
      return word == 0u ? u64(0) : xg_program_pointer(XG_PROGRAM_MAPS + word - 1u, 0u);
    if ((xg_program_redirects_by(type) || type == XG_PROGRAM_PROGRAMS) && word == 0u) slot = 0u;
  }
  if (slot == 0u) return u64(0);
  return xg_program_value(XG_PROGRAM_IT, map, slot - 1u + xg_program_queue_slots(XG_PROGRAM_IT, map));
}

#ifndef XG_PROGRAM_KNOWN_MAPS

/* Of maps whose keys are indices: 0 or an error. */
XG_FN u64 xg_program_put_index(XG_PROGRAM_MACHINE, u32 map, u32 type, u32 index, xg_program_place value,
                               u64 flags) {
  const bool is_there = index < xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_ENTRIES);
  const bool is_array = type == XG_PROGRAM_ARRAY || type == XG_PROGRAM_PERCPU_ARRAY;
  const u64 others = is_array ? flags & ~u64(XG_PROGRAM_LOCK) : flags;
  if (type == XG_PROGRAM_ARRAY_OF_MAPS || others > u64(XG_PROGRAM_EXIST))
    return xg_program_error(XG_PROGRAM_EINVAL);
  if (type == XG_PROGRAM_PROGRAMS && flags != u64(0)) return xg_program_error(XG_PROGRAM_EINVAL);
  if (!is_there) return xg_program_error(XG_PROGRAM_E2BIG);
  if ((flags & u64(XG_PROGRAM_NOEXIST)) != u64(0)) return xg_program_error(XG_PROGRAM_EEXIST);
  if (is_array && (flags & u64(XG_PROGRAM_LOCK)) != u64(0)) return xg_program_error(XG_PROGRAM_EINVAL);
  if (type == XG_PROGRAM_PROGRAMS)
    m.state.v[xg_program_value_at(XG_PROGRAM_IT, map, index)] =
        xg_program_low(xg_program_read(XG_PROGRAM_IT, value, 4u)) + 1u;
  else
    xg_program_set_value(XG_PROGRAM_IT, map, index + xg_program_queue_slots(XG_PROGRAM_IT, map), value);
  return u64(0);
}

/* A shard of an LRU hash loses the element that was used before all others in it. */
XG_FN void xg_program_evict(XG_PROGRAM_MACHINE, u32 map, u32 shard) {
  const u32 oldest = xg_program_oldest(XG_PROGRAM_IT, map, shard);
  if (oldest == 0u) return;
  xg_program_place place;
  place.memory = XG_PROGRAM_IN_STATE;
  place.at = (oldest + XG_PROGRAM_ELEMENT_KEY) * 4u;
  const xg_program_key key = xg_program_key_of(XG_PROGRAM_IT, map, place);
  const xg_program_found found = xg_program_seek(XG_PROGRAM_IT, map, key);
  if (found.slot != 0u) xg_program_remove(XG_PROGRAM_IT, map, found);
}

/* Puts a value in place of what was found, or of nothing: what an update answers. */
XG_FN u64 xg_program_put_found(XG_PROGRAM_MACHINE, u32 map, XG_IN(xg_program_key) key,
                               XG_IN(xg_program_found) found, xg_program_place value) {
  const u32 type = xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_TYPE);
  if (found.slot != 0u) {
    xg_program_remove(XG_PROGRAM_IT, map, found);
  } else {
    const u32 shard = xg_program_shard(XG_PROGRAM_IT, map, found.hash);
    const bool is_full = m.state.v[xg_program_header(XG_PROGRAM_IT, map, shard) + XG_PROGRAM_USED] >=
                         xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_SHARD_ENTRIES);
    if (is_full && type == XG_PROGRAM_TRIE) return xg_program_error(XG_PROGRAM_ENOSPC);
    if (is_full && type != XG_PROGRAM_LRU_HASH) return xg_program_error(XG_PROGRAM_E2BIG);
    if (found.chain >= XG_PROGRAM_CHAIN) return xg_program_error(XG_PROGRAM_ENOMEM);
    if (is_full) xg_program_evict(XG_PROGRAM_IT, map, shard);
  }
  const u32 slot = xg_program_insert(XG_PROGRAM_IT, map, key, found.hash, found.bucket);
  if (slot == 0u) return xg_program_error(XG_PROGRAM_ENOMEM);
  xg_program_set_value(XG_PROGRAM_IT, map, slot - 1u + xg_program_queue_slots(XG_PROGRAM_IT, map), value);
  return u64(0);
}

/* What an update answers: 0 or an error. */
XG_SELDOM u64 xg_program_put(XG_PROGRAM_MACHINE, u32 map, xg_program_key key, xg_program_place value,
                             u64 flags) {
  const u32 type = xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_TYPE);
  if (!xg_program_is_table(type))
    return xg_program_put_index(XG_PROGRAM_IT, map, type, key.first, value, flags);
  const bool of_devices = type == XG_PROGRAM_DEVMAP_HASH;
  if (flags > u64(XG_PROGRAM_EXIST) || (key.is_prefix != 0u && key.first > xg_program_longest(key)) ||
      (of_devices && xg_program_read(XG_PROGRAM_IT, value, 4u) == u64(0)))
    return xg_program_error(XG_PROGRAM_EINVAL);
  const xg_program_found found = xg_program_seek(XG_PROGRAM_IT, map, key);
  if (!xg_program_is_own(XG_PROGRAM_IT, map, found.hash)) return u64(0);
  m.key_hash = found.hash;
  if (found.slot != 0u && flags == u64(XG_PROGRAM_NOEXIST)) return xg_program_error(XG_PROGRAM_EEXIST);
  if (found.slot == 0u && flags == u64(XG_PROGRAM_EXIST) && !of_devices)
    return xg_program_error(XG_PROGRAM_ENOENT);
  if (found.slot != 0u && type == XG_PROGRAM_PERCPU_HASH) {
    xg_program_set_value(XG_PROGRAM_IT, map, found.slot - 1u + xg_program_queue_slots(XG_PROGRAM_IT, map),
                         value);
    return u64(0);
  }
  return xg_program_put_found(XG_PROGRAM_IT, map, key, found, value);
}

/* What a deletion answers: 0 or an error. */
XG_SELDOM u64 xg_program_drop(XG_PROGRAM_MACHINE, u32 map, xg_program_key key) {
  const u32 type = xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_TYPE);
  if (xg_program_is_table(type)) {
    if (key.is_prefix != 0u && key.first > xg_program_longest(key))
      return xg_program_error(XG_PROGRAM_EINVAL);
    const xg_program_found found = xg_program_seek(XG_PROGRAM_IT, map, key);
    if (!xg_program_is_own(XG_PROGRAM_IT, map, found.hash)) return u64(0);
    m.key_hash = found.hash;
    if (found.slot == 0u) return xg_program_error(XG_PROGRAM_ENOENT);
    xg_program_remove(XG_PROGRAM_IT, map, found);
    return u64(0);
  }
  if (type == XG_PROGRAM_ARRAY || type == XG_PROGRAM_PERCPU_ARRAY) return xg_program_error(XG_PROGRAM_EINVAL);
  if (key.first >= xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_ENTRIES)) {
    if (type == XG_PROGRAM_DEVMAP) return xg_program_error(XG_PROGRAM_EINVAL);
    return xg_program_error(type == XG_PROGRAM_PROGRAMS ? XG_PROGRAM_E2BIG : XG_PROGRAM_ENOENT);
  }
  const u32 at = xg_program_value_at(XG_PROGRAM_IT, map, key.first);
  const u32 before = m.state.v[at];
  m.state.v[at] = 0u;
  m.state.v[at + 1u] = 0u;
  return before == 0u && type != XG_PROGRAM_DEVMAP ? xg_program_error(XG_PROGRAM_ENOENT) : u64(0);
}

#endif

#endif
