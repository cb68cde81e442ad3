/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * maps/control.h: how user space steers the XDP program and what it counts: configuration, queue state
 * (credits, heartbeat, order), reasons and counters.
 */
#ifndef XDPGPU_MAPS_CONTROL_H
#define XDPGPU_MAPS_CONTROL_H

#include "flow.h"
#include "malformed.h"
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

/* Map `counters` (per CPU array of xg_counter): what the XDP program did, by reason. Each packet is
 * counted once as received and once under exactly one of the outcomes; `inspected` ones go on in
 * `worker_counters`. Behind the reasons stand the kinds of malformed packets (maps/malformed.h), which are
 * counted besides: kind k at XG_MALFORMED_COUNTER(k). X(name, text) */
#define XG_KERNEL_REASONS(X)                                                            \
  X(received, "seen by the XDP program")                                                \
  X(inspected, "handed to user space")                                                  \
  X(cut, "longer than a frame can be: cut into segments, which came in again")          \
  X(pass_bypass, "passed: starting, or bypass is on")                                   \
  X(pass_management, "passed: management traffic")                                      \
  X(pass_control, "passed: control protocol (ARP, ND, DHCP, LACP, LLDP, STP)")          \
  X(pass_flow, "passed by a flow verdict")                                              \
  X(pass_rule, "passed by a rule")                                                      \
  X(pass_default, "passed by the policy's default")                                     \
  X(pass_fragment, "passed: fragment")                                                  \
  X(pass_malformed, "passed: malformed")                                                \
  X(pass_overload, "passed: out of credit (on_overload)")                               \
  X(pass_failure, "passed: no live worker or device (on_failure)")                      \
  X(drop_flow, "dropped by a flow verdict")                                             \
  X(drop_rule, "dropped by a rule")                                                     \
  X(drop_limit, "dropped: over a rule's limit")                                         \
  X(drop_default, "dropped by the policy's default")                                    \
  X(drop_fragment, "dropped: fragment")                                                 \
  X(drop_malformed, "dropped: malformed")                                               \
  X(drop_overload, "dropped: out of credit (on_overload)")                              \
  X(drop_failure, "dropped: no live worker or device (on_failure)")                     \
  X(tx_flow, "sent back by a flow verdict")                                             \
  X(redirect_flow, "sent to another port by a flow verdict")                            \
  X(error_redirect, "lost: the redirect failed")                                        \
  X(error_rewrite, "lost: its rewrite was replaced meanwhile")                          \
  X(error_too_long, "lost: longer than a frame can be, and no segments to cut it into") \
  X(would_drop_flow, "passed by --audit: a flow verdict drops")                         \
  X(would_drop_rule, "passed by --audit: a rule drops")                                 \
  X(would_drop_limit, "passed by --audit: over a rule's limit")                         \
  X(would_drop_default, "passed by --audit: the policy's default drops")                \
  X(would_drop_fragment, "passed by --audit: fragment")                                 \
  X(would_drop_malformed, "passed by --audit: malformed")                               \
  X(would_drop_overload, "passed by --audit: out of credit (on_overload)")              \
  X(would_drop_failure, "passed by --audit: no live worker or device (on_failure)")

/* Map `worker_counters` (array of xg_worker_counters, one a queue, mmapable, written by the worker):
 * what became of the inspected packets. inspected = received + lost; received = drop + pass + tx +
 * redirect + the errors, plus those in flight. */
#define XG_WORKER_REASONS(X)                                                                     \
  X(received, "taken from the RX ring")                                                          \
  X(lost_in_kernel, "lost between redirect and RX ring")                                         \
  X(dropped, "dropped by a pipeline")                                                            \
  X(passed, "passed to the stack")                                                               \
  X(transmitted, "sent back out of the port it came from")                                       \
  X(redirected, "sent out of another port")                                                      \
  X(error_device, "dropped: the device answered ABORTED or failed")                              \
  X(error_generation, "dropped: its policy generation is gone")                                  \
  X(error_target, "dropped: no such target port")                                                \
  X(error_too_long, "dropped: longer than its target port takes")                                \
  X(error_hand_over, "dropped: the worker that sends out of its target port did not take it")    \
  X(error_ring_full, "dropped: the TX ring of its target stayed full")                           \
  X(error_refused, "lost: refused by the kernel behind user space")                              \
  X(error_invalid, "dropped: an invalid descriptor, or too long")                                \
  X(flows_cached, "flow verdicts published to the kernel")                                       \
  X(flows_evicted, "flow verdicts that gave way to another flow")                                \
  X(checksums_repaired, "partial checksums completed before sending")                            \
  X(egress_seen, "sent by the host and shown to a pipeline, not part of the sum")                \
  X(egress_missed, "sent by the host and not seen, as its log was overrun, not part of the sum") \
  X(encapsulated, "of those sent: inside of outer headers")                                      \
  X(too_long, "of those dropped by a pipeline: too long for outer headers")                      \
  X(too_long_answered, "of these: their sender was told by ICMP how long they may be")           \
  X(would_drop, "of those passed: by --audit, a pipeline drops them")                            \
  X(lost_with_worker, "lost: in the rings and hands of a worker that died")                      \
  X(fragments_waited, "batches held for a first fragment on another queue")                      \
  X(fragments_unknown, "of those dropped or passed: fragments of no known first one")            \
  X(parsed_again, "judged once more, as the metadata in front of them were not their own")

#ifndef XG_GLSL
#define XG_X(name, text) XG_KERNEL_##name,
enum xg_kernel_reason { XG_KERNEL_REASONS(XG_X) XG_KERNEL_REASON_COUNT };
#undef XG_X
#define XG_MALFORMED_COUNTER(kind) ((unsigned)XG_KERNEL_REASON_COUNT + (kind)-1u) /* kind: not 0 */
#define XG_KERNEL_COUNTERS ((unsigned)XG_KERNEL_REASON_COUNT + XG_MALFORMED_COUNT)
#define XG_X(name, text) u64 name;
XG_RECORD(xg_worker_counters) { XG_WORKER_REASONS(XG_X) u64 reserved_end[5]; /* up to full cache lines */ };
#undef XG_X
XG_ASSERT_SIZE(xg_worker_counters, 256);
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
