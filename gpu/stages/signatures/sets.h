/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/signatures/sets.h: whether a name is one of a set's strings.
 */
#ifndef XDPGPU_STAGES_SIGNATURES_SETS_H
#define XDPGPU_STAGES_SIGNATURES_SETS_H

#include "gpu/stages/hashed_set.h"
#include "gpu/stages/signatures/packet.h"

XG_FN xg_hashed xg_signatures_hash(xg_batch b, u32 set, XG_INOUT(xg_payload_cursor) c, u32 begin, u32 bytes) {
  u32 key = set + XG_SET_KEY;
  u64 k0 = u64(b.image.v[key]) | u64(b.image.v[key + 1u]) << 32;
  u64 k1 = u64(b.image.v[key + 2u]) | u64(b.image.v[key + 3u]) << 32;
  XG_SIP_BEGIN(k0, k1);
  XG_SIP_WORD(u64(bytes));
  for (u32 at = 0u; at < bytes; at += 8u) {
    u32 left = bytes - at;
    u32 low = xg_signatures_load(b, c, begin + at);
    u32 high = left > 4u ? xg_signatures_load(b, c, begin + at + 4u) : 0u;
    if (left < 4u) low &= (1u << (left * 8u)) - 1u;
    if (left > 4u && left < 8u) high &= (1u << ((left - 4u) * 8u)) - 1u;
    u64 m = u64(low) | u64(high) << 32;
    XG_SIP_WORD(m);
  }
  return xg_hashed_end(v0, v1, v2, v3);
}

/* Whether the `bytes` bytes at `begin` are in all sets that a rule wants them in, and in none of the others.
 * name: the rule's words of the name. Adds to `work`. */
XG_SELDOM bool xg_signatures_in_sets(XG_IN(xg_batch) b, u32 name, XG_INOUT(xg_payload_cursor) c, u32 begin,
                                     u32 bytes, XG_INOUT(u32) work) {
  u32 sets = b.image.v[name + XG_NAME_SETS];
  u32 count = b.image.v[name + XG_NAME_SETS + 1u];
  for (u32 i = 0u; i < count; i++) {
    u32 at = sets + i * XG_SIGNATURES_IN_SET;
    u32 set = b.image.v[at];
    work += 1u + (bytes + XG_SIGNATURES_PER_WORK - 1u) / XG_SIGNATURES_PER_WORK;
    u32 found = xg_hashed_find(b.image, b.image.v[set + XG_SET_SLOTS + 1u], b.image.v[set + XG_SET_SLOTS],
                               xg_signatures_hash(b, set, c, begin, bytes));
    if ((found != 0u) == (b.image.v[at + 1u] != 0u)) return false;
  }
  return true;
}

#endif
