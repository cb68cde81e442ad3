// SPDX-License-Identifier: MIT
#include "bench/signatures/frames.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <random>

#include "maps/hash.h"
#include "maps/parse.h"

namespace xdpgpu::bench {
namespace {

void put16(u8* at, u32 value) {
  at[0] = static_cast<u8>(value >> 8);
  at[1] = static_cast<u8>(value);
}

void write_headers(u8* frame, u32 length, bool tcp, u16 port, u32 flow) {
  constexpr std::array<u8, 14> kEthernet{0x02, 0xaa, 0, 0, 0, 1, 0x02, 0xbb, 0, 0, 0, 2, 0x08, 0x00};
  std::memcpy(frame, kEthernet.data(), kEthernet.size());
  u8* const ip = frame + kEthernet.size();
  std::memset(ip, 0, tcp ? 40 : 28);
  ip[0] = 0x45;
  put16(ip + 2, length - 14);
  ip[8] = 64;
  ip[9] = tcp ? 6 : 17;
  ip[12] = 10;
  put16(ip + 14, flow);
  std::memcpy(ip + 16, std::array<u8, 4>{192, 0, 2, 1}.data(), 4);
  u8* const l4 = ip + 20;
  put16(l4, 1024 + flow % 60000);
  put16(l4 + 2, port);
  if (tcp) {
    l4[12] = 5 << 4;
    l4[13] = 0x18;
  } else {
    put16(l4 + 4, length - 34);
  }
}

}  // namespace

PayloadFrames::PayloadFrames(u32 count) : pages_(u64{count} * XG_CHUNK_SIZE, false) {
  std::vector<u32> chunks(count);
  std::iota(chunks.begin(), chunks.end(), 0u);
  std::shuffle(chunks.begin(), chunks.end(), std::mt19937_64(20261126));
  for (const u32 chunk : chunks) descriptors_.push_back({u64{chunk} * XG_CHUNK_SIZE + XG_FRAME_DATA, 0, 0});
}

void PayloadFrames::fill(std::span<const std::string> payloads, bool tcp, u16 port) {
  const xg_hash_keys flow_keys = xg_hash_keys_from(1, 2);
  payload_at_ = tcp ? 54 : 42;
  const u32 length = payload_at_ + static_cast<u32>(payloads.front().size());
  for (u32 i = 0; i < count(); ++i) {
    descriptors_[i].length = length;
    u8* const frame = pages_.base() + descriptors_[i].offset;
    write_headers(frame, length, tcp, port, i);
    const std::string& payload = payloads[i % payloads.size()];
    std::copy(payload.begin(), payload.end(), frame + payload_at_);
    xg_packet parsed;
    xg_parse(frame, frame + length, 0, &parsed);
    xg_metadata metadata{};
    metadata.rx_time_ns = i + 1;
    metadata.generation = DeviceQueue::kGeneration;
    metadata.sequence = i;
    xg_metadata_from(&metadata, &parsed, xg_flow_hash(&parsed.key, &flow_keys));
    std::memcpy(frame - sizeof(metadata), &metadata, sizeof(metadata));
  }
}

void PayloadFrames::say_on(std::span<const xg_descriptor> frames, u32 flows, bool begin) {
  if (begin) said_ = 0;
  const u32 bytes = length() - payload_at_;
  for (const xg_descriptor& one : frames) {
    u8* const ip = pages_.base() + one.offset + 14;
    const auto flow = static_cast<u32>(said_ % flows);
    const auto sequence = static_cast<u32>(said_++ / flows) * bytes;
    put16(ip + 12, 10 << 8 | flow >> 16);
    put16(ip + 14, flow & 0xffff);
    put16(ip + 20, 1024);
    put16(ip + 24, sequence >> 16);
    put16(ip + 26, sequence & 0xffff);
  }
}

std::span<const u8> PayloadFrames::payload(u32 frame) const {
  const xg_descriptor& one = descriptors_[frame];
  return {pages_.base() + one.offset + payload_at_, one.length - payload_at_};
}

std::vector<u32> PayloadFrames::sums() const {
  std::vector<u32> sums;
  for (const xg_descriptor& one : descriptors_) {
    u32 sum = 0;
    for (u32 at = 0; at < one.length; at += sizeof(u32)) {
      u32 word;
      std::memcpy(&word, pages_.base() + one.offset + at, sizeof(word));
      sum += word;
    }
    sums.push_back(sum);
  }
  return sums;
}

}  // namespace xdpgpu::bench
