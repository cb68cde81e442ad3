// SPDX-License-Identifier: MIT
//
// userspace/control/flows.hpp: the kernel's flow verdicts, read by the publication protocol of
// maps/flow.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "userspace/control/fields.hpp"
#include "userspace/control/policy_swap.hpp"
#include "userspace/control/port_control.hpp"

namespace xdpgpu::control {

// The most entries in one answer, whatever is asked for: some 5 MiB of text. Who wants more asks again, from
// where the answer ended, and the process serves others in between.
inline constexpr u64 kMostFlows = 10'000;

struct FlowQuery {
  std::string interface;  // empty: all ports
  u64 limit = 1000;       // entries listed; all are counted
  u32 from = 0;           // the first index that is listed, of each port
  // These entries alone are looked at, of one port; what is beyond the table is passed over.
  std::optional<std::vector<u32>> indices{};
};

struct FlowEncapsulation {
  std::string type, to;  // "gue" or "ipip"; an address
  static void fields(auto& self, auto& field) {
    field("type", self.type);
    field("to", self.to);
  }
};
struct FlowReport {
  std::string interface;
  u32 queue = 0;
  u32 index = 0;  // what `bpftool map lookup pinned /sys/fs/bpf/xdpgpu/IF/flow_verdicts` takes
  std::string bpftool_key;
  std::string flow;  // all of the key in words; in its parts:
  u32 family = 0;
  std::string protocol, src, dst;
  u32 src_port = 0, dst_port = 0;
  std::optional<u32> vlan, inner_vlan;
  std::string action, decided_by;
  std::optional<std::string> target;  // interface
  std::optional<std::string>
      mirror;  // the pipeline, of one that acts where the rules stand that mirror to it
  std::optional<std::string> backend;
  std::optional<FlowEncapsulation> encapsulation;
  u32 generation = 0, rewrite = 0;
  u64 packets = 0, bytes = 0;  // handled in the kernel
  std::optional<double> idle_s, expires_in_s;
  static void fields(auto& self, auto& field) {
    field("interface", self.interface);
    field("queue", self.queue);
    field("index", self.index);
    field("bpftool_key", self.bpftool_key);
    field("flow", self.flow);
    field("family", self.family);
    field("protocol", self.protocol);
    field("src", self.src);
    field("dst", self.dst);
    field("src_port", self.src_port);
    field("dst_port", self.dst_port);
    field("vlan", self.vlan);
    field("inner_vlan", self.inner_vlan);
    field("action", self.action);
    field("decided_by", self.decided_by);
    field("target", self.target);
    field("mirror", self.mirror);
    field("backend", self.backend);
    field("encapsulation", self.encapsulation);
    field("generation", self.generation);
    field("rewrite", self.rewrite);
    field("packets", self.packets);
    field("bytes", self.bytes);
    field("idle_s", self.idle_s);
    field("expires_in_s", self.expires_in_s);
  }
};
struct FlowsReport {
  std::vector<FlowReport> flows;
  u64 current = 0;  // that there are
  u64 listed = 0;
  u64 left_out = 0;         // behind the last one that is listed
  std::optional<u32> next;  // where they begin; only where some are left out and one port was asked for
  static void fields(auto& self, auto& field) {
    field("flows", self.flows);
    field("current", self.current);
    field("listed", self.listed);
    field("left_out", self.left_out);
    field("next", self.next);
  }
};

// Only entries of the generation in force that have not expired.
FlowsReport list_flows(const std::vector<PortControl>& ports, const compiler::CompiledPolicy& policy,
                       const FlowQuery& query);

// For those who look again and again, such as `top`: how many packets each flow has had, and little else. A
// look costs the same however large the table is.
inline constexpr u32 kMostCounted = 32'768;  // entries that one look goes through
struct FlowCountQuery {
  std::string interface;
  u32 from = 0;                // the first index
  u32 entries = kMostCounted;  // at most kMostCounted
  u64 since_ns = 0;            // those that had a packet then or later; CLOCK_MONOTONIC of the process asked
};
struct FlowCountsReport {
  u64 at_ns = 0;              // when it was looked, CLOCK_MONOTONIC
  u32 table = 0;              // entries that there are
  std::optional<u32> next{};  // where the next look may go on; none: this one got to the table's end
  u64 current = 0;            // flow verdicts in these entries, whether they had packets or not
  // Of flows that had packets since: what list_flows() has. `source` counts `sources` from 0.
  std::vector<u32> index;
  std::vector<u64> packets, bytes;
  std::vector<u32> source;
  std::vector<std::string> sources;  // addresses, each once
  static void fields(auto& self, auto& field) {
    field("at_ns", self.at_ns);
    field("table", self.table);
    field("next", self.next);
    field("current", self.current);
    field("index", self.index);
    field("packets", self.packets);
    field("bytes", self.bytes);
    field("source", self.source);
    field("sources", self.sources);
  }
};
FlowCountsReport count_flows(const std::vector<PortControl>& ports, const FlowCountQuery& query);

// The key argument of `bpftool map lookup ... key`: the index as four bytes, lowest first.
std::string bpftool_key(u32 index);

}  // namespace xdpgpu::control
