// SPDX-License-Identifier: MIT
#include "userspace/kernel/map_entries.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <linux/bpf.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <utility>

namespace xdpgpu::kernel {
namespace {

std::string why(const char* what) {
  return fmt::format("the kernel does not {}: {}", what, std::strerror(errno));
}
tl::unexpected<std::string> system_error(const char* what) { return tl::unexpected(why(what)); }

bool is_of_each_cpu(u32 type) {
  return type == BPF_MAP_TYPE_PERCPU_ARRAY || type == BPF_MAP_TYPE_PERCPU_HASH;
}

struct Layout {
  std::size_t key_bytes = 0, value_bytes = 0;  // of all CPUs
  u32 entries = 0;
  bool is_trie = false;
};

Result<Layout> layout_of(int map) {
  bpf_map_info info{};
  u32 bytes = sizeof(info);
  if (bpf_obj_get_info_by_fd(map, &info, &bytes) != 0) return system_error("say what the map is like");
  if (!has_entries(info.type))
    return tl::unexpected(
        fmt::format("the map is of type {}, whose entries are not kept in step", info.type));
  std::size_t each = 1, value = info.value_size;
  if (is_of_each_cpu(info.type)) {
    value = (value + 7) / 8 * 8;
    each = static_cast<std::size_t>(std::max(libbpf_num_possible_cpus(), 1));
  }
  return Layout{info.key_size, value * each, info.max_entries, info.type == BPF_MAP_TYPE_LPM_TRIE};
}

// The entry's value now; empty: there is none.
Result<MapBytes> value_now(int map, const MapBytes& key, const Layout& layout) {
  MapBytes value(layout.value_bytes);
  if (bpf_map_lookup_elem(map, key.data(), value.data()) == 0) return value;
  if (errno == ENOENT) return MapBytes();
  return system_error("read an entry of the map");
}

// All keys of a map, to f(key), which says whether to go on.
template <class F>
Result<void> for_each_key(int map, const Layout& layout, F f) {
  MapBytes key(layout.key_bytes), next(layout.key_bytes);
  // Where a key was deleted before the next one is asked for, the kernel begins again.
  for (u64 steps = 0; bpf_map_get_next_key(map, steps == 0 ? nullptr : key.data(), next.data()) == 0;
       steps++) {
    if (steps >= 2 * u64{layout.entries} + 1)
      return tl::unexpected(
          std::string("the map's entries are deleted faster than they are read: try again"));
    key = next;
    if (auto gone_on = f(key); !gone_on) return gone_on;
  }
  if (errno != ENOENT) return system_error("name the map's next key");
  return {};
}

// Whether entries are as they were seen.
class SinceSeen {
 public:
  SinceSeen(int map, const Layout& layout, const MapEntries& seen)
      : map_(map), layout_(layout), seen_(seen) {}

  // What a trie answers to a key that it has not may be the value of a shorter prefix.
  Result<void> look_at_keys() {
    if (!layout_.is_trie) return {};
    return for_each_key(map_, layout_, [&](const MapBytes& key) -> Result<void> {
      prefixes_.insert(key);
      return {};
    });
  }
  Result<bool> is_same(const MapBytes& key) const {
    Result<MapBytes> now = MapBytes();
    if (!layout_.is_trie || prefixes_.contains(key)) now = value_now(map_, key, layout_);
    if (!now) return tl::unexpected(now.error());
    const auto before = seen_.find(key);
    return *now == (before == seen_.end() ? MapBytes() : before->second);
  }

 private:
  int map_;
  const Layout& layout_;
  const MapEntries& seen_;
  std::set<MapBytes> prefixes_;  // a trie's, when they were looked at
};

}  // namespace

bool has_entries(u32 type) {
  switch (type) {
    case BPF_MAP_TYPE_ARRAY:
    case BPF_MAP_TYPE_PERCPU_ARRAY:
    case BPF_MAP_TYPE_HASH:
    case BPF_MAP_TYPE_PERCPU_HASH:
    case BPF_MAP_TYPE_LRU_HASH:
    case BPF_MAP_TYPE_LPM_TRIE:
      return true;
    default:
      return false;
  }
}

Result<MapEntries> read_entries(int map, u64 most_bytes) {
  const auto layout = layout_of(map);
  if (!layout) return tl::unexpected(layout.error());
  // Both are below 2^32, and processors are few: the product of 64 bits may be beyond, the quotient is not.
  if (u64{layout->entries} > most_bytes / (layout->key_bytes + layout->value_bytes))
    return tl::unexpected(
        fmt::format("the map's {} entries of {} bytes each are more than the {} bytes that may be read of "
                    "one: give it fewer entries",
                    layout->entries, layout->key_bytes + layout->value_bytes, most_bytes));
  MapEntries entries;
  const auto read = for_each_key(map, *layout, [&](const MapBytes& key) -> Result<void> {
    auto value = value_now(map, key, *layout);
    if (!value) return tl::unexpected(value.error());
    if (!value->empty()) entries[key] = std::move(*value);
    return {};
  });
  if (!read) return tl::unexpected(read.error());
  return entries;
}

Result<MapLeft> write_changes(int map, const MapChanges& changes, const MapEntries& seen) {
  const auto layout = layout_of(map);
  if (!layout) return tl::unexpected(layout.error());
  SinceSeen since(map, *layout, seen);
  if (auto looked = since.look_at_keys(); !looked) return tl::unexpected(looked.error());
  for (const MapBytes& key : changes.erased)
    if (key.size() != layout->key_bytes)
      return tl::unexpected(std::string("a key that is to be erased is not of the map's size"));
  for (const auto& [key, value] : changes.put)
    if (key.size() != layout->key_bytes || value.size() != layout->value_bytes)
      return tl::unexpected(std::string("an entry that is to be written is not of the map's size"));
  MapLeft left;
  const auto leave = [&](const MapBytes& key, const std::string& problem) {
    left.changed.push_back(key);
    if (!problem.empty()) left.problem = problem;
  };
  const auto is_same = [&](const MapBytes& key) {
    const auto same = since.is_same(key);
    if (!same || !*same) leave(key, same ? "" : same.error());
    return same && *same;
  };
  // What is erased makes room.
  for (const MapBytes& key : changes.erased)
    if (is_same(key) && bpf_map_delete_elem(map, key.data()) != 0 && errno != ENOENT)
      leave(key, why("erase an entry of the map"));
  for (const auto& [key, value] : changes.put) {
    if (!is_same(key) || bpf_map_update_elem(map, key.data(), value.data(), BPF_ANY) == 0) continue;
    if (errno == E2BIG || errno == ENOSPC)
      left.full.push_back(key);
    else
      leave(key, why("write an entry of the map"));
  }
  return left;
}

}  // namespace xdpgpu::kernel
