// SPDX-License-Identifier: MIT
#include "gpu/program_code.hpp"

#include <fmt/format.h>
#include <linux/bpf.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <tuple>

#include "gpu/program_decoder.hpp"
#include "gpu/program_shards.hpp"
#include "gpu/program_stacks.hpp"
#include "gpu/stages/program_code.h"

namespace xdpgpu::gpu::programs {
namespace {

static_assert(
    XG_PROGRAM_HASH == BPF_MAP_TYPE_HASH && XG_PROGRAM_ARRAY == BPF_MAP_TYPE_ARRAY &&
    XG_PROGRAM_PROGRAMS == BPF_MAP_TYPE_PROG_ARRAY && XG_PROGRAM_PERCPU_HASH == BPF_MAP_TYPE_PERCPU_HASH &&
    XG_PROGRAM_PERCPU_ARRAY == BPF_MAP_TYPE_PERCPU_ARRAY && XG_PROGRAM_LRU_HASH == BPF_MAP_TYPE_LRU_HASH &&
    XG_PROGRAM_TRIE == BPF_MAP_TYPE_LPM_TRIE && XG_PROGRAM_ARRAY_OF_MAPS == BPF_MAP_TYPE_ARRAY_OF_MAPS &&
    XG_PROGRAM_DEVMAP == BPF_MAP_TYPE_DEVMAP && XG_PROGRAM_DEVMAP_HASH == BPF_MAP_TYPE_DEVMAP_HASH &&
    XG_PROGRAM_CPUMAP == BPF_MAP_TYPE_CPUMAP && XG_PROGRAM_XSKMAP == BPF_MAP_TYPE_XSKMAP &&
    XG_PROGRAM_PERF_EVENTS == BPF_MAP_TYPE_PERF_EVENT_ARRAY && XG_PROGRAM_RINGBUF == BPF_MAP_TYPE_RINGBUF);

static_assert(kMostKept == XG_PROGRAM_COUNTED);

constexpr u64 kMostBytes = u64{1} << 30;  // of all maps
constexpr u32 kPage = 1 << 16;

// Numbers of 64 bits until it is known that they are small.
struct Layout {
  u64 slots = 0, queues = 1, stride = 0, buckets = 0, element = 0, header = 0;
  Shards shards{};
  u64 of_shard = 0;  // slots
  bool is_table = false;
  u64 words() const {
    const u64 elements = is_table ? slots * (element + 1) : 0;
    // Stamps and values begin at multiples of 8 bytes.
    return (header + buckets + elements + 1) / 2 * 2 + stamps() + values();
  }
  u64 values() const { return (slots * queues * stride + 1) / 2 * 2; }
  u64 stamps() const { return shards.bits != 0 ? slots * 2 : 0; }
};

bool is_table(const Map& map) { return xg_program_is_table(map.type); }
bool of_processors(const Map& map) { return map.type == BPF_MAP_TYPE_CPUMAP; }
bool of_sockets(const Map& map) { return map.type == BPF_MAP_TYPE_XSKMAP; }
bool by_index(const Map& map) {
  return map.type == BPF_MAP_TYPE_ARRAY || map.type == BPF_MAP_TYPE_PERCPU_ARRAY ||
         map.type == BPF_MAP_TYPE_DEVMAP || map.type == BPF_MAP_TYPE_PROG_ARRAY ||
         map.type == BPF_MAP_TYPE_ARRAY_OF_MAPS || of_processors(map) || of_sockets(map);
}
bool of_devices(const Map& map) {
  return map.type == BPF_MAP_TYPE_DEVMAP || map.type == BPF_MAP_TYPE_DEVMAP_HASH;
}

// Memory of none of these is the program's.
bool of_events(const Map& map) {
  return map.type == BPF_MAP_TYPE_PERF_EVENT_ARRAY || map.type == BPF_MAP_TYPE_RINGBUF;
}

// What a map's sizes have to be, as in gpu/reference/program_maps.cpp; empty: they are.
std::string why_not(const Map& map) {
  if (map.type == BPF_MAP_TYPE_RINGBUF)
    return map.entries >= 4096 && std::has_single_bit(map.entries) && map.key_bytes == 0 &&
                   map.value_bytes == 0
               ? std::string()
               : fmt::format("the map {} has keys, values or a size ({}) that a ringbuf does not have",
                             map.name, map.entries);
  if (!is_table(map) && !by_index(map) && !of_events(map))
    return fmt::format("the map {} is of type {}, which devices do not have", map.name, map.type);
  if (map.entries == 0) return fmt::format("the map {} has no entries", map.name);
  const bool is_trie = map.type == BPF_MAP_TYPE_LPM_TRIE;
  const bool four = by_index(map) || of_devices(map) || of_events(map);
  if (map.key_bytes == 0 || map.key_bytes > 512 || (four && map.key_bytes != 4) ||
      (is_trie && (map.key_bytes <= 4 || map.key_bytes > 4 + 256)))
    return fmt::format("the map {} has keys of {} bytes, which maps of its type {} do not have", map.name,
                       map.key_bytes, map.type);
  const bool numbers = map.type == BPF_MAP_TYPE_PROG_ARRAY || map.type == BPF_MAP_TYPE_ARRAY_OF_MAPS ||
                       of_events(map) || of_sockets(map);
  if (map.value_bytes == 0 || map.value_bytes > 4u << 20 || (numbers && map.value_bytes != 4) ||
      ((of_devices(map) || of_processors(map)) && map.value_bytes != 4 && map.value_bytes != 8))
    return fmt::format("the map {} has values of {} bytes, which maps of its type {} do not have", map.name,
                       map.value_bytes, map.type);
  return {};
}

Layout layout_of(const Map& map, u32 queues, bool by_key) {
  if (of_events(map)) return {};
  // Nobody touches eight bytes of a number of four. Of other maps the word behind may be in use.
  const bool is_short =
      map.value_bytes <= 4 && (map.type == BPF_MAP_TYPE_ARRAY || map.type == BPF_MAP_TYPE_PERCPU_ARRAY);
  Layout layout{.slots = map.entries,
                .stride = is_short ? 1 : (u64{map.value_bytes} + 7) / 8 * 2,
                .is_table = is_table(map)};
  if (map.type == BPF_MAP_TYPE_PERCPU_ARRAY || map.type == BPF_MAP_TYPE_PERCPU_HASH) layout.queues = queues;
  if (!layout.is_table) return layout;
  layout.shards = by_key ? shards_of(map) : Shards{0, map.entries};
  layout.of_shard =
      u64{layout.shards.entries} + (layout.shards.bits == 0 ? XG_PROGRAM_SPARE : u64{kShardSpare});
  layout.slots = layout.of_shard << layout.shards.bits;
  layout.buckets = std::bit_ceil(u64{layout.shards.entries}) << layout.shards.bits;
  layout.element = XG_PROGRAM_ELEMENT_KEY + (map.key_bytes + 3) / 4;
  layout.header = u64{XG_PROGRAM_LENGTHS} << layout.shards.bits;
  if (map.type == BPF_MAP_TYPE_LPM_TRIE) {
    const u32 longest = (map.key_bytes - 4) * 8;
    layout.header += longest + 1 + longest / 32 + 1;
  }
  return layout;
}

class Builder {
 public:
  Builder(std::span<const Map> own, const ImageSettings& settings) : settings_(settings) {
    maps_.assign(own.begin(), own.end());
    maps_.insert(maps_.end(), settings.inner.begin(), settings.inner.end());
  }

