// SPDX-License-Identifier: MIT
#include "bench/worker/rings.hpp"

#include <fmt/format.h>
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "tests/netns/lab/frame.hpp"
#include "userspace/dataplane/metadata.hpp"

namespace xdpgpu::bench {
namespace {

lab::Frame frame_of_flow(u32 flow, const Traffic& traffic) {
  constexpr u32 kHeaders = 42, kFirst = 0x0a000000u, kFirstPassing = 0xc0a80001u;
  const u32 from =
      traffic.passes(flow) ? kFirstPassing + ((flow / traffic.passing % kPassingNets) << 8) : kFirst + flow;
  return lab::build(
      {.src = kFarMac,
       .dst = kNearMac,
       .src_ip = fmt::format("{}.{}.{}.{}", from >> 24, from >> 16 & 255, from >> 8 & 255, from & 255),
       .dst_ip = "10.200.0.1",
       .src_port = static_cast<u16>(1024 + flow % 60000),
       .dst_port = 4000,
       .payload = std::string(traffic.length - kHeaders, 'x')});
}

}  // namespace

MemoryPort::MemoryPort(u32 ring_size, u32 tx_size, u32 index, u8* region, xg_queue_state& state)
    : index_(index),
      region_(region),
      state_(state),
      fill_(ring_size),
      completion_(tx_size),
      rx_(ring_size),
      tx_(tx_size),
      sending_(tx_size) {}

std::unique_ptr<dataplane::Socket> MemoryPort::open() {
  auto socket = dataplane::Socket::over_memory();
  fill_.map(socket->receiver.fill, true);
  rx_.map(socket->receiver.rx, false);
  tx_.map(socket->transmitter.tx, true);
  completion_.map(socket->transmitter.completion, false);
  return socket;
}

void MemoryPort::lay(u32 first, u32 chunks, const Traffic& traffic) {
  const xg_hash_keys keys = xg_hash_keys_from(1, 2);
  traffic_ = traffic;
  first_ = first;
  metadata_.resize(chunks);
  for (u32 i = 0; i < chunks; i++) {
    const lab::Frame made = frame_of_flow(i % traffic.flows, traffic);
    u8* const frame = region_ + dataplane::chunk_of(first + i) + XG_FRAME_DATA;
    std::copy(made.begin(), made.end(), frame);
    dataplane::parse_metadata(frame, traffic.length, traffic.length, static_cast<u8>(index_), keys, 0, 0,
                              &metadata_[i]);
    metadata_[i].generation = traffic.generation;
  }
}

void MemoryPort::count(u32 first, u32 chunks) {
  first_ = first;
  came_.assign(chunks, 0);
  went_.assign(chunks, 0);
}

u32 MemoryPort::receive(u32 most, u64 now_ns) noexcept {
  const u32 credits = __atomic_load_n(&state_.granted, __ATOMIC_ACQUIRE) - sequence_;
  const u32 count = std::min({most, credits, fill_.waiting(), rx_.room()});
  for (u32 i = 0; i < count; i++) {
    const u64 chunk = fill_.next(i);
    const u64 at = chunk + XG_FRAME_DATA;
    xg_metadata metadata = metadata_[dataplane::frame_of(chunk) - first_];
    metadata.sequence = sequence_ + i;
    metadata.rx_time_ns = now_ns;
    u8* const place = region_ + at - XG_METADATA_SIZE;
    std::memcpy(place, &metadata, sizeof(metadata));
    if (traffic_.cold) flush_from_caches(place, 2 * XG_METADATA_SIZE);
    rx_.place(i) = {at, traffic_.length, 0};
    if (!came_.empty()) ++came_[dataplane::frame_of(chunk) - first_];
  }
  if (traffic_.cold) _mm_mfence();
  fill_.consume(count);
  rx_.produce(count);
  sequence_ += count;
  received_ += count;
  __atomic_store_n(&state_.admitted, sequence_, __ATOMIC_RELEASE);
  return count;
}

void MemoryPort::send(bool shuffled) noexcept {
  const u32 count = std::min(tx_.waiting(), completion_.room());
  if (count == 0) return;
  for (u32 i = 0; i < count; i++) sending_[i] = tx_.next(i).addr;
  if (!went_.empty())
    for (u32 i = 0; i < count; i++) ++went_[dataplane::frame_of(sending_[i]) - first_];
  if (shuffled) std::shuffle(sending_.begin(), sending_.begin() + count, random_);
  for (u32 i = 0; i < count; i++) completion_.place(i) = sending_[i];
  tx_.consume(count);
  completion_.produce(count);
  sent_ += count;
}

void flush_from_caches(const void* at, std::size_t bytes) noexcept {
  const auto* first = static_cast<const char*>(at);
  for (std::size_t i = 0; i < bytes; i += 64) _mm_clflush(first + i);
}

}  // namespace xdpgpu::bench
