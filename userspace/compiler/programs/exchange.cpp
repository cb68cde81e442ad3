// SPDX-License-Identifier: MIT
#include "userspace/compiler/programs/exchange.hpp"

#include <utility>

namespace xdpgpu::programs {
namespace {

using compiler::each;
using compiler::MemoryReader;
using compiler::MemoryWriter;

// What memory begins with.
constexpr u64 kProgram = 0x7867'7063'0000'0008, kRefused = 0x7867'7063'0000'0009;

tl::unexpected<std::string> damaged() {
  return tl::unexpected(std::string("what it handed over is not whole"));
}

// An instruction as the kernel has it: 8 bytes.
struct Packed {
  u8 opcode, registers;
  std::int16_t offset;
  std::int32_t immediate;
};

void write(MemoryWriter& to, const Map& map) {
  to.text(map.name);
  for (const u32 number : {map.type, map.key_bytes, map.value_bytes, map.entries, map.flags})
    to.value(number);
  to.value(map.inner);
  to.value(u32{map.constant});
  to.array(map.contents);
}
void write(MemoryWriter& to, const std::vector<Instruction>& instructions) {
  std::vector<Packed> packed;
  packed.reserve(instructions.size());
  for (const Instruction& one : instructions)
    packed.push_back({one.opcode, static_cast<u8>((one.destination & 15) | (one.source & 15) << 4),
                      one.offset, one.immediate});
  to.array(packed);
}
std::vector<Instruction> read_instructions(MemoryReader& from) {
  std::vector<Instruction> instructions;
  for (const Packed& one : from.array<Packed>())
    instructions.push_back({one.opcode, static_cast<u8>(one.registers & 15),
                            static_cast<u8>(one.registers >> 4), one.offset, one.immediate});
  return instructions;
}
Map read_map(MemoryReader& from) {
  Map map;
  map.name = from.text();
  for (u32* const number : {&map.type, &map.key_bytes, &map.value_bytes, &map.entries, &map.flags})
    *number = from.value<u32>();
  map.inner = from.value<std::int32_t>();
  map.constant = from.value<u32>() != 0;
  map.contents = from.array<u8>();
  return map;
}

}  // namespace

Result<kernel::Fd> write_program(const ObjectProgram& object) {
  const Program& program = object.program;
  MemoryWriter to("xdpgpu-program");
  to.value(kProgram);
  to.text(program.name);
  to.text(program.license);
  write(to, program.instructions);
  to.value(u64{program.tails.size()});
  for (const auto& tail : program.tails) {
    to.text(tail.name);
    write(to, tail.instructions);
  }
  to.value(u64{program.maps.size()});
  for (const Map& map : program.maps) write(to, map);
  to.text(object.section);
  to.value(u32{object.fragments});
  to.value(u64{object.slots.size()});
  for (const Slot& slot : object.slots) {
    to.value(slot.map);
    to.value(slot.slot);
    to.text(slot.name);
  }
  to.array(object.types.btf);
  to.array(object.types.maps);
  to.value(u64{object.notes.size()});
  for (const std::string& note : object.notes) to.text(note);
  return to.seal();
}

Result<kernel::Fd> write_refusal(const std::string& why) {
  MemoryWriter to("xdpgpu-program");
  to.value(kRefused);
  to.text(printable(why, kMostSentenceBytes));
  return to.seal();
}

Result<Result<ObjectProgram>> read_exchanged(std::span<const std::byte> memory) {
  if (memory.size() > kMostExchanged) return damaged();
  MemoryReader from(memory);
  const u64 kind = from.value<u64>();
  if (kind == kRefused) {
    std::string why(from.text());
    if (!from.ok() || !from.at_end() || why.empty() || why != printable(why, kMostSentenceBytes))
      return damaged();
    return Result<ObjectProgram>(tl::unexpected(std::move(why)));
  }
  if (kind != kProgram) return damaged();
  ObjectProgram object;
  Program& program = object.program;
  program.name = from.text();
  program.license = from.text();
  program.instructions = read_instructions(from);
  each(from, [&] {
    gpu::programs::Tail tail{.name = std::string(from.text()), .instructions = read_instructions(from)};
    if (program.tails.size() <= kMostTails) program.tails.push_back(std::move(tail));
  });
  // One more than there may be, of anything, is refused below.
  each(from, [&] {
    Map map = read_map(from);
    if (program.maps.size() <= kMostMaps) program.maps.push_back(std::move(map));
  });
  object.section = from.text();
  object.fragments = from.value<u32>() != 0;
  each(from, [&] {
    Slot slot{.map = from.value<u32>(), .slot = from.value<u32>(), .name = {}};
    const std::string_view name = from.text();
    if (object.slots.size() > kMostSlots) return;
    slot.name = name;
    object.slots.push_back(std::move(slot));
  });
  object.types.btf = from.array<u8>();
  object.types.maps = from.array<kernel::MapTypes::Of>();
  each(from, [&] {
    const std::string_view note = from.text();
    if (object.notes.size() <= kMostNotes) object.notes.emplace_back(note);
  });
  if (!from.ok() || !from.at_end()) return damaged();
  if (auto right = check(object); !right) return tl::unexpected(std::move(right.error()));
  return Result<ObjectProgram>(std::move(object));
}

Result<std::string> to_bytes(const ObjectProgram& program) {
  const auto written = write_program(program);
  if (!written) return tl::unexpected(written.error());
  const auto memory = compiler::SealedMemory::map(*written, kMostExchanged);
  if (!memory) return tl::unexpected(memory.error());
  const auto bytes = memory->bytes();
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Result<ObjectProgram> from_bytes(std::string_view bytes) {
  auto read = read_exchanged(std::as_bytes(std::span(bytes)));
  if (!read) return tl::unexpected(std::move(read.error()));
  return *std::move(read);
}

}  // namespace xdpgpu::programs
