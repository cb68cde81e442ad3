/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * maps/hash.h: the keyed flow hash, SipHash-1-3 (Aumasson and Bernstein, INDOCRYPT 2012) of the flow
 * key's bytes: for IPv6 all 44; for anything else 20 of them (src[0], dst[0] and the last twelve), as
 * the other address words are zero there. So it is the published function on a published message, and
 * any SipHash-1-3 in the world can check it.
 *
 * XG_SIP_* are plain 64-bit arithmetic, readable by all four compilers; xg_flow_hash needs pointers.
 */
#ifndef XDPGPU_MAPS_HASH_H
#define XDPGPU_MAPS_HASH_H

#include "types.h"

#define XG_SIP_ROTATE(x, n) (((x) << (n)) | ((x) >> (64 - (n))))

/* Declares the state v0..v3 from the 128-bit key. */
#define XG_SIP_BEGIN(k0, k1)            \
  u64 v0 = (k0) ^ 0x736f6d6570736575ul; \
  u64 v1 = (k1) ^ 0x646f72616e646f6dul; \
  u64 v2 = (k0) ^ 0x6c7967656e657261ul; \
  u64 v3 = (k1) ^ 0x7465646279746573ul

#define XG_SIP_ROUND()                                              \
  v0 += v1, v1 = XG_SIP_ROTATE(v1, 13), v1 ^= v0;                   \
  v0 = XG_SIP_ROTATE(v0, 32), v2 += v3, v3 = XG_SIP_ROTATE(v3, 16); \
  v3 ^= v2, v0 += v3, v3 = XG_SIP_ROTATE(v3, 21), v3 ^= v0;         \
  v2 += v1, v1 = XG_SIP_ROTATE(v1, 17), v1 ^= v2;                   \
  v2 = XG_SIP_ROTATE(v2, 32)

/* One message word: the bytes read as a little-endian number. */
#define XG_SIP_WORD(m) \
  v3 ^= (m);           \
  XG_SIP_ROUND();      \
  v0 ^= (m)

/* The finalization; the hash is then v0 ^ v1 ^ v2 ^ v3. */
#define XG_SIP_END() \
  v2 ^= 0xff;        \
  XG_SIP_ROUND();    \
  XG_SIP_ROUND();    \
  XG_SIP_ROUND()

#ifndef XG_GLSL

#include "flow.h"

/* Read as wide as it was written. The kernel program hashes a key right behind its parser, whose stores are
 * still under way: a load over several of them would wait until the last one is done. */
#ifdef __bpf__
#define XG_AS_WRITTEN(x) (*(const volatile typeof(x)*)&(x))
#else
#define XG_AS_WRITTEN(x) (x)
#endif

XG_FN u64 xg_pair(u32 low, u32 high) { return (u64)high << 32 | low; }

/* The whole 64 bits; tables and metadata use the low 32. */
XG_FN u64 xg_flow_hash(const xg_flow_key* key, u64 k0, u64 k1) {
  const u64 ports = xg_pair(XG_AS_WRITTEN(key->src_port) | (u32)XG_AS_WRITTEN(key->dst_port) << 16,
                            XG_AS_WRITTEN(key->vlan_outer) | (u32)XG_AS_WRITTEN(key->vlan_inner) << 16);
  const u32 tail = key->protocol | (u32)key->family << 8 | (u32)key->port << 16 | (u32)key->mirror << 24;
  XG_SIP_BEGIN(k0, k1);
  if (key->family == 6) {
    XG_SIP_WORD(xg_pair(key->src[0], key->src[1]));
    XG_SIP_WORD(xg_pair(key->src[2], key->src[3]));
    XG_SIP_WORD(xg_pair(key->dst[0], key->dst[1]));
    XG_SIP_WORD(xg_pair(key->dst[2], key->dst[3]));
    XG_SIP_WORD(ports);
    XG_SIP_WORD(xg_pair(tail, 44u << 24));
  } else {
    XG_SIP_WORD(xg_pair(key->src[0], key->dst[0]));
    XG_SIP_WORD(ports);
    XG_SIP_WORD(xg_pair(tail, 20u << 24));
  }
  XG_SIP_END();
  return v0 ^ v1 ^ v2 ^ v3;
}

#endif /* XG_GLSL */
#endif
