// SPDX-License-Identifier: MIT
//
// gpu/reference/program_maps.hpp: the maps of XDP programs in the sequential definition. What a call returns
// is the kernel's number (kernel/bpf/arraymap.c, hashtab.c, lpm_trie.c, devmap.c). What is chosen here:
//
//   * A per-CPU map has a value per receive queue. Nothing adds them up: who reads them does.
//   * An LRU hash that is full and gets another key loses the entry that was neither looked up by a program
//     nor updated for the longest time, exactly. The kernel's choice is near that. One that is sharded
//     (gpu/program_shards.hpp) does so shard by shard.
//   * A value that an update replaces or a deletion takes away stays what it was for the program that holds a
//     pointer to it, to the end of its run. The kernel may give its memory to another entry before.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "gpu/programs.hpp"

namespace xdpgpu::gpu::reference {

struct ProgramValue {
  std::vector<u8> bytes;
  bool read_only = false;  // for programs
};

struct ProgramEntry {
  std::vector<u8> key;
  std::map<u32, std::vector<u8>>
      values;  // by receive queue, those that are not 0 alone; no per-CPU map: queue 0
};

class ProgramMap {
 public:
  // Null: a type that we do not have, or sizes that make no sense for it. `sharded_by`: the key of the hash
  // by which LRU hashes are sharded; nullptr: they are not.
  static std::shared_ptr<ProgramMap> of(const programs::Map& map,
                                        const std::array<u64, 2>* sharded_by = nullptr);
  explicit ProgramMap(programs::Map settings) : settings_(std::move(settings)) {}
  virtual ~ProgramMap() = default;

  const programs::Map& settings() const { return settings_; }

  // Keys and values are as long as the settings say. `queue`: whose value a per-CPU map gives.
  // Null: there is none. Of a prog_array and of a map of maps always.
  virtual std::shared_ptr<ProgramValue> look_up(std::span<const u8> key, u32 queue) = 0;
  // 0, or -errno. Of a devmap and a prog_array it is what user space does; programs may not.
  virtual int update(std::span<const u8> key, std::span<const u8> value, u64 flags, u32 queue) = 0;
  virtual int erase(std::span<const u8> key) = 0;
  // All that there is, by key. An array's entries that nobody has touched are not among them: they are 0.
  virtual std::vector<ProgramEntry> entries() const = 0;

  // Of a map of maps.
  virtual std::shared_ptr<ProgramMap> inner(u32) const { return nullptr; }
  virtual bool put_inner(u32, const std::shared_ptr<ProgramMap>&) { return false; }

  // Whether programs may update it and delete from it.
  virtual bool changes() const { return true; }
  // Whether they look up in it, of any type but prog_array and those for events.
  virtual bool gives_values() const { return true; }

 protected:
  // A new value: zeros, or `bytes`.
  std::shared_ptr<ProgramValue> made(std::span<const u8> bytes = {}) const;
  bool per_queue() const;

 private:
  programs::Map settings_;
};

class ProgramMaps {
 public:
  // Empty maps of these settings, numbered as they are. sharded_by: as of ProgramMap::of(); it is not kept.
  explicit ProgramMaps(const std::vector<programs::Map>& maps,
                       const std::array<u64, 2>* sharded_by = nullptr);

  u32 size() const { return static_cast<u32>(maps_.size()); }
  // Null: there is none of that number, or ProgramMap::of() knows no such map.
  ProgramMap* find(u32 number) const { return number < maps_.size() ? maps_[number].get() : nullptr; }
  ProgramMap& operator[](u32 number) const { return *maps_[number]; }
  // Puts the map `inner` into the map of maps `outer`. False: there is no such index or map.
  bool put(u32 outer, u32 index, u32 inner) const {
    return find(outer) != nullptr && find(inner) != nullptr && maps_[outer]->put_inner(index, maps_[inner]);
  }

 private:
  std::vector<std::shared_ptr<ProgramMap>> maps_;
};

}  // namespace xdpgpu::gpu::reference
