/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/program_maps.h: the maps of XDP programs in a device's memory. Of gpu/stages/program_code.h.
 * What they answer is what gpu/reference/program_maps.hpp says. gpu/program_state.hpp reads and changes the
 * same memory on the host.
 *
 * The memory is words, the same on each device, without pointers: DeviceCode::state. It begins with
 *
 *   0     XG_PROGRAM_STATE_LAYOUT
 *   1     words in all
 *   2..5  the key of the hash (SipHash-1-3)
 *   6, 7  0
 *
 * and each map has its part, at the places that its record says (gpu/stages/program_memory.h). Numbers of
 * slots are kept as slot + 1, 0: none.
 *
 * An array, a devmap or cpumap, an array of programs or maps has its values alone: of queue q and index i the
 * one of slot q * entries + i. What is not there in a devmap has the interface 0, in a cpumap room for 0
 * packets; and in an xskmap nothing is there. Programs' and maps' numbers are kept + 1.
 *
 * The others are a table of elements. Their values have the elements' numbers, those of a per-CPU hash once
 * for each queue:
 *
 *   headers   of each shard: XG_PROGRAM_USED, how many are in the map; XG_PROGRAM_UNUSED, how many are free;
 *             XG_PROGRAM_WAITING, how many wait. Of an LRU hash that is not sharded XG_PROGRAM_OLDEST and
 *             XG_PROGRAM_NEWEST, where their words begin, 0: there is none; of one that is XG_PROGRAM_CLOCK,
 *             which no stamp is later than. Behind them, of a trie: how many prefixes there are of each
 *             length from 0 bits on, and a bit for each length that there is, the longest one's first
 *
 *   buckets   the first element's slot
 *
 *   elements  XG_PROGRAM_NEXT in its bucket; XG_PROGRAM_OLDER and XG_PROGRAM_NEWER, where those words begin;
 *             XG_PROGRAM_STANDING, whether it is free, in the map, or waits, and above that how often it came
 *             into the map, or was found by a run that might change its value; the key, as it was given, and
 *             0 behind it
 *
 *   free      the slots of free elements, each shard's own; those that wait stand at the end, the last one
 *             first
 *
 *   stamps    of an LRU hash that is sharded: which of its shard's uses was an element's last one, by 64
 *             bits; 0: it is not in the map. The oldest one is looked for where a full shard takes another,
 *             and nobody who only uses elements has to change what others do
 *
 * A key's bucket is its hash's. Which keys meet in one cannot be known without the hash's key. A bucket takes
 * XG_PROGRAM_CHAIN elements, which no more than one in 10^80 fills by chance; then an update answers -ENOMEM.
 * A trie looks for a prefix once for each length that there is.
 *
 * A map has one shard, but for an LRU hash by whose key packets are ordered (gpu/program_shards.hpp). There
 * each shard is a map of its own, with its buckets, elements and order: a hash's highest bits say whose a key
 * is. A run changes one shard of each such map, so those of different shards need not wait for each other.
 *
 * An element that is deleted, or whose value an update replaces, waits to the end of the packet's run: a
 * program that has its value's address still reads it. A shard has some elements more than may be in it at
 * once: XG_PROGRAM_SPARE, which are more than there are places for pointers; one of several has
 * programs::kShardSpare, and a run lets fewer wait. When all free ones are used up, those that no register
 * and no word of a stack points to are free again: so there is always one.
 */
#ifndef XDPGPU_STAGES_PROGRAM_MAPS_H
#define XDPGPU_STAGES_PROGRAM_MAPS_H

#include "gpu/stages/program_memory.h"
#include "maps/hash.h"

#define XG_PROGRAM_STATE_LAYOUT 4u
#define XG_PROGRAM_STATE_KEY 2u
#define XG_PROGRAM_STATE_WORDS 8u