  std::string build(std::size_t programs) {
    auto& tables = made.tables;
    const u32 maps = static_cast<u32>(maps_.size());
    tables.resize(XG_PROGRAM_TABLE_WORDS + u64{maps} * XG_PROGRAM_MAP_WORDS);
    tables[XG_PROGRAM_TABLE_MAPS] = maps;
    tables[XG_PROGRAM_TABLE_RECORDS] = XG_PROGRAM_TABLE_WORDS;
    made.state.resize(XG_PROGRAM_STATE_WORDS);
    for (u32 number = 0; number < maps; ++number)
      if (auto why = add(number); !why.empty()) return why;
    made.state[0] = XG_PROGRAM_STATE_LAYOUT;
    made.state[1] = static_cast<u32>(made.state.size());
    std::memcpy(&made.state[XG_PROGRAM_STATE_KEY], settings_.key.data(), sizeof(settings_.key));
    tables[XG_PROGRAM_TABLE_PAGES] = static_cast<u32>(tables.size());
    tables[XG_PROGRAM_TABLE_PAGE_COUNT] = static_cast<u32>(pages_.size());
    tables.insert(tables.end(), pages_.begin(), pages_.end());
    tables[XG_PROGRAM_TABLE_FIRST] = static_cast<u32>(tables.size());
    tables[XG_PROGRAM_TABLE_PROGRAMS] = static_cast<u32>(programs);
    tables.resize(tables.size() + programs);
    return {};
  }

