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

#include "userspace/kernel/logging.hpp"
#include "userspace/kernel/names.hpp"
#include "userspace/kernel/verifier.hpp"

namespace xdpgpu::kernel {
namespace {

namespace fs = std::filesystem;
using gpu::ProgramMapContents;
using gpu::programs::Instruction;
using gpu::programs::Map;
using gpu::programs::Program;
using Bytes = std::vector<u8>;

constexpr const char *kInForce = "programs", *kNext = "programs_next";
constexpr const char* kFirstStage = "1";

// Those that gpu/reference/program.hpp has, but bpf_redirect. The kernel has many more for who may load
// programs at all, such as those that read its memory.
constexpr int kHelpers[] = {BPF_FUNC_map_lookup_elem,
                            BPF_FUNC_map_update_elem,
                            BPF_FUNC_map_delete_elem,
                            BPF_FUNC_xdp_adjust_head,
                            BPF_FUNC_xdp_adjust_meta,
                            BPF_FUNC_xdp_adjust_tail,
                            BPF_FUNC_csum_diff,
                            BPF_FUNC_redirect_map,
                            BPF_FUNC_ktime_get_ns,
                            BPF_FUNC_get_prandom_u32,
                            BPF_FUNC_get_smp_processor_id,
                            BPF_FUNC_tail_call,
                            BPF_FUNC_loop};

constexpr u32 kMapTypes[] = {BPF_MAP_TYPE_ARRAY,        BPF_MAP_TYPE_PERCPU_ARRAY, BPF_MAP_TYPE_HASH,
                             BPF_MAP_TYPE_PERCPU_HASH,  BPF_MAP_TYPE_LRU_HASH,     BPF_MAP_TYPE_LPM_TRIE,
                             BPF_MAP_TYPE_DEVMAP,       BPF_MAP_TYPE_DEVMAP_HASH,  BPF_MAP_TYPE_PROG_ARRAY,
                             BPF_MAP_TYPE_ARRAY_OF_MAPS};

tl::unexpected<std::string> system_error(const std::string& what) {
  return tl::unexpected(fmt::format("{}: {}", what, std::strerror(errno)));
}

bool is_of_each_cpu(const Map& map) {
  return map.type == BPF_MAP_TYPE_PERCPU_ARRAY || map.type == BPF_MAP_TYPE_PERCPU_HASH;
}
bool is_devmap(const Map& map) {
  return map.type == BPF_MAP_TYPE_DEVMAP || map.type == BPF_MAP_TYPE_DEVMAP_HASH;
}

std::string name_in_kernel(std::string_view name) {
  std::string allowed(name.substr(0, BPF_OBJ_NAME_LEN - 1));
  std::replace_if(
      allowed.begin(), allowed.end(),
      [](char c) { return std::isalnum(static_cast<u8>(c)) == 0 && c != '.'; }, '_');
  return allowed;
}

Result<void> check_helpers(const Program& program) {
  for (const Program& part : gpu::programs::parts_of(program))
    for (std::size_t i = 0; i < part.instructions.size(); i++) {
      const Instruction& one = part.instructions[i];
      if (one.opcode != (BPF_JMP | BPF_CALL) || one.source != 0) continue;
      if (std::find(std::begin(kHelpers), std::end(kHelpers), one.immediate) != std::end(kHelpers)) continue;
      return tl::unexpected(fmt::format(
          "{} calls helper {} at instruction {}, which no program that runs in the kernel may: let "
          "a device run it",
          part.name, one.immediate, i));
    }
  return {};
}

// As much as the kernel allocates, about; no sum is beyond 64 bits, as a program's maps are within bounds.
class Size {
 public:
  explicit Size(const std::vector<Map>& maps) {
    constexpr u64 kHead = 64;  // of an entry: links, hash, a pointer; and its part of the table
    const u64 cpus = static_cast<u64>(std::max(libbpf_num_possible_cpus(), 1));
    const auto rounded = [](u64 count) { return (count + 7) / 8 * 8; };
    for (const Map& map : maps) {
      const u64 value = rounded(map.value_bytes), each = is_of_each_cpu(map) ? cpus : 1;
      if (is_of_each_cpu(map)) per_cpu_entries += cpus * map.entries;
      bytes += map.type == BPF_MAP_TYPE_ARRAY
                   ? value * map.entries
                   : (value * each + rounded(map.key_bytes) + kHead) * (map.entries + cpus);
    }
  }
  u64 bytes = 0, per_cpu_entries = 0;
};

Result<void> check_size(const Size& size, u64 most_bytes) {
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

class Maker {
 public:
  Maker(const Program& program, const UserBounds& bounds) : all_(program.maps), bounds_(bounds) {
    made_.maps.resize(all_.size());
    descriptors_.assign(all_.size(), -1);
  }

  // Those that are in others are first.
  Result<void> make() {
    for (const Map& map : all_)
      if (std::find(std::begin(kMapTypes), std::end(kMapTypes), map.type) == std::end(kMapTypes))
        return tl::unexpected(
            fmt::format("its map {} is of type {}, which is made for no program here", map.name, map.type));
    for (const bool of_maps : {false, true})
      for (std::size_t i = 0; i < all_.size(); i++)
        if ((all_[i].inner >= 0) == of_maps)
          if (auto made = make(i); !made) return made;
    return {};
  }
  const std::vector<int>& descriptors() const { return descriptors_; }
  // programs: by their numbers.
  Result<void> fill(const ProgramMapContents& contents, const std::vector<Fd>& programs) {
    if (contents.map >= all_.size())
      return tl::unexpected(std::string("it has no such map to begin with something"));
    const Map& map = all_[contents.map];
    for (const auto& [key, value] : contents.entries) {
      if (key.size() != map.key_bytes || value.size() != map.value_bytes)
        return tl::unexpected(fmt::format("what the map {} has at first is not of its size", map.name));
      const auto put = value_of(map, value, programs);
      if (!put) return tl::unexpected(put.error());
      if (bpf_map_update_elem(descriptors_[contents.map], key.data(), put->data(), BPF_ANY) != 0)
        return system_error(fmt::format("the kernel refuses what the map {} has at first", map.name));
    }
    return {};
  }
  UserProgram take() { return std::move(made_); }

 private:
  Result<void> make(std::size_t number) {
    const Map& map = all_[number];
    bpf_map_create_opts how{};
    how.sz = sizeof(how);
    how.map_flags = map.flags;
    if (map.inner >= 0)
      how.inner_map_fd = static_cast<u32>(descriptors_[static_cast<std::size_t>(map.inner)]);
    const auto type = static_cast<bpf_map_type>(map.type);
    Fd made(bpf_map_create(type, name_in_kernel(map.name).c_str(), map.key_bytes, map.value_bytes,
                           map.entries, &how));
    if (!made) return system_error(fmt::format("the kernel does not make its map {}", map.name));
    descriptors_[number] = made.get();
    made_.maps[number] = {map.name, std::move(made)};
    if (auto begun = begin(map, descriptors_[number]); !begun) return begun;
    if (map.constant && bpf_map_freeze(descriptors_[number]) != 0)
      return system_error(fmt::format("the kernel does not freeze its map {}", map.name));
    return {};
  }

  // As the object says. The last value may be cut: the rest of it is zeros.
  static Result<void> begin(const Map& map, int fd) {
    for (u32 key = 0; u64{key} * map.value_bytes < map.contents.size(); key++) {
      const std::size_t at = std::size_t{key} * map.value_bytes;
      Bytes value(map.value_bytes);
      std::copy_n(map.contents.begin() + static_cast<std::ptrdiff_t>(at),
                  std::min(value.size(), map.contents.size() - at), value.begin());
      if (bpf_map_update_elem(fd, &key, value.data(), BPF_ANY) != 0)
        return system_error(fmt::format("the kernel refuses what its map {} begins with", map.name));
    }
    return {};
  }

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
  Result<Bytes> value_of(const Map& map, const Bytes& value, const std::vector<Fd>& programs) const {
    const u32 number = number_in(value);
    if (map.inner >= 0) {
      if (number >= descriptors_.size())
        return tl::unexpected(fmt::format("the map {} is to have a map that it has not", map.name));
      return bytes_of(descriptors_[number]);
    }
    if (map.type == BPF_MAP_TYPE_PROG_ARRAY) {
      if (number >= programs.size())
        return tl::unexpected(fmt::format("the map {} is to have a program that it has not", map.name));
      return bytes_of(programs[number].get());
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
  const UserBounds& bounds_;
  UserProgram made_;
  std::vector<int> descriptors_;
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
                                      const UserBounds& bounds) {
  quiet_libraries();
  if (auto known = check_helpers(program); !known) return tl::unexpected(known.error());
  const Size size(program.maps);
  if (auto fits = check_size(size, bounds.most_bytes); !fits) return tl::unexpected(fits.error());
  Maker maker(program, bounds);
  if (auto made = maker.make(); !made) return tl::unexpected(made.error());
  std::vector<Fd> programs;
  for (const Program& part : gpu::programs::parts_of(program)) {
    auto loaded = load(part, bounds.fragments, maker.descriptors());
    if (!loaded.program) return tl::unexpected("the kernel's verifier refuses it: " + loaded.verdict.why);
    programs.push_back(std::move(loaded.program));
  }
  for (const ProgramMapContents& one : contents)
    if (auto filled = maker.fill(one, programs); !filled) return tl::unexpected(filled.error());
  UserProgram made = maker.take();
  made.program = std::move(programs.front());
  made.bytes = size.bytes;
  return made;
}

Result<void> pin_user_maps(const std::string& ifname, const std::string& pipeline,
                           const std::vector<UserMap>& maps) {
  const fs::path next = folder_of(ifname, kNext), of = next / file_name(pipeline), stage = of / kFirstStage;
  for (const fs::path& folder : {next, of, stage})
    if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
      return system_error(fmt::format("cannot make {}", folder.string()));
  for (const UserMap& one : maps)
    if (const fs::path path = stage / file_name(one.name); bpf_obj_pin(one.map.get(), path.c_str()) != 0)
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
