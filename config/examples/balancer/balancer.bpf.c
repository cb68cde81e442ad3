/* SPDX-License-Identifier: MIT
 *
 * A load balancer of layer 4, as Katran is one: TCP and UDP to the address and port of a service go to one of
 * its servers, inside of IP packets of the same family, and leave by the interface that they came in by. The
 * server answers the client itself. A flow's server is remembered; a new one's is found in the service's
 * ring, by a hash of the flow. All else goes on: fragments, IPv4 options, and what stands behind IPv6's own
 * header but TCP and UDP, too. To be compiled by
 *
 *   clang -O2 -g -target bpf -c balancer.bpf.c -o balancer.bpf.o
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

/* Addresses and ports as in packets; of IPv4 the first word of the address. */
struct service {
  __be32 address[4];
  __be16 port;
  __u8 protocol, family; /* 4 or 6 */
};
/* Its part of the ring, and where it is counted. */
struct servers {
  __u32 first, count, number;
};
struct flow {
  __be32 source[4], destination[4];
  __be16 source_port, destination_port;
  __u32 protocol;
};
struct address {
  __be32 words[4];
};
/* Of all that is sent: where frames go to, and from which addresses outer headers are. */
struct way {
  __u8 gateway[6], reserved[2];
  struct address source4, source6;
};
struct sum {
  __u64 packets, bytes;
};

struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 512);
  __type(key, struct service);
  __type(value, struct servers);
} services SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, 65536);
  __type(key, struct flow);
  __type(value, __u32); /* its server */
} flows SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 65536);
  __type(key, __u32);
  __type(value, __u32); /* a server */
} ring SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 4096);
  __type(key, __u32);
  __type(value, struct address);
} servers SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct way);
} way SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 512);
  __type(key, __u32);
  __type(value, struct sum);
} sums SEC(".maps");

static __always_inline __u32 mixed(__u32 hash, __u32 word) {
  hash ^= word;
  hash *= 0x85ebca6b;
  hash ^= hash >> 13;
  hash *= 0xc2b2ae35;
  return hash ^ hash >> 16;
}

static __always_inline __u32 hash_of(const struct flow* flow) {
  __u32 hash = flow->protocol;
#pragma unroll
  for (int i = 0; i < 4; i++) hash = mixed(hash, flow->source[i]);
  return mixed(hash, flow->source_port | (__u32)flow->destination_port << 16);
}

static __always_inline __u16 folded(__u32 sum) {
  sum = (sum & 0xffff) + (sum >> 16);
  return ~((sum & 0xffff) + (sum >> 16));
}

/* The server of a flow, and its number among all; 0: the service has none. */
static __always_inline const struct address* server_of(const struct flow* flow, const struct servers* of,
                                                       int begins) {
  const __u32* number = begins ? 0 : bpf_map_lookup_elem(&flows, flow);
  if (!number) {
    if (of->count == 0) return 0;
    const __u32 at = of->first + hash_of(flow) % of->count;
    number = bpf_map_lookup_elem(&ring, &at);
    if (!number) return 0;
    const __u32 chosen = *number;
    bpf_map_update_elem(&flows, flow, &chosen, BPF_ANY);
    return bpf_map_lookup_elem(&servers, &chosen);
  }
  const __u32 known = *number;
  return bpf_map_lookup_elem(&servers, &known);
}

