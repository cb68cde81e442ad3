/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * maps/counters.h: every counter of packets, said once: X(name, unit, outcome, words). Of these rows are made
 * the reasons' numbers, the workers' record, sums, and what `status` tells as text and as JSON; nothing else
 * lists them, or sorts them by how their names begin. What is counted by a name of the policy's (its rules,
 * its stages) or by a protocol stands with its record.
 *
 * name      in the record, in JSON, in tests
 * unit      packets, verdicts, batches, times that something was seen
 * outcome   where it stands in `in = drop + pass + tx + redirect + error`: enum xg_outcome
 * words     what became of so many of the unit, for operators
 *
 * How to add a counter: a line here, at the end of its table, as a restart finds the pinned maps of the
 * attach before (a worker's takes a word of xg_worker_counters.reserved_end, maps/control.h); the place that
 * counts, as XG_KERNEL_<name> or xg_worker_counters::<name>; and a test that has a packet counted there. By
 * that the sums, the balance, `status`, the account at detach and what the tests add up have it.
 */
#ifndef XDPGPU_MAPS_COUNTERS_H
#define XDPGPU_MAPS_COUNTERS_H

#include "malformed.h"

/* Map `counters` (per CPU array of xg_counter: packets, and their bytes): what the XDP program did, by
 * reason. Each packet is counted once as received and once under exactly one of the outcomes; `inspected`
 * ones go on in `worker_counters`. Behind the reasons stand the kinds of malformed packets
 * (maps/malformed.h), which are counted besides: kind k at XG_MALFORMED_COUNTER(k), all of them packets and
 * of no outcome. */
#define XG_KERNEL_REASONS(X)                                                                            \
  X(received, packets, in, "seen by the XDP program")                                                   \
  X(inspected, packets, on, "handed to user space")                                                     \
  X(cut, packets, again, "longer than a frame can be: cut into segments, which came in again")          \
  X(pass_bypass, packets, pass, "passed: starting, or bypass is on")                                    \
  X(pass_management, packets, pass, "passed: management traffic")                                       \
  X(pass_control, packets, pass, "passed: control protocol (ARP, ND, DHCP, LACP, LLDP, STP)")           \
  X(pass_flow, packets, pass, "passed by a flow verdict")                                               \
  X(pass_rule, packets, pass, "passed by a rule")                                                       \
  X(pass_default, packets, pass, "passed by the policy's default")                                      \
  X(pass_fragment, packets, pass, "passed: fragment")                                                   \
  X(pass_malformed, packets, pass, "passed: malformed")                                                 \
  X(pass_overload, packets, pass, "passed: out of credit (on_overload)")                                \
  X(pass_failure, packets, pass, "passed: no live worker or device (on_failure)")                       \
  X(drop_flow, packets, drop, "dropped by a flow verdict")                                              \
  X(drop_rule, packets, drop, "dropped by a rule")                                                      \
  X(drop_limit, packets, drop, "dropped: over a rule's limit")                                          \
  X(drop_default, packets, drop, "dropped by the policy's default")                                     \
  X(drop_fragment, packets, drop, "dropped: fragment")                                                  \
  X(drop_malformed, packets, drop, "dropped: malformed")                                                \
  X(drop_overload, packets, drop, "dropped: out of credit (on_overload)")                               \
  X(drop_failure, packets, drop, "dropped: no live worker or device (on_failure)")                      \
  X(tx_flow, packets, tx, "sent back by a flow verdict")                                                \
  X(redirect_flow, packets, redirect, "sent to another port by a flow verdict")                         \
  X(redirect_rule, packets, redirect, "sent to another port: rules ask for what is not decided here")   \
  X(error_redirect, packets, error, "lost: the redirect failed")                                        \
  X(error_rewrite, packets, error, "lost: its rewrite was replaced meanwhile")                          \
  X(error_too_long, packets, error, "lost: longer than a frame can be, and no segments to cut it into") \
  X(would_drop_flow, packets, pass, "passed by --audit: a flow verdict drops")                          \
  X(would_drop_rule, packets, pass, "passed by --audit: a rule drops")                                  \
  X(would_drop_limit, packets, pass, "passed by --audit: over a rule's limit")                          \
  X(would_drop_default, packets, pass, "passed by --audit: the policy's default drops")                 \
  X(would_drop_fragment, packets, pass, "passed by --audit: fragment")                                  \
  X(would_drop_malformed, packets, pass, "passed by --audit: malformed")                                \
  X(would_drop_overload, packets, pass, "passed by --audit: out of credit (on_overload)")               \
  X(would_drop_failure, packets, pass, "passed by --audit: no live worker or device (on_failure)")      \
  X(program, packets, program, "given to a program in XDP, whose answer holds")                         \
  X(error_program, packets, error, "lost: the program in XDP that their rule leads to was not there")

/* Map `worker_counters` (array of xg_worker_counters, one a queue, mmapable, written by the worker):
 * what became of the inspected packets. inspected = received + lost_in_kernel; received = the outcomes but
 * lost_in_kernel, plus those in flight.
 * X(name, unit, outcome, words, brief). brief: of drops and errors, what they are called where several stand
 * in a line, if not by the words. */
#define XG_WORKER_REASONS(X)                                                                                 \
  X(received, packets, none, "taken from the RX ring", "")                                                   \
  X(lost_in_kernel, packets, error, "lost between redirect and RX ring", "")                                 \
  X(dropped, packets, drop, "dropped by a pipeline", "")                                                     \
  X(passed, packets, pass, "passed to the stack", "")                                                        \
  X(transmitted, packets, tx, "sent back out of the port it came from", "")                                  \
  X(redirected, packets, redirect, "sent out of another port", "")                                           \
  X(error_device, packets, error, "dropped: the device answered ABORTED or failed",                          \
    "dropped for the device's failure")                                                                      \
  X(error_generation, packets, error, "dropped: its policy generation is gone",                              \
    "of a policy generation gone")                                                                           \
  X(error_target, packets, error, "dropped: no such target port", "without a port to take them")             \
  X(error_too_long, packets, error, "dropped: longer than its target port takes",                            \
    "too long for the port to take them")                                                                    \
  X(error_hand_over, packets, error,                                                                         \
    "dropped: the worker that sends out of its target port did not take it",                                 \
    "not taken by another port's worker")                                                                    \
  X(error_ring_full, packets, error, "dropped: the TX ring of its target stayed full",                       \
    "dropped at a full TX ring")                                                                             \
  X(error_refused, packets, error, "lost: refused by the kernel behind user space",                          \
    "refused by the kernel behind user space")                                                               \
  X(error_invalid, packets, error, "dropped: an invalid descriptor, or too long",                            \
    "invalid, or longer than the MTU")                                                                       \
  X(flows_cached, verdicts, none, "flow verdicts published to the kernel", "")                               \
  X(flows_evicted, verdicts, none, "flow verdicts that gave way to another flow", "")                        \
  X(checksums_repaired, packets, none, "partial checksums completed before sending", "")                     \
  X(egress_seen, packets, none, "sent by the host and shown to a pipeline, not part of the sum", "")         \
  X(egress_missed, packets, none,                                                                            \
    "sent by the host and not seen, as its log was overrun, not part of the sum", "")                        \
  X(encapsulated, packets, none, "of those sent: inside of outer headers", "")                               \
  X(too_long, packets, none, "of those dropped by a pipeline: too long for outer headers", "")               \
  X(too_long_answered, packets, none, "of these: their sender was told by ICMP how long they may be", "")    \
  X(would_drop, packets, none, "of those passed: by --audit, a pipeline drops them", "")                     \
  X(lost_with_worker, packets, error, "lost: in the rings and hands of a worker that died",                  \
    "lost with a worker that died")                                                                          \
  X(fragments_waited, batches, none, "batches held for a first fragment on another queue", "")               \
  X(fragments_unknown, packets, none, "of those dropped or passed: fragments of no known first one", "")     \
  X(parsed_again, packets, none, "judged once more, as the metadata in front of them were not their own",    \
    "")                                                                                                      \
  X(error_edit, packets, error, "dropped: what becomes of them, as the device has it, does not fit them",    \
    "whose changes do not fit them")                                                                         \
  X(decapsulated, packets, none, "of those passed or sent: without the outer headers that they came in", "") \
  X(refused_answered, packets, none,                                                                         \
    "of those dropped by a pipeline: DNS queries, answered that there is no such domain", "")                \
  X(reassembled, packets, none, "made of fragments for a pipeline to look at, not part of the sum", "")      \
  X(fragments_overlapping, packets, drop,                                                                    \
    "dropped: fragments of datagrams in which some overlap, or end in different places",                     \
    "of datagrams whose fragments overlap")                                                                  \
  X(fragments_timed_out, packets, drop, "dropped: fragments of datagrams that were not whole in time",       \
    "of datagrams not whole in time")                                                                        \
  X(fragments_too_long, packets, drop,                                                                       \
    "dropped: fragments of datagrams longer than a pipeline can be shown",                                   \
    "of datagrams longer than a pipeline can be shown")                                                      \
  X(fragments_no_room, packets, drop, "dropped: fragments that waited where others had to",                  \
    "of datagrams without room to wait")                                                                     \
  X(fragments_repeated, packets, drop,                                                                       \
    "dropped: fragments that brought nothing new, or came behind their datagram", "fragments seen before")   \
  X(rejected_answered, packets, none,                                                                        \
    "of those dropped by a pipeline: rejected by a rule, which was told to their sender or receiver", "")    \
  X(patched, packets, none, "of those passed or sent: as a program has changed them", "")

/* Of map `queue_metrics` (maps/metrics.h): why the kernel lost packets behind the redirect, or on the way
 * out. X(name, unit, outcome, words, member of xg_queue_metrics). */
#define XG_QUEUE_LOSSES(X)                                                                              \
  X(rx_dropped, packets, none,                                                                          \
    "of those lost between redirect and RX ring: without a free frame, or too long", kernel_rx_dropped) \
  X(rx_ring_full, packets, none, "of those lost between redirect and RX ring: at a full RX ring",       \
    kernel_rx_ring_full)                                                                                \
  X(fill_ring_empty, times, none, "the kernel found the fill ring empty", kernel_fill_ring_empty)       \
  X(tx_refused, packets, none, "of those refused: on the way out of the port", tx_refused)              \
  X(reinject_refused, packets, none, "of those refused: on the way to the stack", reinject_refused)

/* Of mirrored packets, all ports together; the first two are counted by the kernel (maps/mirror.h), the
 * others by the device that watches. Each packet has an outcome of its own besides. X(name, unit, outcome,
 * words) */
#define XG_MIRROR_COUNTERS(X)                                                                \
  X(mirrored, packets, none, "shown to the device, while they went on")                      \
  X(overruns, packets, none, "went on unseen, as the CPU's ring was full (io.mirror_slots)") \
  X(taken, packets, none, "looked at by the device")                                         \
  X(published, verdicts, none, "flow verdicts published to the kernel")                      \
  X(evicted, verdicts, none, "flow verdicts that gave way to another flow")                  \
  X(unknown_generation, packets, none, "skipped: their policy is gone")                      \
  X(undecided, packets, none, "not judged: their headers do not stand in what was shown (io.mirror_bytes)")

#ifndef XG_GLSL
/* Of the kernel's counters: in = drop + pass + tx + redirect + error + program + on + again; on = the
 * workers' drop + pass + tx + redirect + error, and what is in flight. So a packet ends in one counter of one
 * table. */
enum xg_outcome {
  XG_OUTCOME_none, /* no packet's end: a part of another counter, or a count of something else */
  XG_OUTCOME_in,
  XG_OUTCOME_program, /* an end that nobody counts: what a program of the policy's answers is XDP's to do */
  XG_OUTCOME_on,      /* to a worker, whose counters say what became of it */
  XG_OUTCOME_again,   /* comes in again in parts, each of which counts: taken off what came in */
  XG_OUTCOME_drop,
  XG_OUTCOME_pass,
  XG_OUTCOME_tx,
  XG_OUTCOME_redirect,
  XG_OUTCOME_error
};

enum xg_unit { XG_UNIT_packets, XG_UNIT_verdicts, XG_UNIT_batches, XG_UNIT_times };

#define XG_X(name, ...) XG_KERNEL_##name,
enum xg_kernel_reason { XG_KERNEL_REASONS(XG_X) XG_KERNEL_REASON_COUNT };
#undef XG_X
#define XG_MALFORMED_COUNTER(kind) ((unsigned)XG_KERNEL_REASON_COUNT + (kind)-1u) /* kind: not 0 */
#define XG_KERNEL_COUNTERS ((unsigned)XG_KERNEL_REASON_COUNT + XG_MALFORMED_COUNT)
#endif

#endif
