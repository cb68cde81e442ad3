// SPDX-License-Identifier: MIT
#include "userspace/dataplane/host_rules.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "gpu/reference/inner.hpp"
#include "gpu/reference/read.hpp"
#include "userspace/dataplane/metadata.hpp"

namespace xdpgpu::dataplane {
namespace {

gpu::reference::SignaturePacket seen_of(const xg_metadata& metadata, std::span<const u8> frame, bool inside) {
  frame = frame.first(std::min<std::size_t>(frame.size(), XG_PACKET_MAX));
  std::vector<u8> region(sizeof(metadata) + frame.size());
  std::memcpy(region.data(), &metadata, sizeof(metadata));
  std::copy(frame.begin(), frame.end(), region.begin() + sizeof(metadata));
  // In buffers that are as long as a chunk.
  std::vector<xg_descriptor> buffers;
  for (std::size_t at = 0; at < frame.size(); at += XG_CHUNK_SIZE)
    buffers.push_back({static_cast<u32>(sizeof(metadata) + at),
                       static_cast<u32>(std::min<std::size_t>(frame.size() - at, XG_CHUNK_SIZE)), 0});
  if (buffers.empty()) return gpu::reference::SignaturePacket({});
  auto packet = gpu::reference::read_packet(region, buffers.front());
  if (!packet) return gpu::reference::SignaturePacket({});
  packet->region = region;
  packet->later = std::span(buffers).subspan(1);
  packet->bytes = static_cast<u32>(frame.size());
  if (inside) gpu::reference::look_inside(*packet);
  return gpu::reference::SignaturePacket(*packet);
}

}  // namespace

HostPacket::HostPacket(const xg_metadata& metadata, std::span<const u8> frame, bool inside)
    : seen_(seen_of(metadata, frame, inside)) {}

bool holds(const HostPart& part, const HostPacket& packet, ExpressionScratch& scratch) {
  return packet.seen_.judged && gpu::reference::rest_holds(part, packet.seen_, scratch.finder_);
}

bool holds(const HostPart& part, std::span<const u8> frame, ExpressionScratch& scratch) {
  xg_metadata metadata;
  const auto length = static_cast<u32>(frame.size());
  parse_metadata(frame.data(), length, length, 0, {}, 0, 0, &metadata);
  scratch.begin();
  return holds(part, HostPacket(metadata, frame, false), scratch);
}

AlertRules::Rests ask_rests(const AlertRules::Pipeline& pipeline, const xg_alerts& hold,
                            const xg_metadata& metadata, std::span<const u8> frame,
                            ExpressionScratch& scratch) noexcept try {
  const HostPacket packet(metadata, frame, pipeline.inner);
  scratch.begin();
  AlertRules::Rests rests;
  const u32 count = AlertRules::named(hold);
  for (u32 i = 0; i < count; ++i) {
    if (!AlertRules::asks(pipeline, hold, i)) continue;
    if (holds(*(*pipeline.rules)[hold.rules[i]].rest, packet, scratch)) continue;
    (scratch.is_spent() ? rests.unasked : rests.refused) |= 1u << i;
  }
  return rests;
} catch (const std::bad_alloc&) {
  return {0, AlertRules::asking(pipeline, hold)};
}

}  // namespace xdpgpu::dataplane