#define XG_PROGRAM_USED 0u
#define XG_PROGRAM_UNUSED 1u
#define XG_PROGRAM_WAITING 2u
#define XG_PROGRAM_OLDEST 3u
#define XG_PROGRAM_NEWEST 4u
#define XG_PROGRAM_CLOCK 6u /* two words */
#define XG_PROGRAM_LENGTHS 8u

#define XG_PROGRAM_NEXT 0u
#define XG_PROGRAM_OLDER 1u
#define XG_PROGRAM_NEWER 2u
#define XG_PROGRAM_STANDING 3u
#define XG_PROGRAM_ELEMENT_KEY 4u

#define XG_PROGRAM_IS_FREE 0u
#define XG_PROGRAM_IS_USED 1u
#define XG_PROGRAM_IS_WAITING 2u
#define XG_PROGRAM_IS_HELD 3u /* it waits, and is pointed to; while free ones are looked for */
#define XG_PROGRAM_STANDING_BITS 2u

#define XG_PROGRAM_CHAIN 64u
/* More than stacks, registers, saved ones and loops' contexts have room for: 512 + 11 + 32 + 8. */
#define XG_PROGRAM_SPARE 640u

/* bpf_map_type */
#define XG_PROGRAM_HASH 1u
#define XG_PROGRAM_ARRAY 2u
#define XG_PROGRAM_PROGRAMS 3u
#define XG_PROGRAM_PERF_EVENTS 4u
#define XG_PROGRAM_PERCPU_HASH 5u
#define XG_PROGRAM_PERCPU_ARRAY 6u
#define XG_PROGRAM_LRU_HASH 9u
#define XG_PROGRAM_TRIE 11u
#define XG_PROGRAM_ARRAY_OF_MAPS 12u
#define XG_PROGRAM_DEVMAP 14u
#define XG_PROGRAM_CPUMAP 16u
#define XG_PROGRAM_XSKMAP 17u
#define XG_PROGRAM_DEVMAP_HASH 25u
#define XG_PROGRAM_RINGBUF 27u

/* What a key is read by. */
XG_RECORD(xg_program_key) {
#ifdef XG_PROGRAM_KNOWN_MAPS
  const u32* words; /* what is missing of the last one is 0 */
#else
  xg_program_place place;
#endif
  u32 bytes;
  u32 first;     /* its first word: an index, or a prefix's length in bits */
  u32 is_prefix; /* not 0: of a trie; so many bits behind the first word count */
};
/* An element, or none; and where it is in its bucket. */
XG_RECORD(xg_program_found) {
  u32 slot;   /* + 1; 0: there is none */
  u32 hash;   /* of the key */
  u32 bucket; /* place of the first one's word */
  u32 before; /* slot + 1 of the element in front of it; 0: it is the first one */
  u32 chain;  /* how many were looked at */
};

XG_FN bool xg_program_is_table(u32 type) {
  return type == XG_PROGRAM_HASH || type == XG_PROGRAM_PERCPU_HASH || type == XG_PROGRAM_LRU_HASH ||
         type == XG_PROGRAM_TRIE || type == XG_PROGRAM_DEVMAP_HASH;
}
/* Whether programs look up in one of that type. */
XG_FN bool xg_program_gives_values(u32 type) {
  return type != XG_PROGRAM_PROGRAMS && type != XG_PROGRAM_PERF_EVENTS && type != XG_PROGRAM_RINGBUF &&
         type != XG_PROGRAM_CPUMAP;
}
XG_FN bool xg_program_is_of_devices(u32 type) {
  return type == XG_PROGRAM_DEVMAP || type == XG_PROGRAM_DEVMAP_HASH;
}
/* Whether programs redirect by one of that type: to interfaces; to another processor, as if that were here;
 * to a socket, of which there is none. */
XG_FN bool xg_program_redirects_by(u32 type) {
  return xg_program_is_of_devices(type) || type == XG_PROGRAM_CPUMAP || type == XG_PROGRAM_XSKMAP;
}
/* Of a map's element: where its words begin. */
XG_FN u32 xg_program_element(XG_PROGRAM_MACHINE_READ, u32 map, u32 slot) {
  return xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_ELEMENTS) +
         slot * xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_ELEMENT_WORDS);
}

