// SPDX-License-Identifier: MIT
//
// userspace/control/flows.hpp: the kernel's flow verdicts, read by the publication protocol of
// maps/flow.h.
#pragma once

#include "userspace/control/policy_swap.hpp"
#include "userspace/control/port_control.hpp"
#include "userspace/control/protocol.hpp"

namespace xdpgpu::control {

// The most entries in one answer, whatever is asked for: some 5 MiB of text. Who wants more asks again, from
// where the answer ended, and the process serves others in between.
inline constexpr u64 kMostFlows = 10'000;

struct FlowQuery {
  std::string interface;  // empty: all ports
  u64 limit = 1000;       // entries listed; all are counted
  u32 from = 0;           // the first index that is listed, of each port
};

// {"flows": [{"interface", "index", "queue", "flow", "action", ...}], "current": n, "listed": n, "left_out":
// n, "next": index}. "mirror" names the pipeline of a verdict that acts where the rules that mirror to it
// stand. Only entries of the generation in force that have not expired. `index` is what `bpftool map lookup
// pinned /sys/fs/bpf/xdpgpu/IF/flow_verdicts` takes. left_out: behind the last one that is listed. next:
// where they begin; only where some are left out and one port was asked for.
Json list_flows(const std::vector<PortControl>& ports, const CompiledPolicy& policy, const FlowQuery& query);

// The key argument of `bpftool map lookup ... key`: the index as four bytes, lowest first.
std::string bpftool_key(u32 index);

}  // namespace xdpgpu::control
