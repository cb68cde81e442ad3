// SPDX-License-Identifier: MIT
#include "userspace/compiler/programs/object.hpp"

#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <linux/bpf.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

#include "userspace/compiler/programs/elf.hpp"
#include "userspace/compiler/programs/layouts.hpp"
#include "userspace/kernel/logging.hpp"

namespace xdpgpu::programs {
namespace {

using Error = tl::unexpected<std::string>;
using Object = std::unique_ptr<bpf_object, void (*)(bpf_object*)>;

constexpr std::size_t kMostNamesListed = 16;

std::string text(const char* name) { return name != nullptr ? name : ""; }

// libbpf's cause where it names one: its first sentence, for the last one says only what became of it.
std::string cause(int error) {
  std::string said = kernel::first_library_message();
  constexpr std::string_view kPrefix = "libbpf: ";
  if (said.starts_with(kPrefix)) said.erase(0, kPrefix.size());
  return said.empty() ? std::string(std::strerror(error)) : said;
}

// ---- which program -----------------------------------------------------------------------------------

bool is_xdp(const bpf_program* program) {
  const std::string_view section = bpf_program__section_name(program);
  // libbpf knows "xdp" and "xdp.frags"; others' sections begin likewise.
  const bool named = bpf_program__type(program) == BPF_PROG_TYPE_UNSPEC && section.starts_with("xdp");
  return named || bpf_program__type(program) == BPF_PROG_TYPE_XDP;
}
// Not of packets that an interface receives.
bool is_of_a_map(const bpf_program* program) {
  const std::string_view section = bpf_program__section_name(program);
  return section.ends_with("/devmap") || section.ends_with("/cpumap");
}

std::string listed(const std::vector<bpf_program*>& programs) {
  std::vector<std::string> names;
  for (const bpf_program* const one : programs) {
    if (names.size() == kMostNamesListed) {
      names.emplace_back("...");
      break;
    }
    names.push_back(fmt::format("{} (section {})", bpf_program__name(one), bpf_program__section_name(one)));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

Result<bpf_program*> choose(bpf_object* object, const std::string& name) {
  std::vector<bpf_program*> all, usable, found;
  bpf_program* program = nullptr;
  bpf_object__for_each_program(program, object) {
    all.push_back(program);
    if (is_xdp(program) && !is_of_a_map(program)) usable.push_back(program);
  }
  if (all.empty()) return Error("it has no program");
  if (name.empty()) {
    if (usable.empty())
      return Error(fmt::format("it has no XDP program for an interface; it has {}", listed(all)));
    if (usable.size() > 1)
      return Error(fmt::format("it has several XDP programs: name one by its section: {}", listed(usable)));
    return usable.front();
  }
  for (bpf_program* const one : all)
    if (bpf_program__name(one) == name) found.push_back(one);
  if (found.empty())
    for (bpf_program* const one : all)
      if (bpf_program__section_name(one) == name) found.push_back(one);
  if (found.empty())
    return Error(fmt::format("it has no program or section {}; it has {}", name, listed(all)));
  if (found.size() > 1)
    return Error(
        fmt::format("its section {} has several programs: name one of them: {}", name, listed(found)));
  if (is_of_a_map(found.front()))
    return Error(fmt::format("its program {} is for the entries of a map (section {}), not for an interface",
                             name, bpf_program__section_name(found.front())));
  if (!is_xdp(found.front())) {
    const char* const type = libbpf_bpf_prog_type_str(bpf_program__type(found.front()));
    return Error(fmt::format("its program {} is no XDP program{}", name,
                             type != nullptr ? fmt::format(", but one of the type {}", type) : ""));
  }
  return found.front();
}

// ---- what is not in an object by itself --------------------------------------------------------------

// The names in a section of the object's types that are to be found elsewhere. libbpf puts one of its own in
// the place of functions there.
std::vector<std::string> undefined_in(const btf* types, const char* section, const ElfObject& elf) {
  std::vector<std::string> names;
  const std::int32_t id = types != nullptr ? btf__find_by_name_kind(types, section, BTF_KIND_DATASEC) : -1;
  if (id <= 0) return names;
  const btf_type* const type = btf__type_by_id(types, static_cast<u32>(id));
  for (u32 i = 0; i < btf_vlen(type) && names.size() < kMostNamesListed; i++) {
    const btf_type* const one = btf__type_by_id(types, btf_var_secinfos(type)[i].type);
    std::string name = one != nullptr ? text(btf__name_by_offset(types, one->name_off)) : "";
    if (std::find(elf.undefined.begin(), elf.undefined.end(), name) != elf.undefined.end())
      names.push_back(std::move(name));
  }
  return names;
}

// libbpf would look them up in files and in the kernel, for all of the object's programs.
Result<void> check_externs(const btf* types, const ElfObject& elf) {
  if (const auto names = undefined_in(types, ".kconfig", elf); !names.empty())
    return Error(fmt::format(
        "it asks how the running kernel was configured ({}), which no device can: make constants of those",
        fmt::join(names, ", ")));
  if (const auto names = undefined_in(types, ".ksyms", elf); !names.empty())
    return Error(
        fmt::format("it uses variables of the kernel ({}), which no device has", fmt::join(names, ", ")));
  return {};
}

Result<void> check_kernel_functions(const Program& program, const ElfObject& elf) {
  for (std::size_t i = 0; i < program.instructions.size(); i++) {
    const Instruction& one = program.instructions[i];
    if (one.opcode == (BPF_LD | BPF_IMM | BPF_DW)) {
      i++;
      continue;
    }
    if (one.opcode != (BPF_JMP | BPF_CALL) || one.source != BPF_PSEUDO_KFUNC_CALL) continue;
    const auto end =
        elf.undefined.begin() + static_cast<std::ptrdiff_t>(std::min(elf.undefined.size(), kMostNamesListed));
    return Error(fmt::format(
        "its program {} calls functions of the kernel (kfuncs), which no device has; the object asks for {}",
        program.name, fmt::join(elf.undefined.begin(), end, ", ")));
  }
  return {};
}

// ---- maps --------------------------------------------------------------------------------------------

// libbpf puts a part of the object's name in front of those of variables.
std::string name_of(const bpf_map* map) {
  const std::string name = text(bpf_map__name(map));
  const auto dot = name.find('.');
  return bpf_map__is_internal(map) && dot != std::string::npos ? name.substr(dot) : name;
}

// As the kernel takes it. Before the object is "loaded": then it is the loader's.
std::vector<u8> raw_of(const btf* types) {
  u32 bytes = 0;
  const auto* const first = types != nullptr ? static_cast<const u8*>(btf__raw_data(types, &bytes)) : nullptr;
  if (first == nullptr || bytes > kMostTypeBytes) return {};
  return {first, first + bytes};
}

struct ObjectMap {
  Map map;
  std::optional<Map> inner;
  kernel::MapTypes::Of types{};
  bool pinned = false;
  bpf_map* libbpfs = nullptr;
};

Map definition(const bpf_map* map, std::string name) {
  return Map{.name = std::move(name),
             .type = bpf_map__type(map),
             .key_bytes = bpf_map__key_size(map),
             .value_bytes = bpf_map__value_size(map),
             .entries = bpf_map__max_entries(map),
             .flags = bpf_map__map_flags(map),
             .inner = -1,
             // Such are those that libbpf freezes.
             .constant = bpf_map__is_internal(map) && (bpf_map__map_flags(map) & BPF_F_RDONLY_PROG) != 0,
             .contents = {}};
}

// All of the object's, in its order. Before it is "loaded": then libbpf forgets what is in maps of maps. None
// is pinned any more.
std::vector<ObjectMap> definitions(bpf_object* object) {
  std::vector<ObjectMap> maps;
  bpf_map* map = nullptr;
  bpf_object__for_each_map(map, object) {
    // Of these libbpf asks the host how many processors it has.
    if (bpf_map__type(map) == BPF_MAP_TYPE_PERF_EVENT_ARRAY && bpf_map__max_entries(map) == 0)
      bpf_map__set_max_entries(map, 1);
    ObjectMap one{definition(map, name_of(map)),
                  {},
                  {bpf_map__btf_key_type_id(map), bpf_map__btf_value_type_id(map)},
                  bpf_map__pin_path(map) != nullptr,
                  map};
    if (const bpf_map* const inner = bpf_map__inner_map(map))
      one.inner = definition(inner, one.map.name + ".inner");
    (void)bpf_map__set_pin_path(map, nullptr);
    maps.push_back(std::move(one));
  }
  return maps;
}

// What variables begin with; empty: zeros. Memory of zeros (.bss) is not looked at: that would have it made.
std::vector<u8> contents_of(const ObjectMap& of) {
  std::size_t bytes = 0;
  if (!bpf_map__is_internal(of.libbpfs) || of.map.name == ".bss" || of.map.name.starts_with(".bss."))
    return {};
  const auto* const first = static_cast<const u8*>(bpf_map__initial_value(of.libbpfs, &bytes));
  if (first == nullptr) return {};
  const std::span<const u8> contents(first, bytes);
  if (std::all_of(contents.begin(), contents.end(), [](u8 byte) { return byte == 0; })) return {};
  return {contents.begin(), contents.end()};
}

// Where the variable of a map begins in the section .maps, and in it what stands first in the map.
struct MapPlace {
  std::string name;
  u64 begin, end, values;
};
std::vector<MapPlace> places(const btf* types) {
  std::vector<MapPlace> all;
  const std::int32_t section =
      types != nullptr ? btf__find_by_name_kind(types, ".maps", BTF_KIND_DATASEC) : -1;
  if (section <= 0) return all;
  const btf_type* const maps = btf__type_by_id(types, static_cast<u32>(section));
  for (u32 i = 0; i < btf_vlen(maps); i++) {
    const btf_var_secinfo& info = btf_var_secinfos(maps)[i];
    const btf_type* const variable = btf__type_by_id(types, info.type);
    const std::int32_t id = btf__resolve_type(types, info.type);
    const btf_type* const of = id > 0 ? btf__type_by_id(types, static_cast<u32>(id)) : nullptr;
    if (variable == nullptr || of == nullptr || !btf_is_struct(of)) continue;
    for (u32 k = 0; k < btf_vlen(of); k++)
      if (text(btf__name_by_offset(types, btf_members(of)[k].name_off)) == "values")
        all.push_back({text(btf__name_by_offset(types, variable->name_off)), info.offset,
                       u64{info.offset} + info.size, u64{info.offset} + btf_member_bit_offset(of, k) / 8});
  }
  return all;
}

Result<std::vector<NamedSlot>> slots_of(const ElfObject& elf, const btf* types) {
  std::vector<NamedSlot> slots;
  const auto all = elf.pointers.empty() ? std::vector<MapPlace>() : places(types);
  for (const auto& pointer : elf.pointers) {
    const auto place = std::find_if(all.begin(), all.end(), [&](const MapPlace& one) {
      return pointer.at >= one.values && pointer.at < one.end;
    });
    if (place == all.end()) return Error("a map of it begins with what has no place in it");
    slots.push_back({place->name, (pointer.at - place->values) / sizeof(u64), pointer.to});
  }
  return slots;
}

template <class Act>
void for_each_map_name(std::vector<Instruction>& instructions, const Act& act) {
  for (Instruction& one : instructions)
    if (one.opcode == (BPF_LD | BPF_IMM | BPF_DW) &&
        (one.source == BPF_PSEUDO_MAP_IDX || one.source == BPF_PSEUDO_MAP_IDX_VALUE))
      act(one);
}

Result<std::vector<Instruction>> instructions_of(const bpf_program* program) {
  const std::span<const bpf_insn> all(bpf_program__insns(program), bpf_program__insn_cnt(program));
  if (all.size() > kMostInstructions)
    return Error(fmt::format("its program {} has {} instructions, of which there may be {}",
                             text(bpf_program__name(program)), all.size(), kMostInstructions));
  std::vector<Instruction> instructions;
  instructions.reserve(all.size());
  for (const bpf_insn& one : all)
    instructions.push_back({one.code, one.dst_reg, one.src_reg, one.off, one.imm});
  return instructions;
}

// What maps begin with, where `asked` says what those that it names have, all of them prog_arrays.
std::vector<NamedSlot> slots_with(std::vector<NamedSlot> slots, const std::vector<NamedSlot>& asked) {
  std::erase_if(slots, [&](const NamedSlot& one) {
    return std::ranges::find(asked, one.map, &NamedSlot::map) != asked.end();
  });
  slots.insert(slots.end(), asked.begin(), asked.end());
  return slots;
}
// Whether an object can have it so. The error is a sentence.
Result<void> check_asked(const std::vector<NamedSlot>& asked, const std::vector<ObjectMap>& maps,
                         bpf_object* object) {
  for (const NamedSlot& slot : asked) {
    const auto map =
        std::ranges::find_if(maps, [&](const ObjectMap& one) { return one.map.name == slot.map; });
    if (map == maps.end()) return Error(fmt::format("it has no map {}", slot.map));
    if (map->map.type != BPF_MAP_TYPE_PROG_ARRAY)
      return Error(fmt::format("its map {} is no array of programs, and has none", slot.map));
    if (slot.slot >= map->map.entries)
      return Error(fmt::format("its map {} has the indexes 0 to {}, and not {}", slot.map,
                               map->map.entries - 1, slot.slot));
    std::vector<bpf_program*> all;
    bpf_program* one = nullptr;
    bpf_object__for_each_program(one, object) if (is_xdp(one) && !is_of_a_map(one)) all.push_back(one);
    if (std::ranges::none_of(
            all, [&](const bpf_program* program) { return text(bpf_program__name(program)) == slot.to; }))
      return Error(
          fmt::format("it has no XDP program {} for its map {}; it has {}", slot.to, slot.map, listed(all)));
    if (std::ranges::count_if(asked, [&](const NamedSlot& other) {
          return other.map == slot.map && other.slot == slot.slot;
        }) > 1)
      return Error(fmt::format("index {} of its map {} is to be two programs", slot.slot, slot.map));
  }
  return {};
}

// Of the tails those that the program may come to, by maps that it or one of them names.
void keep_reached_tails(const std::vector<ObjectMap>& maps, const std::vector<NamedSlot>& slots,
                        Program& program) {
  std::vector<gpu::programs::Tail> left = std::exchange(program.tails, {});
  const auto reach = [&](std::vector<Instruction>& from, const auto& self) -> void {
    for_each_map_name(from, [&](const Instruction& one) {
      if (one.immediate < 0 || static_cast<std::size_t>(one.immediate) >= maps.size()) return;
      const Map& map = maps[static_cast<std::size_t>(one.immediate)].map;
      for (const NamedSlot& slot : slots) {
        const auto found = std::ranges::find(left, slot.to, &gpu::programs::Tail::name);
        if (map.type != BPF_MAP_TYPE_PROG_ARRAY || slot.map != map.name || found == left.end()) continue;
        program.tails.push_back(std::move(*found));
        left.erase(found);
        std::vector<Instruction> instructions = program.tails.back().instructions;
        self(instructions, self);
      }
    });
  };
  std::vector<Instruction> entry = program.instructions;
  reach(entry, reach);
}

// Keeps those that the program names, and those that they begin with, and gives them their numbers there.
// Numbers that are none stay: they are for check().
void keep_named_maps(std::vector<ObjectMap> all, const std::vector<NamedSlot>& slots, ObjectProgram& to,
                     std::vector<std::optional<u32>>& numbers) {
  numbers.assign(all.size(), std::nullopt);
  std::vector<bool> named(all.size());
  const auto each_name = [&](const auto& act) {
    for_each_map_name(to.program.instructions, act);
    for (auto& tail : to.program.tails) for_each_map_name(tail.instructions, act);
  };
  each_name([&](const Instruction& one) {
    if (one.immediate >= 0 && static_cast<std::size_t>(one.immediate) < all.size())
      named[static_cast<std::size_t>(one.immediate)] = true;
  });
  // Maps of maps have none of their own kind in them.
  for (const NamedSlot& one : slots)
    for (std::size_t outer = 0; outer < all.size(); outer++)
      for (std::size_t i = 0; i < all.size(); i++)
        if (named[outer] && all[outer].inner && all[outer].map.name == one.map && all[i].map.name == one.to)
          named[i] = true;
  auto& maps = to.program.maps;
  for (std::size_t i = 0; i < all.size(); i++)
    if (named[i]) {
      numbers[i] = static_cast<u32>(maps.size());
      if (all[i].pinned)
        to.notes.push_back(
            fmt::format("map {} is to be shared with others by a pin (LIBBPF_PIN_BY_NAME), which is not done",
                        all[i].map.name));
      all[i].map.contents = contents_of(all[i]);
      maps.push_back(std::move(all[i].map));
      to.types.maps.push_back(all[i].types);
    }
  for (std::size_t i = 0; i < all.size(); i++)
    if (numbers[i] && all[i].inner) {
      maps[*numbers[i]].inner = static_cast<std::int32_t>(maps.size());
      maps.push_back(*std::move(all[i].inner));
    }
  each_name([&](Instruction& one) {
    const auto number = static_cast<std::size_t>(one.immediate);
    one.immediate =
        one.immediate >= 0 && number < all.size() ? static_cast<std::int32_t>(*numbers[number]) : -1;
  });
}

}  // namespace

Result<void> check(const ObjectProgram& object) {
  if (auto right = check(object.program); !right) return right;
  if (!is_name(object.section)) return Error("its section has a name that is none");
  if (object.slots.size() > kMostSlots || object.notes.size() > kMostNotes ||
      object.types.btf.size() > kMostTypeBytes || object.types.maps.size() > kMostMaps)
    return Error("there is more to say of it than there may be");
  for (const Slot& slot : object.slots) {
    if (!is_name(slot.name)) return Error("a slot of its maps begins with a name that is none");
    if (slot.map >= object.program.maps.size() || slot.slot >= object.program.maps[slot.map].entries)
      return Error("a slot that begins with something is in none of its maps");
  }
  for (const std::string& note : object.notes)
    if (note != printable(note, kMostSentenceBytes)) return Error("what is said of it is no sentence");
  return {};
}

Result<ObjectProgram> read_program(std::span<const std::byte> object, const Choice& which,
                                   const KernelTypes& kernel_types) {
  if (object.size() > kMostObjectBytes)
    return Error(fmt::format("it is of more than {} MiB", kMostObjectBytes >> 20));
  auto elf = read_elf(object);
  if (!elf) return Error("it " + elf.error());
  kernel::quiet_libraries();
  (void)kernel::first_library_message();
  bpf_object_open_opts how{};
  how.sz = sizeof(how);
  how.object_name = "object";
  Object opened(bpf_object__open_mem(elf->bytes.data(), elf->bytes.size(), &how), bpf_object__close);
  if (!opened) return Error(fmt::format("libbpf cannot read it: {}", cause(errno)));
  const btf* const types = bpf_object__btf(opened.get());
  if (auto right = check_externs(types, *elf); !right) return Error(std::move(right.error()));
  auto chosen = choose(opened.get(), which.name);
  if (!chosen) return Error(std::move(chosen.error()));
  const std::vector<u8> raw_types = raw_of(types);
  auto slots = slots_of(*elf, types);
  if (!slots) return Error(std::move(slots.error()));
  auto maps = definitions(opened.get());
  if (auto right = check_asked(which.slots, maps, opened.get()); !right)
    return Error(std::move(right.error()));
  slots = slots_with(std::move(slots.value()), which.slots);
  // Whatever a map begins with may be gone on with. Which of them are is known when all are relocated.
  std::vector<bpf_program*> tails;
  bpf_program* one = nullptr;
  bpf_object__for_each_program(one, opened.get()) {
    const bool is_tail =
        one != *chosen && is_xdp(one) && !is_of_a_map(one) &&
        std::ranges::find(*slots, text(bpf_program__name(one)), &NamedSlot::to) != slots->end();
    (void)bpf_program__set_autoload(one, one == *chosen || is_tail);
    if (!is_tail) continue;
    (void)bpf_program__set_type(one, BPF_PROG_TYPE_XDP);
    tails.push_back(one);
  }
  (void)bpf_program__set_type(*chosen, BPF_PROG_TYPE_XDP);
  if (tails.size() > kMostTails)
    return Error(
        fmt::format("its maps begin with {} programs, of which there may be {}", tails.size(), kMostTails));
  ObjectProgram read;
  read.program.name = text(bpf_program__name(*chosen));
  read.section = text(bpf_program__section_name(*chosen));
  read.fragments = read.section.starts_with("xdp.frags");
  if (auto right = check_layouts(*elf, types, read.section, read.program.name, kernel_types); !right)
    return Error(fmt::format("its program {} {}", read.program.name, right.error()));
  for (const bpf_program* const tail : tails)
    if (auto right = check_layouts(*elf, types, text(bpf_program__section_name(tail)),
                                   text(bpf_program__name(tail)), kernel_types);
        !right)
      return Error(fmt::format("its program {} {}", text(bpf_program__name(tail)), right.error()));
  // Loading, by a program for the kernel that libbpf writes instead of doing it: nobody runs that one.
  gen_loader_opts nobodys{};
  nobodys.sz = sizeof(nobodys);
  if (const int error = bpf_object__gen_loader(opened.get(), &nobodys); error != 0)
    return Error(fmt::format("libbpf cannot relocate it: {}", cause(-error)));
  if (const int error = bpf_object__load(opened.get()); error != 0)
    return Error(fmt::format("libbpf cannot relocate it: {}", cause(-error)));
  auto instructions = instructions_of(*chosen);
  if (!instructions) return Error(std::move(instructions.error()));
  read.program.instructions = *std::move(instructions);
  for (const bpf_program* const tail : tails) {
    auto of_tail = instructions_of(tail);
    if (!of_tail) return Error(std::move(of_tail.error()));
    read.program.tails.push_back({text(bpf_program__name(tail)), *std::move(of_tail)});
  }
  read.program.license = elf->license;
  keep_reached_tails(maps, *slots, read.program);
  for (const Program& part : gpu::programs::parts_of(read.program))
    if (auto right = check_kernel_functions(part, *elf); !right) return Error(std::move(right.error()));
  std::vector<std::optional<u32>> numbers;
  keep_named_maps(std::move(maps), *slots, read, numbers);
  for (u32 i = 0; i < read.program.maps.size(); i++)
    for (const NamedSlot& named : *slots) {
      const Map& map = read.program.maps[i];
      if (map.name != named.map || named.slot >= map.entries) continue;
      if (read.slots.size() == kMostSlots)
        return Error(fmt::format("its maps begin with more than {} programs and maps", kMostSlots));
      read.slots.push_back({i, static_cast<u32>(named.slot), named.to});
    }
  read.types.btf = raw_types;
  if (raw_types.empty()) read.types.maps.clear();
  if (auto right = check(read); !right)
    return Error(fmt::format("its program {} is not as it has to be: {}", read.program.name, right.error()));
  return read;
}

}  // namespace xdpgpu::programs
