// SPDX-License-Identifier: MIT
#include <algorithm>

#include "gpu/stages/references.hpp"
#include "gpu/stages/table.h"

namespace xdpgpu::gpu::reference {
namespace {

__extension__ typedef unsigned __int128 Wide;

// As much of an address as counts.
void put_prefix(std::span<u8> to, std::span<const u8> address, u32 bits) {
  for (u32 bit = 0; bit < bits; bit++)
    to[bit / 8] = static_cast<u8>(to[bit / 8] | (address[bit / 8] & (0x80 >> bit % 8)));
}

class RateLimit final : public StageWith<RateLimitSettings> {
 public:
  RateLimit(const RateLimitSettings& settings, const std::array<u64, 2>& secret)
      : StageWith(settings), table_(settings.table, secret) {}
  bool decide(const Packet& packet, const Place& place, xg_result& result) override {
    if (packet.src.empty()) {
      table_.count(3);
      return false;
    }
    const bool flow = settings().per == RateLimitSettings::Per::flow;
    const u32 whole = static_cast<u32>(packet.src.size()) * 8;
    const u32 bits = flow ? whole : packet.src.size() == 4 ? settings().bits4 : settings().bits6;
    Key key{};
    if (settings().per != RateLimitSettings::Per::dst) put_prefix(std::span(key).first(16), packet.src, bits);
    if (settings().per != RateLimitSettings::Per::src)
      put_prefix(std::span(key).subspan(16, 16), packet.dst, bits);
    if (flow && !packet.ports.empty() && !packet.is(XG_PKT_FRAGMENT))
      std::copy(packet.ports.begin(), packet.ports.end(), key.begin() + 32);
    key[36] = packet.src.size() == 4 ? 4 : 6;
    if (flow) key[37] = packet.metadata.protocol;

    table_.come(key, packet.metadata.rx_time_ns * XG_TICKS_PER_NS);
    const u64 now = table_.now();
    constexpr u64 second = XG_TICKS_PER_NS * 1'000'000'000;
    // Each bucket is known by the time at which it is full again, in ticks; one that is full, by now.
    u64 packets_full = now;
    u64 bytes_full = now;
    Entry* entry = table_.find(true);
    if (entry != nullptr) {
      const u64 other = u64{entry->value[1]} << 32 | entry->value[0];
      packets_full = std::max(now, entry->value[2] != 0 ? entry->deadline : other);
      bytes_full = std::max(now, entry->value[2] != 0 ? other : entry->deadline);
    }
    bool fits = true;
    if (settings().packets_per_second != 0) {
      const u64 one = second / settings().packets_per_second;
      packets_full += one;
      fits = packets_full - now <= one * settings().burst_packets;
    }
    if (settings().bytes_per_second != 0) {
      // In 2^-20 ticks.
      const Wide one = (Wide{second} << 20) / settings().bytes_per_second;
      bytes_full += static_cast<u64>((one * packet.bytes) >> 20);
      fits = fits && bytes_full - now <= static_cast<u64>((one * settings().burst_bytes) >> 20);
    }
    if (!fits) {
      table_.count(1);
      return act(settings().excess, 0, place.position, 0, result);
    }
    const u64 later = std::max(packets_full, bytes_full);
    if (entry == nullptr) entry = table_.insert(later);
    table_.count(entry == nullptr ? 2 : 0);
    if (entry == nullptr) return false;
    const u64 earlier = std::min(packets_full, bytes_full);
    entry->deadline = later;
    entry->value = {static_cast<u32>(earlier), static_cast<u32>(earlier >> 32),
                    packets_full > bytes_full ? 1u : 0u};
    return false;
  }
  bool remembers() const override { return true; }
  std::vector<u32> table() const override { return table_.words(); }

 private:
  Table table_;
};

}  // namespace

std::unique_ptr<Stage> reference_of(const RateLimitSettings& settings, const std::array<u64, 2>& secret) {
  return std::make_unique<RateLimit>(settings, secret);
}

}  // namespace xdpgpu::gpu::reference
