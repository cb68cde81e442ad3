/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/hashed_set.h: sets of millions of names or strings in an image, each of which is found by a hash
 * of it, in a look-up or two.
 *
 * The hash is SipHash-1-3 with 128 bits, by a secret key, of what the stage says. The table is slots of four
 * words each: the upper 96 bits of the hash; and what the set has of the string, 0: the slot is empty. One
 * stands in the first empty slot from the one that its hash's lowest word says, and behind the last slot
 * comes the first. One slot in four is empty at least. What is in no set would be found all the same if its
 * slot and 96 bits of its hash were another one's: once in 2^96.
 */
#ifndef XDPGPU_STAGES_HASHED_SET_H
#define XDPGPU_STAGES_HASHED_SET_H

#include "gpu/stages/dialect.h"
#include "maps/hash.h"

#define XG_HASHED_SLOT 4u

struct xg_hashed {
  u64 low;
  u64 high;
};

/* Of what SipHash has taken so far. */
XG_FN xg_hashed xg_hashed_end(u64 v0, u64 v1, u64 v2, u64 v3) {
  xg_hashed hash;
  XG_SIP_END();
  hash.low = v0 ^ v1 ^ v2 ^ v3;
  v1 ^= u64(0xddu);
  XG_SIP_ROUND();
  XG_SIP_ROUND();
  XG_SIP_ROUND();
  hash.high = v0 ^ v1 ^ v2 ^ v3;
  return hash;
}

/* The slot at which to begin. */
XG_FN u32 xg_hashed_slot(u32 slots, xg_hashed hash) { return u32((u64(u32(hash.low)) * u64(slots)) >> 32); }

/* What the set has: a slot's last word, 0: nothing. */
XG_FN u32 xg_hashed_find(xg_words image, u32 table, u32 slots, xg_hashed hash) {
  u32 slot = xg_hashed_slot(slots, hash);
  for (u32 i = 0u; i < slots; i++) {
    u32 at = table + slot * XG_HASHED_SLOT;
    u32 value = image.v[at + 3u];
    if (value == 0u || (image.v[at] == u32(hash.low >> 32) && image.v[at + 1u] == u32(hash.high) &&
                        image.v[at + 2u] == u32(hash.high >> 32)))
      return value;
    slot = slot + 1u == slots ? 0u : slot + 1u;
  }
  return 0u;
}

#endif
