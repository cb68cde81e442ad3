/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * bpf/flow.bpf.h: what the kernel remembers of user space's verdicts: the lookup of a flow verdict, by
 * the reader's side of the publication protocol in maps/flow.h, and acting on it.
 *
 * Whatever keeps an entry from acting (torn, stale, expired, idle, its rewrite gone or not for this packet,
 * earlier packets still in user space) makes it a miss: the packet goes the ordinary way through the rules.
 */
#ifndef XDPGPU_BPF_FLOW_H
#define XDPGPU_BPF_FLOW_H

#include "bpf/run.bpf.h"
#include "maps/encapsulation.h"

/* Whose verdicts count: those of generation `newest` and of the ones before it, back to `oldest`. */
#define XG_GENERATIONS(newest, oldest) ((u64)(newest) << 32 | (oldest))
#define XG_NEWEST(generations) ((u32)((generations) >> 32))
#define XG_OLDEST(generations) ((u32)(generations))

/* An entry's body, and where it stands. */
struct xg_cached {
  u64 published_ns; /* 0 where the entry never expires */
  u32 index;
  u32 generation;
  u32 expires_ms;
  u16 rewrite;
  u8 action;
  u8 target;
  u8 idle_s;
  u8 flags;
};

#define XG_UNCUT (-2)       /* the verdict is for the packet's segments */
#define XG_INTRICATE (-3)   /* more than pass or drop: xg_flow is to take it */
#define XG_FLOW_KEY_WORDS 5 /* u64 words in a key; 4 bytes are left */

/* The word of entry `index` if it is of one of these generations and of this key, else 0. */
XG_INLINE u64 xg_flow_word(u32 index, const xg_flow_key* sought, u64 generations) {
  const u64* entry = bpf_map_lookup_elem(&flow_verdicts, &index);
  if (!entry) return 0;
  const u64 word = XG_READ(entry[0]);
  if (XG_NEWEST(generations) - (u32)word > XG_NEWEST(generations) - XG_OLDEST(generations)) return 0;
  XG_READ_FENCE();
  const u64* key = (const u64*)sought;
  u64 differ = 0;
#pragma unroll
  for (int i = 0; i < XG_FLOW_KEY_WORDS; i++) differ |= XG_READ(entry[1 + i]) ^ key[i];
  differ |= (u32)XG_READ(entry[1 + XG_FLOW_KEY_WORDS]) ^ *(const u32*)(key + XG_FLOW_KEY_WORDS);
  return differ ? 0 : word;
}

/* Reads entry `index` if its word still is what it was as its key was read: the body is then of that key. */
XG_INLINE int xg_flow_read(u32 index, u64 word, struct xg_cached* cached) {
  const u64* entry = bpf_map_lookup_elem(&flow_verdicts, &index);
  if (!entry) return 0;
  const u64 tail = XG_READ(entry[7]);
  cached->published_ns = 0;
  if ((u32)tail) {
    const xg_flow_stats* stats = bpf_map_lookup_elem(&flow_stats, &index);
    if (stats) cached->published_ns = XG_READ(stats->published_ns);
  }
  XG_READ_FENCE();
  if (XG_READ(entry[0]) != word) return 0;
  cached->index = index;
  cached->generation = (u32)word;
  cached->action = (u8)(word >> 48);
  cached->target = (u8)(word >> 56);
  cached->expires_ms = (u32)tail;
  cached->rewrite = (u16)(tail >> 32);
  cached->idle_s = (u8)(tail >> 48);
  cached->flags = (u8)(tail >> 56);
  return 1;
}

/* The word of the flow's entry in that shard, and the entry's index; 0: there is none. key: 8-aligned. */
XG_INLINE u64 xg_flow_seek(const xg_config* settings, u32 shard, const xg_flow_key* key, u32 flow_hash,
                           u64 generations, u32* index) {
  const u32 entries = settings->flow_entries_per_queue;
  const u32 bucket = flow_hash & (entries / XG_FLOW_WAYS - 1);
  const u32 first = shard * entries + bucket * XG_FLOW_WAYS;
#pragma unroll
  for (u32 way = 0; way < XG_FLOW_WAYS; way++) {
    *index = first + way;
    const u64 word = xg_flow_word(first + way, key, generations);
    if (word) return word;
  }
  return 0;
}

