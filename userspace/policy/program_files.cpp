// SPDX-License-Identifier: MIT
#include "userspace/policy/program_files.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <linux/bpf.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "userspace/compiler/programs/exchange.hpp"
#include "userspace/compiler/programs/needs.hpp"
#include "userspace/kernel/program_maps.hpp"
#include "userspace/policy/map_file.hpp"

namespace xdpgpu::policy {
namespace {

std::vector<u8> native(u32 number) {
  std::vector<u8> bytes(sizeof(number));
  std::memcpy(bytes.data(), &number, sizeof(number));
  return bytes;
}

// Names of the maps that can begin with something.
std::string names_of(const std::vector<gpu::programs::Map>& maps) {
  std::vector<std::string_view> names;
  for (const auto& map : maps)
    if (why_no_contents(map).empty()) names.push_back(map.name);
  return names.empty() ? "none of its maps can begin with something"
                       : fmt::format("those that can begin with something are {}", quoted_list(names));
}

}  // namespace

programs::Choice choice_of(const std::string& section, const std::vector<gpu::ProgramMapFile>& maps) {
  programs::Choice which{.name = section};
  for (const auto& map : maps)
    for (const auto& tail : map.programs) which.slots.push_back({map.name, tail.index, tail.program});
  return which;
}

void read_program_files(Report& report, const Place& stage, const ProgramNames& names,
                        const ProgramReaders& readers, std::shared_ptr<const gpu::programs::Program>& program,
                        std::shared_ptr<const std::vector<gpu::ProgramMapContents>>& contents) {
  if (names.object.empty()) return;  // that has been said
  const Place object = member_of(stage, "object");
  const Place all = member_of(stage, "maps");
  std::vector<std::optional<NamedFile>> files;
  for (const auto& map : names.maps) {
    const Place entry = member_of(all, map.name);
    files.push_back(map.file.empty() ? std::nullopt : readers.files(member_of(entry, "file")));
  }
  const auto bytes = readers.programs(object, names.object, choice_of(names.section, names.maps));
  if (!bytes || *bytes == nullptr) return;
  auto read = programs::from_bytes(**bytes);
  if (!read) return report.at(object, fmt::format("{}: {}", names.object, read.error()));
  if (const auto missing = programs::missing_of(*read, programs::needs_of(*read)); !missing.empty())
    return report.at(
        object, fmt::format("{} needs what is missing: {}", read->program.name, fmt::join(missing, "; ")));
  const auto& maps = read->program.maps;
  auto begins = std::make_shared<std::vector<gpu::ProgramMapContents>>();
  std::vector<u32> begun;  // by files
  bool whole = true;
  for (std::size_t i = 0; i < names.maps.size(); i++) {
    const Place entry = member_of(all, names.maps[i].name);
    const bool who_wins = member_of(entry, "wins").node != entry.node;
    if (names.maps[i].programs.empty() && names.maps[i].file.empty() && !who_wins) {
      report.at(entry,
                "says nothing of the map: give \"file\", \"wins\" or, of an array of programs, the "
                "\"programs\" that it has");
      continue;
    }
    const auto map = std::find_if(maps.begin(), maps.end(),
                                  [&](const auto& one) { return one.name == names.maps[i].name; });
    if (map == maps.end()) {
      report.at(entry, fmt::format("the program {} of {} has no map {}; {}", read->program.name, names.object,
                                   names.maps[i].name, names_of(maps)));
      continue;
    }
    if (who_wins && !kernel::is_kept_in_step(*map)) {
      report.at(entry, fmt::format("the map {} is the device's alone, and nobody else writes to it: leave "
                                   "\"wins\" out",
                                   map->name));
      continue;
    }
    if (names.maps[i].file.empty()) continue;  // programs are read with the object
    if (const auto why = why_no_contents(*map); !why.empty()) {
      report.at(entry, fmt::format("the map {} {}", map->name, why));
      continue;
    }
    if (!files[i]) continue;
    if (files[i]->text == nullptr) {
      whole = false;
      continue;
    }
    const u32 number = static_cast<u32>(map - maps.begin());
    begun.push_back(number);
    read_map_file(report, *files[i]->text, files[i]->path, member_of(entry, "file"), number, read->program,
                  *begins);
  }
  // What the object says that maps of maps and of programs have at first, where no file does.
  const auto parts = gpu::programs::parts_of(read->program);
  const auto number_in = [](const auto& named, const std::string& name) {
    const auto found = std::ranges::find_if(named, [&](const auto& one) { return one.name == name; });
    return found == named.end() ? std::nullopt : std::optional(static_cast<u32>(found - named.begin()));
  };
  for (const programs::Slot& slot : read->slots) {
    const bool of_programs = maps[slot.map].type == BPF_MAP_TYPE_PROG_ARRAY;
    const auto number = of_programs ? number_in(parts, slot.name) : number_in(maps, slot.name);
    if (number && std::ranges::find(begun, slot.map) == begun.end())
      begins->push_back({slot.map, {{native(slot.slot), native(*number)}}});
  }
  if (whole && !begins->empty()) contents = std::move(begins);
  program = std::make_shared<const gpu::programs::Program>(std::move(read->program));
}

}  // namespace xdpgpu::policy
