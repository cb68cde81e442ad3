/* SPDX-License-Identifier: MIT
 *
 * bench/link/function.h: what somebody's program may look like that is asked about each packet: some
 * arithmetic on its addresses and ports, and a loop. C that CUDA and the host compile alike.
 */
XG_JUDGE unsigned judge(unsigned src0, unsigned src3, unsigned dst0, unsigned dst3, unsigned ports,
                        unsigned protocol, unsigned length) {
  unsigned hash = src0 ^ dst0 * 0x9e3779b1u;
  unsigned round;
  for (round = 0; round < 4u; round++) {
    hash ^= hash >> 15;
    hash = hash * 0x2c1b3c6du + (round & 1u ? src3 : dst3);
    hash ^= hash >> 12;
    hash += ports ^ protocol << round;
  }
  return (hash & 0xffffu) < length ? hash | 1u : hash & ~1u;
}