/* Of a hash: its shard; where that shard's words begin; of an element: its shard. */
XG_FN u32 xg_program_shard(XG_PROGRAM_MACHINE_READ, u32 map, u32 hash) {
  return xg_program_low(u64(hash) >> xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_SHARD_SHIFT));
}
XG_FN u32 xg_program_header(XG_PROGRAM_MACHINE_READ, u32 map, u32 shard) {
  return xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_HEADER) + shard * XG_PROGRAM_LENGTHS;
}
XG_FN u32 xg_program_free_list(XG_PROGRAM_MACHINE_READ, u32 map, u32 shard) {
  return xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_FREE) +
         shard * xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_SHARD_SLOTS);
}
XG_FN u32 xg_program_shard_of(XG_PROGRAM_MACHINE_READ, u32 map, u32 slot) {
  return slot / xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_SHARD_SLOTS);
}
XG_FN bool xg_program_is_sharded(XG_PROGRAM_MACHINE_READ, u32 map) {
  return xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_SHARD_SHIFT) != 32u;
}

/* Those bits of a key's word that count. A prefix's first bit is its first byte's highest. */
XG_FN u32 xg_program_key_mask(XG_IN(xg_program_key) key, u32 index) {
  if (key.is_prefix == 0u || index == 0u) return ~0u;
  const u32 before = (index - 1u) * 32u;
  if (key.first <= before) return 0u;
  const u32 bits = key.first - before;
  return bits >= 32u ? ~0u : xg_swap32(~(~0u >> bits));
}
XG_FN u32 xg_program_key_word(XG_PROGRAM_MACHINE_READ, XG_IN(xg_program_key) key, u32 index) {
  if (index == 0u) return key.first;
  const u32 mask = xg_program_key_mask(key, index);
  if (mask == 0u) return 0u;
#ifdef XG_PROGRAM_KNOWN_MAPS
  (void)m;
  return key.words[index] & mask;
#else
  xg_program_place at = key.place;
  at.at += index * 4u;
  const u32 left = key.bytes - index * 4u;
  return xg_program_low(xg_program_read(XG_PROGRAM_IT, at, left < 4u ? left : 4u)) & mask;
#endif
}
/* Words of a key that count. */
XG_FN u32 xg_program_key_words(XG_IN(xg_program_key) key) {
  return key.is_prefix != 0u ? 1u + (key.first + 31u) / 32u : (key.bytes + 3u) / 4u;
}

/* The same of a key in each map: so packets that are ordered by it are so for all of them. */
XG_FN u32 xg_program_hash(XG_PROGRAM_MACHINE_READ, XG_IN(xg_program_key) key) {
  const u64 k0 = (u64(m.state.v[XG_PROGRAM_STATE_KEY + 1u]) << 32) | u64(m.state.v[XG_PROGRAM_STATE_KEY]);
  const u64 k1 =
      (u64(m.state.v[XG_PROGRAM_STATE_KEY + 3u]) << 32) | u64(m.state.v[XG_PROGRAM_STATE_KEY + 2u]);
  const u32 words = xg_program_key_words(key);
  XG_SIP_BEGIN(k0, k1);
  XG_ROLLED
  for (u32 i = 0u; i < words; i += 2u) {
    XG_PROGRAM_TURN();
    u64 word = u64(xg_program_key_word(XG_PROGRAM_IT, key, i));
    if (i + 1u < words) word |= u64(xg_program_key_word(XG_PROGRAM_IT, key, i + 1u)) << 32;
    XG_SIP_WORD(word);
  }
  const u64 last = u64(words) << 56;
  XG_SIP_WORD(last);
  XG_SIP_END();
  return xg_program_low(v0 ^ v1 ^ v2 ^ v3);
}

