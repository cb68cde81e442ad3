// SPDX-License-Identifier: MIT
#include "gpu/reference/program.hpp"

#include <linux/bpf.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "gpu/reference/program_helpers.hpp"
#include "gpu/reference/program_instructions.hpp"
#include "gpu/reference/program_memory.hpp"

namespace xdpgpu::gpu::reference {
namespace {

using programs::Instruction;
using Code = std::vector<Instruction>;

constexpr u64 kContextPointer = ProgramMemory::pointer(ProgramMemory::kContext, 0);

u32 bytes_of(u8 opcode) {
  switch (BPF_SIZE(opcode)) {
    case BPF_B:
      return 1;
    case BPF_H:
      return 2;
    case BPF_W:
      return 4;
    default:
      return 8;
  }
}

// bpf_loop calls a function until that returns something else than 0, or so often.
struct Loop {
  u64 turns = 0, turn = 0;
  u32 program = 0, function = 0;
  u64 context = 0;
};

struct Frame {
  u32 program = 0;
  std::size_t return_to = 0;   // in the caller's program
  std::array<u64, 4> saved{};  // the caller's R6 to R9
  std::optional<Loop> loop;    // it is bpf_loop's function
};

class Interpreter {
 public:
  Interpreter(const std::vector<Code>& programs, const ProgramMaps& maps, u32 program,
              const ProgramPacket& packet)
      : programs_(programs), maps_(maps), run_(maps, packet) {
    frames_.push_back({.program = program, .return_to = 0, .saved = {}, .loop = {}});
    r()[1] = kContextPointer;
    r()[10] = stack_top();
  }

  ProgramAnswer answer() {
    ProgramAnswer answer;
    std::size_t at = 0;
    while (answer.fault == ProgramFault::none && !frames_.empty()) {
      at = next_;
      answer.fault = step();
    }
    if (answer.fault == ProgramFault::none)
      answer.action = static_cast<u32>(r()[0]);
    else
      answer.at = static_cast<u32>(at);
    if (answer.action == XDP_REDIRECT) answer.redirect = run_.redirect;
    answer.packet = run_.memory.packet();
    answer.metadata = run_.memory.metadata();
    answer.is_changed = run_.memory.is_changed();
    answer.change = run_.memory.change();
    answer.event = run_.event;
    answer.steps = run_.steps;
    return answer;
  }

 private:
  std::array<u64, 11>& r() { return run_.registers; }
  const Code& code() const { return programs_[frames_.back().program]; }
  u64 stack_top() const {
    const u32 depth = static_cast<u32>(frames_.size()) - 1;
    return ProgramMemory::pointer(ProgramMemory::kStack + depth, kProgramStackBytes);
  }

  ProgramFault step() {
    if (++run_.steps > run_.packet.most_steps) return ProgramFault::too_many_instructions;
    if (next_ >= code().size()) return ProgramFault::outside_program;
    const Instruction& i = code()[next_++];
    if (i.destination > 10 || i.source > 10) return ProgramFault::unknown_instruction;
    switch (BPF_CLASS(i.opcode)) {
      case BPF_ALU:
      case BPF_ALU64:
        return compute(i);
      case BPF_JMP:
      case BPF_JMP32:
        return jump(i);
      case BPF_LDX:
        return load(i);
      case BPF_ST:
      case BPF_STX:
        return store(i);
      default:
        return load_number(i);
    }
  }

  ProgramFault set(u32 number, std::optional<u64> value) {
    // R10 is where the stack is, and nobody's to change.
    if (!value || number == 10) return ProgramFault::unknown_instruction;
    r()[number] = *value;
    return ProgramFault::none;
  }

  ProgramFault compute(const Instruction& i) {
    return set(i.destination, computed(i, r()[i.destination], r()[i.source]));
  }

  ProgramFault load(const Instruction& i) {
    const u8 mode = BPF_MODE(i.opcode);
    const u32 bytes = bytes_of(i.opcode);
    const bool with_sign = mode == kProgramSignedLoads;
    if ((mode != BPF_MEM && !with_sign) || (with_sign && bytes == 8) || i.immediate != 0)
      return ProgramFault::unknown_instruction;
    u64 value = 0;
    const u64 address = r()[i.source] + static_cast<u64>(std::int64_t{i.offset});
    if (auto fault = run_.memory.load(address, bytes, value); fault != ProgramFault::none) return fault;
    const u32 above = 64 - bytes * 8;
    if (with_sign) value = static_cast<u64>(static_cast<std::int64_t>(value << above) >> above);
    return set(i.destination, value);
  }

