// SPDX-License-Identifier: MIT
#include "gpu/stages/ddos/device.h"

#include <array>
#include <cstddef>
#include <cstring>

#include "tests/backends/policies.hpp"
#include "tests/stages/list.hpp"

namespace xdpgpu::tests {
namespace {

using Evict = gpu::TableSettings::Evict;
using Bytes = std::vector<u8>;
constexpr u64 kMillisecond = 1'000'000;

// What comes for a while.
struct Phase {
  enum class Kind { calm, syn, udp, dns, icmp, sources, flows, bulk } kind = Kind::calm;
  u32 target = 0;
  bool v6 = false;
  u32 sources = 1;
  u64 most_pause_ns = 0;  // between two packets
  u32 left = 0;           // packets
};

// Kinds take turns, so that long traffic has them all.
Phase random_phase(Random& random, u32 turn) {
  using Kind = Phase::Kind;
  constexpr std::array kKinds{Kind::calm, Kind::syn,  Kind::sources, Kind::udp, Kind::dns,
                              Kind::calm, Kind::icmp, Kind::flows,   Kind::bulk};
  Phase phase;
  phase.kind = kKinds[turn % kKinds.size()];
  phase.target = random.below(3);
  phase.v6 = random.one_in(4);
  phase.sources = phase.kind == Kind::sources ? 5000 : random.pick(std::array<u32, 4>{1, 3, 40, 1000});
  phase.most_pause_ns = phase.kind == Kind::calm ? 60 * kMillisecond : random.between(1, 3) * kMillisecond;
  phase.left = random.between(80, 140);
  return phase;
}

void put16(Bytes& to, u32 value) {
  to.push_back(static_cast<u8>(value >> 8));
  to.push_back(static_cast<u8>(value));
}

void put_address(Bytes& to, bool v6, u32 network, u32 host) {
  const Bytes v4{10, static_cast<u8>(network), static_cast<u8>(host >> 8), static_cast<u8>(host)};
  Bytes whole{0x20, 1, 0x0d, 0xb8, 0, 0, 0, static_cast<u8>(network)};
  whole.resize(14);
  put16(whole, host);
  const Bytes& address = v6 ? whole : v4;
  to.insert(to.end(), address.begin(), address.end());
}

Bytes frame_of(Random& random, const Phase& phase) {
  using Kind = Phase::Kind;
  // Others go on beside a flood.
  const bool flood = phase.kind != Kind::calm && !random.one_in(5);
  const Kind kind = flood ? phase.kind : Kind::calm;
  const bool v6 = flood ? phase.v6 : random.one_in(4);
  const u32 target = flood ? phase.target : random.below(random.one_in(2) ? 3 : 400);
  const u32 source = flood ? random.below(phase.sources) : random.below(6);

  u8 protocol = random.pick(std::array<u8, 6>{6, 6, 6, 17, 132, 47});
  if (kind == Kind::syn) protocol = 6;
  if (kind == Kind::udp || kind == Kind::dns || kind == Kind::flows) protocol = 17;
  if (kind == Kind::icmp) protocol = v6 ? 58 : 1;
  const bool ports = protocol == 6 || protocol == 17 || protocol == 132;
  Bytes l4;
  if (ports) {
    const u32 port = kind == Kind::flows ? random.below(60'000) : random.between(1000, 1003);
    put16(l4, kind == Kind::dns ? 53 : random.one_in(30) ? 53 : port);
    put16(l4, random.pick(std::array{80, 443, 53}));
  }
  if (protocol == 6) {
    l4.resize(12, 0);
    const u8 flags = kind == Kind::syn ? (random.one_in(20) ? 0xc2 : 0x02)
                                       : random.pick(std::array<u8, 5>{0x02, 0x12, 0x10, 0x18, 0x11});
    for (const u8 byte : std::array<u8, 8>{0x50, flags, 0xff, 0xff, 0, 0, 0, 0}) l4.push_back(byte);
  } else if (protocol == 17) {
    put16(l4, 0);
    put16(l4, 0);
  } else if (!ports) {
    l4.resize(8, 8);
  }
  l4.resize(
      l4.size() + (kind == Kind::dns || kind == Kind::bulk ? 600 + random.below(700) : random.below(30)),
      0x5a);
  if (protocol == 17) {
    l4[4] = static_cast<u8>(l4.size() >> 8);
    l4[5] = static_cast<u8>(l4.size());
  }

  Bytes frame(12, 0x02);
  put16(frame, v6 ? 0x86dd : 0x0800);
  const u32 fragment = random.one_in(24) ? random.pick(std::array<u32, 2>{0x2000, 0x0010}) : 0;
  if (v6) {
    frame.insert(frame.end(), {0x60, 0, 0, 0});
    put16(frame, static_cast<u32>(l4.size()));
    frame.push_back(protocol);
    frame.push_back(64);
  } else {
    frame.insert(frame.end(), {0x45, 0});
    put16(frame, static_cast<u32>(20 + l4.size()));
    put16(frame, 1);
    put16(frame, fragment);
    frame.insert(frame.end(), {64, protocol, 0, 0});
  }
  // What the targets answer, too.
  const bool back = random.one_in(6);
  put_address(frame, v6, back ? 0 : 1, back ? target : source);
  put_address(frame, v6, back ? 1 : 0, back ? source : target);
  frame.insert(frame.end(), l4.begin(), l4.end());
  if (random.one_in(64)) frame[random.between(12, static_cast<u32>(frame.size()) - 1)] ^= 0x20;
  if (random.one_in(64)) frame.resize(random.between(14, static_cast<u32>(frame.size())));
  return frame;
}

gpu::DdosSettings ddos(gpu::DdosSettings::Direction direction, u32 window_ms, u32 hold_ms,
                       gpu::TableSettings table) {
  gpu::DdosSettings stage;
  stage.direction = direction;
  stage.window_ms = window_ms;
  stage.hold_ms = hold_ms;
  stage.table = table;
  return stage;
}

// A stage for each metric, and all of them in one.
std::vector<gpu::PipelineSettings> alarms() {
  using Direction = gpu::DdosSettings::Direction;
  using OnDetect = gpu::DdosSettings::OnDetect;
  constexpr std::array<u64, gpu::kDdosMetrics> kThresholds{20, 40, 20'000, 15, 5000, 10, 60, 10'000, 20, 8};
  std::vector<gpu::PipelineSettings> all{{"each", {}}};
  for (u32 m = 0; m < gpu::kDdosMetrics; m++) {
    gpu::DdosSettings one = ddos(Direction::in, 300, 900, {64, Evict::lru});
    one.thresholds[m] = kThresholds[m];
    one.cache = m % 2 == 0;
    one.cache_ttl_ms = m % 4 == 0 ? 400 : 0;
    all.front().stages.emplace_back(one);
  }
  gpu::DdosSettings every = ddos(Direction::in, 1000, 2000, {16, Evict::fifo});
  every.thresholds = kThresholds;
  every.on_detect = OnDetect::drop_sources;
  every.share_percent = 20;
  every.cache = true;
  gpu::DdosSettings leaving = ddos(Direction::out, 100, 5000, {8, Evict::refuse});
  leaving.thresholds = kThresholds;
  leaving.release_percent = 100;
  leaving.on_detect = OnDetect::pass;
  gpu::DdosSettings networks = ddos(Direction::out, 60'000, 1, {8, Evict::random});
  networks.thresholds = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  networks.bits4 = 22;
  networks.bits6 = 63;
  networks.on_detect = OnDetect::drop_sources;
  networks.share_percent = 1;
  networks.release_percent = 1;
  gpu::L2fwdSettings forward;
  forward.cache = true;
  all.push_back({"every", {every, forward}});
  all.push_back(
      {"both ways", {leaving, every, limit(gpu::RateLimitSettings::Per::src, 9, 0, {64, Evict::lru})}});
  all.push_back({"networks", {networks, forward}});
  return all;
}

SettingsCase settings() {
  return {"Ddos", R"({"version": 1, "rules": [{"action": {"inspect": "p"}}], "pipelines": {"p": [
            {"stage": "ddos", "description": "what", "direction": "in", "prefix4": 24, "prefix6": 64, "window": "100ms", "syn_pps": 100001,
             "udp_pps": 100002, "udp_bytes_per_second": 100000003, "dns_pps": 100004,
             "dns_bytes_per_second": 100000005, "icmp_pps": 100006, "pps": 100007, "bytes_per_second": 100000008,
             "new_flows_per_second": 100009, "sources": 100010, "release_percent": 40, "hold": "10s",
             "on_detect": "drop_sources", "share_percent": 20, "cache": "1s", "entries": 64, "evict": "lru"}]}})",
          together({each("/pipelines/p/0/direction", {R"("in")", R"("out")"}),
                    each("/pipelines/p/0/on_detect", {R"("drop_sources")"}),
                    each("/pipelines/p/0/cache", {"true", "false", R"("500ms")"}),
                    each("/pipelines/p/0/evict", kEvict),
                    // What only reports drops nothing, so it caches nothing and asks for no share.
                    SettingsValues{
                        {"/pipelines/p/0", R"({"stage": "ddos", "syn_pps": 1000, "on_detect": "pass"})"},
                        {"/pipelines/p/0", R"({"stage": "ddos", "syn_pps": 1000, "on_detect": "drop"})"}}})};
}

}  // namespace

