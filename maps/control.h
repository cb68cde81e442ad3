/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * maps/control.h: how user space steers the XDP program and what it counts: configuration, queue state
 * (credits, heartbeat, order), and the records of its counters.
 */
#ifndef XDPGPU_MAPS_CONTROL_H
#define XDPGPU_MAPS_CONTROL_H

#include "counters.h"
#include "flow.h"
#include "types.h"

/* xg_config.state */
#define XG_STATE_STARTING 0u /* pass everything: sockets are not there yet */
#define XG_STATE_RUNNING 1u
#define XG_STATE_BYPASS 2u   /* the operator's `bypass on`: pass everything */
#define XG_STATE_DRAINING 3u /* detach: nothing is redirected any more, on_failure decides */
#define XG_STATE_CUT_OFF 4u  /* likewise, as what user space passes would not reach the stack */

/* Map `config`, one entry, mmapable. Written by user space, read once a packet. */
XG_RECORD(xg_config) {
  u64 active;          /* generation << 32 | slot (0 or 1): one 64-bit store swaps the policy */
  u64 hash_key[2];     /* SipHash key, random at attach: of the fragments' table and of flow_keys */
  u64 beat_timeout_ns; /* a heartbeat older than this, a worker's or its device's, is a failure */
  u64 policy_hash;     /* of the active policy's text; a restart compares it */
  u32 state;
  u32 port;                   /* this interface's port index */
  u32 queues;                 /* receive queues with a worker: 0..queues-1 */
  u32 flow_entries_per_queue; /* power of two */
  u16 tx_by_redirect;         /* a cached TX leaves by a redirect to its own port, see PortOptions */
  u16 most_bytes;   /* longer frames are cut before anything counts or changes them, see XG_CUTTER; 0: none */
  u16 mirror_slots; /* of each CPU's ring, power of two */
  u16 mirror_bytes; /* of a packet that are mirrored */
  /* The interface's MAC address as it is now: xg_mac_number | XG_MAC_KNOWN. 0: it is not known, and no frame
   * counts as addressed to it. Read where the policy routes. */
  u64 mac;
  xg_hash_keys flow_keys; /* of the flow hash, from hash_key; what IPv4 needs shares a line with mac */
  u64 reserved[10];
};
XG_ASSERT_SIZE(xg_config, 256);
XG_ASSERT_OFFSET(xg_config, mac, 64);
XG_ASSERT_OFFSET(xg_config, flow_keys, 72);
#define XG_MAC_KNOWN (1ul << 48)
#define XG_MAC_ANY (1ul << 49) /* every frame counts as addressed to it: there is no interface (replay) */
#define XG_ACTIVE_GENERATION(active) ((u32)((active) >> 32))
#define XG_ACTIVE_SLOT(active) ((u32)(active)&1u)

/* Map `queue_state`, one entry a receive queue, mmapable. The first 64 bytes and the third are written by the
 * kernel program alone, the second 64 by the queue's worker alone. Counts wrap and are compared by
 * difference.
 *
 * Credits: XDP admits a packet while (granted - admitted) > 0 as a signed 32-bit number. The worker
 * grants packets as it puts frames on the fill ring, as many as there are frames for if each packet takes the
 * most buffers that its port's MTU allows, and never more than fit into the RX ring, plus one for each packet
 * that the kernel lost after the redirect (XDP_STATISTICS). */
XG_RECORD(xg_queue_state) {
  u32 admitted; /* packets redirected to this queue's socket; the next one's metadata.sequence */
  u32 kernel_reserved[15];
  u32 granted;
  u32 retired;        /* packets with sequence - retired < 0 have left user space (sent and completed) */
  u64 beat_ns;        /* CLOCK_MONOTONIC of the worker's last turn; 0: no worker */
  u64 device_beat_ns; /* likewise, how long its device queue owes no answer: of the last one, or of when the
                         oldest batch was handed to it if that is later; of that turn if it has none */
  u32 window;         /* the most credits that there can be */
  u32 worker_reserved[9];
  /* Of the admitted packets, those that the worker has to look at itself: without metadata, as the driver had
   * no room for any, or fragments that are followed. Counted before the packet can be seen on the ring; on a
   * line of its own, as the worker asks for it with each burst. */
  u32 exceptions;
  u32 exceptions_reserved[15];
};
XG_ASSERT_SIZE(xg_queue_state, 192);
XG_ASSERT_OFFSET(xg_queue_state, exceptions, 128);
XG_ASSERT_OFFSET(xg_queue_state, granted, 64);
XG_ASSERT_OFFSET(xg_queue_state, beat_ns, 72);
XG_ASSERT_OFFSET(xg_queue_state, device_beat_ns, 80);

XG_RECORD(xg_counter) {
  u64 packets;
  u64 bytes;
};
XG_ASSERT_SIZE(xg_counter, 16);

/* Map `rule_shed` (per CPU), index as in `rule_counters` (maps/tables.h): of an inspect rule's packets those
 * that on_overload and on_failure decided. */
XG_RECORD(xg_rule_shed) {
  xg_counter overload;
  xg_counter failure;
};
XG_ASSERT_SIZE(xg_rule_shed, 32);

#ifndef XG_GLSL
/* What a worker counts of a queue, map `worker_counters`: XG_WORKER_REASONS (maps/counters.h). */
#define XG_X(name, ...) u64 name;
XG_RECORD(xg_worker_counters) { XG_WORKER_REASONS(XG_X) u64 reserved_end[2]; /* up to full cache lines */ };
#undef XG_X
XG_ASSERT_SIZE(xg_worker_counters, 320);
#endif

/* What has a name of its own stands below these (userspace/kernel/names.hpp). */
#define XG_PIN_ROOT "/sys/fs/bpf/xdpgpu"
#define XG_RUN_ROOT "/run/xdpgpu"

/* Generic XDP sees what a veth or virtio peer leaves for its device to cut, up to 64 KiB, which fits into no
 * frame of user space's. Such a frame goes by this entry of `tx_ports`, behind the ports', to a pair of its
 * own (bpf/cut.bpf.c), where the kernel cuts it; its segments come in again where it came in. */
#define XG_CUTTER XG_MAX_PORTS
#define XG_CUT_MARK 0x78646763u /* of what was cut: "xdgc" */

/* SO_MARK of the sockets on the reinjection pair; its tc program lets nothing else through. */
#define XG_REINJECT_MARK 0x78646770u /* "xdgp" */

#endif
