// SPDX-License-Identifier: MIT
//
// tests/kernel/programs/keyed.hpp: programs by chance that look into their LRU hashes by one key alone, and
// do whatever they like to what they find there; beside that they count. below(n): a number from 0 to n - 1.
#pragma once

#include <string>
#include <vector>

#include "tests/kernel/programs/assembler.hpp"
#include "tests/kernel/programs/twins.hpp"

namespace xdpgpu::test {

// Of different sizes: their shards are, too.
inline std::vector<gpu::programs::Map> keyed_maps() {
  return {map_of("flows", BPF_MAP_TYPE_LRU_HASH, 12, 16, 256), map_of("sums", BPF_MAP_TYPE_ARRAY, 4, 8, 4),
          map_of("more", BPF_MAP_TYPE_LRU_HASH, 12, 8, 1024)};
}

// Packets of 34 bytes and more have a key of four bytes of the packet; the others are passed. Those whose
// byte 20 is below 32 never come to a map with a key.
template <class Below>
Code keyed_program(Below below) {
  constexpr int kCopy = -8, kKey = -24, kValue = -40;
  Assembly a;
  a(move(r6, r1), load(BPF_W, r7, r1, 0), load(BPF_W, r8, r1, 4), move(r2, r7), alu_k(BPF_ADD, r2, 34));
  a.to("short", jump(BPF_JGT, r2, r8));
  // Counted, whatever comes then.
  a(load(BPF_B, r2, r7, 14), alu_k(BPF_AND, r2, 3), store(BPF_W, r10, kCopy, r2), map(r1, 1), move(r2, r10),
    alu_k(BPF_ADD, r2, kCopy), call(BPF_FUNC_map_lookup_elem));
  a.to("short", jump_k(BPF_JEQ, r0, 0));
  a(move_k(r1, 1), atomically(BPF_DW, BPF_ADD, r0, 0, r1), move_k(r9, XDP_PASS));
  a(load(BPF_B, r2, r7, 20));
  a.to("end", jump_k(BPF_JLT, r2, 32));
  a(load(BPF_W, r2, r7, 26), store(BPF_W, r10, kKey, r2), store_k(BPF_W, r10, kKey + 4, 5),
    load(BPF_B, r3, r7, 18), store(BPF_W, r10, kKey + 8, r3), store_k(BPF_DW, r10, kValue, 3),
    store(BPF_DW, r10, kValue + 8, r3));
  const u32 parts = 1 + below(4);
  for (u32 i = 0; i < parts; i++) {
    const u32 number = below(2) * 2;
    const std::string next = "next " + std::to_string(i);
    a(map(r1, number), move(r2, r10), alu_k(BPF_ADD, r2, kKey));
    switch (below(8)) {
      case 0:
        a(call(BPF_FUNC_map_delete_elem), alu(BPF_ADD, r9, r0));
        break;
      case 1:
        a(move(r3, r10), alu_k(BPF_ADD, r3, kValue), move_k(r4, static_cast<int>(below(3))),
          call(BPF_FUNC_map_update_elem), alu(BPF_ADD, r9, r0));
        break;
      case 2:
      case 3:
      case 4:
        // What is there is asked for alone, or it is made.
        a(call(BPF_FUNC_map_lookup_elem));
        a.to("known " + next, jump_k(BPF_JNE, r0, 0));
        a(map(r1, number), move(r2, r10), alu_k(BPF_ADD, r2, kKey), move(r3, r10), alu_k(BPF_ADD, r3, kValue),
          move_k(r4, 0), call(BPF_FUNC_map_update_elem), alu(BPF_ADD, r9, r0));
        a.to(next, jump_k(BPF_JA, r0, 0));
        a.label("known " + next);
        a(load(BPF_DW, r1, r0, 0), alu(BPF_ADD, r9, r1));
        break;
      default:
        // What is there is changed, or it is made.
        a(call(BPF_FUNC_map_lookup_elem));
        a.to("known " + next, jump_k(BPF_JNE, r0, 0));
        a(map(r1, number), move(r2, r10), alu_k(BPF_ADD, r2, kKey), move(r3, r10), alu_k(BPF_ADD, r3, kValue),
          move_k(r4, 0), call(BPF_FUNC_map_update_elem), alu_k(BPF_ADD, r9, 1));
        a.to(next, jump_k(BPF_JA, r0, 0));
        a.label("known " + next);
        a(load(BPF_DW, r1, r0, 0), alu(BPF_ADD, r9, r1), alu_k(BPF_MUL, r1, 3), alu_k(BPF_ADD, r1, 1),
          store(BPF_DW, r0, 0, r1), move_k(r2, 7), atomically(BPF_W, BPF_ADD | BPF_FETCH, r0, 4, r2),
          alu(BPF_XOR, r9, r2));
    }
    a.label(next);
  }
  a.label("end")(move(r0, r9), alu_k(BPF_AND, r0, 1), alu_k(BPF_ADD, r0, XDP_DROP), leave());
  a.label("short")(move_k(r0, XDP_PASS), leave());
  return a.code();
}

}  // namespace xdpgpu::test