  ProgramFault store(const Instruction& i) {
    const u32 bytes = bytes_of(i.opcode);
    const bool is_immediate = BPF_CLASS(i.opcode) == BPF_ST;
    const u64 address = r()[i.destination] + static_cast<u64>(std::int64_t{i.offset});
    if (BPF_MODE(i.opcode) == BPF_ATOMIC && !is_immediate && bytes >= 4) return change(i, address, bytes);
    if (BPF_MODE(i.opcode) != BPF_MEM || (is_immediate ? i.source != 0 : i.immediate != 0))
      return ProgramFault::unknown_instruction;
    const u64 value = is_immediate ? static_cast<u64>(std::int64_t{i.immediate}) : r()[i.source];
    return run_.memory.store(address, bytes, value);
  }

  ProgramFault change(const Instruction& i, u64 address, u32 bytes) {
    u64 memory = 0;
    if (auto fault = run_.memory.load(address, bytes, memory); fault != ProgramFault::none) return fault;
    const auto result = atomic(i, bytes, memory, r()[i.source], r()[0]);
    if (!result) return ProgramFault::unknown_instruction;
    if (auto fault = run_.memory.store(address, bytes, result->memory); fault != ProgramFault::none)
      return fault;
    if (result->r0) r()[0] = *result->r0;
    return result->source ? set(i.source, result->source) : ProgramFault::none;
  }

  // The one instruction of two: a number of 64 bits, or what its source register says.
  ProgramFault load_number(const Instruction& i) {
    if (i.opcode != (BPF_LD | BPF_IMM | BPF_DW)) return ProgramFault::unknown_instruction;
    if (next_ >= code().size()) return ProgramFault::outside_program;
    const std::size_t at = next_ - 1;
    const Instruction& second = code()[next_++];
    if (second.opcode != 0 || second.destination != 0 || second.source != 0 || second.offset != 0 ||
        i.offset != 0)
      return ProgramFault::unknown_instruction;
    const u32 number = static_cast<u32>(i.immediate), more = static_cast<u32>(second.immediate);
    switch (i.source) {
      case 0:
        return set(i.destination, u64{more} << 32 | number);
      case BPF_PSEUDO_MAP_IDX:
        if (maps_.find(number) == nullptr) return ProgramFault::wrong_map;
        return set(i.destination, ProgramMemory::pointer(ProgramMemory::kMap + number, 0));
      case BPF_PSEUDO_MAP_IDX_VALUE: {
        ProgramMap* map = maps_.find(number);
        if (map == nullptr || map->settings().type != BPF_MAP_TYPE_ARRAY || map->settings().entries != 1)
          return ProgramFault::wrong_map;
        return set(i.destination, run_.memory.pointer_to(map->look_up(std::array<u8, 4>{}, 0)) + more);
      }
      case BPF_PSEUDO_FUNC: {
        const std::int64_t function = static_cast<std::int64_t>(at) + 1 + i.immediate;
        if (!inside(function)) return ProgramFault::outside_program;
        return set(i.destination,
                   ProgramMemory::pointer(ProgramMemory::kFunction, static_cast<u32>(function)));
      }
      default:
        return ProgramFault::unknown_instruction;
    }
  }

  bool inside(std::int64_t at) const { return at >= 0 && at < static_cast<std::int64_t>(code().size()); }

  ProgramFault go(std::int64_t by) {
    const std::int64_t to = static_cast<std::int64_t>(next_) + by;
    if (!inside(to)) return ProgramFault::outside_program;
    next_ = static_cast<std::size_t>(to);
    return ProgramFault::none;
  }

  ProgramFault jump(const Instruction& i) {
    switch (i.opcode) {
      case BPF_JMP | BPF_JA:
        return go(i.offset);
      case BPF_JMP32 | BPF_JA:
        return go(i.immediate);
      case BPF_JMP | BPF_EXIT:
        return leave();
      case BPF_JMP | BPF_CALL:
        return call(i);
      default:
        break;
    }
    const std::optional<bool> does = jumps(i, r()[i.destination], r()[i.source]);
    if (!does) return ProgramFault::unknown_instruction;
    return *does ? go(i.offset) : ProgramFault::none;
  }

  ProgramFault call(const Instruction& i) {
    if (i.source == BPF_PSEUDO_CALL) {
      const std::int64_t to = static_cast<std::int64_t>(next_) + i.immediate;
      return inside(to) ? enter(static_cast<std::size_t>(to), std::nullopt) : ProgramFault::outside_program;
    }
    if (i.source != 0) return ProgramFault::unknown_instruction;
    if (i.immediate == BPF_FUNC_tail_call) return tail_call();
    if (i.immediate == BPF_FUNC_loop) return loop();
    const ProgramFault fault = call_helper(run_, i.immediate);
    forget();
    return fault;
  }

  void forget() { std::fill_n(r().begin() + 1, 5, 0); }

  ProgramFault enter(std::size_t to, std::optional<Loop> loop) {
    if (frames_.size() == kMostProgramFrames) return ProgramFault::too_many_calls;
    Frame frame{.program = frames_.back().program, .return_to = next_, .saved = {}, .loop = loop};
    std::copy_n(r().begin() + 6, 4, frame.saved.begin());
    frames_.push_back(frame);
    run_.memory.begin_stack(frames_.size());
    r()[10] = stack_top();
    next_ = to;
    return ProgramFault::none;
  }

