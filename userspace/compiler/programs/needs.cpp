// SPDX-License-Identifier: MIT
#include "userspace/compiler/programs/needs.hpp"

#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <linux/bpf.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

namespace xdpgpu::programs {
namespace {

// What there is a definition of: gpu/reference/program.hpp says what each does, and devices do the same.
constexpr std::array<u32, 20> kHelpers{BPF_FUNC_map_lookup_elem,
                                       BPF_FUNC_map_update_elem,
                                       BPF_FUNC_map_delete_elem,
                                       BPF_FUNC_ktime_get_ns,
                                       BPF_FUNC_get_prandom_u32,
                                       BPF_FUNC_tail_call,
                                       BPF_FUNC_redirect,
                                       BPF_FUNC_csum_diff,
                                       BPF_FUNC_xdp_adjust_head,
                                       BPF_FUNC_redirect_map,
                                       BPF_FUNC_xdp_adjust_meta,
                                       BPF_FUNC_xdp_adjust_tail,
                                       BPF_FUNC_get_smp_processor_id,
                                       BPF_FUNC_loop,
                                       BPF_FUNC_perf_event_output,
                                       BPF_FUNC_ringbuf_output,
                                       BPF_FUNC_ringbuf_reserve,
                                       BPF_FUNC_ringbuf_submit,
                                       BPF_FUNC_ringbuf_discard,
                                       BPF_FUNC_fib_lookup};
constexpr std::array<u32, 14> kMapTypes{BPF_MAP_TYPE_ARRAY,
                                        BPF_MAP_TYPE_PERCPU_ARRAY,
                                        BPF_MAP_TYPE_HASH,
                                        BPF_MAP_TYPE_PERCPU_HASH,
                                        BPF_MAP_TYPE_LRU_HASH,
                                        BPF_MAP_TYPE_LPM_TRIE,
                                        BPF_MAP_TYPE_DEVMAP,
                                        BPF_MAP_TYPE_DEVMAP_HASH,
                                        BPF_MAP_TYPE_PROG_ARRAY,
                                        BPF_MAP_TYPE_ARRAY_OF_MAPS,
                                        BPF_MAP_TYPE_PERF_EVENT_ARRAY,
                                        BPF_MAP_TYPE_RINGBUF,
                                        BPF_MAP_TYPE_CPUMAP,
                                        BPF_MAP_TYPE_XSKMAP};

std::string why_no_helper(u32 number) {
  if (std::find(kHelpers.begin(), kHelpers.end(), number) != kHelpers.end()) return {};
  switch (number) {
    case BPF_FUNC_trace_printk:
    case BPF_FUNC_trace_vprintk:
      return "devices have no trace to print to";
    default:
      return "no device has it";
  }
}

// The kernel has many more than devices for who may load programs at all, such as those that read its memory.
std::string_view why_no_helper_in_kernel(u32 number) {
  switch (number) {
    case BPF_FUNC_redirect:
      return "it could send packets out of any interface of the host; let it call bpf_redirect_map, whose "
             "map "
             "has attached interfaces alone";
    case BPF_FUNC_fib_lookup:
      return "its routes would be the host's there, and not those of the stage forward; let a device run it";
    case BPF_FUNC_perf_event_output:
    case BPF_FUNC_ringbuf_output:
    case BPF_FUNC_ringbuf_reserve:
    case BPF_FUNC_ringbuf_submit:
    case BPF_FUNC_ringbuf_discard:
      return "nobody there writes to the log what it puts out; let a device run it";
    default:
      return why_no_helper(number).empty() ? "" : "no device has it, either";
  }
}

std::string why_no_map_type(u32 type) {
  if (std::find(kMapTypes.begin(), kMapTypes.end(), type) != kMapTypes.end()) return {};
  return "no device has it";
}

// What an instruction is of that is more than the usual; nullptr: nothing.
const char* kind_of(const Instruction& one) {
  const int kind = one.opcode & 7, operation = one.opcode & 0xf0;
  switch (kind) {
    case BPF_LD:
      return one.source == BPF_PSEUDO_FUNC ? "addresses of functions" : nullptr;
    case BPF_LDX:
      return (one.opcode & 0xe0) == 0x80 ? "sign extension" : nullptr;
    case BPF_STX:
      return (one.opcode & 0xe0) == BPF_ATOMIC ? "atomic operations" : nullptr;
    case BPF_ALU:
    case BPF_ALU64:
      if (operation == BPF_END) return "byte order";
      if (operation == BPF_MOV) return one.offset != 0 ? "sign extension" : nullptr;
      if (operation == BPF_DIV || operation == BPF_MOD)
        return one.offset != 0 ? "signed division" : "division";
      return nullptr;
    case BPF_JMP:
      if (operation == BPF_CALL) {
        if (one.source == BPF_PSEUDO_CALL) return "calls of functions";
        return one.immediate == BPF_FUNC_tail_call ? "tail calls" : nullptr;
      }
      [[fallthrough]];
    default: {
      const bool by_immediate = kind == BPF_JMP32 && operation == BPF_JA;
      const bool jumps = operation != BPF_CALL && operation != BPF_EXIT;
      return jumps && (by_immediate ? one.immediate : one.offset) < 0 ? "jumps backwards" : nullptr;
    }
  }
}

}  // namespace

std::vector<MapUse> uses_of(const Program& program) {
  const auto parts = gpu::programs::parts_of(program);
  std::vector<MapUse> all = map_uses(parts.front());
  for (std::size_t part = 1; part < parts.size(); part++) {
    const auto more = map_uses(parts[part]);
    for (std::size_t i = 0; i < all.size(); i++) all[i] = std::max(all[i], more[i]);
  }
  return all;
}

std::string helper_name(u32 number) {
#define XG_X(name) std::string_view(#name)
  static constexpr std::array kNames{__BPF_FUNC_MAPPER(XG_X)};
#undef XG_X
  return number < kNames.size() ? std::string(kNames[number]) : fmt::format("helper {}", number);
}

std::string map_type_name(u32 type) {
  const char* const name = libbpf_bpf_map_type_str(static_cast<bpf_map_type>(type));
  return name != nullptr ? name : fmt::format("type {}", type);
}

bool Needs::met() const {
  const auto there = [](const auto& one) { return one.missing.empty(); };
  return std::all_of(helpers.begin(), helpers.end(), there) &&
         std::all_of(map_types.begin(), map_types.end(), there) &&
         std::all_of(kinds.begin(), kinds.end(), there) && std::all_of(maps.begin(), maps.end(), there);
}

std::vector<std::string> missing_of(const ObjectProgram& object, const Needs& needs) {
  std::vector<std::string> missing;
  const auto add = [&](const char* what, const std::vector<Need>& all) {
    for (const Need& one : all)
      if (!one.missing.empty()) missing.push_back(fmt::format("{} {}: {}", what, one.name, one.missing));
  };
  add("helper", needs.helpers);
  add("map type", needs.map_types);
  add("instructions", needs.kinds);
  for (std::size_t i = 0; i < needs.maps.size(); i++)
    if (!needs.maps[i].missing.empty())
      missing.push_back(fmt::format("map {}: {}", object.program.maps[i].name, needs.maps[i].missing));
  return missing;
}

Needs needs_of(const ObjectProgram& object) {
  const Program& program = object.program;
  const auto parts = gpu::programs::parts_of(program);
  Needs needs{.instructions = 0,
              .functions = 0,
              .helpers = {},
              .map_types = {},
              .kinds = {},
              .maps = std::vector<MapNeed>(program.maps.size())};
  std::map<u32, u64> helpers, types;
  std::map<std::string, u64> kinds;
  for (const Program& part : parts) {
    needs.instructions += part.instructions.size();
    needs.functions += function_starts(part).size();
    for (std::size_t i = 0; i < part.instructions.size(); i++) {
      const Instruction& one = part.instructions[i];
      if (const char* const kind = kind_of(one)) kinds[kind]++;
      if (one.opcode == (BPF_JMP | BPF_CALL) && one.source == 0) helpers[static_cast<u32>(one.immediate)]++;
      if (one.opcode != (BPF_LD | BPF_IMM | BPF_DW)) continue;
      i++;
      if (one.source == BPF_PSEUDO_MAP_IDX || one.source == BPF_PSEUDO_MAP_IDX_VALUE)
        needs.maps[static_cast<std::size_t>(one.immediate)].times++;
    }
  }
  const auto uses = uses_of(program);
  for (std::size_t i = 0; i < program.maps.size(); i++) {
    const Map& map = program.maps[i];
    types[map.type]++;
    MapNeed& need = needs.maps[i];
    need.type = map_type_name(map.type);
    need.use = uses[i];
  }
  for (const Slot& slot : object.slots) {
    const bool of_maps = program.maps[slot.map].type == BPF_MAP_TYPE_ARRAY_OF_MAPS;
    const auto is_named = [&](const auto& one) { return one.name == slot.name; };
    if (of_maps ? std::none_of(program.maps.begin(), program.maps.end(), is_named)
                : std::none_of(parts.begin(), parts.end(), is_named))
      needs.maps[slot.map].missing = fmt::format(
          "it is to begin with {} in slot {}, which is none that it can have", slot.name, slot.slot);
  }
  for (const auto& [number, times] : helpers)
    needs.helpers.push_back({helper_name(number), number, times, why_no_helper(number)});
  for (const auto& [type, times] : types)
    needs.map_types.push_back({map_type_name(type), type, times, why_no_map_type(type)});
  for (const auto& [name, times] : kinds) needs.kinds.push_back({name, 0, times, {}});
  return needs;
}

std::string why_not_in_kernel(const Program& program) {
  for (const Map& map : program.maps)
    if (map.type == BPF_MAP_TYPE_PERF_EVENT_ARRAY || map.type == BPF_MAP_TYPE_RINGBUF)
      return fmt::format("its map {} takes what it puts out for the log, and nobody reads that in the kernel",
                         map.name);
  for (const Program& part : gpu::programs::parts_of(program))
    for (std::size_t i = 0; i < part.instructions.size(); i++) {
      const Instruction& one = part.instructions[i];
      if (one.opcode != (BPF_JMP | BPF_CALL) || one.source != 0) continue;
      const auto helper = static_cast<u32>(one.immediate);
      if (const auto why = why_no_helper_in_kernel(helper); !why.empty())
        return fmt::format("its program {} may not call {}, at instruction {}, in the kernel: {}", part.name,
                           helper_name(helper), i, why);
    }
  return {};
}

}  // namespace xdpgpu::programs