/* New headers in front of the packet's IP packet, of `bytes`. */
static __always_inline int sent_to(struct xdp_md* ctx, const struct address* server, int family,
                                   __u32 bytes) {
  const __u32 zero = 0;
  const struct way* const by = bpf_map_lookup_elem(&way, &zero);
  if (!by) return XDP_ABORTED;
  __u8 own[6];
  {
    const struct ethhdr* const before = (void*)(long)ctx->data;
    if ((void*)(before + 1) > (void*)(long)ctx->data_end) return XDP_DROP;
    __builtin_memcpy(own, before->h_dest, 6);
  }
  const int outer = family == 4 ? sizeof(struct iphdr) : sizeof(struct ipv6hdr);
  if (bpf_xdp_adjust_head(ctx, -outer)) return XDP_DROP;
  void* const end = (void*)(long)ctx->data_end;
  struct ethhdr* const ethernet = (void*)(long)ctx->data;
  if ((void*)(ethernet + 1) > end) return XDP_DROP;
  __builtin_memcpy(ethernet->h_dest, by->gateway, 6);
  __builtin_memcpy(ethernet->h_source, own, 6);
  if (family == 4) {
    struct iphdr* const ip = (void*)(ethernet + 1);
    if ((void*)(ip + 1) > end) return XDP_DROP;
    ethernet->h_proto = bpf_htons(ETH_P_IP);
    __builtin_memset(ip, 0, sizeof(*ip));
    ip->version = 4;
    ip->ihl = 5;
    ip->tot_len = bpf_htons(bytes + sizeof(*ip));
    ip->ttl = 64;
    ip->protocol = IPPROTO_IPIP;
    ip->saddr = by->source4.words[0];
    ip->daddr = server->words[0];
    __u32 sum = 0;
    const __u16* const words = (void*)ip;
#pragma unroll
    for (int i = 0; i < (int)sizeof(*ip) / 2; i++) sum += words[i];
    ip->check = folded(sum);
  } else {
    struct ipv6hdr* const ip = (void*)(ethernet + 1);
    if ((void*)(ip + 1) > end) return XDP_DROP;
    ethernet->h_proto = bpf_htons(ETH_P_IPV6);
    __builtin_memset(ip, 0, sizeof(*ip));
    ip->version = 6;
    ip->payload_len = bpf_htons(bytes);
    ip->nexthdr = IPPROTO_IPV6;
    ip->hop_limit = 64;
    __builtin_memcpy(&ip->saddr, &by->source6, 16);
    __builtin_memcpy(&ip->daddr, server, 16);
  }
  return XDP_TX;
}

static __always_inline int balanced(struct xdp_md* ctx) {
  void* const end = (void*)(long)ctx->data_end;
  struct ethhdr* const ethernet = (void*)(long)ctx->data;
  if ((void*)(ethernet + 1) > end) return XDP_PASS;
  struct flow flow = {};
  int family;
  __u32 bytes;
  __be16* ports;
  if (ethernet->h_proto == bpf_htons(ETH_P_IP)) {
    struct iphdr* const ip = (void*)(ethernet + 1);
    if ((void*)(ip + 1) > end || ip->ihl != 5 || ip->frag_off & bpf_htons(0x3fff)) return XDP_PASS;
    family = 4;
    bytes = bpf_ntohs(ip->tot_len);
    flow.source[0] = ip->saddr;
    flow.destination[0] = ip->daddr;
    flow.protocol = ip->protocol;
    ports = (void*)(ip + 1);
  } else if (ethernet->h_proto == bpf_htons(ETH_P_IPV6)) {
    struct ipv6hdr* const ip = (void*)(ethernet + 1);
    if ((void*)(ip + 1) > end) return XDP_PASS;
    family = 6;
    bytes = bpf_ntohs(ip->payload_len) + sizeof(*ip);
    __builtin_memcpy(flow.source, &ip->saddr, 16);
    __builtin_memcpy(flow.destination, &ip->daddr, 16);
    flow.protocol = ip->nexthdr;
    ports = (void*)(ip + 1);
  } else {
    return XDP_PASS;
  }
  if ((flow.protocol != IPPROTO_TCP && flow.protocol != IPPROTO_UDP) || (void*)(ports + 4) > end)
    return XDP_PASS;
  flow.source_port = ports[0];
  flow.destination_port = ports[1];
  struct service service = {.port = flow.destination_port, .protocol = flow.protocol, .family = family};
  __builtin_memcpy(service.address, flow.destination, 16);
  const struct servers* const of = bpf_map_lookup_elem(&services, &service);
  if (!of) return XDP_PASS;
  int begins = 0;
  if (flow.protocol == IPPROTO_TCP) {
    struct tcphdr* const tcp = (void*)ports;
    if ((void*)(tcp + 1) > end) return XDP_PASS;
    begins = tcp->syn;
  }
  const struct address* const server = server_of(&flow, of, begins);
  if (!server) return XDP_DROP;
  struct sum* const sum = bpf_map_lookup_elem(&sums, &of->number);
  if (sum) {
    sum->packets += 1;
    sum->bytes += bytes;
  }
  return sent_to(ctx, server, family, bytes);
}

SEC("xdp")
int balance(struct xdp_md* ctx) { return balanced(ctx); }

char LICENSE[] SEC("license") = "GPL";
