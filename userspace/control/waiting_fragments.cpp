// SPDX-License-Identifier: MIT
#include "userspace/control/waiting_fragments.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "userspace/dataplane/counters.hpp"

namespace xdpgpu::control {
namespace {

constexpr u32 kWaiting = 1024;                             // frames, as a worker of 16,384 has
constexpr u32 kFrames = kWaiting + 2 * XG_PACKET_BUFFERS;  // and of those that come and go

u64 place_of(dataplane::FrameId frame) { return dataplane::chunk_of(frame) + XG_FRAME_DATA; }

}  // namespace

const char* words_of(dataplane::Unassembled why) {
  return std::find_if(dataplane::kWorkerCounters.begin(), dataplane::kWorkerCounters.end(),
                      [&](const auto& one) { return one.value == dataplane::counter_of(why); })
      ->words;
}

WaitingFragments::WaitingFragments(dataplane::Overlapping ipv4)
    : region_(std::size_t{kFrames} * XG_CHUNK_SIZE),
      free_({0, kFrames}),
      reassembler_(region_.data(), kWaiting, {}),
      ipv4_(ipv4) {}

bool WaitingFragments::take(std::span<const u8> frame, const xg_metadata& metadata, std::size_t number) {
  std::array<xg_descriptor, XG_PACKET_BUFFERS> buffers;
  u32 count = 0;
  for (auto rest = frame; !rest.empty();) {
    const auto part = rest.first(std::min<std::size_t>(rest.size(), XG_FRAME_MAX));
    rest = rest.subspan(part.size());
    const u64 at = place_of(free_.pop());
    std::copy(part.begin(), part.end(), region_.begin() + static_cast<std::ptrdiff_t>(at));
    buffers[count++] = {at, static_cast<u32>(part.size()), rest.empty() ? 0 : XG_DESC_MORE};
  }
  std::memcpy(&region_[buffers[0].offset - XG_METADATA_SIZE], &metadata, sizeof(metadata));
  const dataplane::Buffers packet(buffers.data(), count);
  const auto fragment = dataplane::fragment_of(packet, region_.data(), metadata.port);
  if (fragment.is_whole()) {
    for (const xg_descriptor& buffer : packet) free_.push(dataplane::frame_of(buffer.offset));
    return false;
  }
  numbers_[dataplane::frame_of(packet.back().offset)] = number;
  reassembler_.take(packet, fragment, ipv4_, metadata.rx_time_ns);
  return true;
}

std::vector<std::pair<std::size_t, dataplane::Unassembled>> WaitingFragments::take_dropped() {
  std::vector<std::pair<std::size_t, dataplane::Unassembled>> dropped;
  reassembler_.take_dropped([&](const dataplane::Reassembler::Dropped& one) {
    const auto frame = dataplane::frame_of(one.buffer.offset);
    free_.push(frame);
    if (!(one.buffer.flags & XG_DESC_MORE)) dropped.emplace_back(numbers_.extract(frame).mapped(), one.why);
  });
  return dropped;
}

std::optional<WaitingFragments::Whole> WaitingFragments::take_whole() {
  if (!reassembler_.any_whole()) return std::nullopt;
  Whole whole;
  const dataplane::FrameId header = free_.pop();
  std::array<xg_descriptor, XG_PACKET_BUFFERS> packet;
  const u32 count = reassembler_.make(place_of(header), packet);
  for (u32 i = 0; i < count; ++i) {
    const u8* const at = &region_[packet[i].offset];
    whole.frame.insert(whole.frame.end(), at, at + packet[i].length);
  }
  std::memcpy(&whole.metadata, &region_[place_of(header) - XG_METADATA_SIZE], sizeof(whole.metadata));
  free_.push(header);
  for (const xg_descriptor& buffer : reassembler_.whole().buffers) {
    const auto frame = dataplane::frame_of(buffer.offset);
    if (!(buffer.flags & XG_DESC_MORE)) whole.fragments.push_back(numbers_.extract(frame).mapped());
    free_.push(frame);
  }
  reassembler_.made();
  std::sort(whole.fragments.begin(), whole.fragments.end());
  return whole;
}

}  // namespace xdpgpu::control
