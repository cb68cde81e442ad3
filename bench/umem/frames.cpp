// SPDX-License-Identifier: MIT
#include "bench/umem/frames.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <random>

#include "gpu/reference/reference.hpp"
#include "maps/parse.h"

namespace xdpgpu::bench {
namespace {

constexpr u64 kLine = 128;
static_assert((XG_FRAME_DATA - XG_METADATA_SIZE) % kLine == 0);
constexpr u32 kDropped = 8;  // rules of the acl, each for a port

void put16(u8* at, u32 value) {
  at[0] = static_cast<u8>(value >> 8);
  at[1] = static_cast<u8>(value);
}

// Ethernet, IPv4, the first bytes of TCP or UDP.
void write_headers(u8* frame, u32 length, u64 flow) {
  constexpr std::array<u8, 14> kEthernet{0x02, 0xaa, 0, 0, 0, 1, 0x02, 0xbb, 0, 0, 0, 2, 0x08, 0x00};
  std::memcpy(frame, kEthernet.data(), kEthernet.size());
  u8* const ip = frame + kEthernet.size();
  const bool tcp = (flow & 1) != 0;
  std::memset(ip, 0, 20);
  ip[0] = 0x45;
  put16(ip + 2, length - 14);
  ip[8] = 64;
  ip[9] = tcp ? 6 : 17;
  std::memcpy(ip + 12, &flow, 8);
  u8* const l4 = ip + 20;
  put16(l4, 1024 + static_cast<u32>(flow >> 40 & 0x7fff));
  put16(l4 + 2, 4000 + static_cast<u32>(flow >> 8 & 15));
  if (tcp)
    l4[12] = 5 << 4;
  else
    put16(l4 + 4, length - 34);
}

}  // namespace

Frames::Frames(u32 count, u32 length, bool huge)
    : pages_(u64{count} * XG_CHUNK_SIZE, huge), descriptors_(count) {
  std::mt19937_64 random(20261121);
  for (u64 at = 0; at < bytes(); at += sizeof(u64)) {
    const u64 word = at * 0x9e3779b97f4a7c15;
    std::memcpy(base() + at, &word, sizeof(word));
  }
  std::vector<u32> chunks(count);
  std::iota(chunks.begin(), chunks.end(), 0u);
  std::shuffle(chunks.begin(), chunks.end(), random);
  for (u32 i = 0; i < count; ++i) {
    const u64 offset = u64{chunks[i]} * XG_CHUNK_SIZE + XG_FRAME_DATA;
    u8* const frame = base() + offset;
    write_headers(frame, length, random());
    xg_packet parsed;
    xg_parse(frame, frame + length, 0, &parsed);
    xg_metadata metadata{};
    metadata.rx_time_ns = i + 1;
    metadata.generation = DeviceQueue::kGeneration;
    metadata.sequence = i;
    xg_metadata_from(&metadata, &parsed, static_cast<u32>(random()));
    std::memcpy(frame - sizeof(metadata), &metadata, sizeof(metadata));
    descriptors_[i] = {offset, length, 0};
  }
}

std::vector<u32> Frames::lines() const {
  std::vector<u32> out;
  for (const xg_descriptor& one : descriptors_)
    out.push_back(static_cast<u32>((one.offset - XG_METADATA_SIZE) / kLine));
  return out;
}

std::vector<gpu::PipelineSettings> Frames::pipelines(Stage stage) {
  if (stage == Stage::l2fwd) return {{"main", {gpu::L2fwdSettings{}}}};
  gpu::AclSettings acl;
  for (u32 i = 0; i < kDropped; ++i) {
    gpu::AclRule rule;
    rule.name = std::to_string(i);
    const u16 port = static_cast<u16>(4000 + 2 * i);
    rule.dst_ports = {{port, port}};
    rule.protocols = {static_cast<u8>(i % 2 != 0 ? 6 : 17)};
    rule.action = gpu::AclRule::Action::drop;
    acl.rules.push_back(rule);
  }
  acl.otherwise = gpu::AclRule::Action::pass;
  return {{"main", {acl}}};
}

std::vector<u32> Frames::verdicts(Stage stage) const {
  std::vector<xg_result> results(descriptors_.size());
  gpu::reference::decide({base(), bytes()}, descriptors_, DeviceQueue::kGeneration, pipelines(stage),
                         results);
  std::vector<u32> out;
  out.reserve(results.size());
  for (const xg_result& result : results) out.push_back(result.verdict);
  return out;
}

u32 Frames::sum_at(u64 offset, u64 bytes) const {
  u32 sum = 0;
  for (u64 at = 0; at < bytes; at += sizeof(u32)) {
    u32 word;
    std::memcpy(&word, base() + offset + at, sizeof(word));
    sum += word;
  }
  return sum;
}

u32 Frames::sum() const { return sum_at(0, bytes()); }

u32 Frames::sum_of_lines(u32 bytes) const {
  u32 sum = 0;
  for (const xg_descriptor& one : descriptors_) sum += sum_at(one.offset - XG_METADATA_SIZE, bytes);
  return sum;
}

std::vector<u32> Frames::frame_sums() const {
  std::vector<u32> sums;
  for (const xg_descriptor& one : descriptors_) sums.push_back(sum_at(one.offset, one.length));
  return sums;
}

}  // namespace xdpgpu::bench
