/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * maps/egress.h: the egress feed: how a tc program shows user space the headers of what the host sends out of
 * a port, before it leaves, so that stages which follow connections see both directions. No packet waits for
 * it and no system call is made.
 *
 * A log a possible CPU, without a consumer that it would wait for: every worker reads all of it with a place
 * of its own, and who falls behind by more than the ring's records has missed the older ones. Map
 * `egress_records` (mmapable): record index = cpu * XG_EGRESS_SLOTS + (n & (XG_EGRESS_SLOTS - 1)) for the
 * CPU's n-th packet, counted from 0. Map `egress_heads` (mmapable): an entry a CPU.
 *
 * Producer: ticket = 0, fence, the record but for its ticket, fence, ticket = n + 1, head = n + 1. Reader:
 * record n is there once the head is past it (load-acquire), and whole if its ticket is n + 1 before and
 * after it was copied; else it has been overwritten.
 *
 * A packet's record stands before the packet is with the driver, so whoever has received the answer finds
 * what was answered.
 */
#ifndef XDPGPU_MAPS_EGRESS_H
#define XDPGPU_MAPS_EGRESS_H

#include "types.h"

#define XG_EGRESS_SLOTS 2048u
#define XG_EGRESS_BYTES 160u /* of a packet, most */

XG_RECORD(xg_egress_record) {
  u64 ticket;
  u64 time_ns;     /* CLOCK_MONOTONIC */
  u32 captured;    /* bytes of the packet that stand here, from the Ethernet header on */
  u32 wire_length; /* of the whole packet, which may still be cut into several */
  u64 reserved;
  u8 packet[160];
};
XG_ASSERT_SIZE(xg_egress_record, 192);
XG_ASSERT_OFFSET(xg_egress_record, packet, 32);

XG_RECORD(xg_egress_head) {
  u64 head; /* packets shown so far */
  u64 reserved[7];
};
XG_ASSERT_SIZE(xg_egress_head, 64);

#endif
