/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/program_ahead.h: runs that do not wait for their turn, of programs whose packets are ordered by
 * a key (gpu/program_keys.hpp). Of gpu/stages/program_code.h.
 *
 * Most packets find what they look for, and change nothing: a load balancer's packet finds its flow. So a
 * device may run all packets it takes at a time at once, whose runs are ahead of their turns then: optimistic
 * concurrency control (Kung and Robinson, ACM TODS 6(2), 1981). A run that is ahead leaves nothing behind in
 * the maps. It keeps a record:
 *   what it found by its key, or that there is nothing;
 *   what it put there, in one update at most;
 *   what it would have counted.
 * When it is the packet's turn, the record is looked at. If the element that was found still stands as it
 * stood, or there still is none, the answer holds: the element is the one used last now, or the update is
 * done, and what was counted is added. Else the packet is run then, as if it had not been before.
 *
 * A run turns back, and is run in its turn, where it would do anything else: an update behind an update, a
 * deletion, a write to a value that was found, a second map, more to count than there is room for.
 *
 * Where no packet that a device takes at a time does more in a shard than find elements, all of these hold,
 * and their turns are all at once: what is used last has the latest stamp, whoever puts it there first.
 *
 * Nobody changes the maps while runs are ahead: those that are in their turns come behind them, and those of
 * packets taken afterwards behind these.
 */
#ifndef XDPGPU_STAGES_PROGRAM_AHEAD_H
#define XDPGPU_STAGES_PROGRAM_AHEAD_H

#include "gpu/stages/program_map_calls.h"

#ifndef XG_PROGRAM_IN_BUFFER

/* The run is by that key's hash. False: it has been by another one, and turns back. */
XG_FN bool xg_program_asks_by(XG_PROGRAM_MACHINE, u32 map, u32 hash) {
  if ((m.ahead_how & XG_PROGRAM_HAS_ASKED) == 0u) {
    m.ahead_how |= XG_PROGRAM_HAS_ASKED;
    m.key_hash = hash;
    m.ahead.v[XG_PROGRAM_AHEAD_MAP] = map;
    m.ahead_map = map;
    return true;
  }
  if (m.key_hash == hash && m.ahead_map == map && (m.ahead_how & XG_PROGRAM_HAS_PUT) == 0u) return true;
  xg_program_turn_back(XG_PROGRAM_IT);
  return false;
}
XG_FN void xg_program_keep_key(XG_PROGRAM_MACHINE, XG_IN(xg_program_key) key) {
  for (u32 i = 0u; i < xg_program_key_words(key); i++)
    m.ahead.v[XG_PROGRAM_AHEAD_KEY + i] = xg_program_key_word(XG_PROGRAM_IT, key, i);
}

/* As xg_program_get(), of a map that is sharded. */
XG_SELDOM u64 xg_program_look_ahead(XG_PROGRAM_MACHINE, u32 map, XG_IN(xg_program_key) key) {
  const xg_program_found found = xg_program_seek(XG_PROGRAM_IT, map, key);
  const u32 before = m.ahead_how;
  if (!xg_program_asks_by(XG_PROGRAM_IT, map, found.hash)) return u64(0);
  if ((before & XG_PROGRAM_HAS_ASKED) != 0u) {
    /* Of another key with that hash. */
    if (found.slot != m.ahead_slot) xg_program_turn_back(XG_PROGRAM_IT);
  } else {
    m.ahead_slot = found.slot;
    m.ahead_how |= found.slot != 0u ? XG_PROGRAM_HAS_FOUND : XG_PROGRAM_HAS_MISSED;
    if (found.slot != 0u) {
      const u32 element = xg_program_element(XG_PROGRAM_IT, map, found.slot - 1u);
      m.ahead.v[XG_PROGRAM_AHEAD_ELEMENT] = element;
      const u32 header = xg_program_header_of(XG_PROGRAM_IT, map, found.slot - 1u);
      m.ahead.v[XG_PROGRAM_AHEAD_HEADER] = header;
      m.ahead.v[XG_PROGRAM_AHEAD_STAMP] = xg_program_stamp_at(XG_PROGRAM_IT, map, found.slot - 1u);
      for (u32 i = 0u; i < 2u; i++)
        m.ahead.v[XG_PROGRAM_AHEAD_CLOCK + i] = m.state.v[header + XG_PROGRAM_CLOCK + i];
      m.ahead.v[XG_PROGRAM_AHEAD_STANDING] = m.state.v[element + XG_PROGRAM_STANDING];
    } else if (key.bytes > XG_PROGRAM_AHEAD_MOST_BYTES) {
      xg_program_turn_back(XG_PROGRAM_IT);
    } else {
      xg_program_keep_key(XG_PROGRAM_IT, key);
    }
  }
  if (found.slot == 0u || m.fault != 0u) return u64(0);
  return xg_program_value(XG_PROGRAM_IT, map, found.slot - 1u);
}

