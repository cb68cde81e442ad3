// SPDX-License-Identifier: MIT
#include "gpu/program_packets.hpp"

#include <linux/bpf.h>

#include "gpu/program_code.hpp"
#include "gpu/program_kinds.hpp"
#include "gpu/stages/program_numbers.h"

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
      if (!calls_helper(one)) continue;
      if (one.immediate == BPF_FUNC_perf_event_output)
        return PacketChange{static_cast<u32>(i), "calls bpf_perf_event_output"};
      if (one.immediate == BPF_FUNC_ringbuf_output)
        return PacketChange{static_cast<u32>(i), "calls bpf_ringbuf_output"};
    }
  return std::nullopt;
}

}  // namespace xdpgpu::gpu::programs
