/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * bpf/maps.bpf.h: the maps of one port. Sizes of 1 are set by user space before the program is loaded
 * (queues, entries a queue); the records and who writes them are described in maps/.
 */
#ifndef XDPGPU_BPF_MAPS_H
#define XDPGPU_BPF_MAPS_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "maps/control.h"
#include "maps/egress.h"
#include "maps/exempt.h"
#include "maps/flow.h"
#include "maps/fragments.h"
#include "maps/metrics.h"
#include "maps/mirror.h"
#include "maps/packet.h"
#include "maps/tables.h"

#define XG_ARRAY(name_, value_, entries_, flags_) \
  struct {                                        \
    __uint(type, BPF_MAP_TYPE_ARRAY);             \
    __uint(max_entries, entries_);                \
    __uint(map_flags, flags_);                    \
    __type(key, u32);                             \
    __type(value, value_);                        \
  } name_ SEC(".maps")

XG_ARRAY(config, xg_config, 1, BPF_F_MMAPABLE);
XG_ARRAY(policy, xg_policy, 2, BPF_F_MMAPABLE);
XG_ARRAY(queue_state, xg_queue_state, 1, BPF_F_MMAPABLE);    /* queues */
XG_ARRAY(order_slots, u32, 1, 0);                            /* queues * XG_ORDER_SLOTS */
XG_ARRAY(flow_verdicts, xg_flow_verdict, 1, BPF_F_MMAPABLE); /* 2 * queues * entries a queue */
XG_ARRAY(flow_stats, xg_flow_stats, 1, BPF_F_MMAPABLE);      /* as flow_verdicts */
XG_ARRAY(rewrites, xg_rewrite, XG_REWRITE_ENTRIES, BPF_F_MMAPABLE);
XG_ARRAY(worker_counters, xg_worker_counters, 1, BPF_F_MMAPABLE); /* queues */
XG_ARRAY(queue_metrics, xg_queue_metrics, 1, BPF_F_MMAPABLE);     /* queues */

XG_ARRAY(mirror_rings, xg_mirror_record, 1, BPF_F_MMAPABLE); /* possible CPUs * slots */
XG_ARRAY(mirror_state, xg_mirror_state, 1, BPF_F_MMAPABLE);  /* possible CPUs */

/* The egress feed's, which another program writes (bpf/egress.bpf.c). */
XG_ARRAY(egress_records, xg_egress_record, 1, BPF_F_MMAPABLE); /* possible CPUs * XG_EGRESS_SLOTS */
XG_ARRAY(egress_heads, xg_egress_head, 1, BPF_F_MMAPABLE);     /* possible CPUs */

#define XG_PERCPU(name_, value_, entries_)   \
  struct {                                   \
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY); \
    __uint(max_entries, entries_);           \
    __type(key, u32);                        \
    __type(value, value_);                   \
  } name_ SEC(".maps")

XG_PERCPU(counters, xg_counter, XG_KERNEL_COUNTERS);
XG_PERCPU(rule_counters, xg_counter, 2 * XG_MAX_RULES);
XG_PERCPU(rule_shed, xg_rule_shed, 2 * XG_MAX_RULES);

/* This program's alone, see xg_coarse_ns. */
struct xg_clock {
  u64 tick;
  u64 ns;
};
XG_PERCPU(clocks, struct xg_clock, 1);

struct {
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, 65536);
  __type(key, xg_limit_key);
  __type(value, xg_limit_state);
} limits SEC(".maps");

/* This program's alone: user space has no hand in it. */
XG_ARRAY(fragments, xg_fragment_bucket, XG_FRAGMENT_BUCKETS, 0);

/* What passes ahead of the rules (maps/exempt.h). The flows are one map for all ports of an attach. */
struct {
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, XG_MANAGEMENT_FLOWS);
  __type(key, xg_management_flow);
  __type(value, xg_management_seen);
} management_flows SEC(".maps");
struct {
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, XG_MANAGEMENT_SENDERS);
  __type(key, u64);
  __type(value, xg_management_sender);
} management_senders SEC(".maps");
XG_ARRAY(gateways, xg_gateways, 1, 0);
XG_ARRAY(exempt_states, xg_exempt_state, XG_RATES, 0);
XG_PERCPU(exempt_counters, xg_exempt_counter, XG_RATES);

struct {
  __uint(type, BPF_MAP_TYPE_XSKMAP);
  __uint(max_entries, 1); /* queues */
  __type(key, u32);
  __type(value, u32);
} xsks SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_DEVMAP);
  __uint(max_entries, XG_MAX_PORTS + 1); /* the last one: XG_CUTTER */
  __type(key, u32);
  __type(value, u32);
} tx_ports SEC(".maps");

/* The two slots' programs of the policy's own, which packets go on with (bpf/program.bpf.h). Without types:
 * some kernels take them for such a map, and others do not. */
struct {
  __uint(type, BPF_MAP_TYPE_PROG_ARRAY);
  __uint(max_entries, 2 * XG_MAX_PROGRAMS);
  __uint(key_size, sizeof(u32));
  __uint(value_size, sizeof(u32));
} user_programs SEC(".maps");

/* The two slots' tables. XG_TABLE_FLAGS (maps/tables.h) says why the inner maps may differ in size. Their
 * sizes stand here without types, as user space makes them: Linux 6.1 refuses an inner map with BTF where
 * the other has none. */
struct lines_map {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __uint(map_flags, XG_TABLE_FLAGS);
  __uint(key_size, sizeof(u32));
  __uint(value_size, sizeof(xg_chunk));
};
struct rows_map {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __uint(map_flags, XG_TABLE_FLAGS);
  __uint(key_size, sizeof(u32));
  __uint(value_size, sizeof(xg_class_row));
};
struct {
  __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
  __uint(max_entries, 2);
  __type(key, u32);
  __array(values, struct lines_map);
} policy_lines SEC(".maps");
struct {
  __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
  __uint(max_entries, 2);
  __type(key, u32);
  __array(values, struct rows_map);
} policy_rows SEC(".maps");

#endif
