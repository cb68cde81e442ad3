// SPDX-License-Identifier: MIT
#include "bench/events/records.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <random>
#include <thread>
#include <vector>

namespace xdpgpu::bench {
namespace {

constexpr u64 kPart = 1 << 17;

u32 right_filter(const ParsedHeader& header) {
  switch (header.protocol << 16 | header.dst_port) {
    case 6 << 16 | 80:
    case 6 << 16 | 443:
    case 17 << 16 | 53:
      return XG_VERDICT(XG_PASS, 0u, 1u, 0u);
    default:
      return XG_VERDICT(XG_DROP, 0u, 1u, 1u);
  }
}

// FNV-1a as published, over the bytes as they stand in memory.
u32 right_balance(const ParsedHeader& header) {
  std::array<u8, 13> bytes;
  std::memcpy(bytes.data(), &header.src, 12);
  bytes[12] = header.protocol;
  u32 hash = 0x811c9dc5;
  for (const u8 byte : bytes) hash = (hash ^ byte) * 0x01000193;
  return XG_VERDICT(XG_TX, 0u, 1u, hash % XG_EVENT_BACKENDS);
}

}  // namespace

Records::Records(u64 count)
    : parsed_pages_(count * sizeof(ParsedHeader), false),
      compact_pages_(count * sizeof(CompactHeader), false),
      verdict_pages_(count * sizeof(u32), false),
      parsed_(parsed_pages_.as<ParsedHeader>(count)),
      compact_(compact_pages_.as<CompactHeader>(count)),
      verdicts_(verdict_pages_.as<u32>(count)) {
  std::mt19937_64 random(20261121);
  for (u64 i = 0; i < count; ++i) {
    const u64 addresses = random(), rest = random();
    ParsedHeader& header = parsed_[i];
    header.data = i * 2048;
    header.length = 64;
    header.timestamp = i;
    header.src = static_cast<u32>(addresses);
    header.dst = static_cast<u32>(addresses >> 32);
    header.src_port = static_cast<u16>(rest);
    header.protocol = (rest >> 16 & 1) != 0 ? 6 : 17;
    header.dst_port = static_cast<u16>(rest >> 32);
    if (rest % 3 == 0) header.dst_port = header.protocol == 17 ? 53 : (rest >> 17 & 1) != 0 ? 80 : 443;
  }
  pack(1, [](u64, u64) {});
}

void Records::clear() { std::fill(verdicts_.begin(), verdicts_.end(), 0u); }

std::string Records::check(EventStage stage) const {
  for (u64 i = 0; i < count(); ++i)
    if (verdicts_[i] != (stage == EventStage::filter ? right_filter(parsed_[i]) : right_balance(parsed_[i])))
      return fmt::format("header {} got the verdict {:#x}", i, verdicts_[i]);
  return "";
}

void Records::pack(u32 threads, const std::function<void(u64 first, u64 count)>& packed) {
  const u64 parts = (count() + kPart - 1) / kPart;
  std::vector<std::atomic<bool>> done(parts);
  std::atomic<u64> next{0};
  const auto pack_part = [&](u64 part) {
    const u64 end = std::min(count(), (part + 1) * kPart);
    for (u64 i = part * kPart; i < end; ++i) compact_[i] = xg_event_compact(parsed_[i]);
    done[part].store(true, std::memory_order_release);
  };
  std::vector<std::thread> packers;
  for (u32 t = 0; t < threads; ++t)
    packers.emplace_back([&] {
      for (u64 part = next++; part < parts; part = next++) pack_part(part);
    });
  for (u64 part = 0; part < parts; ++part) {
    while (!done[part].load(std::memory_order_acquire)) std::this_thread::yield();
    packed(part * kPart, std::min(kPart, count() - part * kPart));
  }
  for (std::thread& packer : packers) packer.join();
}

}  // namespace xdpgpu::bench
