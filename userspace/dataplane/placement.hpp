// SPDX-License-Identifier: MIT
//
// userspace/dataplane/placement.hpp: where workers stand on a host with several NUMA nodes: each one's
// threads, and its frames as far as there is memory, on the node of the NIC that feeds it. Where there is one
// node only, or the NIC is on none (veth), a worker stands wherever the process may run.
#pragma once

#include <map>
#include <string_view>
#include <vector>

#include "maps/types.h"
#include "userspace/dataplane/result.hpp"

namespace xdpgpu::dataplane {

struct Topology {
  std::vector<int> cpus;                  // that the process may use, the last first; empty: not known
  std::map<int, std::vector<int>> nodes;  // online nodes, and which of `cpus` are on them, in that order
};
// Of this host, as the calling thread may use it.
Topology read_topology();

// "0-3,8" as sysfs writes it, ascending; empty where it is not such a list.
std::vector<int> parse_cpu_list(std::string_view text);

struct Placement {
  int node = -1;        // of threads and frames; -1: none is better than another
  int cpu = -1;         // of the worker's first thread; -1: it is not pinned
  int retire_cpu = -1;  // of the second, if there is one
};

struct PlacementOptions {
  u32 threads = 1;    // of each worker: 1 or 2
  u32 first_cpu = 0;  // place of the first worker's core in the list, so that processes can differ
  bool pin = true;    // to cores; frames have their node all the same
};

// nic_nodes: by worker, the node of its NIC or -1. A worker on a node takes that node's cores in turn, any
// other all cores in turn; more threads than cores share them. A node without a core that the process may
// use still gets the frames: it is there that the NIC writes.
std::vector<Placement> place(const Topology& topology, const std::vector<int>& nic_nodes,
                             const PlacementOptions& options);

// Has the pages of [at, at + bytes), untouched so far and of `page_bytes` each, come from the node as long
// as it has some, then from others. The error is the reason alone.
Result<void> prefer_node(void* at, u64 bytes, u64 page_bytes, int node);
// What of [at, at + bytes), all of it touched, does not stand on the node: a preference is no promise.
struct Elsewhere {
  u64 bytes = 0;  // in whole pages; 0 also where the kernel does not tell
  int node = -1;  // where the first of them is
};
Elsewhere find_elsewhere(const void* at, u64 bytes, int node) noexcept;
// The node on which the page at `at` stands, which has been touched; -1 where the kernel does not tell.
int node_of(const void* at) noexcept;

}  // namespace xdpgpu::dataplane