#ifndef XG_PROGRAM_KNOWN_MAPS

/* As xg_program_put(), without flags, of a map that is sharded. */
XG_SELDOM u64 xg_program_put_ahead(XG_PROGRAM_MACHINE, u32 map, xg_program_key key, xg_program_place value) {
  const u32 bytes = xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_VALUE);
  if (!xg_program_asks_by(XG_PROGRAM_IT, map, xg_program_hash(XG_PROGRAM_IT, key))) return u64(0);
  if (key.bytes > XG_PROGRAM_AHEAD_MOST_BYTES || bytes > XG_PROGRAM_AHEAD_MOST_BYTES) {
    xg_program_turn_back(XG_PROGRAM_IT);
    return u64(0);
  }
  m.ahead_how |= XG_PROGRAM_HAS_PUT;
  xg_program_keep_key(XG_PROGRAM_IT, key);
  for (u32 i = 0u; i < bytes; i += 4u) {
    m.ahead.v[XG_PROGRAM_AHEAD_VALUE + i / 4u] =
        xg_program_low(xg_program_read(XG_PROGRAM_IT, value, bytes - i < 4u ? bytes - i : 4u));
    value.at += 4u;
  }
  return u64(0);
}

/* It is the turn of a packet whose record the machine has; it has nothing else but the maps. False: it has to
 * be run now, and nothing was done. */
XG_SELDOM bool xg_program_takes_its_turn(XG_PROGRAM_MACHINE) {
  const u32 how = m.ahead.v[XG_PROGRAM_AHEAD_HOW], map = m.ahead.v[XG_PROGRAM_AHEAD_MAP];
  const u32 element = m.ahead.v[XG_PROGRAM_AHEAD_ELEMENT];
  if (xg_program_only_found(how))
    return xg_program_finds_again(m.state, m.ahead.v[XG_PROGRAM_AHEAD_HEADER], element,
                                  m.ahead.v[XG_PROGRAM_AHEAD_STANDING], m.ahead.v[XG_PROGRAM_AHEAD_STAMP]);
  if ((how & XG_PROGRAM_HAS_FOUND) != 0u &&
      m.state.v[element + XG_PROGRAM_STANDING] != m.ahead.v[XG_PROGRAM_AHEAD_STANDING])
    return false;
  m.arguments = XG_WORDS_OF(m.ahead, 0u);
  xg_program_place place;
  place.memory = XG_PROGRAM_IN_ARGUMENTS;
  place.at = XG_PROGRAM_AHEAD_KEY * 4u;
  const xg_program_key key = xg_program_key_of(XG_PROGRAM_IT, map, place);
  const xg_program_found found = xg_program_seek(XG_PROGRAM_IT, map, key);
  if ((how & XG_PROGRAM_HAS_MISSED) != 0u && found.slot != 0u) return false;
  if ((how & XG_PROGRAM_HAS_PUT) == 0u) return true;
  if (found.slot == 0u && found.chain >= XG_PROGRAM_CHAIN) return false;
  m.key_hash = found.hash;
  place.at = XG_PROGRAM_AHEAD_VALUE * 4u;
  const bool is_put = xg_program_put_found(XG_PROGRAM_IT, map, key, found, place) == u64(0);
  xg_program_give_back(XG_PROGRAM_IT);
  return is_put;
}

#endif

#endif

#endif
