// SPDX-License-Identifier: MIT
#include "userspace/control/flows.hpp"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>

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

Json describe(const xg_flow_verdict& entry, const std::vector<PortControl>& ports,
              const CompiledPolicy& policy) {
  const auto& settings = policy.pipelines->settings();
  const xg_flow_key& key = entry.key;
  const bool mirror = key.mirror != 0 && key.mirror <= settings.size();
  const gpu::PipelineSettings* pipeline = mirror                 ? &settings[key.mirror - 1u]
                                          : settings.size() == 1 ? settings.data()
                                                                 : nullptr;
  Json json = {{"flow", flow_text(key)},
               {"family", key.family},
               {"protocol", protocol_name(key.protocol)},
               {"src", address_text(key.src, key.family)},
               {"dst", address_text(key.dst, key.family)},
               {"src_port", xg_host16(key.src_port)},
               {"dst_port", xg_host16(key.dst_port)},
               {"action", action_name(entry.action)},
               {"decided_by", decider_text(entry.verdict, pipeline, nullptr)},
               {"generation", entry.generation},
               {"rewrite", entry.rewrite}};
  // The number that the pipelines know it by.
  const u32 half = XG_REWRITE_INDEX(XG_REWRITE_FIRST, entry.generation) - XG_REWRITE_FIRST;
  const u32 number = entry.rewrite - half;
  if (const auto backend = policy.pipelines->backend_of(number); !backend.empty()) {
    json["backend"] = backend;
    const xg_rewrite& rewrite = policy.pipelines->rewrites()[number - XG_REWRITE_FIRST];
    if (rewrite.flags & XG_REWRITE_ENCAPSULATE)
      json["encapsulation"] = {{"type", rewrite.udp_port ? "gue" : "ipip"},
                               {"to", address_text(rewrite.outer_dst, rewrite.outer_family)}};
  }
  if (mirror) json["mirror"] = pipeline->name;
  if (key.vlan_outer) json["vlan"] = key.vlan_outer == XG_VLAN_PRIORITY ? 0 : key.vlan_outer;
  if (key.vlan_inner) json["inner_vlan"] = key.vlan_inner == XG_VLAN_PRIORITY ? 0 : key.vlan_inner;
  if (entry.action == XG_REDIRECT && entry.target < ports.size())
    json["target"] = ports[entry.target].ifname();
  return json;
}

}  // namespace

Json list_flows(const std::vector<PortControl>& ports, const CompiledPolicy& policy, const FlowQuery& query) {
  Json list = Json::array();
  u64 current = 0, left_out = 0;
  std::optional<u32> next;
  const u64 limit = std::min(query.limit, kMostFlows);
  const u64 now = monotonic_ns();
  for (u32 p = 0; p < ports.size(); p++) {
    const PortControl& port = ports[p];
    if (!query.interface.empty() && query.interface != port.ifname()) continue;
    for (u32 index = 0; index < port.flows().size(); index++) {
      const auto entry = read_entry(port.flows()[index]);
      if (!entry || entry->generation != port.active_generation()) continue;
      const xg_flow_stats stats = port.flow_stats()[index];
      if (expired(*entry, stats, now)) continue;
      current++;
      if (index < query.from) continue;
      if (list.size() >= limit) {
        left_out++;
        if (!next) next = index;
        continue;
      }
      const u64 packets = stats.packets - stats.base_packets;
      Json json = describe(*entry, ports, policy);
      json["interface"] = port.ifname();
      json["queue"] = index / port.flow_entries_per_queue() % port.queues();
      json["index"] = index;
      json["bpftool_key"] = bpftool_key(index);
      json["packets"] = packets;
      json["bytes"] = stats.bytes - stats.base_bytes;
      if (packets > 0 && stats.last_seen_ns <= now)
        json["idle_s"] = static_cast<double>(now - stats.last_seen_ns) / 1e9;
      if (entry->expires_ms != 0)
        json["expires_in_s"] = static_cast<double>(static_cast<std::int32_t>(
                                   entry->expires_ms - static_cast<u32>(now / 1'000'000))) /
                               1e3;
      list.push_back(std::move(json));
    }
  }
  const auto listed = list.size();
  Json answer = {
      {"flows", std::move(list)}, {"current", current}, {"listed", listed}, {"left_out", left_out}};
  if (next && !query.interface.empty()) answer["next"] = *next;
  return answer;
}

std::string bpftool_key(u32 index) {
  return fmt::format("hex {:02x} {:02x} {:02x} {:02x}", index & 0xff, index >> 8 & 0xff, index >> 16 & 0xff,
                     index >> 24);
}

}  // namespace xdpgpu::control
