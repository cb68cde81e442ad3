/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/table.h: the table in which a stage keeps what it remembers, and what a packet brings to it.
 *
 * A set-associative table. The keyed hash of a packet's key names its set; an entry stands in one of the
 * set's ways, and everything that happens to one packet happens within its set. So packets of different sets
 * never have to wait for each other, and packets of one set are taken in their order: that is all a device
 * has to keep for its answers to be the sequential reference's, however the stream is cut into batches.
 *
 *   head   XG_TABLE_HEAD words: counters, two words each (low, high)
 *   sets   XG_SET_WORDS words each: XG_SET_HEAD of the set's own, then XG_WAYS entries
 *
 * Times are in ticks of a quarter of a nanosecond, which come round after 146 years: no clock that packets
 * have, since a boot or since 1970, does so before the year 2116. A set's clock is the latest time that a
 * packet brought to it and never runs backwards; an entry whose deadline is not after it is not there.
 */
#ifndef XDPGPU_STAGES_TABLE_H
#define XDPGPU_STAGES_TABLE_H

#include "gpu/stages/view.h"
#include "maps/hash.h"

#define XG_TICKS_PER_NS 4ul
#define XG_KEY_WORDS 10u
#define XG_TOUCH_MORE 4u

/* What a packet brings to a stage with a table, found without a look at the table. */
struct xg_touch {
  u32 set;
  u32 tag;   /* of the key's hash, never 0; XG_UNTRACKED: the packet has nothing to do with the table */
  u32 facts; /* stage's own */
  u32 size;  /* stage's own */
  u64 now;   /* ticks */
  u32 key[XG_KEY_WORDS];
  u32 more[XG_TOUCH_MORE]; /* stage's own, of those with the trait brings_more */
};
#define XG_UNTRACKED 0u

/* First words of the body of a stage with a table, behind those of every body. */
#define XG_BODY_STATE 2u /* number of its table */
#define XG_BODY_ROUND 3u /* of the image's rounds */
#define XG_BODY_SETS 4u  /* of its table, power of two */
#define XG_BODY_EVICT 5u
#define XG_BODY_HASH_KEY 6u /* four words: k0, k1 */
#define XG_BODY_STATEFUL 10u
/* With the trait `programs`, behind the words that say which table it is: what the table has behind its sets
 * at first. */
#define XG_BODY_FIRST 14u       /* -> its words */
#define XG_BODY_FIRST_WORDS 15u /* how many; 0: the stage has no table */
#define XG_BODY_STEPS 19u       /* of a packet's program, at most */

/* What gives way where a set is full. */
#define XG_EVICT_FIFO 0u   /* the entry that has been there longest */
#define XG_EVICT_LRU 1u    /* the one not used for longest */
#define XG_EVICT_LFU 2u    /* the one used least often; of equals the one in the lowest way */
#define XG_EVICT_RANDOM 3u /* any, by the newcomer's hash */
#define XG_EVICT_REFUSE 4u /* none: there is no place for the newcomer */

/* Head: counters, each at twice its number. */
#define XG_TABLE_HEAD 64u
#define XG_TABLE_TOUCHES 0u  /* packets that looked for an entry */
#define XG_TABLE_HITS 1u     /* that found it */
#define XG_TABLE_INSERTED 2u /* entries made */
#define XG_TABLE_EVICTED 3u  /* of them, those that took the place of a live one */
#define XG_TABLE_REFUSED 4u  /* entries not made as there was no place */
#define XG_TABLE_OCCUPIED 5u /* ways that were ever taken: at most all */
#define XG_TABLE_OWN 8u      /* from here on the stage's own */

#define XG_WAYS 8u
#define XG_SET_HEAD 16u
#define XG_SET_TIME 0u  /* the set's clock: low, high */
#define XG_SET_TURNS 2u /* counts the packets that came to the set */
#define XG_SET_TAGS 4u  /* one a way, 0: the way was never taken */
#define XG_ENTRY_WORDS 16u
#define XG_ENTRY_KEY 0u
#define XG_ENTRY_DEADLINE 10u /* ticks: low, high */
#define XG_ENTRY_RANK 12u     /* as eviction has it: turn of its making or of its last use, number of uses */
#define XG_ENTRY_VALUE 13u    /* three words, the stage's own */
#define XG_SET_WORDS (XG_SET_HEAD + XG_WAYS * XG_ENTRY_WORDS)

/* Where a packet stands in its pipeline. */
struct xg_way {
  u32 position; /* of the stage that it has come to */
  u32 kind;     /* of that stage, if it has a table; 0: the packet is decided */
  u32 body;
};