XG_SELDOM xg_program_found xg_program_seek(XG_PROGRAM_MACHINE_READ, u32 map, XG_IN(xg_program_key) key) {
  xg_program_found found;
  const u32 mask = xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_BUCKET_MASK);
  found.hash = xg_program_hash(XG_PROGRAM_IT, key);
  found.bucket = xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_BUCKETS) +
                 xg_program_shard(XG_PROGRAM_IT, map, found.hash) * (mask + 1u) + (found.hash & mask);
  found.before = 0u;
  found.chain = 0u;
  found.slot = m.state.v[found.bucket];
  const u32 words = xg_program_key_words(key);
  XG_ROLLED
  while (found.slot != 0u && found.chain < XG_PROGRAM_CHAIN) {
    XG_PROGRAM_TURN();
    const u32 element = xg_program_element(XG_PROGRAM_IT, map, found.slot - 1u);
    u32 differs = 0u;
    XG_ROLLED
    for (u32 i = 0u; i < words && differs == 0u; i++) {
      XG_PROGRAM_TURN();
      differs = (m.state.v[element + XG_PROGRAM_ELEMENT_KEY + i] & xg_program_key_mask(key, i)) ^
                xg_program_key_word(XG_PROGRAM_IT, key, i);
    }
    if (differs == 0u) return found;
    found.before = found.slot;
    found.slot = m.state.v[element + XG_PROGRAM_NEXT];
    found.chain++;
  }
  found.slot = 0u;
  return found;
}

/* Whether the run may be where a key of that hash is: nobody else is there. False, with the fault: it may
 * not. That it never comes so far was found out before (gpu/program_keys.hpp). */
XG_FN bool xg_program_is_own(XG_PROGRAM_MACHINE, u32 map, u32 hash) {
#ifndef XG_PROGRAM_IN_BUFFER
  if (m.key_bits != 0u && xg_program_is_sharded(XG_PROGRAM_IT, map) &&
      hash >> (32u - m.key_bits) != m.key_set) {
    m.fault = XG_PROGRAM_WRONG_MAP;
    return false;
  }
#endif
  return true;
}

/* The order of an LRU hash. Of one that is sharded: two words of memory, low and high; an element's stamp, or
 * the clock of the shard whose words begin at `header`. */
