/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * maps/metrics.h: how full the rings of a queue are, who has its frames, how large its batches are and
 * how long packets take through user space. What became of the packets, drops by reason included, is in
 * worker_counters (maps/control.h).
 */
#ifndef XDPGPU_MAPS_METRICS_H
#define XDPGPU_MAPS_METRICS_H

#include "types.h"

/* Descriptors in a ring: when last looked at, and the most since the attach. */
XG_RECORD(xg_ring_level) {
  u32 now;
  u32 most;
};

/* Logarithmic histograms: bucket 0 counts the value 0, bucket i the values from 2^(i-1) to 2^i - 1, the
 * last one also all beyond. */
#define XG_BATCH_BUCKETS 16u  /* packets a batch; the last: 16,384 and more */
#define XG_DEVICE_BUCKETS 36u /* ns; the last: 17 s and more */

/* Latency histogram: bucket = ns below 8; above, each doubling is cut into 8 equal parts, so that a
 * bucket is at most an eighth of its lower end wide. 68 s and more are in the last one. */
#define XG_LATENCY_PARTS 8u
#define XG_LATENCY_BUCKETS 272u

/* Map `queue_metrics`, one entry a receive queue, mmapable, written by the queue's worker alone with
 * plain stores: each number is whole, two of them may be a moment apart. Levels and frames are renewed
 * about once a millisecond while packets flow and at least every 20 ms, the histograms with each batch.
 *
 * A batch holds packets of all the worker's ports. It counts once, at the port of its first packet, so
 * that sums over ports are right; where a worker has one port, so are its figures. Latency is counted at
 * the port that the packet came in on. */
XG_RECORD(xg_queue_metrics) {
  u64 updated_ns; /* CLOCK_MONOTONIC of the levels and frames */
  u32 ring_size;  /* descriptors that the RX ring and the fill ring hold */
  u32 credits;    /* packets that the XDP program may still admit */

  xg_ring_level rx;   /* packets that wait for the worker */
  xg_ring_level fill; /* frames that the kernel or driver can take for packets to come */
  u32 fill_least;     /* the fewest that stood in the fill ring when looked at */
  u32 frames_handed;  /* with other workers, to be sent out of ports that have no queue for this one */
  xg_ring_level tx;
  xg_ring_level completion;
  xg_ring_level reinject_tx; /* the reinjection pair's */
  xg_ring_level reinject_completion;

  /* Frames by owner. worker_frames = worker_free + the other four + frames_handed + frames_waiting, summed
   * over the worker's ports. */
  u32 frames_fill;     /* with the kernel, for receive: in the fill ring or the RX ring, or on the way */
  u32 frames_batch;    /* this port's, in batches */
  u32 frames_tx;       /* with the kernel, to be sent out of this port, until it says they are */
  u32 frames_reinject; /* with the kernel, to be passed to this port's stack */
  u32 worker_frames;   /* that the worker has in all; the same number at each of its ports */
  u32 worker_free;     /* of them free; the same number at each of its ports */

  /* The kernel's own losses behind the redirect (XDP_STATISTICS), of what `lost_in_kernel` counts, and
   * how often it found the fill ring empty. */
  u64 kernel_rx_dropped;
  u64 kernel_rx_ring_full;
  u64 kernel_fill_ring_empty;

  u64 batches;         /* that are over */
  u64 batch_packets;   /* in them */
  u64 device_ns_sum;   /* from a batch's submission until it was seen to be over */
  u64 device_ns_most;  /* the longest */
  u64 latency_ns_sum;  /* from a packet's metadata.rx_time_ns until its batch was seen to be over; where only
                          the first and the last of a run were read, the others count as evenly between */
  u64 latency_ns_most; /* the longest */
  u64 batch_log2[XG_BATCH_BUCKETS];      /* batches by packets */
  u64 device_ns_log2[XG_DEVICE_BUCKETS]; /* batches by device time */
  u64 latency_ns[XG_LATENCY_BUCKETS];    /* packets by latency */
  /* Frames that the kernel took to send out of this port, or to pass to its stack, and would not have then:
   * they are gone (error_refused). Known in copy mode alone (sendto says EBUSY). */
  u64 tx_refused;
  u64 reinject_refused;
  u32 send_ring_size;  /* descriptors that the TX and the completion rings hold */
  u32 frames_waiting;  /* this port's, for the rest of their datagram */
  u64 reserved_end[4]; /* up to full cache lines: the next queue has another writer */
};
XG_ASSERT_SIZE(xg_queue_metrics, 2816);
XG_ASSERT_OFFSET(xg_queue_metrics, frames_fill, 72);
XG_ASSERT_OFFSET(xg_queue_metrics, batches, 120);
XG_ASSERT_OFFSET(xg_queue_metrics, latency_ns, 584);

#ifndef XG_GLSL

/* The bucket of a value in a logarithmic histogram of `buckets`. */
XG_FN u32 xg_log2_bucket(u64 value, u32 buckets) {
  const u32 bucket = value ? 64u - (u32)__builtin_clzll(value) : 0u;
  return bucket < buckets ? bucket : buckets - 1u;
}
/* Its smallest value. */
XG_FN u64 xg_log2_floor(u32 bucket) { return bucket ? (u64)1 << (bucket - 1u) : 0u; }

XG_FN u32 xg_latency_bucket(u64 ns) {
  if (ns < XG_LATENCY_PARTS) return (u32)ns;
  const u32 shift = 60u - (u32)__builtin_clzll(ns);
  const u32 bucket = shift * XG_LATENCY_PARTS + (u32)(ns >> shift);
  return bucket < XG_LATENCY_BUCKETS ? bucket : XG_LATENCY_BUCKETS - 1u;
}
/* The smallest latency of a bucket; of one past the last, where the last one's regular width ends. */
XG_FN u64 xg_latency_floor(u32 bucket) {
  if (bucket < 2u * XG_LATENCY_PARTS) return bucket;
  const u32 shift = bucket / XG_LATENCY_PARTS - 1u;
  return (u64)(XG_LATENCY_PARTS + bucket % XG_LATENCY_PARTS) << shift;
}

#endif
#endif
