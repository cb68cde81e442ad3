// SPDX-License-Identifier: MIT
#include "userspace/kernel/program_maps.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <linux/bpf.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "gpu/program_shards.hpp"
#include "userspace/kernel/map_entries.hpp"

namespace xdpgpu::kernel {
namespace {

using gpu::programs::Map;

tl::unexpected<std::string> refuses(const std::string& what) {
  return tl::unexpected(fmt::format("{}: {}", what, std::strerror(errno)));
}

bool is_made(u32 type) {
  switch (type) {
    case BPF_MAP_TYPE_ARRAY:
    case BPF_MAP_TYPE_PERCPU_ARRAY:
    case BPF_MAP_TYPE_HASH:
    case BPF_MAP_TYPE_PERCPU_HASH:
    case BPF_MAP_TYPE_LRU_HASH:
    case BPF_MAP_TYPE_LPM_TRIE:
    case BPF_MAP_TYPE_DEVMAP:
    case BPF_MAP_TYPE_DEVMAP_HASH:
    case BPF_MAP_TYPE_CPUMAP:
    case BPF_MAP_TYPE_XSKMAP:
    case BPF_MAP_TYPE_PROG_ARRAY:
    case BPF_MAP_TYPE_ARRAY_OF_MAPS:
    case BPF_MAP_TYPE_PERF_EVENT_ARRAY:
    case BPF_MAP_TYPE_RINGBUF:
      return true;
    default:
      return false;
  }
}

// check() bounds how much there is. The last value may be cut: the rest of it is zeros.
Result<void> begin(const Map& map, int fd) {
  const std::size_t bytes = map.value_bytes;
  std::vector<u8> value(map.contents.empty() ? 0 : bytes);
  for (u32 key = 0; bytes != 0 && key * bytes < map.contents.size(); key++) {
    const std::size_t length = std::min(bytes, map.contents.size() - key * bytes);
    std::memcpy(value.data(), map.contents.data() + key * bytes, length);
    std::fill(value.begin() + static_cast<std::ptrdiff_t>(length), value.end(), u8{0});
    if (bpf_map_update_elem(fd, &key, value.data(), BPF_ANY) != 0)
      return refuses(fmt::format("refuses what the map {} begins with", map.name));
  }
  return {};
}

Result<Fd> make(const Map& map, u32 entries, int inner, int btf, MapTypes::Of types) {
  bpf_map_create_opts how{};
  how.sz = sizeof(how);
  how.map_flags = map.flags;
  if (inner >= 0) how.inner_map_fd = static_cast<u32>(inner);
  const auto create = [&] {
    return Fd(bpf_map_create(static_cast<bpf_map_type>(map.type), name_in_kernel(map.name).c_str(),
                             map.key_bytes, map.value_bytes, entries, &how));
  };
  Fd made;
  if (btf >= 0 && types.value != 0) {
    how.btf_fd = static_cast<u32>(btf);
    how.btf_key_type_id = types.key;
    how.btf_value_type_id = types.value;
    made = create();
    how.btf_fd = how.btf_key_type_id = how.btf_value_type_id = 0;
  }
  if (!made) made = create();
  if (!made) return refuses(fmt::format("refuses to make the map {}", map.name));
  if (map.type != BPF_MAP_TYPE_ARRAY) return made;
  if (auto begun = begin(map, made.get()); !begun) return tl::unexpected(begun.error());
  // Constants are known to the verifier where nobody can change them any more. Others are as libbpf makes
  // them: not frozen, and the verifier does not rely on what is in them.
  if (map.constant && bpf_map_freeze(made.get()) != 0)
    return refuses(fmt::format("does not freeze the map {}", map.name));
  return made;
}

}  // namespace

MapsSize size_of(const std::vector<Map>& maps, EntriesOf entries) {
  constexpr u64 kHead = 64;  // of an entry: links, hash, a pointer; and its part of the table
  const u64 cpus = static_cast<u64>(std::max(libbpf_num_possible_cpus(), 1));
  const auto rounded = [](u64 count) { return (count + 7) / 8 * 8; };
  MapsSize size;
  for (const Map& map : maps) {
    const u64 value = rounded(map.value_bytes), count = entries(map), each = is_of_each_cpu(map) ? cpus : 1;
    if (is_of_each_cpu(map)) size.per_cpu_entries += cpus * count;
    // Values alone, one behind the other.
    if (map.type == BPF_MAP_TYPE_ARRAY)
      size.bytes += value * count;
    else if (map.type == BPF_MAP_TYPE_RINGBUF)
      size.bytes += 4 * count;  // and pages for itself
    else
      size.bytes += (value * each + rounded(map.key_bytes) + kHead) *
                    (count + cpus);  // hashes have some to spare for each CPU
  }
  return size;
}

std::string name_in_kernel(std::string_view name) {
  std::string allowed;
  for (const char c : name.substr(0, BPF_OBJ_NAME_LEN - 1)) {
    const bool is = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.';
    allowed += is ? c : '_';
  }
  return allowed;
}

bool is_of_each_cpu(const Map& map) {
  return map.type == BPF_MAP_TYPE_PERCPU_ARRAY || map.type == BPF_MAP_TYPE_PERCPU_HASH;
}

bool is_kept_in_step(const Map& map) {
  if (!has_entries(map.type) || map.constant) return false;
  const u64 cpus = is_of_each_cpu(map) ? static_cast<u64>(std::max(libbpf_num_possible_cpus(), 1)) : 1;
  const u64 each = map.key_bytes + (map.value_bytes + u64{7}) / 8 * 8 * cpus;
  return map.entries <= kMostKeptEntries && gpu::programs::shards_of(map).all() * each <= kMostKeptBytes;
}

std::string why_not_made(const std::vector<Map>& maps) {
  const auto one = std::find_if(maps.begin(), maps.end(), [](const Map& map) { return !is_made(map.type); });
  if (one == maps.end()) return {};
  const char* const type = libbpf_bpf_map_type_str(static_cast<bpf_map_type>(one->type));
  return fmt::format("its map {} is of a type that is made for no program here ({})", one->name,
                     type != nullptr ? type : std::to_string(one->type));
}

Result<std::vector<Fd>> make_maps(const std::vector<Map>& maps, EntriesOf entries, const MapTypes& types) {
  std::vector<Fd> made(maps.size());
  // Older kernels know less of it: then nothing is known.
  Fd btf;
  if (!types.btf.empty())
    btf = Fd(bpf_btf_load(types.btf.data(), static_cast<u32>(types.btf.size()), nullptr));
  // Those that are in others are first.
  for (const bool of_maps : {false, true})
    for (std::size_t i = 0; i < maps.size(); i++) {
      const Map& map = maps[i];
      if ((map.inner >= 0) != of_maps) continue;
      auto one = make(map, entries(map), of_maps ? made[static_cast<std::size_t>(map.inner)].get() : -1,
                      btf.get(), i < types.maps.size() ? types.maps[i] : MapTypes::Of{});
      if (!one) return tl::unexpected(one.error());
      made[i] = std::move(*one);
    }
  return made;
}

}  // namespace xdpgpu::kernel