XG_INLINE int xg_flow_find(const xg_config* settings, u32 shard, const xg_flow_key* key, u32 flow_hash,
                           u64 generations, struct xg_cached* cached) {
  u32 index;
  const u64 word = xg_flow_seek(settings, shard, key, flow_hash, generations, &index);
  return word && xg_flow_read(index, word, cached);
}

/* Where the entry of a packet's flow stands, and the upper half of its word, as one number that is not 0: the
 * action is in it. The lower half is the generation in force. */
#define XG_FOUND(index, word) ((u64)(index) | ((word) & ~0xfffffffful))
#define XG_FOUND_INDEX(found) ((u32)(found))
#define XG_FOUND_WORD(found, generation) (((found) & ~0xfffffffful) | (generation))

/* The entry of that generation for the packet, from its queue's worker; 0: there is none. */
XG_INLINE u64 xg_flow_found(const xg_config* settings, u32 queue, const xg_packet* packet, u32 flow_hash,
                            u32 generation) {
  u32 index;
  if (!xg_has_flow(packet) || queue >= settings->queues) return 0;
  const u64 generations = XG_GENERATIONS(generation, generation);
  const u64 word = xg_flow_seek(settings, queue, &packet->key, flow_hash, generations, &index);
  return word ? XG_FOUND(index, word) : 0;
}

/* Has the entry's time run out? Milliseconds and seconds need no better clock than the coarse one. */
XG_INLINE int xg_flow_dead(const struct xg_cached* cached, const xg_flow_stats* stats, u64 now) {
  if (cached->expires_ms && xg_flow_expired(cached->expires_ms, cached->published_ns, now)) return 1;
  return cached->idle_s && (long)(now - XG_READ(stats->last_seen_ns)) > (long)cached->idle_s * 1000000000l;
}

/* Have the flow's earlier packets left user space? (DESIGN: order in a flow is kept.) Those that a dead
 * worker had will not come any more. */
XG_INLINE int xg_flow_in_order(const struct xg_run* run, u64 now) {
  const u32 queue = run->queue;
  const u32 slot = queue * XG_ORDER_SLOTS + (run->flow_hash & (XG_ORDER_SLOTS - 1));
  const xg_queue_state* state = bpf_map_lookup_elem(&queue_state, &queue);
  const u32* behind_last = bpf_map_lookup_elem(&order_slots, &slot);
  if (!state || !behind_last) return 0;
  return (int)(XG_READ(*behind_last) - XG_READ(state->retired)) <= 0 || !xg_worker_lives(run, state, now);
}

/* The record an entry's rewrite names, or NULL if there is none of its generation any more. */
XG_INLINE const xg_rewrite* xg_flow_rewrite(const struct xg_cached* cached) {
  const u32 index = cached->rewrite;
  const xg_rewrite* rewrite = bpf_map_lookup_elem(&rewrites, &index);
  if (!rewrite || XG_READ(rewrite->generation) != cached->generation) return NULL;
  XG_READ_FENCE();
  return rewrite;
}
/* Was it all of that generation, what was read of it? */
XG_INLINE int xg_rewrite_whole(const struct xg_cached* cached, const xg_rewrite* rewrite) {
  XG_READ_FENCE();
  return XG_READ(rewrite->generation) == cached->generation;
}

XG_INLINE void xg_copy_mac(u8* to, const u8* from) {
  *(u32*)to = *(const u32*)from;
  *(u16*)(to + 4) = *(const u16*)(from + 4);
}

