// SPDX-License-Identifier: MIT
#include "bench/stages/frames.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "maps/hash.h"
#include "maps/parse.h"

namespace xdpgpu::bench {
namespace {

constexpr u32 kLength = 64;
constexpr u32 kLine = 128;

void put16(u8* at, u32 value) {
  at[0] = static_cast<u8>(value >> 8);
  at[1] = static_cast<u8>(value);
}
void put32(u8* at, u32 value) {
  put16(at, value >> 16);
  put16(at + 2, value & 0xffff);
}

void write_frame(u8* frame, const StagePacket& packet) {
  constexpr std::array<u8, 12> kAddresses{0x02, 0xaa, 0, 0, 0, 1, 0x02, 0xbb, 0, 0, 0, 2};
  std::memset(frame, 0, kLength);
  std::memcpy(frame, kAddresses.data(), kAddresses.size());
  u8* at = frame + kAddresses.size();
  if (packet.vlan != 0) {
    put16(at, 0x8100);
    put16(at + 2, packet.vlan);
    at += 4;
  }
  put16(at, 0x0800);
  u8* const ip = at + 2;
  const u32 length = static_cast<u32>(frame + kLength - ip);
  ip[0] = 0x45;
  put16(ip + 2, length);
  ip[8] = 64;
  ip[9] = packet.protocol;
  put32(ip + 12, packet.src);
  put32(ip + 16, packet.dst);
  u8* const l4 = ip + 20;
  put16(l4, packet.src_port);
  put16(l4 + 2, packet.dst_port);
  if (packet.protocol == XG_IPPROTO_TCP) {
    l4[12] = 5 << 4;
    l4[13] = packet.tcp_flags;
  } else {
    put16(l4 + 4, length - 20);
  }
}

}  // namespace

StageFrames::StageFrames(u32 count, bool huge) : pages_(std::in_place, bytes_of(count), huge) {
  base_ = pages_->base();
  bytes_ = pages_->bytes();
  place(count);
}

StageFrames::StageFrames(u32 count, std::unique_ptr<SharedMemory> memory)
    : memory_(std::move(memory)), base_(memory_->base()), bytes_(memory_->bytes()) {
  place(count);
}

void StageFrames::place(u32 count) {
  std::vector<u32> chunks(count);
  std::iota(chunks.begin(), chunks.end(), 0u);
  std::shuffle(chunks.begin(), chunks.end(), Random(20261122));
  for (const u32 chunk : chunks)
    descriptors_.push_back({u64{chunk} * XG_CHUNK_SIZE + XG_FRAME_DATA, kLength, 0});
}

std::vector<u32> StageFrames::lines() const {
  std::vector<u32> numbers;
  for (const xg_descriptor& one : descriptors_)
    numbers.push_back(static_cast<u32>((one.offset - XG_METADATA_SIZE) / kLine));
  return numbers;
}

u32 StageFrames::sum_of_lines() const {
  u32 sum = 0;
  for (const u32 number : lines())
    for (u32 at = 0; at < kLine; at += sizeof(u32)) {
      u32 word;
      std::memcpy(&word, base_ + u64{number} * kLine + at, sizeof(word));
      sum += word;
    }
  return sum;
}

void StageFrames::fill(std::span<const StagePacket> packets) {
  const xg_hash_keys flow_keys = xg_hash_keys_from(1, 2);
  for (u32 i = 0; i < descriptors_.size(); ++i) {
    u8* const frame = base_ + descriptors_[i].offset;
    write_frame(frame, packets[i % packets.size()]);
    xg_packet parsed;
    xg_parse(frame, frame + kLength, 0, &parsed);
    xg_metadata metadata{};
    metadata.rx_time_ns = i + 1;
    metadata.generation = DeviceQueue::kGeneration;
    metadata.sequence = i;
    xg_metadata_from(&metadata, &parsed, xg_flow_hash(&parsed.key, &flow_keys));
    metadata.router = XG_ROUTER_ALL;
    std::memcpy(frame - sizeof(metadata), &metadata, sizeof(metadata));
  }
}

}  // namespace xdpgpu::bench
