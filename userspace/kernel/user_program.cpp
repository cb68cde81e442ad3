// SPDX-License-Identifier: MIT
#include "userspace/kernel/user_program.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <linux/bpf.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "gpu/program_shards.hpp"
#include "userspace/kernel/logging.hpp"
#include "userspace/kernel/names.hpp"
#include "userspace/kernel/program_maps.hpp"
#include "userspace/kernel/verifier.hpp"

namespace xdpgpu::kernel {
namespace {

namespace fs = std::filesystem;
using gpu::ProgramMapContents;
using gpu::programs::Map;
using gpu::programs::Program;
using Bytes = std::vector<u8>;

constexpr const char *kInForce = "programs", *kNext = "programs_next";

tl::unexpected<std::string> system_error(const std::string& what) {
  return tl::unexpected(fmt::format("{}: {}", what, std::strerror(errno)));
}

bool is_devmap(const Map& map) {
  return map.type == BPF_MAP_TYPE_DEVMAP || map.type == BPF_MAP_TYPE_DEVMAP_HASH;
}

u32 all_entries(const Map& map) { return map.entries; }

Result<void> check_size(const MapsSize& size, u64 most_bytes) {
  if (size.per_cpu_entries > kMostVerifiedPerCpuEntries)
    return tl::unexpected(fmt::format(
        "its maps of each processor have {} entries on all of them, more than the {} that there may be: give "
        "them fewer entries",
        size.per_cpu_entries, kMostVerifiedPerCpuEntries));
  if (size.bytes > most_bytes)
    return tl::unexpected(fmt::format(
        "its maps take {} MiB of the kernel's memory, and {} MiB are left of what a policy's may: "
        "give them fewer entries",
        size.bytes >> 20, most_bytes >> 20));
  return {};
}

// What maps have at first, as user space puts it there.
class Filler {
 public:
  // All of these outlive it. programs: by their numbers.
  Filler(const std::vector<Map>& all, const std::vector<Fd>& made, const std::vector<Fd>& programs,
         const UserBounds& bounds)
      : all_(all), made_(made), programs_(programs), bounds_(bounds) {}

  Result<void> fill(const ProgramMapContents& contents) const {
    if (contents.map >= all_.size())
      return tl::unexpected(std::string("it has no such map to begin with something"));
    const Map& map = all_[contents.map];
    for (const auto& [key, value] : contents.entries) {
      if (key.size() != map.key_bytes || value.size() != map.value_bytes)
        return tl::unexpected(fmt::format("what the map {} has at first is not of its size", map.name));
      const auto put = value_of(map, value);
      if (!put) return tl::unexpected(put.error());
      if (bpf_map_update_elem(made_[contents.map].get(), key.data(), put->data(), BPF_ANY) != 0)
        return system_error(fmt::format("the kernel refuses what the map {} has at first", map.name));
    }
    return {};
  }

 private:
  static u32 number_in(const Bytes& value) {
    u32 number = ~0u;
    if (value.size() >= sizeof(number)) std::memcpy(&number, value.data(), sizeof(number));
    return number;
  }
  static Bytes bytes_of(int fd) {
    Bytes bytes(sizeof(fd));
    std::memcpy(bytes.data(), &fd, sizeof(fd));
    return bytes;
  }
  // As the kernel takes it.
  Result<Bytes> value_of(const Map& map, const Bytes& value) const {
    const u32 number = number_in(value);
    if (map.inner >= 0) {
      if (number >= made_.size())
        return tl::unexpected(fmt::format("the map {} is to have a map that it has not", map.name));
      return bytes_of(made_[number].get());
    }
    if (map.type == BPF_MAP_TYPE_PROG_ARRAY) {
      if (number >= programs_.size())
        return tl::unexpected(fmt::format("the map {} is to have a program that it has not", map.name));
      return bytes_of(programs_[number].get());
    }
    if (is_devmap(map)) {
      if (std::find(bounds_.interfaces.begin(), bounds_.interfaces.end(), number) == bounds_.interfaces.end())
        return tl::unexpected(
            fmt::format("its map {} sends to interface {}, and no attached interface has that number on this "
                        "host (see \"ip link\")",
                        map.name, number));
      if (std::any_of(value.begin() + sizeof(number), value.end(), [](u8 byte) { return byte != 0; }))
        return tl::unexpected(fmt::format("its map {} names a program beside an interface", map.name));
    }
    if (!is_of_each_cpu(map)) return value;
    const std::size_t rounded = (value.size() + 7) / 8 * 8;
    Bytes all(rounded * static_cast<std::size_t>(libbpf_num_possible_cpus()));
    for (std::size_t at = 0; at < all.size(); at += rounded)
      std::copy(value.begin(), value.end(), all.begin() + static_cast<std::ptrdiff_t>(at));
    return all;
  }

