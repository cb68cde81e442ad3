/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * bpf/cut.bpf.c: a pair of interfaces that cuts frames of several segments (GSO) for generic XDP, which sends
 * them to one end (maps/control.h, XG_CUTTER). At the other end they are sent back where they came from: that
 * end has no offloads, so the kernel cuts them as it sends. What arrives goes to the ingress of the interface
 * that it came in on, ahead of its generic XDP program: the first time that this sees these packets.
 *
 * What is too long and cannot be cut ends here, and is counted as the XDP program would have: nothing goes
 * round twice.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_helpers.h>

#include "maps/control.h"
#include "maps/packet.h"

/* Set before the programs are loaded. */
const volatile __u32 target_ifindex = 0; /* the interface that the frames came in on */
const volatile __u32 most_bytes = 0;     /* of a frame */

/* The port's own map (bpf/maps.bpf.h). */
struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, XG_KERNEL_COUNTERS);
  __type(key, u32);
  __type(value, xg_counter);
} counters SEC(".maps");

static __always_inline void count(__u32 reason, __u32 bytes) {
  xg_counter* counter = bpf_map_lookup_elem(&counters, &reason);
  if (!counter) return;
  __sync_fetch_and_add(&counter->packets, 1);
  __sync_fetch_and_add(&counter->bytes, bytes);
}

static __always_inline int give_up(const struct __sk_buff* skb) {
  count(XG_KERNEL_received, skb->len);
  count(XG_KERNEL_error_too_long, skb->len);
  return TC_ACT_SHOT;
}

SEC("tc")
int cut_whole(struct __sk_buff* skb) {
  if (skb->len <= most_bytes) return TC_ACT_SHOT; /* of nobody that we know */
  if (!skb->gso_size) return give_up(skb);
  skb->mark = XG_CUT_MARK;
  return TC_ACT_UNSPEC; /* on to mirred, which sends it back: what bpf_redirect sends, generic XDP does not
                           see */
}

SEC("tc")
int cut_segment(struct __sk_buff* skb) {
  if (skb->mark != XG_CUT_MARK) return TC_ACT_SHOT;
  if (skb->len > most_bytes) return give_up(skb);
  skb->mark = 0;
  return (int)bpf_redirect(target_ifindex, BPF_F_INGRESS);
}

char _license[] SEC("license") = "Dual MIT/GPL";