XG_FN u64 xg_program_stamp(xg_state state, u32 at) {
  return (u64(state.v[at + 1u]) << 32) | u64(state.v[at]);
}
XG_FN void xg_program_set_stamp(xg_state state, u32 at, u64 stamp) {
  state.v[at] = xg_program_low(stamp);
  state.v[at + 1u] = u32(stamp >> 32);
}
XG_FN void xg_program_stamp_now(xg_state state, u32 header, u32 at) {
  const u64 now = xg_program_stamp(state, header + XG_PROGRAM_CLOCK) + u64(1);
  xg_program_set_stamp(state, at, now);
  xg_program_set_stamp(state, header + XG_PROGRAM_CLOCK, now);
}
XG_FN u32 xg_program_stamp_at(XG_PROGRAM_MACHINE_READ, u32 map, u32 slot) {
  return xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_STAMPS) + slot * 2u;
}
XG_FN u32 xg_program_header_of(XG_PROGRAM_MACHINE_READ, u32 map, u32 slot) {
  return xg_program_header(XG_PROGRAM_IT, map, xg_program_shard_of(XG_PROGRAM_IT, map, slot));
}
/* An element is in no order any more. */
XG_FN void xg_program_unlink(XG_PROGRAM_MACHINE, u32 map, u32 slot) {
  if (xg_program_is_sharded(XG_PROGRAM_IT, map)) {
    xg_program_set_stamp(m.state, xg_program_stamp_at(XG_PROGRAM_IT, map, slot), u64(0));
    return;
  }
  const u32 header = xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_HEADER);
  const u32 element = xg_program_element(XG_PROGRAM_IT, map, slot);
  const u32 older = m.state.v[element + XG_PROGRAM_OLDER], newer = m.state.v[element + XG_PROGRAM_NEWER];
  m.state.v[older == 0u ? header + XG_PROGRAM_OLDEST : older + XG_PROGRAM_NEWER] = newer;
  m.state.v[newer == 0u ? header + XG_PROGRAM_NEWEST : newer + XG_PROGRAM_OLDER] = older;
}
/* One that is in none is the newest. */
XG_FN void xg_program_link_newest(XG_PROGRAM_MACHINE, u32 map, u32 slot) {
  if (xg_program_is_sharded(XG_PROGRAM_IT, map)) {
    xg_program_stamp_now(m.state, xg_program_header_of(XG_PROGRAM_IT, map, slot),
                         xg_program_stamp_at(XG_PROGRAM_IT, map, slot));
    return;
  }
  const u32 header = xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_HEADER);
  const u32 element = xg_program_element(XG_PROGRAM_IT, map, slot);
  const u32 newest = m.state.v[header + XG_PROGRAM_NEWEST];
  m.state.v[element + XG_PROGRAM_OLDER] = newest;
  m.state.v[element + XG_PROGRAM_NEWER] = 0u;
  m.state.v[newest == 0u ? header + XG_PROGRAM_OLDEST : newest + XG_PROGRAM_NEWER] = element;
  m.state.v[header + XG_PROGRAM_NEWEST] = element;
}
/* One that is used. */
XG_FN void xg_program_use(XG_PROGRAM_MACHINE, u32 map, u32 slot) {
  if (!xg_program_is_sharded(XG_PROGRAM_IT, map)) xg_program_unlink(XG_PROGRAM_IT, map, slot);
  xg_program_link_newest(XG_PROGRAM_IT, map, slot);
}
/* The words of a shard's oldest one; 0: there is none. */
XG_FN u32 xg_program_oldest(XG_PROGRAM_MACHINE_READ, u32 map, u32 shard) {
  if (!xg_program_is_sharded(XG_PROGRAM_IT, map))
    return m.state.v[xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_HEADER) + XG_PROGRAM_OLDEST];
  const u32 slots = xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_SHARD_SLOTS);
  const u32 first = shard * slots, stamps = xg_program_stamp_at(XG_PROGRAM_IT, map, first);
  u64 least = ~u64(0);
  u32 oldest = 0u;
  /* Of none in the map the stamp, less 1, is more than all. */
  for (u32 i = 0u; i < slots; i++) {
    XG_PROGRAM_TURN();
    const u64 stamp = xg_program_stamp(m.state, stamps + i * 2u) - u64(1);
    if (stamp < least) {
      least = stamp;
      oldest = i + 1u;
    }
  }
  return oldest == 0u ? 0u : xg_program_element(XG_PROGRAM_IT, map, first + oldest - 1u);
}

/* Of an element: how it stands; how from now on. */
XG_FN u32 xg_program_standing(XG_PROGRAM_MACHINE_READ, u32 map, u32 slot) {
  return m.state.v[xg_program_element(XG_PROGRAM_IT, map, slot) + XG_PROGRAM_STANDING] &
         ((1u << XG_PROGRAM_STANDING_BITS) - 1u);
}
XG_FN void xg_program_stand(XG_PROGRAM_MACHINE, u32 map, u32 slot, u32 how) {
  const u32 at = xg_program_element(XG_PROGRAM_IT, map, slot) + XG_PROGRAM_STANDING;
  m.state.v[at] = (m.state.v[at] & (~0u << XG_PROGRAM_STANDING_BITS)) | how;
}
/* Whatever was found out of it before does not hold any more. */
XG_FN void xg_program_renew(XG_PROGRAM_MACHINE, u32 map, u32 slot) {
  m.state.v[xg_program_element(XG_PROGRAM_IT, map, slot) + XG_PROGRAM_STANDING] +=
      1u << XG_PROGRAM_STANDING_BITS;
}