  Image made;

 private:
  std::string add(u32 number) {
    const Map& map = maps_[number];
    if (auto why = why_not(map); !why.empty()) return why;
    const Layout layout = layout_of(map, settings_.queues, settings_.by_key);
    const u64 words = layout.words(), before = made.state.size();
    if (words > kMostBytes / 4 || before + words > kMostBytes / 4)
      return fmt::format("the map {} has {} bytes: devices have 1 GiB for all maps", map.name, words * 4);
    made.state.resize(before + words);
    const u64 buckets = before + layout.header, elements = buckets + layout.buckets,
              list = elements + (layout.is_table ? layout.slots * layout.element : 0),
              values = made.state.size() - layout.values();
    u32* const record = &made.tables[XG_PROGRAM_TABLE_WORDS + u64{number} * XG_PROGRAM_MAP_WORDS];
    record[XG_PROGRAM_MAP_TYPE] = map.type;
    record[XG_PROGRAM_MAP_ENTRIES] = map.entries;
    record[XG_PROGRAM_MAP_KEY] = map.key_bytes;
    record[XG_PROGRAM_MAP_VALUE] = map.value_bytes;
    const bool is_read_only = of_devices(map) || (map.flags & BPF_F_RDONLY_PROG) != 0;
    const bool changes = map.type != BPF_MAP_TYPE_PROG_ARRAY && map.type != BPF_MAP_TYPE_ARRAY_OF_MAPS &&
                         !of_devices(map) && !of_events(map) && !of_processors(map) && !of_sockets(map);
    record[XG_PROGRAM_MAP_FLAGS] =
        (is_read_only ? XG_PROGRAM_VALUES_READ_ONLY : 0) | (changes ? 0 : XG_PROGRAM_NOT_FOR_UPDATES);
    record[XG_PROGRAM_MAP_FIRST] = static_cast<u32>(pages_.size()) * kPage;
    record[XG_PROGRAM_MAP_SLOTS] = static_cast<u32>(layout.slots);
    record[XG_PROGRAM_MAP_QUEUES] = static_cast<u32>(layout.queues);
    record[XG_PROGRAM_MAP_HEADER] = static_cast<u32>(before);
    record[XG_PROGRAM_MAP_BUCKETS] = static_cast<u32>(buckets);
    record[XG_PROGRAM_MAP_ELEMENTS] = static_cast<u32>(elements);
    record[XG_PROGRAM_MAP_FREE] = static_cast<u32>(list);
    record[XG_PROGRAM_MAP_VALUES] = static_cast<u32>(values);
    record[XG_PROGRAM_MAP_STRIDE] = static_cast<u32>(layout.stride);
    record[XG_PROGRAM_MAP_BUCKET_MASK] = static_cast<u32>(layout.buckets >> layout.shards.bits) - 1;
    record[XG_PROGRAM_MAP_SHARD_SHIFT] = 32 - layout.shards.bits;
    record[XG_PROGRAM_MAP_SHARD_SLOTS] = static_cast<u32>(layout.of_shard);
    record[XG_PROGRAM_MAP_SHARD_ENTRIES] = layout.shards.entries;
    record[XG_PROGRAM_MAP_STAMPS] = static_cast<u32>(values - layout.stamps());
    record[XG_PROGRAM_MAP_ELEMENT_WORDS] = static_cast<u32>(layout.element);
    pages_.resize(pages_.size() + (layout.slots * layout.queues + kPage - 1) / kPage, number);
    if (layout.is_table) {
      for (u64 first = 0, header = before; first < layout.slots;
           first += layout.of_shard, header += XG_PROGRAM_LENGTHS) {
        made.state[header + XG_PROGRAM_UNUSED] = static_cast<u32>(layout.of_shard);
        // The first one is taken first.
        for (u64 slot = 0; slot < layout.of_shard; ++slot)
          made.state[list + first + slot] = static_cast<u32>(first + layout.of_shard - 1 - slot);
      }
    } else if (map.type == BPF_MAP_TYPE_ARRAY || map.type == BPF_MAP_TYPE_PERCPU_ARRAY) {
      // Values stand one after the other in the contents, with nothing in between.
      for (u64 slot = 0; slot < map.entries && slot * map.value_bytes < map.contents.size(); ++slot)
        std::memcpy(&made.state[values + slot * layout.stride], &map.contents[slot * map.value_bytes],
                    std::min<u64>(map.value_bytes, map.contents.size() - slot * map.value_bytes));
    }
    return {};
  }