  ProgramFault leave() {
    const Frame frame = frames_.back();
    if (frame.loop && r()[0] == 0 && frame.loop->turn + 1 < frame.loop->turns) {
      frames_.back().loop->turn++;
      take_turn();
      return ProgramFault::none;
    }
    frames_.pop_back();
    if (frames_.empty()) return ProgramFault::none;
    run_.memory.keep_stacks(frames_.size());
    if (frame.loop) r()[0] = frame.loop->turn + 1;
    std::ranges::copy(frame.saved, r().begin() + 6);
    r()[10] = stack_top();
    next_ = frame.return_to;
    forget();
    return ProgramFault::none;
  }

  // Arguments as they are when one of a loop's calls begins.
  void take_turn() {
    const Loop& loop = *frames_.back().loop;
    frames_.back().program = loop.program;
    run_.memory.begin_stack(frames_.size());
    forget();
    r()[1] = loop.turn;
    r()[2] = loop.context;
    next_ = loop.function;
  }

  ProgramFault loop() {
    const Loop loop{.turns = r()[1],
                    .turn = 0,
                    .program = frames_.back().program,
                    .function = ProgramMemory::offset_of(r()[2]),
                    .context = r()[3]};
    if (ProgramMemory::object_of(r()[2]) != ProgramMemory::kFunction || !inside(loop.function))
      return ProgramFault::outside_program;
    // What follows is as where the verifier writes the loop out, which it does where the function and flags
    // of 0 are constants: turns are a number of 64 bits, and too many are -E2BIG in 32 bits.
    std::optional<u64> at_once;
    if (r()[4] != 0)
      at_once = static_cast<u64>(std::int64_t{-EINVAL});
    else if (loop.turns > kMostProgramLoops)
      at_once = static_cast<u32>(-E2BIG);
    else if (loop.turns == 0)
      at_once = 0;
    if (at_once) {
      r()[0] = *at_once;
      forget();
      return ProgramFault::none;
    }
    if (auto fault = enter(loop.function, loop); fault != ProgramFault::none) return fault;
    take_turn();
    return ProgramFault::none;
  }

  // The other program takes this function's place, in its frame. Where there is none, this one goes on.
  ProgramFault tail_call() {
    ProgramMap* map = run_.memory.map_at(r()[2]);
    if (map == nullptr || map->settings().type != BPF_MAP_TYPE_PROG_ARRAY) return ProgramFault::wrong_map;
    if (r()[1] != kContextPointer) return ProgramFault::out_of_bounds;
    const u32 index = static_cast<u32>(r()[3]);
    std::array<u8, 4> key{};
    std::memcpy(key.data(), &index, sizeof(index));
    const auto entry = map->look_up(key, 0);
    forget();
    if (entry == nullptr || tail_calls_ >= kMostProgramTailCalls) return ProgramFault::none;
    u32 program = 0;
    std::memcpy(&program, entry->bytes.data(), sizeof(program));
    if (program >= programs_.size()) return ProgramFault::outside_program;
    tail_calls_++;
    frames_.back().program = program;
    run_.memory.begin_stack(frames_.size());
    r()[1] = kContextPointer;
    next_ = 0;
    return ProgramFault::none;
  }

  const std::vector<Code>& programs_;
  const ProgramMaps& maps_;
  ProgramRun run_;
  std::vector<Frame> frames_;
  std::size_t next_ = 0;  // the instruction, in the program of the last frame
  u32 tail_calls_ = 0;
};

}  // namespace

std::string_view name_of(ProgramFault fault) {
  switch (fault) {
    case ProgramFault::none:
      return "none";
    case ProgramFault::out_of_bounds:
      return "out_of_bounds";
    case ProgramFault::read_only:
      return "read_only";
    case ProgramFault::unknown_instruction:
      return "unknown_instruction";
    case ProgramFault::unknown_helper:
      return "unknown_helper";
    case ProgramFault::wrong_map:
      return "wrong_map";
    case ProgramFault::outside_program:
      return "outside_program";
    case ProgramFault::too_many_instructions:
      return "too_many_instructions";
    case ProgramFault::too_many_calls:
      return "too_many_calls";
    case ProgramFault::writes_packet:
      return "writes_packet";
    case ProgramFault::too_much_written:
      return "too_much_written";
  }
  return "unknown";
}

u32 ProgramSet::add(std::vector<Instruction> instructions) {
  programs_.push_back(std::move(instructions));
  return static_cast<u32>(programs_.size()) - 1;
}

ProgramAnswer ProgramSet::run(u32 program, const ProgramPacket& packet) {
  return Interpreter(programs_, *maps_, program, packet).answer();
}

}  // namespace xdpgpu::gpu::reference
