// SPDX-License-Identifier: MIT
#include "userspace/control/flows.hpp"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <unordered_map>

#include "maps/parse.h"
#include "userspace/control/describe.hpp"

namespace xdpgpu::control {
namespace {

u64 monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<u64>(now.tv_sec) * 1'000'000'000 + static_cast<u64>(now.tv_nsec);
}

// Word, body, word again: an entry that is being replaced reads as none.
std::optional<xg_flow_verdict> read_entry(xg_flow_verdict& entry) {
  std::atomic_ref<u64> word(*reinterpret_cast<u64*>(&entry));
  const u64 before = word.load(std::memory_order_acquire);
  if (before == 0) return std::nullopt;
  xg_flow_verdict copy;
  std::memcpy(&copy, &entry, sizeof(copy));
  std::atomic_thread_fence(std::memory_order_acquire);
  if (word.load(std::memory_order_relaxed) != before) return std::nullopt;
  std::memcpy(&copy, &before, sizeof(before));
  return copy;
}

bool expired(const xg_flow_verdict& entry, const xg_flow_stats& stats, u64 now) {
  if (xg_flow_expired(entry.expires_ms, stats.published_ns, now)) return true;
  return entry.idle_s != 0 && stats.last_seen_ns != 0 &&
         now - stats.last_seen_ns > u64{entry.idle_s} * 1'000'000'000;
}

u32 vlan_of(u16 tag) { return tag == XG_VLAN_PRIORITY ? 0 : tag; }

// What an entry has that counts: of the generation in force, and not expired.
struct Current {
  xg_flow_verdict entry;
  xg_flow_stats stats;
};
std::optional<Current> current_entry(const PortControl& port, u32 index, u64 now) {
  const auto entry = read_entry(port.flows()[index]);
  if (!entry || entry->generation != port.active_generation()) return std::nullopt;
  const xg_flow_stats stats = port.flow_stats()[index];
  if (expired(*entry, stats, now)) return std::nullopt;
  return Current{*entry, stats};
}

// What stands in the entry.
FlowReport describe(const xg_flow_verdict& entry, const std::vector<PortControl>& ports,
                    const compiler::CompiledPolicy& policy) {
  const auto& settings = policy.pipelines->settings();
  const xg_flow_key& key = entry.key;
  const bool mirror = key.mirror != 0 && key.mirror <= settings.size();
  const gpu::PipelineSettings* pipeline = mirror                 ? &settings[key.mirror - 1u]
                                          : settings.size() == 1 ? settings.data()
                                                                 : nullptr;
  FlowReport report;
  report.flow = flow_text(key);
  report.family = key.family;
  report.protocol = protocol_name(key.protocol);
  report.src = address_text(key.src, key.family);
  report.dst = address_text(key.dst, key.family);
  report.src_port = xg_host16(key.src_port);
  report.dst_port = xg_host16(key.dst_port);
  report.action = action_name(entry.action);
  report.decided_by = decider_text(entry.verdict, pipeline, nullptr);
  report.generation = entry.generation;
  report.rewrite = entry.rewrite;
  // The number that the pipelines know it by.
  const u32 half = XG_REWRITE_INDEX(XG_REWRITE_FIRST, entry.generation) - XG_REWRITE_FIRST;
  const u32 number = entry.rewrite - half;
  if (const auto backend = policy.pipelines->backend_of(number); !backend.empty()) {
    report.backend = backend;
    const xg_rewrite& rewrite = policy.pipelines->rewrites()[number - XG_REWRITE_FIRST];
    if (rewrite.flags & XG_REWRITE_ENCAPSULATE)
      report.encapsulation = FlowEncapsulation{rewrite.udp_port ? "gue" : "ipip",
                                               address_text(rewrite.outer_dst, rewrite.outer_family)};
  }
  if (mirror) report.mirror = pipeline->name;
  if (key.vlan_outer) report.vlan = vlan_of(key.vlan_outer);
  if (key.vlan_inner) report.inner_vlan = vlan_of(key.vlan_inner);
  if (entry.action == XG_REDIRECT && entry.target < ports.size())
    report.target = ports[entry.target].ifname();
  return report;
}

}  // namespace

FlowsReport list_flows(const std::vector<PortControl>& ports, const compiler::CompiledPolicy& policy,
                       const FlowQuery& query) {
  FlowsReport all;
  std::optional<u32> next;
  const u64 limit = std::min(query.limit, kMostFlows);
  const u64 now = monotonic_ns();
  const auto look_at = [&](const PortControl& port, u32 index) {
    const auto current = current_entry(port, index, now);
    if (!current) return;
    const auto& [entry, stats] = *current;
    all.current++;
    if (index < query.from) return;
    if (all.flows.size() >= limit) {
      all.left_out++;
      if (!next) next = index;
      return;
    }
    FlowReport& flow = all.flows.emplace_back(describe(entry, ports, policy));
    flow.interface = port.ifname();
    flow.queue = index / port.flow_entries_per_queue() % port.queues();
    flow.index = index;
    flow.bpftool_key = bpftool_key(index);
    flow.packets = stats.packets - stats.base_packets;
    flow.bytes = stats.bytes - stats.base_bytes;
    if (flow.packets > 0 && stats.last_seen_ns <= now)
      flow.idle_s = static_cast<double>(now - stats.last_seen_ns) / 1e9;
    if (entry.expires_ms != 0)
      flow.expires_in_s = static_cast<double>(static_cast<std::int32_t>(entry.expires_ms -
                                                                        static_cast<u32>(now / 1'000'000))) /
                          1e3;
  };
  for (const PortControl& port : ports) {
    if (!query.interface.empty() && query.interface != port.ifname()) continue;
    if (query.indices) {
      for (const u32 index : *query.indices)
        if (index < port.flows().size()) look_at(port, index);
    } else {
      for (u32 index = 0; index < port.flows().size(); index++) look_at(port, index);
    }
  }
  all.listed = all.flows.size();
  if (!query.interface.empty() && !query.indices) all.next = next;
  return all;
}

FlowCountsReport count_flows(const std::vector<PortControl>& ports, const FlowCountQuery& query) {
  FlowCountsReport all;
  all.at_ns = monotonic_ns();
  const auto port = std::find_if(ports.begin(), ports.end(),
                                 [&](const PortControl& one) { return one.ifname() == query.interface; });
  if (port == ports.end()) return all;
  all.table = static_cast<u32>(port->flows().size());
  const u32 first = std::min(query.from, all.table);
  const u32 end = first + std::min({query.entries, kMostCounted, all.table - first});
  std::unordered_map<std::string, u32> numbers;
  for (u32 index = first; index < end; index++) {
    const auto current = current_entry(*port, index, all.at_ns);
    if (!current) continue;
    all.current++;
    const auto& [entry, stats] = *current;
    if (stats.packets == stats.base_packets || stats.last_seen_ns < query.since_ns) continue;
    all.index.push_back(index);
    all.packets.push_back(stats.packets - stats.base_packets);
    all.bytes.push_back(stats.bytes - stats.base_bytes);
    const auto [source, added] = numbers.try_emplace(address_text(entry.key.src, entry.key.family),
                                                     static_cast<u32>(all.sources.size()));
    if (added) all.sources.push_back(source->first);
    all.source.push_back(source->second);
  }
  if (end < all.table) all.next = end;
  return all;
}

std::string bpftool_key(u32 index) {
  return fmt::format("hex {:02x} {:02x} {:02x} {:02x}", index & 0xff, index >> 8 & 0xff, index >> 16 & 0xff,
                     index >> 24);
}

}  // namespace xdpgpu::control