#ifndef XG_PROGRAM_IN_BUFFER
/* It is the turn of a run that was ahead (gpu/stages/program_ahead.h), and did no more than find an element,
 * whose stamp is at `stamp`. False: that does not stand any more as it stood. */
XG_FN bool xg_program_finds_again(xg_state state, u32 header, u32 element, u32 standing, u32 stamp) {
  if (state.v[element + XG_PROGRAM_STANDING] != standing) return false;
  xg_program_stamp_now(state, header, stamp);
  return true;
}
#endif

#ifndef XG_PROGRAM_KNOWN_MAPS

/* A trie has one more prefix of that length, or one less. */
XG_FN void xg_program_count_length(XG_PROGRAM_MACHINE, u32 map, u32 length, bool more) {
  const u32 longest = (xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_KEY) - 4u) * 8u;
  const u32 counts = xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_HEADER) + XG_PROGRAM_LENGTHS;
  const u32 bit = longest - length, word = counts + longest + 1u + (bit >> 5);
  const u32 before = m.state.v[counts + length];
  m.state.v[counts + length] = more ? before + 1u : before - 1u;
  if (more)
    m.state.v[word] |= 1u << (bit & 31u);
  else if (before == 1u)
    m.state.v[word] &= ~(1u << (bit & 31u));
}

/* An element is in no bucket and no order any more, and waits. */
XG_FN void xg_program_retire(XG_PROGRAM_MACHINE, u32 map, u32 slot) {
  const u32 shard = xg_program_shard_of(XG_PROGRAM_IT, map, slot);
  const u32 header = xg_program_header(XG_PROGRAM_IT, map, shard);
  const u32 slots = xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_SHARD_SLOTS);
  const u32 waiting = m.state.v[header + XG_PROGRAM_WAITING];
  xg_program_stand(XG_PROGRAM_IT, map, slot, XG_PROGRAM_IS_WAITING);
  m.state.v[xg_program_free_list(XG_PROGRAM_IT, map, shard) + slots - 1u - waiting] = slot;
  m.state.v[header + XG_PROGRAM_WAITING] = waiting + 1u;
  m.gives_back = 1u;
}
/* Those of a shard that wait and stand at [from, to) of its list are free. `from`: the first that waits. */
XG_FN void xg_program_free(XG_PROGRAM_MACHINE, u32 map, u32 shard, u32 from, u32 to) {
  const u32 header = xg_program_header(XG_PROGRAM_IT, map, shard);
  const u32 list = xg_program_free_list(XG_PROGRAM_IT, map, shard);
  const u32 unused = m.state.v[header + XG_PROGRAM_UNUSED];
  for (u32 i = from; i < to; i++) {
    XG_PROGRAM_TURN();
    const u32 slot = m.state.v[list + i];
    xg_program_stand(XG_PROGRAM_IT, map, slot, XG_PROGRAM_IS_FREE);
    m.state.v[list + unused + (i - from)] = slot;
  }
  m.state.v[header + XG_PROGRAM_UNUSED] = unused + (to - from);
  m.state.v[header + XG_PROGRAM_WAITING] -= to - from;
}

