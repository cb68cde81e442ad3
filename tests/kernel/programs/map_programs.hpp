// SPDX-License-Identifier: MIT
//
// tests/kernel/programs/map_programs.hpp: programs that do one thing to a map, which their packet says: look
// up, update, delete, add to a value, and update or delete what they have looked up, to read it afterwards.
#pragma once

#include <algorithm>

#include "tests/kernel/programs/twins.hpp"
#include "tests/unit/dataplane_random.hpp"

namespace xdpgpu::test {

// In a packet: what to do (one byte), R4's flags, a key, a value, and what came of it.
inline constexpr int kDo = 0, kFlags = 8, kKey = 16, kValue = 32, kAnswer = 48, kFound = 56,
                     kMapPacketBytes = 64;
enum Do : u8 { kLookUp, kUpdate, kErase, kAdd, kUpdateHeld, kEraseHeld };

// Does one of them to map `number`, or to the map that entry 0 of it has.
inline Code map_program(u32 number, const Map& map_settings, bool in_map) {
  const auto value_bytes = static_cast<int>(map_settings.value_bytes);
  Assembly a;
  a(move(r6, r1), load(BPF_W, r7, r6, 0), load(BPF_W, r3, r6, 4), move(r4, r7),
    alu_k(BPF_ADD, r4, kMapPacketBytes));
  a.to("out", jump(BPF_JGT, r4, r3));
  a(load(BPF_DW, r2, r7, kKey), store(BPF_DW, r10, -16, r2), load(BPF_DW, r2, r7, kKey + 8),
    store(BPF_DW, r10, -8, r2));
  a(load(BPF_DW, r2, r7, kValue), store(BPF_DW, r10, -32, r2), load(BPF_DW, r2, r7, kValue + 8),
    store(BPF_DW, r10, -24, r2));
  if (in_map) {
    a(map(r1, number), store_k(BPF_W, r10, -40, 0), move(r2, r10), alu_k(BPF_ADD, r2, -40),
      call(BPF_FUNC_map_lookup_elem));
    a.to("out", jump_k(BPF_JEQ, r0, 0));
    a(move(r8, r0));
  } else {
    a(map(r8, number));
  }
  const auto arguments = [&] {
    a(move(r1, r8), move(r2, r10), alu_k(BPF_ADD, r2, -16), move(r3, r10), alu_k(BPF_ADD, r3, -32),
      load(BPF_DW, r4, r7, kFlags));
  };
  a(load(BPF_B, r9, r7, kDo));
  a.to("update", jump_k(BPF_JEQ, r9, kUpdate)).to("erase", jump_k(BPF_JEQ, r9, kErase));
  arguments();
  a(call(BPF_FUNC_map_lookup_elem));
  a.to("found", jump_k(BPF_JNE, r0, 0));
  a(store_k(BPF_DW, r7, kAnswer, 0)).to("out", always());
  a.label("found")(store_k(BPF_DW, r7, kAnswer, 1));
  a.to("add", jump_k(BPF_JEQ, r9, kAdd));
  a(move(r6, r0));
  a.to("update_held", jump_k(BPF_JEQ, r9, kUpdateHeld)).to("erase_held", jump_k(BPF_JEQ, r9, kEraseHeld));
  a.label("read");
  // What the entry has, or had.
  if (value_bytes >= 8)
    a(load(BPF_DW, r1, r6, value_bytes - 8));
  else
    a(load(BPF_W, r1, r6, 0));
  a(store(BPF_DW, r7, kFound, r1)).to("out", always());
  a.label("update_held");
  arguments();
  a(call(BPF_FUNC_map_update_elem), store(BPF_DW, r7, kAnswer, r0)).to("read", always());
  a.label("erase_held");
  arguments();
  a(call(BPF_FUNC_map_delete_elem), store(BPF_DW, r7, kAnswer, r0)).to("read", always());
  a.label("add")(load(value_bytes >= 8 ? BPF_DW : BPF_W, r1, r7, kValue));
  a(atomically(value_bytes >= 8 ? BPF_DW : BPF_W, BPF_ADD, r0, 0, r1)).to("out", always());
  a.label("update");
  arguments();
  a(call(BPF_FUNC_map_update_elem), store(BPF_DW, r7, kAnswer, r0)).to("out", always());
  a.label("erase");
  arguments();
  a(call(BPF_FUNC_map_delete_elem), store(BPF_DW, r7, kAnswer, r0));
  a.label("out")(move_k(r0, XDP_PASS), leave());
  return a.code();
}

// 16 bytes each, of which a map takes as many as its keys and values have.
inline Bytes random_key(const Map& map, u32 number, dataplane::Random& random) {
  Bytes key(16);
  if (map.type == BPF_MAP_TYPE_LPM_TRIE) {
    // Prefixes that are often each other's, now and then longer than there are bits; junk behind them.
    const u32 bits = (map.key_bytes - 4) * 8;
    const Bytes length = bytes_of(random() % 16 == 0 ? bits + 1 + random() % 3 : random() % (bits + 1));
    std::copy(length.begin(), length.end(), key.begin());
    key[4] = static_cast<u8>(random() % 2 * 0x80);
    for (u32 i = 5; i < map.key_bytes; ++i) key[i] = static_cast<u8>(random() % 8 == 0 ? random() : 0);
    return key;
  }
  const Bytes bytes = bytes_of(number);
  std::copy(bytes.begin(), bytes.end(), key.begin());
  if (map.key_bytes > 4) key[map.key_bytes - 1] = static_cast<u8>(number * 3);
  return key;
}

inline Bytes random_value(dataplane::Random& random) {
  Bytes value(16);
  for (u8& byte : value) byte = static_cast<u8>(random());
  return value;
}
// Those that there are most of the time; now and then any.
inline u64 random_flags(dataplane::Random& random) {
  return random() % 8 == 0 ? (random() % 8 == 0 ? u64{1} << 32 : random() % 16)
                           : random() % 3 % 2 * random() % 3;
}
inline Bytes map_packet(u8 what, u64 flags, const Bytes& key, const Bytes& value) {
  Bytes packet(kMapPacketBytes);
  packet[kDo] = what;
  const Bytes flag_bytes = bytes_of(flags);
  std::ranges::copy(flag_bytes, packet.begin() + kFlags);
  std::ranges::copy(key, packet.begin() + kKey);
  std::ranges::copy(value, packet.begin() + kValue);
  return packet;
}

}  // namespace xdpgpu::test
