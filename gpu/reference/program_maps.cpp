// SPDX-License-Identifier: MIT
#include "gpu/reference/program_maps.hpp"

#include <linux/bpf.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <functional>
#include <optional>

#include "gpu/program_shards.hpp"
#include "maps/hash.h"

namespace xdpgpu::gpu::reference {
namespace {

using Bytes = std::vector<u8>;
using Value = std::shared_ptr<ProgramValue>;
// One entry's values by queue. In maps that are not per-CPU it is queue 0's alone.
using Values = std::map<u32, Value>;

u32 number(std::span<const u8> bytes) {
  u32 value = 0;
  std::memcpy(&value, bytes.data(), sizeof(value));
  return value;
}

Bytes bytes_of(u32 value) {
  Bytes bytes(sizeof(value));
  std::memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

ProgramEntry entry_of(Bytes key, const Values& values) {
  ProgramEntry entry{std::move(key), {}};
  for (const auto& [queue, value] : values)
    if (queue == 0 || std::ranges::any_of(value->bytes, [](u8 byte) { return byte != 0; }))
      entry.values[queue] = value->bytes;
  return entry;
}

// BPF_MAP_TYPE_ARRAY, BPF_MAP_TYPE_PERCPU_ARRAY. Entries are made when they are first asked for.
class Array : public ProgramMap {
 public:
  explicit Array(programs::Map settings) : ProgramMap(std::move(settings)) {
    const programs::Map& map = this->settings();
    for (u32 i = 0; u64{i} * map.value_bytes < map.contents.size() && i < map.entries; ++i) {
      const std::size_t from = std::size_t{i} * map.value_bytes;
      Bytes value(map.value_bytes);
      std::copy_n(map.contents.begin() + static_cast<std::ptrdiff_t>(from),
                  std::min(value.size(), map.contents.size() - from), value.begin());
      entries_[i][0] = made(value);
    }
  }

  Value look_up(std::span<const u8> key, u32 queue) override {
    const u32 index = number(key);
    if (index >= settings().entries) return nullptr;
    Value& value = entries_[index][per_queue() ? queue : 0];
    if (value == nullptr) value = made();
    return value;
  }

  int update(std::span<const u8> key, std::span<const u8> value, u64 flags, u32 queue) override {
    // BPF_F_LOCK is for values with a spin lock, which ours have not. That is looked at last.
    if ((flags & ~u64{BPF_F_LOCK}) > BPF_EXIST) return -EINVAL;
    const Value place = look_up(key, queue);
    if (place == nullptr) return -E2BIG;
    if ((flags & BPF_NOEXIST) != 0) return -EEXIST;
    if ((flags & BPF_F_LOCK) != 0) return -EINVAL;
    std::ranges::copy(value, place->bytes.begin());
    return 0;
  }

  int erase(std::span<const u8>) override { return -EINVAL; }

  std::vector<ProgramEntry> entries() const override {
    std::vector<ProgramEntry> all;
    for (const auto& [index, values] : entries_) all.push_back(entry_of(bytes_of(index), values));
    return all;
  }

 private:
  std::map<u32, Values> entries_;
};

// The lower half of SipHash-1-3 of a key's words, of 32 bits, and their number.
u32 hash_of(std::span<const u8> key, const std::array<u64, 2>& by) {
  Bytes padded(key.begin(), key.end());
  const std::size_t words = (padded.size() + 3) / 4;
  padded.resize((words + 1) / 2 * 8);
  XG_SIP_BEGIN(by[0], by[1]);
  for (std::size_t at = 0; at < padded.size(); at += 8) {
    u64 word = 0;
    std::memcpy(&word, &padded[at], sizeof(word));
    XG_SIP_WORD(word);
  }
  const u64 last = u64{words} << 56;
  XG_SIP_WORD(last);
  XG_SIP_END();
  return static_cast<u32>(v0 ^ v1 ^ v2 ^ v3);
}

// BPF_MAP_TYPE_HASH, BPF_MAP_TYPE_PERCPU_HASH, BPF_MAP_TYPE_LRU_HASH.
class Hash : public ProgramMap {
 public:
  explicit Hash(programs::Map settings, const std::array<u64, 2>* sharded_by)
      : ProgramMap(std::move(settings)),
        shards_(sharded_by != nullptr ? programs::shards_of(this->settings())
                                      : programs::Shards{0, this->settings().entries}) {
    if (sharded_by != nullptr) sharded_by_ = *sharded_by;
  }

  Value look_up(std::span<const u8> key, u32 queue) override {
    const auto at = entries_.find(Bytes(key.begin(), key.end()));
    if (at == entries_.end()) return nullptr;
    use(*at);
    Value& value = at->second.values[per_queue() ? queue : 0];
    if (value == nullptr) value = made();
    return value;
  }

  int update(std::span<const u8> key, std::span<const u8> value, u64 flags, u32 queue) override {
    if (flags > BPF_EXIST) return -EINVAL;
    auto at = entries_.find(Bytes(key.begin(), key.end()));
    const bool is_new = at == entries_.end();
    if (is_new && flags == BPF_EXIST) return -ENOENT;
    if (!is_new && flags == BPF_NOEXIST) return -EEXIST;
    if (is_new) {
      if (lru() && by_use(key).size() >= shards_.entries) {
        entries_.erase(by_use(key).begin()->second);
        by_use(key).erase(by_use(key).begin());
      } else if (!lru() && entries_.size() >= settings().entries) {
        return -E2BIG;
      }
      at = entries_.try_emplace(Bytes(key.begin(), key.end())).first;
    }
    use(*at);
    // A per-CPU value is changed in its place. Any other is replaced, and who looks at the old one keeps it.
    Value& place = at->second.values[per_queue() ? queue : 0];
    if (per_queue() && place != nullptr)
      std::ranges::copy(value, place->bytes.begin());
    else
      place = made(value);
    return 0;
  }

  int erase(std::span<const u8> key) override {
    const auto at = entries_.find(Bytes(key.begin(), key.end()));
    if (at == entries_.end()) return -ENOENT;
    if (lru()) by_use(key).erase(at->second.used);
    entries_.erase(at);
    return 0;
  }

  std::vector<ProgramEntry> entries() const override {
    std::vector<ProgramEntry> all;
    for (const auto& [key, entry] : entries_) all.push_back(entry_of(key, entry.values));
    return all;
  }

 private:
  struct Entry {
    Values values;
    u64 used = 0;  // of an LRU hash: a number that is greater the later it was used
  };

  bool lru() const { return settings().type == BPF_MAP_TYPE_LRU_HASH; }

  void use(std::pair<const Bytes, Entry>& entry) {
    if (!lru()) return;
    by_use(entry.first).erase(entry.second.used);
    entry.second.used = ++uses_;
    by_use(entry.first)[uses_] = entry.first;
  }
  // Keys of the same shard, by when they were used.
  std::map<u64, Bytes>& by_use(std::span<const u8> key) {
    return by_use_[shards_.bits == 0 ? 0 : hash_of(key, sharded_by_) >> (32 - shards_.bits)];
  }

  programs::Shards shards_;
  std::array<u64, 2> sharded_by_{};
  std::map<Bytes, Entry> entries_;
  std::map<u32, std::map<u64, Bytes>> by_use_;  // by shard
  u64 uses_ = 0;
};

// BPF_MAP_TYPE_LPM_TRIE. A key is a length in bits (u32), and that many bits, the first byte's highest first.
class Trie : public ProgramMap {
 public:
  using ProgramMap::ProgramMap;

  Value look_up(std::span<const u8> key, u32) override {
    const u32 length = number(key);
    if (length > longest()) return nullptr;
    for (auto at = lengths_.rbegin(); at != lengths_.rend(); ++at) {
      if (at->first > length) continue;
      const auto entry = at->second.find(bits(key, at->first));
      if (entry != at->second.end()) return entry->second.value;
    }
    return nullptr;
  }

  int update(std::span<const u8> key, std::span<const u8> value, u64 flags, u32) override {
    const u32 length = number(key);
    if (flags > BPF_EXIST || length > longest()) return -EINVAL;
    auto& same = lengths_[length];
    const auto at = same.find(bits(key, length));
    if (at != same.end() && flags == BPF_NOEXIST) return -EEXIST;
    if (at == same.end() && flags == BPF_EXIST) return -ENOENT;
    if (at == same.end() && count_ >= settings().entries) return -ENOSPC;
    if (at == same.end()) count_++;
    same[bits(key, length)] = {Bytes(key.begin(), key.end()), made(value)};
    return 0;
  }

  int erase(std::span<const u8> key) override {
    const u32 length = number(key);
    if (length > longest()) return -EINVAL;
    const auto same = lengths_.find(length);
    if (same == lengths_.end() || same->second.erase(bits(key, length)) == 0) return -ENOENT;
    count_--;
    return 0;
  }

  std::vector<ProgramEntry> entries() const override {
    std::vector<ProgramEntry> all;
    for (const auto& [length, same] : lengths_)
      for (const auto& [prefix, entry] : same) all.push_back(entry_of(entry.key, {{0, entry.value}}));
    return all;
  }

 private:
  struct Entry {
    Bytes key;  // as it was given: with what stands behind its prefix
    Value value;
  };

  u32 longest() const { return (settings().key_bytes - 4) * 8; }

  static Bytes bits(std::span<const u8> key, u32 length) {
    Bytes prefix(key.begin() + 4, key.begin() + 4 + (length + 7) / 8);
    if (length % 8 != 0) prefix.back() &= static_cast<u8>(0xff00u >> (length % 8));
    return prefix;
  }

  std::map<u32, std::map<Bytes, Entry>> lengths_;
  u32 count_ = 0;
};

// BPF_MAP_TYPE_DEVMAP, BPF_MAP_TYPE_DEVMAP_HASH: interfaces by number. Programs read them.
// BPF_MAP_TYPE_CPUMAP: for how many packets a processor has room; programs do not read them.
// BPF_MAP_TYPE_XSKMAP: sockets, of which there is none.
class Devices : public ProgramMap {
 public:
  using ProgramMap::ProgramMap;

  Value look_up(std::span<const u8> key, u32) override {
    const auto at = entries_.find(number(key));
    return at == entries_.end() ? nullptr : at->second;
  }

  int update(std::span<const u8> key, std::span<const u8> value, u64 flags, u32) override {
    const u32 at = number(key);
    const bool hashed = settings().type == BPF_MAP_TYPE_DEVMAP_HASH;
    if (flags > BPF_EXIST || settings().type == BPF_MAP_TYPE_XSKMAP) return -EINVAL;
    if (!hashed) {
      if (at >= settings().entries) return -E2BIG;
      if (flags == BPF_NOEXIST) return -EEXIST;
      if (number(value) == 0) return entries_.erase(at), 0;
    } else {
      if (number(value) == 0) return -EINVAL;
      if (entries_.contains(at) && flags == BPF_NOEXIST) return -EEXIST;
      if (!entries_.contains(at) && entries_.size() >= settings().entries) return -E2BIG;
    }
    entries_[at] = made(value);
    entries_[at]->read_only = true;
    return 0;
  }

  int erase(std::span<const u8> key) override {
    const u32 at = number(key);
    if (settings().type == BPF_MAP_TYPE_DEVMAP_HASH) return entries_.erase(at) != 0 ? 0 : -ENOENT;
    if (at >= settings().entries) return -EINVAL;
    entries_.erase(at);
    return 0;
  }

  std::vector<ProgramEntry> entries() const override {
    std::vector<ProgramEntry> all;
    for (const auto& [at, value] : entries_) all.push_back(entry_of(bytes_of(at), {{0, value}}));
    return all;
  }

  bool changes() const override { return false; }
  bool gives_values() const override { return settings().type != BPF_MAP_TYPE_CPUMAP; }

 private:
  std::map<u32, Value> entries_;
};

// BPF_MAP_TYPE_PROG_ARRAY: a ProgramSet's numbers. Only tail_call looks: an entry is what look_up gives.
class Programs : public ProgramMap {
 public:
  using ProgramMap::ProgramMap;

  Value look_up(std::span<const u8> key, u32) override {
    const auto at = entries_.find(number(key));
    return at == entries_.end() ? nullptr : at->second;
  }
  int update(std::span<const u8> key, std::span<const u8> value, u64 flags, u32) override {
    if (flags != BPF_ANY) return -EINVAL;
    if (number(key) >= settings().entries) return -E2BIG;
    entries_[number(key)] = made(value);
    return 0;
  }
  int erase(std::span<const u8> key) override {
    if (number(key) >= settings().entries) return -E2BIG;
    return entries_.erase(number(key)) != 0 ? 0 : -ENOENT;
  }
  std::vector<ProgramEntry> entries() const override {
    std::vector<ProgramEntry> all;
    for (const auto& [at, value] : entries_) all.push_back(entry_of(bytes_of(at), {{0, value}}));
    return all;
  }
  bool changes() const override { return false; }
  bool gives_values() const override { return false; }

 private:
  std::map<u32, Value> entries_;
};

// BPF_MAP_TYPE_PERF_EVENT_ARRAY, BPF_MAP_TYPE_RINGBUF: what programs put out there is the packet's.
class Events : public ProgramMap {
 public:
  using ProgramMap::ProgramMap;

  Value look_up(std::span<const u8>, u32) override { return nullptr; }
  int update(std::span<const u8>, std::span<const u8>, u64, u32) override { return -EINVAL; }
  int erase(std::span<const u8>) override { return -EINVAL; }
  std::vector<ProgramEntry> entries() const override { return {}; }
  bool changes() const override { return false; }
  bool gives_values() const override { return false; }
};

// BPF_MAP_TYPE_ARRAY_OF_MAPS.
class Maps : public ProgramMap {
 public:
  using ProgramMap::ProgramMap;

  Value look_up(std::span<const u8>, u32) override { return nullptr; }
  int update(std::span<const u8>, std::span<const u8>, u64, u32) override { return -EINVAL; }
  int erase(std::span<const u8> key) override {
    return number(key) < settings().entries && inner_.erase(number(key)) != 0 ? 0 : -ENOENT;
  }
  std::vector<ProgramEntry> entries() const override { return {}; }
  std::shared_ptr<ProgramMap> inner(u32 index) const override {
    const auto at = inner_.find(index);
    return at == inner_.end() ? nullptr : at->second;
  }
  bool put_inner(u32 index, const std::shared_ptr<ProgramMap>& map) override {
    if (index >= settings().entries) return false;
    inner_[index] = map;
    return true;
  }
  bool changes() const override { return false; }

 private:
  std::map<u32, std::shared_ptr<ProgramMap>> inner_;
};

}  // namespace

std::shared_ptr<ProgramValue> ProgramMap::made(std::span<const u8> bytes) const {
  auto value = std::make_shared<ProgramValue>();
  value->bytes.assign(bytes.begin(), bytes.end());
  value->bytes.resize(settings_.value_bytes);
  value->read_only = (settings_.flags & BPF_F_RDONLY_PROG) != 0;
  return value;
}

bool ProgramMap::per_queue() const {
  return settings_.type == BPF_MAP_TYPE_PERCPU_ARRAY || settings_.type == BPF_MAP_TYPE_PERCPU_HASH;
}

std::shared_ptr<ProgramMap> ProgramMap::of(const programs::Map& map, const std::array<u64, 2>* sharded_by) {
  if (map.type == BPF_MAP_TYPE_RINGBUF)
    return map.entries >= 4096 && std::has_single_bit(map.entries) && map.key_bytes == 0 &&
                   map.value_bytes == 0
               ? std::make_shared<Events>(map)
               : nullptr;
  // The kernel's limits of sizes (KMALLOC_MAX_SIZE; MAX_BPF_STACK for keys), so that nothing is out of reach.
  if (map.entries == 0 || map.key_bytes == 0 || map.key_bytes > 512 || map.value_bytes == 0 ||
      map.value_bytes > 4u << 20)
    return nullptr;
  const bool by_number = map.key_bytes == 4;
  switch (map.type) {
    case BPF_MAP_TYPE_ARRAY:
    case BPF_MAP_TYPE_PERCPU_ARRAY:
      return by_number ? std::make_shared<Array>(map) : nullptr;
    case BPF_MAP_TYPE_HASH:
    case BPF_MAP_TYPE_PERCPU_HASH:
    case BPF_MAP_TYPE_LRU_HASH:
      return std::make_shared<Hash>(map, sharded_by);
    case BPF_MAP_TYPE_LPM_TRIE:
      return map.key_bytes > 4 && map.key_bytes <= 4 + 256 ? std::make_shared<Trie>(map) : nullptr;
    case BPF_MAP_TYPE_DEVMAP:
    case BPF_MAP_TYPE_DEVMAP_HASH:
    case BPF_MAP_TYPE_CPUMAP:
      return by_number && (map.value_bytes == 4 || map.value_bytes == 8) ? std::make_shared<Devices>(map)
                                                                         : nullptr;
    case BPF_MAP_TYPE_XSKMAP:
      return by_number && map.value_bytes == 4 ? std::make_shared<Devices>(map) : nullptr;
    case BPF_MAP_TYPE_PERF_EVENT_ARRAY:
      return by_number && map.value_bytes == 4 ? std::make_shared<Events>(map) : nullptr;
    case BPF_MAP_TYPE_PROG_ARRAY:
      return by_number && map.value_bytes == 4 ? std::make_shared<Programs>(map) : nullptr;
    case BPF_MAP_TYPE_ARRAY_OF_MAPS:
      return by_number && map.value_bytes == 4 ? std::make_shared<Maps>(map) : nullptr;
    default:
      return nullptr;
  }
}

ProgramMaps::ProgramMaps(const std::vector<programs::Map>& maps, const std::array<u64, 2>* sharded_by) {
  for (const programs::Map& map : maps) maps_.push_back(ProgramMap::of(map, sharded_by));
}

}  // namespace xdpgpu::gpu::reference
