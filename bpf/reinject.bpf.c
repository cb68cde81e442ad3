/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * bpf/reinject.bpf.c: the far end of the reinjection pair: tc ingress programs that hand what the
 * worker sent there to the interface it came from. Only frames that bear the sockets' mark are let
 * through, and they lose it: the pair carries nothing else, and the stack sees no mark of ours.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_helpers.h>

#include "maps/control.h"

/* The interface the packets came in on; set before the program is loaded. */
const volatile __u32 target_ifindex = 0;

static __always_inline int take_mark(struct __sk_buff* skb) {
  if (skb->mark != XG_REINJECT_MARK) return 0;
  skb->mark = 0;
  return 1;
}

/* Native XDP on the interface: it does not see what enters behind the driver. */
SEC("tc")
int reinject_native(struct __sk_buff* skb) {
  return take_mark(skb) ? (int)bpf_redirect(target_ifindex, BPF_F_INGRESS) : TC_ACT_SHOT;
}

/* Generic XDP would see what bpf_redirect brings in, and loop. Marked frames go on to the next filter,
 * a matchall with mirred ingress redirect, which enters behind it. */
SEC("tc")
int reinject_generic(struct __sk_buff* skb) { return take_mark(skb) ? TC_ACT_UNSPEC : TC_ACT_SHOT; }

char _license[] SEC("license") = "Dual MIT/GPL";