XG_INLINE void xg_apply_rewrite(const struct xg_run* run, const struct xg_cached* cached,
                                const xg_rewrite* rewrite) {
  u8* frame = (u8*)(long)run->ctx->data;
  if (frame + 12 > (u8*)(long)run->ctx->data_end) return;
  u8 old[12] __attribute__((aligned(4)));
  if (cached->rewrite == XG_REWRITE_SWAP_MACS) {
    xg_copy_mac(old, frame);
    xg_copy_mac(frame, frame + 6);
    xg_copy_mac(frame + 6, old);
  }
  if (rewrite && rewrite->flags & XG_REWRITE_SRC_FROM_DST) xg_copy_mac(frame + 6, frame);
  if (rewrite && rewrite->flags & XG_REWRITE_DST_MAC) xg_copy_mac(frame, rewrite->dst_mac);
  if (rewrite && rewrite->flags & XG_REWRITE_SRC_MAC) xg_copy_mac(frame + 6, rewrite->src_mac);
}

/* The IP header's share of a rewrite that forwards. 0: the packet is one for user space, and unchanged. */
XG_INLINE int xg_take_hop(const struct xg_run* run, u32 mtu) {
  u8* frame = (u8*)(long)run->ctx->data;
  const u8* end = (u8*)(long)run->ctx->data_end;
  u8* ip = frame + (run->packet->l3_offset & 31);
  XG_OPAQUE(ip);
  if (frame + 14 > end || ip + 20 > end || frame[0] & 1 || run->packet->router != XG_ROUTER_ALL) return 0;
  if (run->packet->key.family == 4) {
    if (ip[0] != 0x45 || ip[8] <= 1 || xg_host16(xg_load16(ip + 2)) > mtu) return 0;
    /* RFC 1624, as the header's 16-bit word went down by one (in the byte order of a little-endian CPU). */
    const u32 checksum = xg_load16(ip + 10) + 1u;
    *(u16*)(ip + 10) = (u16)(checksum + (checksum >= 0xffff));
    ip[8]--;
  } else {
    if (ip[6] == XG_IPPROTO_HOPOPTS || ip[7] <= 1 || 40u + xg_host16(xg_load16(ip + 4)) > mtu) return 0;
    ip[7]--;
  }
  return 1;
}

/* Makes room for `bytes` more in front, and puts the Ethernet header and its tags there, with the EtherType
 * of what follows them. NULL: no room, and nothing has changed; else where the outer headers go. */
#define XG_ETHERNET_WORDS 6 /* 14 bytes and two tags; more is written over by the outer headers */
XG_INLINE u8* xg_move_ethernet(const struct xg_run* run, u32 bytes, u32 ether_type) {
  if (bpf_xdp_adjust_head(run->ctx, -(int)bytes)) return NULL;
  u8* frame = (u8*)(long)run->ctx->data;
  const u8* end = (u8*)(long)run->ctx->data_end;
  u8* outer = frame + 14 + ((run->packet->l3_offset - 14) & 15); /* never less than 14, says the mask */
  XG_OPAQUE(outer);
  u32 ethernet[XG_ETHERNET_WORDS];
  if (frame + bytes + sizeof(ethernet) > end || outer + bytes > end) {
    bpf_xdp_adjust_head(run->ctx, (int)bytes);
    return NULL;
  }
#pragma unroll
  for (u32 i = 0; i < XG_ETHERNET_WORDS; i++) ethernet[i] = xg_load32(frame + bytes + i * 4);
#pragma unroll
  for (u32 i = 0; i < XG_ETHERNET_WORDS; i++) xg_store32(frame + i * 4, ethernet[i]);
  xg_store16(outer - 2, xg_host16((u16)ether_type));
  return outer;
}

