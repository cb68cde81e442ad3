// SPDX-License-Identifier: MIT
//
// Any bytes as what the reader of an ELF object is given, and as what it hands over. By the first byte: an
// object, as far as code of ours reads it (libbpf, which reads the rest, does not survive all of them: it
// does that in a process of its own); a program as it is handed over, whose instructions and maps are within
// their bounds, or which is refused; or a program of any instructions, which are within their bounds, or
// refused. What is taken is run as devices run it: wherever it points, it writes nowhere but into its memory.
// Where its changes of maps are found to be counts, its answers and its maps' end are the same in any order.
#include <linux/bpf.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>

#include "gpu/program_code.hpp"
#include "gpu/program_counts.hpp"
#include "gpu/program_shards.hpp"
#include "gpu/stages/program_code.h"
#include "tests/fuzz/target.hpp"
#include "tests/unit/program_ahead.hpp"
#include "userspace/compiler/programs/elf.hpp"
#include "userspace/compiler/programs/exchange.hpp"
#include "userspace/compiler/programs/needs.hpp"

namespace xdpgpu::fuzz {
namespace {

enum Kind : u8 { kObject, kHandedOver, kInstructions, kKinds };

constexpr u8 kMove = BPF_ALU64 | BPF_MOV | BPF_K, kExit = BPF_JMP | BPF_EXIT,
             kConstant = BPF_LD | BPF_IMM | BPF_DW, kCall = BPF_JMP | BPF_CALL,
             kLoad = BPF_LDX | BPF_MEM | BPF_DW, kStore = BPF_STX | BPF_MEM | BPF_DW;

programs::ObjectProgram specimen() {
  programs::ObjectProgram object;
  object.section = "xdp";
  object.notes = {"a note"};
  object.slots = {{1, 1, "next"}};
  auto& program = object.program;
  program.name = "specimen";
  program.license = "GPL";
  program.maps = {{.name = "hash",
                   .type = BPF_MAP_TYPE_HASH,
                   .key_bytes = 4,
                   .value_bytes = 8,
                   .entries = 9,
                   .contents = {}},
                  {.name = "tables",
                   .type = BPF_MAP_TYPE_ARRAY_OF_MAPS,
                   .key_bytes = 4,
                   .value_bytes = 4,
                   .entries = 2,
                   .inner = 2,
                   .contents = {}},
                  {.name = ".data",
                   .type = BPF_MAP_TYPE_ARRAY,
                   .key_bytes = 4,
                   .value_bytes = 8,
                   .entries = 1,
                   .contents = {1, 2}},
                  {.name = "flows",
                   .type = BPF_MAP_TYPE_LRU_HASH,
                   .key_bytes = 4,
                   .value_bytes = 8,
                   .entries = 256,
                   .contents = {}}};
  program.instructions = {
      {.opcode = kMove, .destination = 2},
      {.opcode = kStore, .destination = 10, .source = 2, .offset = -8},
      {.opcode = kConstant, .destination = 1, .source = BPF_PSEUDO_MAP_IDX},
      {},
      {.opcode = kCall, .immediate = BPF_FUNC_map_lookup_elem},
      {.opcode = BPF_JMP | BPF_JEQ | BPF_K, .offset = 2},
      {.opcode = kLoad, .destination = 3},
      {.opcode = kStore, .destination = 0, .source = 3},
      {.opcode = kCall, .source = BPF_PSEUDO_CALL, .immediate = 1},
      {.opcode = kExit},
      {.opcode = kConstant, .destination = 1, .source = BPF_PSEUDO_MAP_IDX_VALUE, .immediate = 2},
      {.immediate = 4},
      {.opcode = BPF_STX | BPF_ATOMIC | BPF_W, .destination = 1, .source = 2, .immediate = BPF_ADD},
      {.opcode = BPF_JMP | BPF_JA, .offset = -2},
      {.opcode = kExit}};
  return object;
}

// Packets are ordered by what they begin with: an LRU hash has how many of each there were.
std::vector<gpu::programs::Instruction> keyed() {
  constexpr std::int32_t kFlows = 3;
  const gpu::programs::Instruction map{
      .opcode = kConstant, .destination = 1, .source = BPF_PSEUDO_MAP_IDX, .immediate = kFlows};
  constexpr u8 kCopy = BPF_ALU64 | BPF_MOV | BPF_X, kAdd = BPF_ALU64 | BPF_ADD;  // BPF_K is 0
  return {{.opcode = BPF_LDX | BPF_MEM | BPF_W, .destination = 7, .source = 1},
          {.opcode = BPF_LDX | BPF_MEM | BPF_W, .destination = 2, .source = 7},
          {.opcode = BPF_STX | BPF_MEM | BPF_W, .destination = 10, .source = 2, .offset = -8},
          {.opcode = BPF_ST | BPF_MEM | BPF_DW, .destination = 10, .offset = -16, .immediate = 1},
          map,
          {},
          {.opcode = kCopy, .destination = 2, .source = 10},
          {.opcode = kAdd, .destination = 2, .immediate = -8},
          {.opcode = kCall, .immediate = BPF_FUNC_map_lookup_elem},
          {.opcode = BPF_JMP | BPF_JNE | BPF_K, .offset = 10},
          map,
          {},
          {.opcode = kCopy, .destination = 2, .source = 10},
          {.opcode = kAdd, .destination = 2, .immediate = -8},
          {.opcode = kCopy, .destination = 3, .source = 10},
          {.opcode = kAdd, .destination = 3, .immediate = -16},
          {.opcode = kMove, .destination = 4},
          {.opcode = kCall, .immediate = BPF_FUNC_map_update_elem},
          {.opcode = kMove, .immediate = XDP_PASS},
          {.opcode = kExit},
          {.opcode = kLoad, .destination = 1},
          {.opcode = kAdd, .destination = 1, .immediate = 1},
          {.opcode = kStore, .source = 1},
          {.opcode = kMove, .immediate = XDP_DROP},
          {.opcode = kExit}};
}

constexpr std::array kLengths{14u, 60u, 61u, 1500u};
// What became of packets of these lengths, and of the maps.
struct End {
  std::array<u64, kLengths.size()> answers{};
  std::vector<u32> state;
  bool operator==(const End&) const = default;
};

struct Run {
  bool keeps_packet = false;
  bool seeks_key = false;
  u32 key_bits = 0, key_set = 0;  // as of the machine
};
// In memory of just its length.
std::unique_ptr<xg_program_machine> run_one(gpu::programs::Image& image, u32 length, const Run& run,
                                            std::vector<xg_quad>& event) {
  auto machine = std::make_unique<xg_program_machine>();
  xg_program_machine& m = *machine;
  std::vector<u32> frame((length + 3) / 4);
  for (u32 i = 0; i < frame.size(); i++) frame[i] = i * 0x01030507u;
  m.code = {image.code.data()};
  m.tables = {image.tables.data()};
  m.state = {image.state.data()};
  m.frame = {frame.data()};
  m.frame_bias = 0u - XG_PROGRAM_HEADROOM;
  m.time = length;
  m.random = m.queue = m.ingress = m.egress = 0;
  m.meta = m.data = XG_PROGRAM_HEADROOM;
  m.end = XG_PROGRAM_HEADROOM + length;
  m.most_steps = 4096;
  m.seeks_key = run.seeks_key ? 1 : 0;
  m.key_bits = run.key_bits;
  m.key_set = run.key_set;
  // Just as long as an event is.
  event.resize(sizeof(xg_event) / sizeof(xg_quad));
  event.shrink_to_fit();
  m.event = {event.data()};
  m.most_lines = run.keeps_packet || length % 2 != 0 ? 0 : XG_PROGRAM_LINES;
  xg_program_run(m, 0);
  return machine;
}

// One after the other. backwards: the last one first.
End run(gpu::programs::Image image, bool keeps_packet, bool backwards) {
  for (auto* const words : {&image.code, &image.tables, &image.state}) words->shrink_to_fit();
  End end;
  for (std::size_t turn = 0; turn < kLengths.size(); turn++) {
    const std::size_t number = backwards ? kLengths.size() - 1 - turn : turn;
    std::vector<xg_quad> event;
    const auto m = run_one(image, kLengths[number], {.keeps_packet = keeps_packet}, event);
    end.answers[number] = (m->has_event != 0 ? u64{event[0].a} : 0u) << 40 | u64{m->fault} << 32 |
                          (m->fault == 0 ? static_cast<u32>(m->r[0]) : 0u);
  }
  end.state = std::move(image.state);
  return end;
}

// The maps' memory, but for how often each element was found by a run whose key is known.
std::vector<u32> but_for_finds(gpu::programs::Image& image, const gpu::programs::Program& program) {
  auto machine = std::make_unique<xg_program_machine>();
  machine->tables = {image.tables.data()};
  std::vector<u32> state = image.state;
  machine->state = {state.data()};
  for (u32 map = 0; map < program.maps.size(); map++) {
    if (!xg_program_is_table(xg_program_map_word(*machine, map, XG_PROGRAM_MAP_TYPE))) continue;
    for (u32 slot = 0; slot < xg_program_map_word(*machine, map, XG_PROGRAM_MAP_SLOTS); slot++)
      state[xg_program_element(*machine, map, slot) + XG_PROGRAM_STANDING] =
          xg_program_standing(*machine, map, slot);
  }
  return state;
}

// Each packet's run is in the shard of the key that it has found alone, and finding it has changed nothing.
void run_by_key(Input input, const gpu::programs::Program& program, const gpu::programs::Taken& taken) {
  const auto made = gpu::programs::image_of(
      std::span(&program, 1), {.queues = 1, .key = {1, 2}, .counts = &taken.counts, .by_key = true});
  if (!made) fail(input, "what is ordered by a key is no program");
  gpu::programs::Image image = *made;
  u32 bits = 32;
  for (const u32 map : taken.keyed) bits = std::min(bits, gpu::programs::shards_of(program.maps[map]).bits);
  std::vector<xg_quad> event;
  for (u32 turn = 0; turn < 3; turn++)
    for (const u32 length : kLengths) {
      gpu::programs::Image copy = image;
      const auto sought = run_one(image, length, {.keeps_packet = true, .seeks_key = true}, event);
      if (image.state != copy.state) fail(input, "a run that seeks its key leaves something behind");
      const bool has_key = sought->fault == XG_PROGRAM_KEY_FOUND;
      const u32 set = has_key ? sought->key_hash >> (32 - bits) : ~0u;
      const auto ran =
          run_one(image, length, {.keeps_packet = true, .key_bits = bits, .key_set = set}, event);
      const auto alone = run_one(copy, length, {.keeps_packet = true}, event);
      if (ran->fault != alone->fault || but_for_finds(image, program) != but_for_finds(copy, program))
        fail(input, "a run comes to a key that is not its own");
    }
}

// Packets that run ahead of their turns come to what they come to one after the other.
void run_ahead_by_key(Input input, const gpu::programs::Program& program, const gpu::programs::Taken& taken) {
  const auto made = gpu::programs::image_of(
      std::span(&program, 1), {.queues = 1, .key = {1, 2}, .counts = &taken.counts, .by_key = true});
  if (!made) fail(input, "what is ordered by a key is no program");
  gpu::programs::Image in_turn = *made, ahead = *made;
  u32 bits = 32;
  for (const u32 map : taken.keyed) bits = std::min(bits, gpu::programs::shards_of(program.maps[map]).bits);
  std::vector<gpu::programs::ProgramPacket> packets(3 * kLengths.size());
  for (std::size_t i = 0; i < packets.size(); i++) {
    packets[i].bytes.resize(kLengths[i % kLengths.size()]);
    for (std::size_t at = 0; at < packets[i].bytes.size(); at++)
      packets[i].bytes[at] = static_cast<u8>(at * (1 + i % 2));
  }
  const auto bounded = [](xg_program_machine& m) {
    m.most_steps = 4096;
    xg_program_run(m, 0);
  };
  dataplane::Random random(1);
  gpu::programs::AheadCounts counts;
  const auto answers = gpu::programs::run_ahead(ahead, packets, bits, bounded, random, counts);
  const auto m = std::make_unique<xg_program_machine>();
  std::vector<u32> frame;
  for (std::size_t i = 0; i < packets.size(); i++) {
    std::memset(static_cast<void*>(m.get()), 0x5a, sizeof(*m));
    gpu::programs::set_machine(*m, in_turn, packets[i], frame);
    m->event = {nullptr};
    bounded(*m);
    if (answers[i] != (m->fault != 0 ? m->fault << 8 : static_cast<u32>(m->r[0])))
      fail(input, "a run that is ahead answers otherwise than one in its turn");
  }
  gpu::programs::DeviceState one(in_turn.tables, in_turn.state), other(ahead.tables, ahead.state);
  for (u32 map = 0; map < program.maps.size(); map++)
    if (gpu::programs::contents_of(one, map, program.maps[map]) !=
        gpu::programs::contents_of(other, map, program.maps[map]))
      fail(input, "a run that is ahead leaves something else behind");
}

void run(Input input, const gpu::programs::Program& program) {
  if (gpu::programs::looks_up_routes(program)) return;  // nobody runs it where there are none
  u64 bytes = 0;
  for (const auto& map : program.maps) bytes += (u64{map.entries} + XG_PROGRAM_SPARE) * map.value_bytes;
  if (bytes > u64{16} << 20) return;  // it would be a run of filling memory
  const auto image_of = [&](const gpu::programs::Counts* counts) {
    return gpu::programs::image_of(std::span(&program, 1), {.queues = 1, .key = {1, 2}, .counts = counts});
  };
  const auto image = image_of(nullptr);
  if (!image) return;
  run(*image, false, false);
  const auto taken = gpu::programs::how_taken(program);
  if (taken.why.empty()) fail(input, "there is no reason for how packets are taken");
  if (taken.how == gpu::programs::Taking::in_order) return;
  if (taken.how == gpu::programs::Taking::by_key) {
    run_by_key(input, program, taken);
    return run_ahead_by_key(input, program, taken);
  }
  const End should = run(*image, true, false);
  const auto counting = image_of(&taken.counts);
  if (!counting) fail(input, "what counts is no program");
  for (const bool backwards : {false, true})
    if (run(*counting, true, backwards) != should) fail(input, "what was found to count does more");
}

// Of a program that was taken.
void judge(Input input, const programs::ObjectProgram& object) {
  const auto needs = programs::needs_of(object);
  if (needs.maps.size() != object.program.maps.size()) fail(input, "a map's need is not told");
  for (const u32 start : programs::function_starts(object.program))
    if (start >= object.program.instructions.size()) fail(input, "a function begins outside of the program");
  run(input, object.program);
}

void hand_over(Input input) {
  compiler::MemoryWriter to("fuzz");
  to.write(std::as_bytes(input.subspan(1)));
  const auto memory = to.seal();
  const auto read =
      programs::read_exchanged(compiler::SealedMemory::map(*memory, programs::kMostExchanged).value());
  if (!read && read.error().empty()) fail(input, "a program is refused without a reason");
  if (read && !*read && read->error().empty()) fail(input, "there is no reason why there is no program");
  if (!read || !*read) return;
  if (!programs::check((*read)->program)) fail(input, "a program beyond its bounds is taken");
  judge(input, **read);
}

void run_instructions(Input input) {
  programs::ObjectProgram object = specimen();
  auto& all = object.program.instructions;
  all.clear();
  for (Input rest = input.subspan(1); rest.size() >= 8; rest = rest.subspan(8))
    all.push_back(
        {rest[0], static_cast<u8>(rest[1] & 15), static_cast<u8>(rest[1] >> 4),
         static_cast<std::int16_t>(rest[2] | rest[3] << 8),
         static_cast<std::int32_t>(rest[4] | u32{rest[5]} << 8 | u32{rest[6]} << 16 | u32{rest[7]} << 24)});
  const auto right = programs::check(object.program);
  if (!right && right.error().empty()) fail(input, "instructions are refused without a reason");
  if (right) judge(input, object);
}

}  // namespace

std::vector<Bytes> seeds() {
  const auto memory = programs::write_program(specimen()).value();
  const auto sealed = compiler::SealedMemory::map(memory, programs::kMostExchanged).value();
  Bytes handed{kHandedOver};
  for (const std::byte byte : sealed.bytes()) handed.push_back(static_cast<u8>(byte));
  const auto as_input = [](const std::vector<gpu::programs::Instruction>& all) {
    Bytes instructions{kInstructions};
    for (const auto& one : all) {
      const auto offset = static_cast<u16>(one.offset);
      const auto immediate = static_cast<u32>(one.immediate);
      for (const u32 byte : {u32{one.opcode}, u32{one.destination} | u32{one.source} << 4, u32{offset},
                             u32{offset} >> 8, immediate, immediate >> 8, immediate >> 16, immediate >> 24})
        instructions.push_back(static_cast<u8>(byte));
    }
    return instructions;
  };
  auto by_key = specimen().program;
  by_key.instructions = keyed();
  if (gpu::programs::how_taken(by_key).how != gpu::programs::Taking::by_key)
    throw std::logic_error("the packets of a program with a key are not ordered by it");
  // A header of 64 bytes and one section's.
  Bytes object(1 + 64 + 64);
  const Bytes header{0x7f, 'E', 'L', 'F', 2, 1, 1};
  std::copy(header.begin(), header.end(), object.begin() + 1);
  object[1 + 16] = 1, object[1 + 18] = 247, object[1 + 20] = 1, object[1 + 40] = 64, object[1 + 52] = 64;
  object[1 + 58] = 64, object[1 + 60] = 1;
  return {handed, as_input(specimen().program.instructions), as_input(keyed()), object};
}

// What is handed over, with each byte changed, and of each length.
std::vector<Bytes> cases() {
  const Bytes whole = seeds().front();
  std::vector<Bytes> all;
  for (std::size_t i = 1; i < whole.size(); i++) {
    all.emplace_back(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(i));
    all.push_back(whole);
    all.back()[i] ^= 0x81;
  }
  return all;
}

}  // namespace xdpgpu::fuzz

extern "C" int LLVMFuzzerTestOneInput(const u8* data, std::size_t size) {
  using namespace xdpgpu;
  using namespace xdpgpu::fuzz;
  if (size == 0) return 0;
  const Input input(data, size);
  switch (data[0] % kKinds) {
    case kObject:
      (void)programs::read_elf(std::as_bytes(input.subspan(1)));
      break;
    case kHandedOver:
      hand_over(input);
      break;
    default:
      run_instructions(input);
  }
  return 0;
}
