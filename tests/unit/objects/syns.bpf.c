/* SPDX-License-Identifier: MIT
 *
 * Reports TCP's SYNs over IPv4, with their ports and their headers, and lets them go on. A UDP datagram to
 * port 7000 is one of which more would be put out than an event has room for: that is told instead, and it is
 * dropped.
 */
#include <linux/bpf.h>
#include <linux/errno.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/tcp.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

struct {
  __uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
  __uint(key_size, sizeof(__u32));
  __uint(value_size, sizeof(__u32));
} syns SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_RINGBUF);
  __uint(max_entries, 65536);
} notes SEC(".maps");

struct ends {
  __be16 source, destination;
};

SEC("xdp")
int report_syns(struct xdp_md* ctx) {
  void* const end = (void*)(long)ctx->data_end;
  struct ethhdr* const ethernet = (void*)(long)ctx->data;
  struct iphdr* const ip = (void*)(ethernet + 1);
  if ((void*)(ip + 1) > end || ethernet->h_proto != bpf_htons(ETH_P_IP) || ip->ihl != 5) return XDP_PASS;
  if (ip->protocol == IPPROTO_TCP) {
    struct tcphdr* const tcp = (void*)(ip + 1);
    if ((void*)(tcp + 1) > end || !tcp->syn || tcp->ack) return XDP_PASS;
    struct ends ports = {tcp->source, tcp->dest};
    const __u64 headers = sizeof(*ethernet) + sizeof(*ip) + sizeof(*tcp);
    return bpf_perf_event_output(ctx, &syns, BPF_F_CURRENT_CPU | headers << 32, &ports, sizeof(ports))
               ? XDP_ABORTED
               : XDP_PASS;
  }
  struct udphdr* const udp = (void*)(ip + 1);
  if (ip->protocol != IPPROTO_UDP || (void*)(udp + 1) > end || udp->dest != bpf_htons(7000)) return XDP_PASS;
  char much[200] = {};
  if (bpf_perf_event_output(ctx, &syns, BPF_F_CURRENT_CPU, much, sizeof(much)) != -E2BIG) return XDP_ABORTED;
  char note[] = "too long";
  return bpf_ringbuf_output(&notes, note, sizeof(note), 0) ? XDP_ABORTED : XDP_DROP;
}

char LICENSE[] SEC("license") = "GPL";
