// SPDX-License-Identifier: MIT
//
// gpu/program_state.hpp: the maps of a set of programs as the host sees them, in the memory that its device
// changes (gpu/stages/program_maps.h): what user space does with maps, by the same code as devices.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "maps/types.h"

struct xg_program_machine;

namespace xdpgpu::gpu::programs {

// Of one map, by number: the programs' own, and behind them the inner ones. Not while packets run, and not
// for several threads.
class DeviceState {
 public:
  struct Entry {
    std::vector<u8> key;
    std::vector<std::vector<u8>> values;  // by receive queue, where the map has them by queue; one otherwise
  };

  // Image's tables, and the state that belongs to them; both outlive it.
  DeviceState(std::span<const u32> tables, std::span<u32> state);
  ~DeviceState();

  // 0, or -errno as bpf(2) answers. Keys and values are as long as the map's. A prog_array's values are
  // programs' numbers in their set. `queue`: whose value it is, where the map has them by queue.
  int update(u32 map, std::span<const u8> key, std::span<const u8> value, u64 flags = 0, u32 queue = 0);
  int erase(u32 map, std::span<const u8> key);
  // Into a map of maps: the map of that number. False: there is no such index or map.
  bool put_map(u32 outer, u32 index, u32 map);
  // All that there is, in no order: of arrays each index, of maps of maps and prog_arrays the numbers.
  std::vector<Entry> entries(u32 map) const;
  // The one of that key, of a map whose entries have values; nothing: there is none. Of an LRU hash it is not
  // used by that.
  std::optional<Entry> find(u32 map, std::span<const u8> key);

 private:
  void give(std::span<const u8> key, std::span<const u8> value);
  u32 word(u32 map, u32 which) const;
  std::vector<u8> bytes(u64 first_word, u32 count) const;
  std::vector<std::vector<u8>> values(u32 map, u32 slot) const;

  std::span<const u32> tables_;
  std::span<u32> state_;
  std::unique_ptr<xg_program_machine> machine_;
  std::vector<u32> arguments_;
};

}  // namespace xdpgpu::gpu::programs
