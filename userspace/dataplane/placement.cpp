// SPDX-License-Identifier: MIT
#include "userspace/dataplane/placement.hpp"

#include <fmt/format.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <string>

namespace xdpgpu::dataplane {
namespace {

constexpr const char* kNodes = "/sys/devices/system/node";
constexpr int kMostNodes = 1024;
constexpr std::size_t kWordBits = 8 * sizeof(unsigned long);

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Cores this process may use, the last first: interrupts tend to live on the first ones.
std::vector<int> usable_cpus() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return cpus;
  for (int cpu = CPU_SETSIZE - 1; cpu >= 0; --cpu)
    if (CPU_ISSET(static_cast<std::size_t>(cpu), &allowed)) cpus.push_back(cpu);
  return cpus;
}

}  // namespace

std::vector<int> parse_cpu_list(std::string_view text) {
  std::vector<int> cpus;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    int first = 0, last = 0;
    auto read = std::from_chars(at, end, first);
    if (read.ec != std::errc() || first < 0) return {};
    last = first;
    at = read.ptr;
    if (at != end && *at == '-') {
      read = std::from_chars(at + 1, end, last);
      if (read.ec != std::errc() || last < first || last - first > CPU_SETSIZE) return {};
      at = read.ptr;
    }
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
    if (at == end) break;
    if (*at++ != ',' || at == end) return {};
  }
  return cpus;
}

Topology read_topology() {
  Topology topology;
  topology.cpus = usable_cpus();
  for (const int node : parse_cpu_list(first_line(fmt::format("{}/online", kNodes)))) {
    const auto on_node = parse_cpu_list(first_line(fmt::format("{}/node{}/cpulist", kNodes, node)));
    auto& cpus = topology.nodes[node];
    for (const int cpu : topology.cpus)
      if (std::binary_search(on_node.begin(), on_node.end(), cpu)) cpus.push_back(cpu);
  }
  return topology;
}

std::vector<Placement> place(const Topology& topology, const std::vector<int>& nic_nodes,
                             const PlacementOptions& options) {
  std::vector<Placement> placements;
  std::map<const std::vector<int>*, u32> taken;  // threads by list of cores
  for (const int nic_node : nic_nodes) {
    Placement placement;
    const std::vector<int>* cpus = &topology.cpus;
    const auto node = topology.nodes.find(nic_node);
    if (topology.nodes.size() > 1 && node != topology.nodes.end()) {
      placement.node = nic_node;
      if (!node->second.empty()) cpus = &node->second;
    }
    if (options.pin && !cpus->empty()) {
      u32& next = taken[cpus];
      const auto core = [&](u32 thread) {
        return (*cpus)[(options.first_cpu + next + thread) % cpus->size()];
      };
      placement.cpu = core(0);
      if (options.threads > 1) placement.retire_cpu = core(1);
      next += options.threads;
    }
    placements.push_back(placement);
  }
  return placements;
}

// The kernel's calls themselves: libnuma would be one more library for two of them.
Result<void> prefer_node(void* at, u64 bytes, u64 page_bytes, int node) {
  if (node < 0 || node >= kMostNodes) return tl::unexpected(fmt::format("there is no NUMA node {}", node));
  const auto start = reinterpret_cast<std::uintptr_t>(at) / page_bytes * page_bytes;
  const auto end = (reinterpret_cast<std::uintptr_t>(at) + bytes + page_bytes - 1) / page_bytes * page_bytes;
  std::array<unsigned long, kMostNodes / kWordBits> nodes{};
  const auto bit = static_cast<std::size_t>(node);
  nodes[bit / kWordBits] = 1ul << bit % kWordBits;
  // The kernel takes one bit less than it is told.
  if (syscall(SYS_mbind, start, end - start, MPOL_PREFERRED, nodes.data(), kMostNodes + 1, 0) != 0)
    return tl::unexpected(std::string(std::strerror(errno)));
  return {};
}

// The kernel counts in pages of 4 KiB, whatever backs them.
Elsewhere find_elsewhere(const void* at, u64 bytes, int node) noexcept {
  constexpr u64 kPage = 4096;
  constexpr std::size_t kAtOnce = 512;
  const auto start = reinterpret_cast<std::uintptr_t>(at) / kPage * kPage;
  const auto end = reinterpret_cast<std::uintptr_t>(at) + bytes;
  Elsewhere found;
  std::array<const void*, kAtOnce> pages{};
  std::array<int, kAtOnce> nodes{};
  for (auto next = start; next < end;) {
    std::size_t count = 0;
    for (; count < kAtOnce && next < end; next += kPage) pages[count++] = reinterpret_cast<const void*>(next);
    if (syscall(SYS_move_pages, 0, count, pages.data(), nullptr, nodes.data(), 0) != 0) return {};
    for (std::size_t i = 0; i < count; i++) {
      if (nodes[i] < 0 || nodes[i] == node) continue;
      if (found.bytes == 0) found.node = nodes[i];
      found.bytes += kPage;
    }
  }
  return found;
}

int node_of(const void* at) noexcept {
  int node = -1;
  if (syscall(SYS_get_mempolicy, &node, nullptr, 0, at, MPOL_F_NODE | MPOL_F_ADDR) != 0) return -1;
  return node;
}

}  // namespace xdpgpu::dataplane