  const std::vector<Map>& all_;
  const std::vector<Fd>&made_, &programs_;
  const UserBounds& bounds_;
};

fs::path folder_of(const std::string& ifname, const char* which) {
  return fs::path(names::pin_folder(ifname)) / which;
}

// What the BPF filesystem takes for a name, another one for another one.
std::string file_name(std::string_view name) {
  std::string file;
  for (const char c : name) {
    const bool plain = std::isalnum(static_cast<u8>(c)) != 0 || c == '_' || c == '-';
    file += plain      ? std::string(1, c)
            : c == '.' ? std::string(":")
                       : fmt::format("%{:02x}", static_cast<u8>(c));
  }
  return file;
}

}  // namespace

Result<UserProgram> load_user_program(const Program& program, const std::vector<ProgramMapContents>& contents,
                                      const UserBounds& bounds, const MapTypes& types) {
  quiet_libraries();
  if (std::string why = why_not_made(program.maps); !why.empty()) return tl::unexpected(std::move(why));
  const MapsSize size = size_of(program.maps, all_entries);
  if (auto fits = check_size(size, bounds.most_bytes); !fits) return tl::unexpected(fits.error());
  auto maps = make_maps(program.maps, all_entries, types);
  if (!maps) return tl::unexpected("the kernel " + maps.error());
  std::vector<Fd> programs;
  for (const Program& part : gpu::programs::parts_of(program)) {
    auto loaded = load(part, bounds.fragments, *maps);
    if (!loaded.program) return tl::unexpected("the kernel's verifier refuses it: " + loaded.verdict.why);
    programs.push_back(std::move(loaded.program));
  }
  const Filler filler(program.maps, *maps, programs, bounds);
  for (const ProgramMapContents& one : contents)
    if (auto filled = filler.fill(one); !filled) return tl::unexpected(filled.error());
  UserProgram made{.program = std::move(programs.front()), .maps = {}, .bytes = size.bytes};
  for (u32 i = 0; i < maps->size(); i++)
    made.maps.push_back({program.maps[i].name, std::move((*maps)[i]), i});
  return made;
}

Result<UserProgram> make_user_maps(const Program& program, const std::vector<ProgramMapContents>& contents,
                                   const UserBounds& bounds, const MapTypes& types) {
  quiet_libraries();
  std::vector<Map> kept;
  std::vector<u32> numbers;  // of the program's maps
  MapTypes kept_types{.btf = types.btf};
  for (u32 i = 0; i < program.maps.size(); i++) {
    if (!is_kept_in_step(program.maps[i])) continue;
    kept.push_back(program.maps[i]);
    // No program has them, and user space reads and writes. What an LRU hash loses, the device's does: by
    // itself the kernel's would lose more.
    Map& map = kept.back();
    if (map.type == BPF_MAP_TYPE_LRU_HASH) {
      // Shards may have more than the map was made for.
      map.entries = static_cast<u32>(gpu::programs::shards_of(map).all());
      map.type = BPF_MAP_TYPE_HASH;
    }
    map.flags &=
        ~u32{BPF_F_RDONLY | BPF_F_WRONLY | BPF_F_RDONLY_PROG | BPF_F_WRONLY_PROG | BPF_F_NO_COMMON_LRU};
    numbers.push_back(i);
    kept_types.maps.push_back(i < types.maps.size() ? types.maps[i] : MapTypes::Of{});
  }
  const MapsSize size = size_of(kept, all_entries);
  if (auto fits = check_size(size, bounds.most_bytes); !fits) return tl::unexpected(fits.error());
  auto maps = make_maps(kept, all_entries, kept_types);
  if (!maps) return tl::unexpected("the kernel " + maps.error());
  const std::vector<Fd> no_programs;
  const Filler filler(kept, *maps, no_programs, bounds);
  for (ProgramMapContents one : contents) {
    const auto at = std::find(numbers.begin(), numbers.end(), one.map);
    if (at == numbers.end()) continue;
    one.map = static_cast<u32>(at - numbers.begin());
    if (auto filled = filler.fill(one); !filled) return tl::unexpected(filled.error());
  }
  UserProgram made{.program = {}, .maps = {}, .bytes = size.bytes};
  for (std::size_t i = 0; i < kept.size(); i++)
    made.maps.push_back({kept[i].name, std::move((*maps)[i]), numbers[i]});
  return made;
}

Result<void> pin_user_maps(const std::string& ifname, const std::string& pipeline, u32 stage,
                           const std::vector<UserMap>& maps) {
  const fs::path next = folder_of(ifname, kNext), of = next / file_name(pipeline),
                 at = of / std::to_string(stage);
  for (const fs::path& folder : {next, of, at})
    if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
      return system_error(fmt::format("cannot make {}", folder.string()));
  for (const UserMap& one : maps)
    if (const fs::path path = at / file_name(one.name); bpf_obj_pin(one.map.get(), path.c_str()) != 0)
      return system_error(fmt::format("cannot pin map {}", path.string()));
  return {};
}

bool pins_in_force(const std::string& ifname) noexcept {
  std::error_code removed, moved;
  const fs::path now = folder_of(ifname, kInForce), next = folder_of(ifname, kNext);
  fs::remove_all(now, removed);
  if (fs::exists(next, moved)) fs::rename(next, now, moved);
  return !removed && !moved;
}

void forget_next_pins(const std::string& ifname) noexcept {
  std::error_code ignored;
  fs::remove_all(folder_of(ifname, kNext), ignored);
}

}  // namespace xdpgpu::kernel
