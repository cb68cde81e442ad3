/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * maps/mirror.h: mirrored packets: how the XDP program shows packets to a compute device that watches, and
 * lets them go on at once. No user-space program touches the packet and no system call is made; where the
 * device is too slow it misses packets, which are counted, and nobody waits.
 *
 * A ring a possible CPU: the XDP program on CPU c is the only producer of ring c, and one consumer takes
 * from all rings of all ports. Map `mirror_rings` (mmapable): record index = cpu * slots + (n & (slots - 1))
 * for the ring's n-th packet, counted from 0. Map `mirror_state` (mmapable): an entry a CPU.
 *
 * Producer: if head - consumed >= slots, counts an overrun and goes on. Else it writes the record but for
 * its ticket, fence, ticket = head + 1, head = head + 1. Consumer: record n is there once its ticket is
 * n + 1 (load-acquire); when it needs the record no more it stores consumed = n + 1 (store-release).
 *
 * What the consumer decides it publishes as flow verdicts (maps/flow.h) under the record's key, in the
 * mirror's shard of the packet's receive queue.
 */
#ifndef XDPGPU_MAPS_MIRROR_H
#define XDPGPU_MAPS_MIRROR_H

#include "flow.h"

#define XG_MIRROR_BYTES 256u /* of a packet, most */

/* A record looks to the stages like a frame with its metadata in front: a descriptor's offset is that of
 * `packet`, its length `captured`. Whoever follows metadata's offsets checks them against `captured`. */
XG_RECORD(xg_mirror_record) {
  u64 ticket;
  u32 captured;    /* bytes of the packet that stand here */
  u32 wire_length; /* of the whole packet, 65535 at most */
  u16 queue;       /* receive queue */
  u8 port;
  u8 reserved[13];
  xg_metadata metadata; /* sequence: low half of the ticket */
  u8 packet[256];
  xg_flow_key key; /* with `mirror` filled in; of the whole packet, as one that is cut parses as malformed */
  u8 unused[20];
};
XG_ASSERT_SIZE(xg_mirror_record, 384);
XG_ASSERT_OFFSET(xg_mirror_record, metadata, 32);
XG_ASSERT_OFFSET(xg_mirror_record, packet, 64);
XG_ASSERT_OFFSET(xg_mirror_record, key, 320);

/* The first 64 bytes are written by the kernel program alone, the second 64 by the consumer alone. */
XG_RECORD(xg_mirror_state) {
  u64 head;          /* packets mirrored so far */
  u64 overruns;      /* packets that went on unseen, as the ring was full */
  u64 consumed_seen; /* `consumed` as the kernel program last read it: read again when the ring looks full, as
                        the line is the consumer's and costs a transfer between processors */
  u64 kernel_reserved[5];
  u64 consumed; /* records before this one may be overwritten */
  u64 consumer_reserved[7];
};
XG_ASSERT_SIZE(xg_mirror_state, 128);
XG_ASSERT_OFFSET(xg_mirror_state, consumed, 64);

#endif
