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

#include "gpu/reference/inner.hpp"
#include "gpu/reference/read.hpp"
#include "gpu/reference/signature.hpp"
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

inline CapturedPacket packet_of(std::span<const u8> frame, Look look = Look::outside) {
  std::vector<u8> region(XG_METADATA_SIZE + frame.size());
  std::copy(frame.begin(), frame.end(), region.begin() + XG_METADATA_SIZE);
  const auto length = static_cast<u32>(frame.size());
  xg_metadata metadata;
  dataplane::parse_metadata(frame.data(), length, length, 0, {}, 0, 0, &metadata);
  std::memcpy(region.data(), &metadata, sizeof(metadata));
  auto packet = gpu::reference::read_packet(region, {XG_METADATA_SIZE, length, 0});
  if (packet && look == Look::inside) gpu::reference::look_inside(*packet);
  return {metadata, gpu::reference::SignaturePacket(packet.value_or(gpu::reference::Packet{}))};
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
  auto capture = host::Capture::open(path);
  if (!capture) throw std::runtime_error(capture.error());
  while (const auto packet = (*capture)->next()) {
    packets.push_back(packet_of(packet->frame, look));
    CapturedPacket& made = packets.back();
    made.time_ns = packet->time_ns;
    const auto [flow, is_new] =
        flows.emplace(flow_of(made.seen), made.seen.dns && made.seen.dns->is_dns && made.seen.dst_port == 53);
    made.begins = is_new;
    made.begins_dns = flow->second;
  }
  return packets;
}

inline dataplane::Ends between(const CapturedPacket& packet) {
  dataplane::Ends ends{static_cast<u8>(packet.seen.src.size() == 4 ? 4 : 6), {}, {}};
  std::copy(packet.seen.src.begin(), packet.seen.src.end(), ends.src.begin());
  std::copy(packet.seen.dst.begin(), packet.seen.dst.end(), ends.dst.begin());
  return ends;
}

// How often rules have matched, packet by packet.
class Counted {
 public:
  // Of a packet that the rule matches: whether it alerts.
  bool tells(const gpu::RuleHead& rule, const CapturedPacket& packet) {
    return rule.limit.type == gpu::AlertLimit::Type::none ||
           counts_.count(rule, between(packet), packet.time_ns);
  }

 private:
  dataplane::AlertCounts counts_;
};

}  // namespace xdpgpu::rules::test