/* If a pointer is of one of the map's elements that wait, this one is held. */
XG_FN void xg_program_hold(XG_PROGRAM_MACHINE, u32 map, u64 pointer) {
  const u32 object = u32(pointer >> 32);
  u32 of = 0u, slot = 0u;
  if (object < XG_PROGRAM_VALUES || !xg_program_map_of(XG_PROGRAM_IT, object - XG_PROGRAM_VALUES, of, slot) ||
      of != map)
    return;
  slot = slot % xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_SLOTS);
  if (xg_program_standing(XG_PROGRAM_IT, map, slot) == XG_PROGRAM_IS_WAITING)
    xg_program_stand(XG_PROGRAM_IT, map, slot, XG_PROGRAM_IS_HELD);
}
/* Frees the elements of a shard that wait and that nothing points to. */
XG_SELDOM void xg_program_reclaim(XG_PROGRAM_MACHINE, u32 map, u32 shard) {
#ifdef XG_PROGRAM_IN_BUFFER
  /* One place in the text for each that it calls. */
  const u32 bytes = m.own.stack_from[m.frames - 1u] + m.own.stack_bytes[m.frames - 1u];
  const u32 stack = bytes / 8u, contexts = stack + 10u, saved = contexts + m.frames;
  for (u32 i = 0u; i < saved + (m.frames - 1u) * 4u; i++) {
    XG_PROGRAM_TURN();
    u64 pointer = u64(0);
    if (i < stack)
      pointer = (u64(m.own.stack[i * 2u + 1u]) << 32) | u64(m.own.stack[i * 2u]);
    else if (i < contexts)
      pointer = m.own.r[i - stack];
    else if (i < saved)
      pointer = m.own.loop_context[i - contexts];
    else
      pointer = m.own.saved[i - saved + 4u];
    xg_program_hold(XG_PROGRAM_IT, map, pointer);
  }
#else
  for (u32 i = 0u; i < 10u; i++) xg_program_hold(XG_PROGRAM_IT, map, XG_PROGRAM_OWN.r[i]);
  u32 stack = 0u;
  for (u32 i = 0u; i < m.frames; i++) {
    stack = XG_PROGRAM_OWN.stack_from[i] + XG_PROGRAM_OWN.stack_bytes[i];
    xg_program_hold(XG_PROGRAM_IT, map, XG_PROGRAM_OWN.loop_context[i]);
    if (i != 0u)
      for (u32 j = 0u; j < 4u; j++) xg_program_hold(XG_PROGRAM_IT, map, XG_PROGRAM_OWN.saved[i * 4u + j]);
  }
  for (u32 i = 0u; i < stack / 4u; i += 2u)
    xg_program_hold(XG_PROGRAM_IT, map,
                    (u64(XG_PROGRAM_OWN.stack[i + 1u]) << 32) | u64(XG_PROGRAM_OWN.stack[i]));
#endif
  const u32 list = xg_program_free_list(XG_PROGRAM_IT, map, shard);
  const u32 slots = xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_SHARD_SLOTS);
  const u32 from = slots - m.state.v[xg_program_header(XG_PROGRAM_IT, map, shard) + XG_PROGRAM_WAITING];
  u32 free = from, end = slots;
  while (free < end) {
    XG_PROGRAM_TURN();
    const u32 slot = m.state.v[list + free];
    if (xg_program_standing(XG_PROGRAM_IT, map, slot) == XG_PROGRAM_IS_HELD) {
      xg_program_stand(XG_PROGRAM_IT, map, slot, XG_PROGRAM_IS_WAITING);
      end--;
      m.state.v[list + free] = m.state.v[list + end];
      m.state.v[list + end] = slot;
    } else {
      free++;
    }
  }
  xg_program_free(XG_PROGRAM_IT, map, shard, from, free);
}
/* A run ends: nothing waits any more. Of maps that are sharded it has changed that of m.key_hash alone. */
XG_SELDOM void xg_program_give_back(XG_PROGRAM_MACHINE) {
  for (u32 map = 0u; map < m.tables.v[XG_PROGRAM_TABLE_MAPS]; map++) {
    XG_PROGRAM_TURN();
    if (xg_program_is_table(xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_TYPE))) {
      const u32 shard = xg_program_shard(XG_PROGRAM_IT, map, m.key_hash);
      const u32 slots = xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_SHARD_SLOTS);
      const u32 waiting = m.state.v[xg_program_header(XG_PROGRAM_IT, map, shard) + XG_PROGRAM_WAITING];
      if (waiting != 0u) xg_program_free(XG_PROGRAM_IT, map, shard, slots - waiting, slots);
    }
  }
  m.gives_back = 0u;
}

