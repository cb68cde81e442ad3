/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * maps/hash.h: the keyed hashes.
 *
 * XG_SIP_*: SipHash-1-3 (Aumasson and Bernstein, INDOCRYPT 2012), plain 64-bit arithmetic that all four
 * compilers read. Tables that hold state for good are hashed by it, and other keys are drawn from it.
 *
 * xg_flow_hash, by which the XDP program finds a flow's verdict: Multilinear-HM (Lemire and Kaser, "Strongly
 * universal string hashing is fast", The Computer Journal 57(11), 2014) over the flow key's 32-bit words. Its
 * multiplications wait for nothing but the packet, where SipHash's rounds wait for each other. For
 * xg_hash_keys drawn at random, any two flows have hashes that are uniform and independent of each other, and
 * so has each part of their bits: two flows that are chosen without knowing the keys meet in one of 2^b
 * buckets with a chance of 2^-b. The sum's upper half goes through a bijection, which leaves that as it is
 * and scatters flows whose keys ascend in equal steps.
 *
 * It is no pseudorandom function: who learns the hashes of chosen flows, the 32 bits themselves, can compute
 * those of others. They do not leave the host, and the keys are new at each attach. Nor is anything proven of
 * more than two flows at a time. The verdict table is a cache: a flow whose bucket is full is decided anew.
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

/* The hash's keys, from a 128-bit one: SipHash-1-3 of 0, 1, 2 and so on, as words of eight bytes. */
XG_FN xg_hash_keys xg_hash_keys_from(u64 k0, u64 k1) {
  xg_hash_keys keys;
  u64* at = &keys.scatter;
  for (u32 i = 0; i < sizeof(keys) / sizeof(u64); i++) {
    XG_SIP_BEGIN(k0, k1);
    XG_SIP_WORD((u64)i);
    XG_SIP_WORD((u64)8 << 56);
    XG_SIP_END();
    at[i] = v0 ^ v1 ^ v2 ^ v3;
  }
  keys.scatter |= 1; /* or the multiplication by it is no bijection */
  return keys;
}

/* Of all of the key but `mirror`. IPv6 has its address words in four pairs, anything else src[0] and dst[0]
 * in one, as the others are zero there: the family, in a word of its own, keeps the two apart. */
XG_FN u32 xg_flow_hash(const xg_flow_key* key, const xg_hash_keys* by) {
  const u32 ports = XG_AS_WRITTEN(key->src_port) | (u32)XG_AS_WRITTEN(key->dst_port) << 16;
  const u32 vlans = XG_AS_WRITTEN(key->vlan_outer) | (u32)XG_AS_WRITTEN(key->vlan_inner) << 16;
  const u32 tail = key->protocol | (u32)key->family << 8 | (u32)key->port << 16;
  u64 sum = by->sum + tail * by->tail + (ports + by->ports) * (vlans + by->vlans);
  if (key->family == 6) {
    sum += (key->src[0] + by->address[0]) * (key->src[1] + by->address[1]);
    sum += (key->src[2] + by->address[2]) * (key->src[3] + by->address[3]);
    sum += (key->dst[0] + by->address[4]) * (key->dst[1] + by->address[5]);
    sum += (key->dst[2] + by->address[6]) * (key->dst[3] + by->address[7]);
  } else {
    sum += (key->src[0] + by->address[0]) * (key->dst[0] + by->address[1]);
  }
  u32 hash = (u32)(sum >> 32);
  hash ^= hash >> 16;
  hash *= (u32)by->scatter;
  return hash ^ hash >> 16;
}

#endif /* XG_GLSL */
#endif
