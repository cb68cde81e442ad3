// SPDX-License-Identifier: MIT
//
// DPDK's hash table, with a key of every flow in it. It only looks flows up, where the stages also write what
// the packet makes of them.
#include <rte_hash.h>
#include <rte_hash_crc.h>

#include "bench/stages/dpdk.hpp"
#include "bench/stages/flow_cases.hpp"

namespace xdpgpu::bench {
namespace {

struct Key {
  u32 src, dst;            // network order
  u16 src_port, dst_port;  // likewise
  u32 protocol;
};
static_assert(sizeof(Key) == 16);

struct Free {
  void operator()(rte_hash* table) const { rte_hash_free(table); }
};
using Table = std::unique_ptr<rte_hash, Free>;

Key key_of(const StagePacket& packet) {
  return {__builtin_bswap32(packet.src), __builtin_bswap32(packet.dst), __builtin_bswap16(packet.src_port),
          __builtin_bswap16(packet.dst_port), packet.protocol};
}

Key key_of(const u8* frame) {
  const xg_metadata metadata = metadata_of(frame);
  Key key;
  std::memcpy(&key.src, frame + metadata.l3_offset + 12, 8);
  std::memcpy(&key.src_port, frame + metadata.l4_offset, 4);
  key.protocol = metadata.protocol;
  return key;
}

gpu::Result<Table> build(const std::vector<StagePacket>& packets, u32 entries) {
  const std::string name = dpdk_name();
  rte_hash_parameters parameters{};
  parameters.name = name.c_str();
  parameters.entries = entries;
  parameters.key_len = sizeof(Key);
  parameters.hash_func = rte_hash_crc;
  parameters.socket_id = SOCKET_ID_ANY;
  parameters.extra_flag = RTE_HASH_EXTRA_FLAGS_EXT_TABLE;
  Table table(rte_hash_create(&parameters));
  if (table == nullptr)
    return tl::unexpected(
        fmt::format("DPDK could not make room for {} flows: {}", entries, rte_strerror(rte_errno)));
  for (const StagePacket& packet : packets) {
    const Key key = key_of(packet);
    if (const int at = rte_hash_add_key(table.get(), &key); at < 0)
      return tl::unexpected(fmt::format("DPDK could not take {} flows in a table for {}: {}", packets.size(),
                                        entries, rte_strerror(-at)));
  }
  return table;
}

void look_up(const rte_hash* table, const u8* base, std::span<const xg_descriptor> frames, u32* answers) {
  std::array<Key, kBurst> keys;
  std::array<const void*, kBurst> pointers;
  std::array<int32_t, kBurst> places;
  for (u32 i = 0; i < kBurst; ++i) pointers[i] = &keys[i];
  in_bursts(
      base, frames, [&](const u8* frame, u32 i) { keys[i] = key_of(frame); },
      [&](std::size_t first, u32 count) {
        rte_hash_lookup_bulk(table, pointers.data(), count, places.data());
        for (u32 i = 0; i < count; ++i) answers[first + i] = places[i] < 0 ? XG_DROP : XG_PASS;
      });
}

}  // namespace

Peer rte_hash_peer(std::shared_ptr<const std::vector<StagePacket>> packets, u32 entries) {
  Peer peer;
  peer.name = fmt::format("rte_hash, {} flows, room for {}", packets->size(), entries);
  peer.answer_of = [](u32 verdict) { return XG_VERDICT_ACTION(verdict); };
  peer.prepare = [packets, entries]() -> gpu::Result<Peer::Decide> {
    if (auto started = start_dpdk(); !started) return tl::unexpected(started.error());
    auto table = build(*packets, entries);
    if (!table) return tl::unexpected(table.error());
    return [kept = std::shared_ptr<rte_hash>(std::move(*table))](
               const u8* base, std::span<const xg_descriptor> frames, u32* answers) {
      look_up(kept.get(), base, frames, answers);
    };
  };
  return peer;
}

}  // namespace xdpgpu::bench