/* Takes an element out of the map. */
XG_FN void xg_program_remove(XG_PROGRAM_MACHINE, u32 map, XG_IN(xg_program_found) found) {
  const u32 element = xg_program_element(XG_PROGRAM_IT, map, found.slot - 1u);
  const u32 next = m.state.v[element + XG_PROGRAM_NEXT];
  if (found.before == 0u)
    m.state.v[found.bucket] = next;
  else
    m.state.v[xg_program_element(XG_PROGRAM_IT, map, found.before - 1u) + XG_PROGRAM_NEXT] = next;
  const u32 type = xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_TYPE);
  if (type == XG_PROGRAM_LRU_HASH) xg_program_unlink(XG_PROGRAM_IT, map, found.slot - 1u);
  if (type == XG_PROGRAM_TRIE)
    xg_program_count_length(XG_PROGRAM_IT, map, m.state.v[element + XG_PROGRAM_ELEMENT_KEY], false);
  const u32 shard = xg_program_shard_of(XG_PROGRAM_IT, map, found.slot - 1u);
  m.state.v[xg_program_header(XG_PROGRAM_IT, map, shard) + XG_PROGRAM_USED] -= 1u;
  xg_program_retire(XG_PROGRAM_IT, map, found.slot - 1u);
}

/* A new element of that key, in front of its bucket, all its values 0. Its slot + 1; 0: there is none free.
 */
XG_FN u32 xg_program_insert(XG_PROGRAM_MACHINE, u32 map, XG_IN(xg_program_key) key, u32 hash, u32 bucket) {
  const u32 shard = xg_program_shard(XG_PROGRAM_IT, map, hash);
  const u32 header = xg_program_header(XG_PROGRAM_IT, map, shard);
  if (m.state.v[header + XG_PROGRAM_UNUSED] == 0u) xg_program_reclaim(XG_PROGRAM_IT, map, shard);
  const u32 unused = m.state.v[header + XG_PROGRAM_UNUSED];
  if (unused == 0u) return 0u;
  const u32 slot = m.state.v[xg_program_free_list(XG_PROGRAM_IT, map, shard) + unused - 1u];
  m.state.v[header + XG_PROGRAM_UNUSED] = unused - 1u;
  m.state.v[header + XG_PROGRAM_USED] += 1u;
  const u32 element = xg_program_element(XG_PROGRAM_IT, map, slot);
  m.state.v[element + XG_PROGRAM_NEXT] = m.state.v[bucket];
  m.state.v[bucket] = slot + 1u;
  xg_program_stand(XG_PROGRAM_IT, map, slot, XG_PROGRAM_IS_USED);
  xg_program_renew(XG_PROGRAM_IT, map, slot);
  /* All of it, of a prefix also what does not count. */
  m.state.v[element + XG_PROGRAM_ELEMENT_KEY] = key.first;
  for (u32 i = 1u; i * 4u < key.bytes; i++) {
    XG_PROGRAM_TURN();
    xg_program_place at = key.place;
    at.at += i * 4u;
    const u32 left = key.bytes - i * 4u;
    m.state.v[element + XG_PROGRAM_ELEMENT_KEY + i] =
        xg_program_low(xg_program_read(XG_PROGRAM_IT, at, left < 4u ? left : 4u));
  }
  const u32 type = xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_TYPE);
  if (type == XG_PROGRAM_LRU_HASH) xg_program_link_newest(XG_PROGRAM_IT, map, slot);
  if (type == XG_PROGRAM_TRIE) xg_program_count_length(XG_PROGRAM_IT, map, key.first, true);
  const u32 stride = xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_STRIDE);
  for (u32 queue = 0u; queue < xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_QUEUES); queue++) {
    const u32 value = xg_program_value_at(
        XG_PROGRAM_IT, map, queue * xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_SLOTS) + slot);
    XG_PROGRAM_TURN();
    for (u32 i = 0u; i < stride; i++) {
      XG_PROGRAM_TURN();
      m.state.v[value + i] = 0u;
    }
  }
  return slot + 1u;
}

#endif

#endif