Traffic floods(Random& random, u32 packets, u32 pipelines) {
  Traffic traffic = random_traffic(random, packets, pipelines);
  u64 now_ns = 3'600'000'000'000;
  u32 turn = random.below(9);
  Phase phase = random_phase(random, turn);
  for (u32 i = 0; i < packets; i++) {
    if (phase.left-- == 0) {
      phase = random_phase(random, ++turn);
      // Up to the end of holds, and beyond that of all that is remembered.
      if (random.one_in(3)) now_ns += random.below(random.one_in(4) ? 20'000 : 2'000) * kMillisecond;
    }
    const u64 offset = u64{i} * XG_CHUNK_SIZE + XG_FRAME_DATA;
    if (!random.one_in(12)) {
      const u32 flags = traffic.descriptors[i].flags;
      traffic.descriptors[i] = place(traffic.region, offset, frame_of(random, phase),
                                     static_cast<u16>(random.below(pipelines)), i);
      traffic.descriptors[i].flags = flags;
    }
    if (random.one_in(8)) {
      u8* const flags = traffic.region.base() + offset - XG_METADATA_SIZE + offsetof(xg_metadata, flags);
      flags[1] |= XG_PKT_EGRESS >> 8;
    }
    now_ns += random.bits() % (phase.most_pause_ns + 1);
    const u64 seen_ns = random.one_in(16) ? now_ns - random.below(500) * kMillisecond : now_ns;
    std::memcpy(traffic.region.base() + offset - XG_METADATA_SIZE + offsetof(xg_metadata, rx_time_ns),
                &seen_ns, sizeof(seen_ns));
  }
  return traffic;
}

StageTests ddos_tests() {
  return {.tables = {{"alarms", alarms, XG_DDOS_COUNTERS, true, 20, floods}}, .settings = {settings()}};
}

}  // namespace xdpgpu::tests