/* 0: the packet is one for user space, and unchanged. */
XG_INLINE int xg_encapsulate(const struct xg_run* run, const xg_rewrite* rewrite) {
  const u8* ip = (u8*)(long)run->ctx->data + (run->packet->l3_offset & 31);
  const u8* end = (u8*)(long)run->ctx->data_end;
  XG_OPAQUE(ip);
  if (ip + 20 > end) return 0;
  const xg_inner inner = xg_inner_packet(ip, run->packet->key.family);
  if (inner.bytes > rewrite->mtu) return 0;
  const u32 hash = xg_outer_hash(run->packet, rewrite);
  u8* outer;
  if (rewrite->outer_family == 4 && rewrite->udp_port) {
    outer = xg_move_ethernet(run, 28, XG_ETH_IPV4);
    if (!outer) return 0;
    xg_write_outer4(rewrite, &inner, hash, outer);
    xg_write_outer_udp(rewrite, &inner, hash, outer + 20);
  } else if (rewrite->outer_family == 4) {
    outer = xg_move_ethernet(run, 20, XG_ETH_IPV4);
    if (!outer) return 0;
    xg_write_outer4(rewrite, &inner, hash, outer);
  } else if (rewrite->udp_port) {
    outer = xg_move_ethernet(run, 48, XG_ETH_IPV6);
    if (!outer) return 0;
    xg_write_outer6(rewrite, &inner, hash, outer);
    xg_write_outer_udp(rewrite, &inner, hash, outer + 40);
  } else {
    outer = xg_move_ethernet(run, 40, XG_ETH_IPV6);
    if (!outer) return 0;
    xg_write_outer6(rewrite, &inner, hash, outer);
  }
  return 1;
}

/* Out of a port of the attach's. The entry behind them is the cutter's, whose segments would come back. */
XG_INLINE int xg_flow_redirect(const struct xg_run* run, u32 port, enum xg_kernel_reason reason) {
  if (port < XG_MAX_PORTS && bpf_redirect_map(&tx_ports, port, XDP_ABORTED) == XDP_REDIRECT)
    return xg_finish(run, reason, XDP_REDIRECT);
  return xg_finish(run, XG_KERNEL_error_redirect, XDP_DROP);
}

XG_INLINE int xg_flow_act(const struct xg_run* run, const struct xg_cached* cached, u32 audit) {
  switch (cached->action) {
    case XG_DROP:
      return xg_drop_unless(run, audit, XG_KERNEL_drop_flow);
    case XG_PASS:
      return xg_finish(run, XG_KERNEL_pass_flow, XDP_PASS);
    case XG_TX:
      if (run->config->tx_by_redirect) return xg_flow_redirect(run, run->config->port, XG_KERNEL_tx_flow);
      return xg_finish(run, XG_KERNEL_tx_flow, XDP_TX);
    default:
      return xg_flow_redirect(run, cached->target, XG_KERNEL_redirect_flow);
  }
}

/* How a flow verdict is taken. */
/* Nobody else will decide: user space is not there to take the packet. So there is no order to be kept with
 * packets that are there, and nobody whom a connection's end could be handed up to; a SYN begins another one.
 */
#define XG_FLOW_LAST_WORD 1u
#define XG_FLOW_AUDIT 2u /* what it drops passes, and is counted */

XG_INLINE int xg_flow_hands_up(const struct xg_run* run, const struct xg_cached* cached, u32 how) {
  const u8 flags = how & XG_FLOW_LAST_WORD ? XG_TCP_SYN : XG_TCP_SYN | XG_TCP_FIN | XG_TCP_RST;
  return cached->flags & XG_FLOW_HAND_UP_TCP_END && run->packet->tcp_flags & flags;
}

