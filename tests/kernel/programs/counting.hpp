// SPDX-License-Identifier: MIT
//
// tests/kernel/programs/counting.hpp: programs by chance that only count in their maps, in all ways that are
// known as counts, and decide by the packet and by flags below counters. below(n): a number from 0 to n - 1.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "tests/kernel/programs/assembler.hpp"
#include "tests/kernel/programs/twins.hpp"

namespace xdpgpu::test {

inline std::vector<gpu::programs::Map> counted_maps() {
  return {map_of("first", BPF_MAP_TYPE_ARRAY, 4, 16, 4),
          map_of("second", BPF_MAP_TYPE_PERCPU_ARRAY, 4, 16, 3), map_of("third", BPF_MAP_TYPE_HASH, 4, 8, 8)};
}
template <class Below>
std::vector<u8> counted_value(Below below, const gpu::programs::Map& map) {
  std::vector<u8> value(map.value_bytes);
  for (u8& byte : value) byte = static_cast<u8>(below(256));
  return value;
}

// Packets of 34 bytes and more are counted, the others passed.
template <class Below>
Code counting_program(Below below) {
  // A counter's map, its place and bytes in a value there, and how many bits below it are flags.
  struct Counter {
    u32 map;
    int at, bytes, flags;
  };
  static const std::vector<Counter> kCounters{{0, 0, 8, 6}, {0, 8, 4, 0},  {0, 12, 4, 3},
                                              {1, 0, 8, 0}, {1, 8, 8, 33}, {2, 0, 8, 4}};
  Assembly a;
  a(move(r6, r1), load(BPF_W, r7, r1, 0), load(BPF_W, r8, r1, 4), move(r2, r7), alu_k(BPF_ADD, r2, 34));
  a.to("short", jump(BPF_JGT, r2, r8));
  a(move_k(r9, 0));
  const u32 parts = 1 + below(5);
  for (u32 i = 0; i < parts; i++) {
    const Counter& c = kCounters[below(static_cast<u32>(kCounters.size()))];
    const int size = c.bytes == 8 ? BPF_DW : BPF_W;
    const std::string next = "next " + std::to_string(i);
    a(load(BPF_B, r2, r7, 14 + static_cast<int>(below(20))), alu_k(BPF_AND, r2, 3), store(BPF_W, r10, -4, r2),
      map(r1, c.map), move(r2, r10), alu_k(BPF_ADD, r2, -4), call(BPF_FUNC_map_lookup_elem));
    a.to(next, jump_k(BPF_JEQ, r0, 0));
    // What is added: a number, a byte of the packet, its length.
    switch (below(3)) {
      case 0:
        a(move_k(r3, static_cast<int>(below(1000)) - 300));
        break;
      case 1:
        a(load(BPF_B, r3, r7, static_cast<int>(below(34))));
        break;
      default:
        a(move(r3, r8), alu(BPF_SUB, r3, r7));
    }
    a(alu_k(BPF_LSH, r3, c.flags));
    if (below(3) == 0) {
      a(atomically(size, BPF_ADD, r0, c.at, r3));
    } else {
      a(load(size, r1, r0, c.at));
      if (c.flags != 0 && below(2) == 0) {
        const u32 flag = below(static_cast<u32>(std::min(c.flags, 31)));
        a(move(r4, r1), alu_k(BPF_AND, r4, static_cast<std::int32_t>((1u << flag) | 1u)),
          alu(BPF_ADD, r9, r4));
        a.to(next, jump_k(BPF_JGT, r4, 1));
      }
      if (below(3) == 0) a(store(BPF_DW, r10, -16, r1), move_k(r1, 7), load(BPF_DW, r1, r10, -16));
      if (below(4) == 0)
        a(alu(BPF_ADD, r3, r1), store(size, r0, c.at, r3));
      else
        a(alu(below(2) != 0 ? BPF_ADD : BPF_SUB, r1, r3), store(size, r0, c.at, r1));
    }
    a.label(next);
  }
  a(load(BPF_B, r0, r7, 30), alu(BPF_ADD, r0, r9), alu_k(BPF_AND, r0, 3), leave());
  a.label("short")(move_k(r0, XDP_PASS), leave());
  return a.code();
}

}  // namespace xdpgpu::test
