/* SPDX-License-Identifier: MIT
 *
 * bench/events/headers.h: parsed packet headers as records, and two stages on them. For C++ and CUDA.
 */
#ifndef XDPGPU_BENCH_EVENTS_HEADERS_H
#define XDPGPU_BENCH_EVENTS_HEADERS_H

#include "gpu/stages/list.h"

/* As the "XDP on GPU" prototype (eunomia-bpf, 2025) hands them to its kernels. Ports in host order. */
struct ParsedHeader {
  u64 data; /* the packet's address, which the stages do not follow */
  u32 length;
  u32 reserved;
  u64 timestamp;
  u32 src;
  u32 dst;
  u16 src_port;
  u16 dst_port;
  u8 protocol;
  u8 action; /* the prototype's answer; here verdicts stand apart */
  u8 padding[2];
};
static_assert(sizeof(ParsedHeader) == 40, "the prototype's record");

/* What the stages need of it. */
struct CompactHeader {
  u32 src;
  u32 dst;
  u16 src_port;
  u16 dst_port;
  u32 protocol;
};
static_assert(sizeof(CompactHeader) == 16, "one load");

enum class EventStage { filter, load_balance };

#define XG_EVENT_BACKENDS 16u

/* A verdict word: web and DNS pass, the rest is dropped. */
XG_FN u32 xg_event_filter(const CompactHeader& header) {
  const bool web = header.protocol == 6u && (header.dst_port == 80u || header.dst_port == 443u);
  const bool dns = header.protocol == 17u && header.dst_port == 53u;
  return web || dns ? XG_VERDICT(XG_PASS, 0u, 1u, 0u) : XG_VERDICT(XG_DROP, 0u, 1u, 1u);
}

/* The backend, by the hash of the stage load_balance, stands where a rule would. */
XG_FN u32 xg_event_balance(const CompactHeader& header) {
  xg_view view = {};
  view.family = 4u;
  view.flags = 0u;
  view.src[0] = header.src;
  view.dst[0] = header.dst;
  view.ports = header.src_port | u32(header.dst_port) << 16;
  view.protocol = header.protocol;
  return XG_VERDICT(XG_TX, 0u, 1u, xg_fnv1a_tuple(view) % XG_EVENT_BACKENDS);
}

XG_FN u32 xg_event_verdict(EventStage stage, const CompactHeader& header) {
  return stage == EventStage::filter ? xg_event_filter(header) : xg_event_balance(header);
}

XG_FN CompactHeader xg_event_compact(const ParsedHeader& header) {
  return {header.src, header.dst, header.src_port, header.dst_port, header.protocol};
}

#endif