XG_INLINE int xg_flow_try(const struct xg_run* run, u64 generations, u32 how) {
  const xg_rewrite* rewrite = NULL;
  struct xg_cached cached;
  if (run->queue >= run->config->queues ||
      !xg_flow_find(run->config, run->queue, &run->packet->key, run->flow_hash, generations, &cached))
    return XG_CONTINUE;
  if (cached.action < XG_DROP || cached.action > XG_REDIRECT) return XG_CONTINUE;
  if (cached.action > XG_PASS && xg_is_uncut(run)) return XG_UNCUT;
  if (xg_flow_hands_up(run, &cached, how)) return XG_CONTINUE;
  const u32 index = cached.index;
  xg_flow_stats* stats = bpf_map_lookup_elem(&flow_stats, &index);
  const u64 now = xg_coarse_ns();
  if (!stats || xg_flow_dead(&cached, stats, now)) return XG_CONTINUE;
  const int drops = cached.action == XG_DROP && !(how & XG_FLOW_AUDIT);
  if (!drops && !(how & XG_FLOW_LAST_WORD) && !xg_flow_in_order(run, now)) return XG_CONTINUE;
  if (cached.rewrite > XG_REWRITE_SWAP_MACS) {
    rewrite = xg_flow_rewrite(&cached);
    if (!rewrite) return XG_CONTINUE;
    const u32 flags = XG_READ(rewrite->flags); /* once: only one of these changes the packet */
    if (flags & XG_REWRITE_FORWARD && !xg_take_hop(run, rewrite->mtu)) return XG_CONTINUE;
    if (flags & XG_REWRITE_ENCAPSULATE && !xg_encapsulate(run, rewrite)) return XG_CONTINUE;
  }
  stats->packets++;
  stats->bytes += run->bytes;
  stats->last_seen_ns = now;
  if (cached.rewrite != XG_REWRITE_NONE) xg_apply_rewrite(run, &cached, rewrite);
  /* Nobody gets a packet of two generations. It is too late to take back what was written. */
  if (rewrite && !xg_rewrite_whole(&cached, rewrite))
    return xg_finish(run, XG_KERNEL_error_rewrite, XDP_DROP);
  return xg_flow_act(run, &cached, how & XG_FLOW_AUDIT);
}

/* xg_flow_try by the entry that was found, where it passes or drops the packet as it is: most verdicts, which
 * are taken without a call. */
XG_INLINE int xg_flow_quick(const struct xg_run* run, u64 found) {
  struct xg_cached cached;
  const u32 index = XG_FOUND_INDEX(found);
  if (!xg_flow_read(index, XG_FOUND_WORD(found, run->generation), &cached)) return XG_CONTINUE;
  if (cached.action - XG_DROP > XG_PASS - XG_DROP || cached.rewrite != XG_REWRITE_NONE) return XG_INTRICATE;
  if (xg_flow_hands_up(run, &cached, 0)) return XG_CONTINUE;
  xg_flow_stats* stats = bpf_map_lookup_elem(&flow_stats, &index);
  const u64 now = xg_coarse_ns();
  if (!stats || xg_flow_dead(&cached, stats, now)) return XG_CONTINUE;
  const int drops = cached.action == XG_DROP && !run->policy->audit;
  if (!drops && !xg_flow_in_order(run, now)) return XG_CONTINUE;
  stats->packets++;
  stats->bytes += run->bytes;
  stats->last_seen_ns = now;
  if (cached.action == XG_DROP) return xg_drop(run, XG_KERNEL_drop_flow);
  return xg_finish(run, XG_KERNEL_pass_flow, XDP_PASS);
}

/* A function of its own for the verifier, which then need not follow it for each way that leads here. */
__noinline int xg_flow(struct xdp_md* ctx, xg_packet* packet, u32 flow_hash, u64 generations, u32 how) {
  const u32 zero = 0;
  struct xg_run run = {.ctx = ctx, .packet = packet, .flow_hash = flow_hash};
  if (!packet) return XG_CONTINUE;
  run.config = bpf_map_lookup_elem(&config, &zero);
  if (!run.config) return XG_CONTINUE;
  run.queue = ctx->rx_queue_index;
  run.bytes = xg_frame_bytes(ctx);
  return xg_flow_try(&run, generations, how);
}

/* XG_CONTINUE if no flow verdict speaks for the packet. `oldest`: verdicts of that generation and later ones
 * count. */
XG_INLINE int xg_flow_verdict_for(const struct xg_run* run, u32 oldest, u32 how) {
  if (!xg_has_flow(run->packet) || xg_is_special(run)) return XG_CONTINUE;
  if (run->policy->audit) how |= XG_FLOW_AUDIT;
  const int action =
      xg_flow(run->ctx, run->packet, run->flow_hash, XG_GENERATIONS(run->generation, oldest), how);
  return action == XG_UNCUT ? xg_cut(run) : action;
}

#endif
