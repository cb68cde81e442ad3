// SPDX-License-Identifier: MIT
//
// tests/unit/compiler_captures.hpp: packets of captures as rules see them.
#pragma once

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "gpu/pipelines.hpp"
#include "gpu/reference/inner.hpp"
#include "gpu/reference/read.hpp"
#include "gpu/reference/reference.hpp"
#include "gpu/reference/signature.hpp"
#include "gpu/stages/signatures/stream_reference.hpp"
#include "userspace/dataplane/alert_rules.hpp"
#include "userspace/dataplane/metadata.hpp"
#include "userspace/host/capture.hpp"

namespace xdpgpu::rules::test {

inline std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

struct CapturedPacket {
  xg_metadata metadata;
  gpu::reference::SignaturePacket seen;
  u64 time_ns = 0;         // the capture's
  bool begins = true;      // it is the first one of its flow in the capture
  bool begins_dns = true;  // the first one of its flow is a DNS message to port 53
};

// Outside: by its outer headers; inside: as what its tunnel holds, if it is one.
enum class Look : u8 { outside, inside };

// What a stage `conntrack` in front says of packets that are shown to it in their order.
class Connections {
 public:
  explicit Connections(Look look)
      : judge_({{"", {conntrack(), gpu::SignaturesSettings{}}, look == Look::inside}}, {}) {}
  // region: its metadata and its frame.
  u32 of(std::span<const u8> region) {
    const xg_descriptor descriptor{XG_METADATA_SIZE, static_cast<u32>(region.size()) - XG_METADATA_SIZE, 0};
    xg_result result{};
    judge_.decide(region, {&descriptor, 1}, 0, {&result, 1});
    return result.detail;
  }

 private:
  static gpu::ConntrackSettings conntrack() {
    gpu::ConntrackSettings settings;
    settings.egress = settings.loose = false;
    settings.on_invalid = gpu::Action::next;
    return settings;
  }
  gpu::reference::Judge judge_;
};

// Metadata and frame.
inline std::vector<u8> region_of(std::span<const u8> frame, u64 time_ns = 0) {
  std::vector<u8> region(XG_METADATA_SIZE + frame.size());
  std::copy(frame.begin(), frame.end(), region.begin() + XG_METADATA_SIZE);
  const auto length = static_cast<u32>(frame.size());
  xg_metadata metadata;
  dataplane::parse_metadata(frame.data(), length, length, 0, {}, 0, 0, &metadata);
  metadata.rx_time_ns = time_ns;
  std::memcpy(region.data(), &metadata, sizeof(metadata));
  return region;
}

inline CapturedPacket packet_of(std::span<const u8> frame, Look look = Look::outside,
                                Connections* connections = nullptr, u64 time_ns = 0) {
  const std::vector<u8> region = region_of(frame, time_ns);
  xg_metadata metadata;
  std::memcpy(&metadata, region.data(), sizeof(metadata));
  const xg_descriptor descriptor{XG_METADATA_SIZE, static_cast<u32>(frame.size()), 0};
  auto packet = gpu::reference::read_packet(region, descriptor);
  if (packet && look == Look::inside) gpu::reference::look_inside(*packet);
  CapturedPacket made{metadata, gpu::reference::SignaturePacket(packet.value_or(gpu::reference::Packet{}))};
  if (connections != nullptr && packet) made.seen.connection = connections->of(region);
  return made;
}

using FlowEnd = std::pair<std::vector<u8>, u16>;
// Source and destination.
inline std::pair<FlowEnd, FlowEnd> ends_of(const gpu::reference::SignaturePacket& packet) {
  return {{{packet.src.begin(), packet.src.end()}, packet.src_port.value_or(0)},
          {{packet.dst.begin(), packet.dst.end()}, packet.dst_port.value_or(0)}};
}
// The same ones for both directions.
inline std::pair<FlowEnd, FlowEnd> flow_of(const gpu::reference::SignaturePacket& packet) {
  const auto ends = ends_of(packet);
  return std::minmax(ends.first, ends.second);
}

inline std::vector<CapturedPacket> packets_of(const std::filesystem::path& path, Look look = Look::outside) {
  std::vector<CapturedPacket> packets;
  std::map<std::pair<FlowEnd, FlowEnd>, bool> flows;
  Connections connections(look);
  auto capture = host::Capture::open(path);
  if (!capture) throw std::runtime_error(capture.error());
  while (const auto packet = (*capture)->next()) {
    packets.push_back(packet_of(packet->frame, look, &connections, packet->time_ns));
    CapturedPacket& made = packets.back();
    made.time_ns = packet->time_ns;
    const auto [flow, is_new] =
        flows.emplace(flow_of(made.seen), made.seen.dns && made.seen.dns->is_dns && made.seen.dst_port == 53);
    made.begins = is_new;
    made.begins_dns = flow->second;
  }
  return packets;
}

// Of each packet the rules that fire with it in streams, by their positions.
inline std::vector<std::vector<u32>> fired_in(const std::filesystem::path& path,
                                              const gpu::SignaturesSettings& settings,
                                              Look look = Look::outside) {
  std::vector<std::vector<u32>> fired;
  gpu::reference::Streams streams(settings, {1, 2});
  auto capture = host::Capture::open(path);
  if (!capture) throw std::runtime_error(capture.error());
  while (const auto frame = (*capture)->next()) {
    const auto region = region_of(frame->frame, frame->time_ns);
    const xg_descriptor descriptor{XG_METADATA_SIZE, static_cast<u32>(frame->frame.size()), 0};
    auto packet = gpu::reference::read_packet(region, descriptor);
    fired.emplace_back();
    if (!packet) continue;
    packet->region = region;
    packet->bytes = descriptor.length;
    if (look == Look::inside) gpu::reference::look_inside(*packet);
    gpu::reference::SignaturePacket seen(*packet);
    fired.back() = streams.take(*packet, seen).fire;
  }
  return fired;
}

inline dataplane::Ends between(const CapturedPacket& packet) {
  dataplane::Ends ends{.version = static_cast<u8>(packet.seen.src.size() == 4 ? 4 : 6),
                       .protocol = packet.seen.protocol,
                       .src_port = packet.seen.src_port.value_or(0),
                       .dst_port = packet.seen.dst_port.value_or(0),
                       .connection = packet.seen.connection};
  std::copy(packet.seen.src.begin(), packet.seen.src.end(), ends.src.begin());
  std::copy(packet.seen.dst.begin(), packet.seen.dst.end(), ends.dst.begin());
  return ends;
}

// How often rules have matched, and what bits they have set, packet by packet.
class Counted {
 public:
  // Of a packet that the rule matches: whether it alerts.
  bool tells(const gpu::RuleHead& rule, const CapturedPacket& packet) {
    const dataplane::Ends ends = between(packet);
    if (!bits_.hold(rule.bits, ends, packet.time_ns)) return false;
    bits_.change(rule.bits, ends, packet.time_ns);
    if (rule.noalert) return false;
    return rule.limit.type == gpu::AlertLimit::Type::none ||
           counts_.count(rule, ends, packet.time_ns) == dataplane::Match::told;
  }

 private:
  dataplane::AlertCounts counts_;
  dataplane::RuleBits bits_;
};

}  // namespace xdpgpu::rules::test
