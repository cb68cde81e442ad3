/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * bpf/egress.bpf.c: the egress feed of one port (maps/egress.h): a tc egress program that copies the headers
 * of the IP packets which leave into a log, while the policy in force has stages that want to know. It
 * decides nothing: every packet goes on.
 *
 * AF_XDP and XDP redirects send past tc: what comes here is what the host's stack sends, its own and what it
 * forwards.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_helpers.h>

#include "bpf/memory.bpf.h"
#include "maps/control.h"
#include "maps/egress.h"
#include "maps/tables.h"

/* The port's own, shared with its XDP program. Entries as user space makes them. */
struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __uint(map_flags, BPF_F_MMAPABLE);
  __type(key, u32);
  __type(value, xg_config);
} config SEC(".maps");
struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 2);
  __uint(map_flags, BPF_F_MMAPABLE);
  __type(key, u32);
  __type(value, xg_policy);
} policy SEC(".maps");
struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1); /* possible CPUs * XG_EGRESS_SLOTS */
  __uint(map_flags, BPF_F_MMAPABLE);
  __type(key, u32);
  __type(value, xg_egress_record);
} egress_records SEC(".maps");
struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1); /* possible CPUs */
  __uint(map_flags, BPF_F_MMAPABLE);
  __type(key, u32);
  __type(value, xg_egress_head);
} egress_heads SEC(".maps");

/* Also while bypassed, and before the first packet is inspected: connections that begin then are known when
 * they are asked for. */
XG_INLINE int is_wanted(void) {
  const u32 zero = 0;
  const xg_config* settings = bpf_map_lookup_elem(&config, &zero);
  if (!settings || XG_READ(settings->state) == XG_STATE_DRAINING) return 0;
  const u32 slot = XG_ACTIVE_SLOT(XG_READ(settings->active));
  const xg_policy* active = bpf_map_lookup_elem(&policy, &slot);
  return active && active->feeds_egress;
}

XG_INLINE int is_ip(const struct __sk_buff* skb) {
  return skb->protocol == __builtin_bswap16(0x0800) || skb->protocol == __builtin_bswap16(0x86dd) ||
         skb->protocol == __builtin_bswap16(0x8100) || skb->protocol == __builtin_bswap16(0x88a8);
}

#define XG_FRAME_LEAST 14u /* an Ethernet header */

#define XG_ADDRESSES 12u /* Ethernet's, in front of a VLAN tag */
#define XG_TAG 4u

/* The same where the outer VLAN tag is not in the packet: devices that can put it there leave that to the
 * last. Who follows connections is to see the tag that their answers have. */
XG_INLINE u32 copy_tagged(struct __sk_buff* skb, xg_egress_record* record) {
  const u16 tag[2] = {(u16)skb->vlan_proto, __builtin_bswap16((u16)skb->vlan_tci)};
  u32 more = skb->len - XG_FRAME_LEAST;
  asm volatile("" : "+r"(more));
  if (more > XG_EGRESS_BYTES - XG_TAG - XG_FRAME_LEAST) more = XG_EGRESS_BYTES - XG_TAG - XG_FRAME_LEAST;
  const u32 behind = more + XG_FRAME_LEAST - XG_ADDRESSES;
  if (bpf_skb_load_bytes(skb, 0, record->packet, XG_ADDRESSES) != 0) return 0;
  __builtin_memcpy(record->packet + XG_ADDRESSES, tag, XG_TAG);
  if (bpf_skb_load_bytes(skb, XG_ADDRESSES, record->packet + XG_ADDRESSES + XG_TAG, behind) != 0) return 0;
  return XG_ADDRESSES + XG_TAG + behind;
}

/* How many bytes; 0 where they cannot be read. */
XG_INLINE u32 copy_headers(struct __sk_buff* skb, xg_egress_record* record) {
  /* What a shorter packet has beyond the least, in a form in which Linux 6.1's verifier sees its bounds. */
  u32 more = skb->len - XG_FRAME_LEAST;
  asm volatile("" : "+r"(more));
  if (more > XG_EGRESS_BYTES - XG_FRAME_LEAST) more = XG_EGRESS_BYTES - XG_FRAME_LEAST;
  const u32 bytes = more + XG_FRAME_LEAST;
  return bpf_skb_load_bytes(skb, 0, record->packet, bytes) == 0 ? bytes : 0;
}

/* tc programs of a CPU do not interrupt each other: its log has one producer. */
XG_INLINE void show(struct __sk_buff* skb) {
  const u32 cpu = bpf_get_smp_processor_id();
  xg_egress_head* head = bpf_map_lookup_elem(&egress_heads, &cpu);
  if (!head || skb->len < XG_FRAME_LEAST) return;
  const u64 number = head->head;
  const u32 index = cpu * XG_EGRESS_SLOTS + ((u32)number & (XG_EGRESS_SLOTS - 1));
  xg_egress_record* record = bpf_map_lookup_elem(&egress_records, &index);
  if (!record) return;
  XG_WRITE(record->ticket, 0);
  XG_WRITE_FENCE();
  const u32 tag = skb->vlan_present ? XG_TAG : 0;
  const u32 bytes = tag ? copy_tagged(skb, record) : copy_headers(skb, record);
  if (!bytes) return;
  record->time_ns = bpf_ktime_get_ns();
  record->captured = bytes;
  record->wire_length = skb->len + tag;
  XG_WRITE_FENCE();
  XG_WRITE(record->ticket, number + 1);
  XG_WRITE_FENCE();
  XG_WRITE(head->head, number + 1);
}

SEC("tc")
int xdpgpu_egress(struct __sk_buff* skb) {
  if (is_ip(skb) && is_wanted()) show(skb);
  return TC_ACT_UNSPEC;
}

char _license[] SEC("license") = "Dual MIT/GPL";