  const ImageSettings& settings_;
  std::vector<Map> maps_;
  std::vector<u32> pages_;
};

// But for what they begin with: that is the first program's to say.
bool same_maps(const std::vector<Map>& a, const std::vector<Map>& b) {
  const auto like = [](const Map& one) {
    return std::tie(one.name, one.type, one.key_bytes, one.value_bytes, one.entries, one.flags, one.inner,
                    one.constant);
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](const Map& one, const Map& other) { return like(one) == like(other); });
}

}  // namespace

tl::expected<Image, std::string> image_of(std::span<const Program> programs, const ImageSettings& settings) {
  if (programs.empty()) return tl::unexpected(std::string("there is no program"));
  if (settings.counts != nullptr && programs.size() != 1)
    return tl::unexpected(std::string("programs that share their maps do not run side by side"));
  const std::vector<Map>& maps = programs.front().maps;
  for (const Program& program : programs)
    if (!same_maps(program.maps, maps))
      return tl::unexpected(
          fmt::format("the programs {} and {} do not have the same maps, which a set shares",
                      programs.front().name, program.name));
  Builder builder(maps, settings);
  if (auto why = builder.build(programs.size()); !why.empty()) return tl::unexpected(why);
  Image made = std::move(builder.made);
  std::vector<std::map<u32, StackNeed>> needs;
  for (std::size_t number = 0; number < programs.size(); ++number) {
    const Program& program = programs[number];
    const u32 first = static_cast<u32>(made.code.size() / 4);
    auto code = decoded(program, first, made.tables, settings.counts);
    if (!code) return tl::unexpected(fmt::format("the program {}: {}", program.name, code.error()));
    needs.push_back(stack_needs(program.instructions));
    if (needs.back().size() > kMostFunctions)
      return tl::unexpected(fmt::format("the program {} has {} functions: devices have {} at most",
                                        program.name, needs.back().size(), kMostFunctions));
    for (const auto& [start, need] : needs.back()) (*code)[u64{start} * 4] |= need.bytes / 8 << 24;
    made.tables[made.tables[XG_PROGRAM_TABLE_FIRST] + number] = first;
    made.code.insert(made.code.end(), code->begin(), code->end());
  }
  made.tables[XG_PROGRAM_TABLE_INSTRUCTIONS] = static_cast<u32>(made.code.size() / 4);
  made.stack_bytes = deepest_stack(needs);
  return made;
}

}  // namespace xdpgpu::gpu::programs
