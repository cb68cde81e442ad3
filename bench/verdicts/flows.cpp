// SPDX-License-Identifier: MIT
#include "bench/verdicts/flows.hpp"

#include <arpa/inet.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <new>
#include <random>
#include <string>

#include "gpu/reference/reference.hpp"
#include "maps/hash.h"
#include "maps/parse.h"
#include "tests/kernel/program.hpp"

namespace xdpgpu::bench {
namespace {

constexpr u32 kBackends = 200;
constexpr std::size_t kSource = 14 + 8, kPorts = 14 + 40;

u8* pages(u64 bytes) {
  void* memory = std::aligned_alloc(4096, (bytes + 4095) & ~u64{4095});
  if (memory == nullptr) throw std::bad_alloc();
  return static_cast<u8*>(memory);
}

// Ethernet, IPv6 from 2001:db8::1 to 2001:db8::2, UDP to port 443 without payload.
constexpr std::array<u8, 62> kModel{
    0x02, 0xaa, 0, 0, 0,  1,  0x02, 0xbb, 0,        0,         0, 2, 0x86, 0xdd, 0x60, 0,
    0,    0,    0, 8, 17, 64, 0x20, 0x01, 0x0d,     0xb8,      0, 0, 0,    0,    0,    0,
    0,    0,    0, 0, 0,  1,  0x20, 0x01, 0x0d,     0xb8,      0, 0, 0,    0,    0,    0,
    0,    0,    0, 0, 0,  2,  0,    0,    443 >> 8, 443 & 255, 0, 8, 0,    0};

}  // namespace

void Flows::Free::operator()(u8* memory) const { std::free(memory); }

std::vector<gpu::PipelineSettings> Flows::pipelines() {
  gpu::LoadBalanceSettings balance;
  balance.cache = true;
  for (u32 i = 0; i < kBackends; ++i)
    balance.backends.push_back(
        {.name = std::to_string(i), .mac = mac_of(static_cast<u8>(i)), .weight = 1 + i % 3});
  return {{"balance", {balance}}};
}

Flows::Flows(u32 count, const xg_config& config, u32 generation)
    : count_(count),
      length_(kModel.size()),
      generation_(generation),
      memory_(pages(u64{count} * kLine)),
      results_(count) {
  std::mt19937_64 random(20261121);
  std::vector<xg_descriptor> descriptors(count);
  for (u32 i = 0; i < count; ++i) {
    u8* const at = base() + i * kLine + XG_METADATA_SIZE;
    std::memcpy(at, kModel.data(), kModel.size());
    const u64 host = random();
    const u16 port = htons(static_cast<u16>(i));
    std::memcpy(at + kSource + 8, &host, sizeof(host));
    std::memcpy(at + kPorts, &port, sizeof(port));
    xg_packet parsed;
    xg_parse(at, at + length_, static_cast<u8>(config.port), &parsed);
    keys_.push_back(parsed.key);
    xg_metadata metadata{};
    metadata.generation = generation;
    metadata.sequence = i;
    xg_metadata_from(&metadata, &parsed, xg_flow_hash(&parsed.key, &config.flow_keys));
    std::memcpy(at - sizeof(metadata), &metadata, sizeof(metadata));
    descriptors[i] = descriptor(i);
  }
  receive_again();
  gpu::reference::decide({base(), bytes()}, descriptors, generation, pipelines(), results_);
}

Packet Flows::packet(u32 flow) const {
  const u8* const at = base() + flow * kLine + XG_METADATA_SIZE;
  return {at, at + length_};
}

gpu::FlowVerdict Flows::verdict(u32 flow) const {
  gpu::FlowVerdict out;
  out.key = keys_[flow];
  xg_metadata metadata;
  std::memcpy(&metadata, base() + flow * kLine, sizeof(metadata));
  out.flow_hash = metadata.flow_hash;
  out.generation = generation_;
  out.verdict = results_[flow].verdict;
  out.rewrite = static_cast<u16>(XG_REWRITE_INDEX(XG_RES_REWRITE(results_[flow].flags), generation_));
  return out;
}

xg_descriptor Flows::descriptor(u32 flow) const { return {flow * kLine + XG_METADATA_SIZE, length_, 0}; }

void Flows::receive_again() {
  const u64 first = test::monotonic_ns() - count_;
  for (u32 i = 0; i < count_; ++i) {
    const u64 now = first + i;
    std::memcpy(base() + i * kLine + offsetof(xg_metadata, rx_time_ns), &now, sizeof(now));
  }
}

}  // namespace xdpgpu::bench