/* What the stages behind one do with a packet that it lets go on. */
#define XG_FATE_TO_HOST 0u
#define XG_FATE_SENT_ON 1u
#define XG_FATE_DROPPED 2u
#define XG_FATE_UNDECIDED 3u /* not known: a table is asked first, or nobody had to know */
/* Bits of the word in which a stage that asks for it (trait asks_behind) is told of the stages behind: */
#define XG_BEHIND_SENDS 16u     /* one sends packets on, past the host's stack */
#define XG_BEHIND_ASKS_EACH 32u /* what they do is to be asked for each packet; else all have the fate: */
#define XG_BEHIND_FATE(word) (((word) >> 6) & 3u)
#define XG_BEHIND_WITH_FATE(fate) ((fate) << 6)
#define XG_BEHIND_INSPECTS 256u /* one inspects packets */

XG_FN xg_touch xg_untracked() {
  xg_touch t;
  t.set = 0u;
  t.tag = XG_UNTRACKED;
  t.facts = 0u;
  t.size = 0u;
  t.now = u64(0);
  for (u32 i = 0u; i < XG_KEY_WORDS; i++) t.key[i] = 0u;
  for (u32 i = 0u; i < XG_TOUCH_MORE; i++) t.more[i] = 0u;
  return t;
}

XG_FN u64 xg_word_pair(u32 low, u32 high) { return u64(low) | (u64(high) << 32); }

/* SipHash-1-3 of the key's forty bytes, its words as little-endian ones. at: -> the hash's key. */
XG_FN u64 xg_key_hash(xg_batch b, u32 at, xg_touch t) {
  u64 k0 = xg_word_pair(b.image.v[at], b.image.v[at + 1u]);
  u64 k1 = xg_word_pair(b.image.v[at + 2u], b.image.v[at + 3u]);
  XG_SIP_BEGIN(k0, k1);
  for (u32 i = 0u; i < XG_KEY_WORDS; i += 2u) {
    u64 m = xg_word_pair(t.key[i], t.key[i + 1u]);
    XG_SIP_WORD(m);
  }
  u64 tail = u64(XG_KEY_WORDS * 4u) << 56;
  XG_SIP_WORD(tail);
  XG_SIP_END();
  return v0 ^ v1 ^ v2 ^ v3;
}

/* Finds the key's set. Returns the hash. */
XG_FN u64 xg_touch_hash(xg_batch b, u32 body, XG_INOUT(xg_touch) t) {
  u64 hash = xg_key_hash(b, body + XG_BODY_HASH_KEY, t);
  t.set = u32(hash) & (b.image.v[body + XG_BODY_SETS] - 1u);
  t.tag = u32(hash >> 32) | 1u;
  return hash;
}

/* Words that a table has in xg_batch.states: its address, low and high; on the CPU as many of where its
 * head's counters are counted, 0: in the head. */
#if defined(XG_GLSL) || defined(__CUDACC__)
#define XG_STATE_WORDS 2u
#else
#define XG_STATE_WORDS 4u
#endif

XG_FN xg_state xg_state_of(xg_batch b, u32 body) {
  u32 at = b.image.v[body + XG_BODY_STATE] * XG_STATE_WORDS;
#if defined(XG_GLSL) || defined(__CUDACC__)
  return XG_HANDLE(xg_state, xg_word_pair(b.states.v[at], b.states.v[at + 1u]));
#else
  return {reinterpret_cast<u32*>(xg_word_pair(b.states.v[at], b.states.v[at + 1u])),
          reinterpret_cast<u32*>(xg_word_pair(b.states.v[at + 2u], b.states.v[at + 3u]))};
#endif
}

XG_FN void xg_count(xg_state s, u32 counter) { XG_COUNT(s, counter * 2u); }

XG_FN u64 xg_state64(xg_state s, u32 at) { return xg_word_pair(s.v[at], s.v[at + 1u]); }
XG_FN void xg_set_state64(xg_state s, u32 at, u64 value) {
  s.v[at] = u32(value);
  s.v[at + 1u] = u32(value >> 32);
}

XG_FN u32 xg_set_at(u32 set) { return XG_TABLE_HEAD + set * XG_SET_WORDS; }
XG_FN u32 xg_entry_at(u32 set, u32 way) { return set + XG_SET_HEAD + way * XG_ENTRY_WORDS; }

XG_FN bool xg_entry_is(xg_state s, u32 entry, xg_touch t) {
  u32 different = 0u;
  for (u32 i = 0u; i < XG_KEY_WORDS; i++) different |= s.v[entry + XG_ENTRY_KEY + i] ^ t.key[i];
  return different == 0u;
}

