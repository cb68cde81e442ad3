// SPDX-License-Identifier: MIT
#include "bench/stages/flow_cases.hpp"

#include <fmt/format.h>

namespace xdpgpu::bench {
namespace {

constexpr double kPeerBar = 25;
constexpr u64 kFar = 1'000'000'000;  // packets a second, and at once: the frames' times stand still

gpu::RateLimitSettings limit(u32 entries) {
  gpu::RateLimitSettings stage;
  stage.per = gpu::RateLimitSettings::Per::flow;
  stage.packets_per_second = kFar;
  stage.burst_packets = kFar;
  stage.table.entries = entries;
  return stage;
}

gpu::ConntrackSettings connections(u32 entries) {
  gpu::ConntrackSettings stage;
  stage.egress = false;
  stage.loose = true;
  stage.table.entries = entries;
  return stage;
}

constexpr u32 kTargets = 256;
gpu::DdosSettings floods(u64 threshold) {
  gpu::DdosSettings stage;
  stage.thresholds.fill(threshold);
  return stage;
}

// SYNs of all sources to one destination.
std::vector<StagePacket> syn_flood(std::vector<StagePacket> packets) {
  for (StagePacket& packet : packets) {
    packet.dst = 0xc0a80001;
    packet.protocol = 6;
    packet.tcp_flags = 0x02;
  }
  return packets;
}

std::vector<StagePacket> packets_of(u32 flows) {
  Random random(20261122);
  std::vector<StagePacket> made(flows);
  for (StagePacket& packet : made) {
    packet.src = 0x0a000000 + below(random, 1 << 24);
    packet.dst = 0xc0a80000 + below(random, kTargets);
    packet.src_port = static_cast<u16>(1024 + below(random, 64000));
    packet.dst_port = 443;
    packet.protocol = below(random, 2) == 0 ? 6 : 17;
    if (packet.protocol == 6) packet.tcp_flags = 0x10;
  }
  return made;
}

}  // namespace

std::vector<StageCase> flow_cases(u32 entries, u32 flows, u32 shown, const StageCase& feed,
                                  const StageCase& filter) {
  const auto all = std::make_shared<const std::vector<StagePacket>>(packets_of(flows));
  const std::vector<StagePacket> traffic(all->begin(), all->begin() + shown);
  const auto passes = [](const StagePacket&) { return XG_PASS; };
  const std::string of = fmt::format("{} flows, room for {}", flows, entries);
  std::vector<StageCase> cases(5);
  cases[0].name = "rate_limit, " + of;
  cases[0].stages = {limit(entries)};
  cases[1].name = "conntrack, " + of;
  cases[1].stages = {connections(entries)};
  for (u32 i = 0; i < 2; ++i) {
    cases[i].packets = traffic;
    cases[i].before.assign(all->begin() + shown, all->end());
    cases[i].verdict = passes;
    cases[i].at_once = true;
    cases[i].peer_bar = kPeerBar;
    cases[i].peers = {rte_hash_peer(all, entries)};
    // One is enough of the same.
    if (i != 0) cases[i].peers.front().prepare = nullptr;
  }
  cases[2].name = fmt::format("ddos, {} flows to {} targets", shown, kTargets);
  cases[2].stages = {floods(kFar)};
  cases[2].packets = traffic;
  cases[2].verdict = passes;
  cases[3].name = "ddos, a SYN flood to one target";
  cases[3].stages = {floods(1)};
  cases[3].packets = syn_flood(traffic);
  cases[3].verdict = [](const StagePacket&) { return XG_VERDICT(XG_DROP, 0u, 1u, 1u); };
  StageCase& firewall = cases[4];
  firewall.name = fmt::format("composed: {}, {}, conntrack, rate_limit", feed.name, filter.name);
  firewall.stages = feed.stages;
  firewall.stages.push_back(filter.stages.front());
  firewall.packets = filter.packets;
  firewall.verdict = [listed = feed.verdict, filtered = filter.verdict](const StagePacket& packet) {
    const u32 by_list = listed(packet);
    if (XG_VERDICT_STAGE(by_list) != 0) return by_list;
    const u32 by_rule = filtered(packet);
    const bool drops = XG_VERDICT_ACTION(by_rule) == XG_DROP;
    return drops ? XG_VERDICT(XG_DROP, 0u, 2u, XG_VERDICT_RULE(by_rule)) : u32{XG_PASS};
  };
  // Most of the filter's own packets are dropped there.
  for (std::size_t i = 0; i < firewall.packets.size(); i += 2) firewall.packets[i] = traffic[i];
  std::get<gpu::AclSettings>(firewall.stages.back()).otherwise = gpu::AclRule::Action::next;
  gpu::ConntrackSettings tracks = connections(entries);
  tracks.on_invalid = gpu::AclRule::Action::next;
  firewall.stages.emplace_back(tracks);
  firewall.stages.emplace_back(limit(entries));
  for (StageCase& one : cases) one.plain_bar = kTableBar;
  return cases;
}

}  // namespace xdpgpu::bench
