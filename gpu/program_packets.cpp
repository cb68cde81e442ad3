// SPDX-License-Identifier: MIT
#include "gpu/program_packets.hpp"

#include <fmt/format.h>
#include <linux/bpf.h>

#include <algorithm>
#include <array>

#include "gpu/program_code.hpp"
#include "gpu/program_kinds.hpp"
#include "gpu/stages/program_numbers.h"
#include "maps/packet.h"

namespace xdpgpu::gpu::programs {
namespace {

bool calls_helper(const Instruction& i) { return i.opcode == (BPF_JMP | BPF_CALL) && i.source == 0; }

const char* name_of_move(const Instruction& i) {
  if (!calls_helper(i)) return nullptr;
  switch (i.immediate) {
    case BPF_FUNC_xdp_adjust_head:
      return "bpf_xdp_adjust_head";
    case BPF_FUNC_xdp_adjust_meta:
      return "bpf_xdp_adjust_meta";
    case BPF_FUNC_xdp_adjust_tail:
      return "bpf_xdp_adjust_tail";
    default:
      return nullptr;
  }
}

// Of the entry's function; of those that it calls the arguments are not followed.
std::optional<u32> first_store(Program program) {
  // Nobody asks for the maps' memory.
  for (Map& map : program.maps) {
    map.entries = 1;
    map.contents = {};
  }
  const auto made = image_of(std::span(&program, 1), {});
  if (!made) return std::nullopt;
  Kinds given;
  given.registers.fill({Kind::Of::anything});
  given.registers[1] = {Kind::Of::context};
  given.registers[10] = {Kind::Of::stack, 0};
  const Function function = followed(made->code, 0, given, 0, {});
  Kinds kinds;
  for (const u32 at : function.instructions) {
    if (const auto found = function.at_block.find(at); found != function.at_block.end())
      kinds = found->second;
    const Operation one = operation_at(made->code, at);
    if ((one.operation == XG_PROGRAM_STORE || one.operation == XG_PROGRAM_ATOMIC) &&
        kinds.registers[one.destination].of == Kind::Of::packet)
      return at;
    follow(one, 0, {}, kinds);
  }
  return std::nullopt;
}

std::optional<PacketChange> change_by(const Program& program) {
  for (std::size_t i = 0; i < program.instructions.size(); ++i)
    if (const char* const name = name_of_move(program.instructions[i]))
      return PacketChange{static_cast<u32>(i), std::string("calls ") + name};
  if (const auto at = first_store(program)) return PacketChange{*at, "writes to its packet"};
  return std::nullopt;
}

// Where jumps and calls lead to.
std::vector<bool> targets_of(const std::vector<Instruction>& all) {
  std::vector<bool> targets(all.size());
  for (std::size_t at = 0; at < all.size(); ++at) {
    const Instruction& i = all[at];
    const u8 kind = BPF_CLASS(i.opcode);
    const bool points = i.opcode == (BPF_LD | BPF_IMM | BPF_DW) && i.source == BPF_PSEUDO_FUNC;
    if (kind != BPF_JMP && kind != BPF_JMP32 && !points) continue;
    const bool by_immediate = points || i.opcode == (BPF_JMP32 | BPF_JA) || BPF_OP(i.opcode) == BPF_CALL;
    const std::int64_t to = static_cast<std::int64_t>(at) + 1 + (by_immediate ? i.immediate : i.offset);
    if (to >= 0 && to < static_cast<std::int64_t>(all.size())) targets[static_cast<std::size_t>(to)] = true;
  }
  return targets;
}

struct Output {
  const char* name;
  u8 size;  // the register that says how many bytes
};
std::optional<Output> output_at(const Instruction& one) {
  if (!calls_helper(one)) return std::nullopt;
  switch (one.immediate) {
    case BPF_FUNC_perf_event_output:
      return Output{"bpf_perf_event_output", 5};
    case BPF_FUNC_ringbuf_output:
      return Output{"bpf_ringbuf_output", 3};
    case BPF_FUNC_ringbuf_reserve:
      return Output{"bpf_ringbuf_reserve", 2};
    default:
      return std::nullopt;
  }
}

// Of registers, the numbers that they are known to have.
using Known = std::array<std::optional<u32>, 16>;

// The first instruction of which `found` says something, of it and what is known in front of it.
template <class Found>
std::optional<PacketChange> first_call(const Program& program, Found found) {
  const auto& all = program.instructions;
  const std::vector<bool> targets = targets_of(all);
  Known known{};
  for (std::size_t at = 0; at < all.size(); ++at) {
    const Instruction& i = all[at];
    if (targets[at]) known = {};
    if (std::string what = found(i, known); !what.empty())
      return PacketChange{static_cast<u32>(at), std::move(what)};
    const u8 kind = BPF_CLASS(i.opcode);
    if (kind == BPF_JMP && BPF_OP(i.opcode) == BPF_CALL)
      known = {};
    else if ((kind == BPF_ALU || kind == BPF_ALU64) && BPF_OP(i.opcode) == BPF_MOV &&
             BPF_SRC(i.opcode) == BPF_K)
      known[i.destination] = static_cast<u32>(i.immediate);
    else if (kind != BPF_JMP && kind != BPF_JMP32 && kind != BPF_ST)
      known[i.destination] = known[i.source] = std::nullopt;
    if (i.opcode == (BPF_LD | BPF_IMM | BPF_DW)) ++at;
  }
  return std::nullopt;
}

std::string too_long_at(const Instruction& one, const Known& known) {
  const auto output = output_at(one);
  if (!output || known[output->size].value_or(0) <= XG_EVENT_BYTES) return {};
  return fmt::format("calls {} for {} bytes", output->name, *known[output->size]);
}
std::string broadcast_at(const Instruction& one, const Known& known) {
  const bool is = calls_helper(one) && one.immediate == BPF_FUNC_redirect_map &&
                  (known[BPF_REG_3].value_or(0) & BPF_F_BROADCAST) != 0;
  return is ? "calls bpf_redirect_map with BPF_F_BROADCAST" : "";
}

}  // namespace

std::optional<PacketChange> change_of_packet(const Program& program) {
  for (const Program& part : parts_of(program))
    if (auto change = change_by(part)) return change;
  return std::nullopt;
}

std::optional<PacketChange> output_of(const Program& program) {
  for (const Program& part : parts_of(program))
    for (std::size_t i = 0; i < part.instructions.size(); ++i) {
      const Instruction& one = part.instructions[i];
      if (const auto output = output_at(one))
        return PacketChange{static_cast<u32>(i), std::string("calls ") + output->name};
    }
  return std::nullopt;
}

std::optional<PacketChange> too_long_output_of(const Program& program) {
  for (const Program& part : parts_of(program))
    if (auto output = first_call(part, too_long_at)) return output;
  return std::nullopt;
}

std::optional<PacketChange> broadcast_of(const Program& program) {
  for (const Program& part : parts_of(program))
    if (auto broadcast = first_call(part, broadcast_at)) return broadcast;
  return std::nullopt;
}

bool redirects_to_interfaces(const Program& program) {
  const auto of_devices = [](const Map& map) {
    return map.type == BPF_MAP_TYPE_DEVMAP || map.type == BPF_MAP_TYPE_DEVMAP_HASH;
  };
  const bool has_devices = std::any_of(program.maps.begin(), program.maps.end(), of_devices);
  const std::vector<Program> parts = parts_of(program);
  return std::any_of(parts.begin(), parts.end(), [&](const Program& part) {
    return std::any_of(part.instructions.begin(), part.instructions.end(), [&](const Instruction& one) {
      return calls_helper(one) &&
             (one.immediate == BPF_FUNC_redirect || (has_devices && one.immediate == BPF_FUNC_redirect_map));
    });
  });
}

}  // namespace xdpgpu::gpu::programs