/* A packet comes to its set: -> the set's words, its clock in `now`. */
XG_FN u32 xg_come(xg_state s, xg_touch t, XG_INOUT(u64) now) {
  u32 set = xg_set_at(t.set);
  u64 clock = xg_state64(s, set + XG_SET_TIME);
  now = t.now;
  if (clock > now) now = clock;
  if (now != clock) xg_set_state64(s, set + XG_SET_TIME, now);
  s.v[set + XG_SET_TURNS] += 1u;
  xg_count(s, XG_TABLE_TOUCHES);
  return set;
}

/* An entry is used. */
XG_FN void xg_note_use(xg_state s, u32 set, u32 entry, u32 evict) {
  if (evict == XG_EVICT_LRU) s.v[entry + XG_ENTRY_RANK] = s.v[set + XG_SET_TURNS];
  if (evict == XG_EVICT_LFU && s.v[entry + XG_ENTRY_RANK] != 0xffffffffu) s.v[entry + XG_ENTRY_RANK] += 1u;
}

/* -> the entry of the packet's key, its use noted; 0: there is none. */
XG_FN u32 xg_find(xg_state s, u32 set, u64 now, u32 evict, xg_touch t) {
  for (u32 way = 0u; way < XG_WAYS; way++) {
    if (s.v[set + XG_SET_TAGS + way] != t.tag) continue;
    u32 entry = xg_entry_at(set, way);
    if (xg_state64(s, entry + XG_ENTRY_DEADLINE) <= now || !xg_entry_is(s, entry, t)) continue;
    xg_note_use(s, set, entry, evict);
    xg_count(s, XG_TABLE_HITS);
    return entry;
  }
  return 0u;
}

/* The way that a newcomer takes: the first one without a live entry, else that which gives way; XG_WAYS:
 * none. Entries that have one of the bits in `first` in their value's first word give way before all others,
 * also where none would. */
XG_FN u32 xg_place(xg_state s, u32 set, u64 now, u32 evict, u32 first, xg_touch t) {
  u32 turns = s.v[set + XG_SET_TURNS];
  u32 chosen = 0u;
  u32 most = 0u;
  bool some = false;
  for (u32 way = 0u; way < XG_WAYS; way++) {
    u32 entry = xg_entry_at(set, way);
    if (s.v[set + XG_SET_TAGS + way] == 0u) {
      xg_count(s, XG_TABLE_OCCUPIED);
      return way;
    }
    if (xg_state64(s, entry + XG_ENTRY_DEADLINE) <= now) return way;
    u32 rank = s.v[entry + XG_ENTRY_RANK];
    u32 reason = evict == XG_EVICT_LFU ? ~rank : turns - rank;
    bool sooner = first != 0u && (s.v[entry + XG_ENTRY_VALUE] & first) != 0u;
    if (way == 0u || (sooner && !some) || (sooner == some && reason > most)) {
      chosen = way;
      most = reason;
      some = sooner;
    }
  }
  if (!some && evict == XG_EVICT_REFUSE) {
    xg_count(s, XG_TABLE_REFUSED);
    return XG_WAYS;
  }
  if (!some && evict == XG_EVICT_RANDOM) chosen = (t.tag >> 8) & (XG_WAYS - 1u);
  xg_count(s, XG_TABLE_EVICTED);
  return chosen;
}

/* -> the new entry of a key that has none, its value for the caller to write; 0: there is no place. first: as
 * of xg_place(). */
XG_FN u32 xg_insert_before(xg_state s, u32 set, u64 now, u32 evict, u32 first, u64 deadline, xg_touch t) {
  u32 way = xg_place(s, set, now, evict, first, t);
  if (way == XG_WAYS) return 0u;
  u32 entry = xg_entry_at(set, way);
  s.v[set + XG_SET_TAGS + way] = t.tag;
  for (u32 i = 0u; i < XG_KEY_WORDS; i++) s.v[entry + XG_ENTRY_KEY + i] = t.key[i];
  xg_set_state64(s, entry + XG_ENTRY_DEADLINE, deadline);
  s.v[entry + XG_ENTRY_RANK] = evict == XG_EVICT_LFU ? 1u : s.v[set + XG_SET_TURNS];
  xg_count(s, XG_TABLE_INSERTED);
  return entry;
}
XG_FN u32 xg_insert(xg_state s, u32 set, u64 now, u32 evict, u64 deadline, xg_touch t) {
  return xg_insert_before(s, set, now, evict, 0u, deadline, t);
}

#endif
