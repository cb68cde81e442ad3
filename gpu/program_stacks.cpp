// SPDX-License-Identifier: MIT
#include "gpu/program_stacks.hpp"

#include <linux/bpf.h>

#include <algorithm>
#include <array>
#include <optional>

#include "gpu/stages/program_numbers.h"

namespace xdpgpu::gpu::programs {
namespace {

constexpr int kWhole = XG_PROGRAM_STACK;

// The lowest that a register may point to, relative to the stack's top; nothing: not into this function's
// stack.
using Low = std::optional<int>;
using Registers = std::array<Low, 11>;

Low lower(Low a, Low b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

class Function {
 public:
  Function(std::span<const Instruction> code, const std::set<u32>& all, const std::set<u32>& pointed,
           std::size_t& work)
      : code_(code), all_(all), pointed_(pointed), work_(work) {}

  StackNeed need(u32 start) {
    // What has been put into the stack may come out of it anywhere: so once more, with what was found.
    Low before;
    do {
      before = spilled_;
      pass(start);
    } while (!whole_ && before != spilled_);
    need_.bytes =
        whole_ ? static_cast<u32>(kWhole) : static_cast<u32>(std::min((deepest_ + 7) / 8 * 8, kWhole));
    return need_;
  }

 private:
  void pass(u32 start) {
    std::map<u32, Registers> seen;
    std::map<u32, u32> visits;
    std::vector<u32> open{start};
    seen[start][10] = 0;
    while (!open.empty()) {
      const u32 at = open.back();
      open.pop_back();
      if (work_ == 0) {
        // Functions that share their instructions, which no verifier takes: whatever they do.
        whole_ = need_.tail_calls = true;
        need_.calls = all_;
        return;
      }
      --work_;
      // From then on only calls are looked for.
      if (++visits[at] > 32) whole_ = true;
      Registers registers = seen[at];
      for (u32 to : after(at, registers)) {
        const auto [place, is_new] = seen.try_emplace(to, registers);
        bool changed = is_new;
        for (std::size_t i = 0; i < registers.size() && !is_new && !whole_; ++i) {
          const Low joined = lower(place->second[i], registers[i]);
          changed |= joined != place->second[i];
          place->second[i] = joined;
        }
        if (changed) open.push_back(to);
      }
    }
  }

  void touches(Low from, int offset) {
    if (from) deepest_ = std::max(deepest_, -(*from + offset));
  }

  // Where it goes on behind an instruction, and with what in the registers.
  std::vector<u32> after(u32 at, Registers& r) {
    const Instruction& i = code_[at];
    const u8 kind = BPF_CLASS(i.opcode);
    if (kind == BPF_JMP || kind == BPF_JMP32) return jump(at, r);
    if (kind == BPF_ALU || kind == BPF_ALU64) {
      r[i.destination] = computed(i, r);
    } else if (kind == BPF_LDX) {
      touches(r[i.source], i.offset);
      r[i.destination] = BPF_SIZE(i.opcode) == BPF_DW ? spilled_ : Low{};
    } else if (kind == BPF_LD) {
      r[i.destination].reset();
      return next(at + 2);
    } else {
      store(i, r);
    }
    return next(at + 1);
  }

  Low computed(const Instruction& i, const Registers& r) {
    const Low& d = r[i.destination];
    const bool is_register = BPF_SRC(i.opcode) == BPF_X;
    const u8 operation = BPF_OP(i.opcode);
    const Low s = is_register && operation != BPF_END ? r[i.source] : Low{};
    // The lower half of a pointer is none. Bytes that are turned around may be turned back.
    if (BPF_CLASS(i.opcode) == BPF_ALU && operation != BPF_END) return {};
    if (operation == BPF_MOV) return i.offset == 0 ? s : Low{};
    if (!d && !s) return {};
    const int k = std::clamp(i.immediate, -(1 << 20), 1 << 20);
    if (!is_register && operation == BPF_ADD) return bounded(*d + k);
    if (!is_register && operation == BPF_SUB) return bounded(*d - k);
    whole_ = true;
    return d;
  }
  Low bounded(int low) {
    if (low < -kWhole * 2 || low > kWhole * 2) whole_ = true;
    return std::clamp(low, -kWhole * 2, kWhole * 2);
  }

  void store(const Instruction& i, Registers& r) {
    const Low base = r[i.destination];
    touches(base, i.offset);
    if (BPF_CLASS(i.opcode) != BPF_STX) return;
    if (r[i.source]) {
      if (!base || BPF_MODE(i.opcode) == BPF_ATOMIC) whole_ = true;
      spilled_ = lower(spilled_, r[i.source]);
    }
    if (BPF_MODE(i.opcode) != BPF_ATOMIC) return;
    if (i.immediate == BPF_CMPXCHG)
      r[0] = spilled_;
    else if ((i.immediate & BPF_FETCH) != 0)
      r[i.source] = spilled_;
  }

  std::vector<u32> jump(u32 at, Registers& r) {
    const Instruction& i = code_[at];
    if (i.opcode == (BPF_JMP | BPF_EXIT)) return {};
    if (i.opcode == (BPF_JMP | BPF_CALL)) {
      call(at, r);
      return next(at + 1);
    }
    const int by = i.opcode == (BPF_JMP32 | BPF_JA) ? i.immediate : i.offset;
    std::vector<u32> to = next(static_cast<std::int64_t>(at) + 1 + by);
    if (BPF_OP(i.opcode) != BPF_JA)
      for (u32 other : next(at + 1)) to.push_back(other);
    return to;
  }

  void call(u32 at, Registers& r) {
    const Instruction& i = code_[at];
    const bool loops = i.source == 0 && i.immediate == BPF_FUNC_loop;
    for (u32 argument = 1; argument <= 5; ++argument) {
      // A helper's buffer begins there. Another function may reach below.
      touches(r[argument], 0);
      if (r[argument] && (i.source == BPF_PSEUDO_CALL || loops)) whole_ = true;
    }
    if (i.source == BPF_PSEUDO_CALL)
      for (u32 to : next(static_cast<std::int64_t>(at) + 1 + i.immediate)) need_.calls.insert(to);
    if (loops) need_.calls.insert(pointed_.begin(), pointed_.end());
    need_.tail_calls |= i.source == 0 && i.immediate == BPF_FUNC_tail_call;
    for (u32 one = 0; one <= 5; ++one) r[one].reset();
  }

  std::vector<u32> next(std::int64_t at) const {
    if (at < 0 || at >= static_cast<std::int64_t>(code_.size())) return {};
    return {static_cast<u32>(at)};
  }

  std::span<const Instruction> code_;
  const std::set<u32>&all_, &pointed_;
  std::size_t& work_;
  StackNeed need_;
  int deepest_ = 0;
  bool whole_ = false;
  Low spilled_;
};

}  // namespace

std::map<u32, StackNeed> stack_needs(std::span<const Instruction> code) {
  std::set<u32> starts{0}, pointed;
  for (std::size_t at = 0; at < code.size(); ++at) {
    const Instruction& i = code[at];
    const std::int64_t to = static_cast<std::int64_t>(at) + 1 + i.immediate;
    if (to < 0 || to >= static_cast<std::int64_t>(code.size())) continue;
    if (i.opcode == (BPF_JMP | BPF_CALL) && i.source == BPF_PSEUDO_CALL) starts.insert(static_cast<u32>(to));
    if (i.opcode == (BPF_LD | BPF_IMM | BPF_DW) && i.source == BPF_PSEUDO_FUNC)
      pointed.insert(static_cast<u32>(to));
  }
  starts.insert(pointed.begin(), pointed.end());
  std::map<u32, StackNeed> needs;
  std::size_t work = code.size() * 64;
  if (starts.size() > kMostFunctions) {
    for (u32 start : starts) needs[start].bytes = kWhole;
    return needs;
  }
  for (u32 start : starts) needs[start] = Function(code, starts, pointed, work).need(start);
  return needs;
}

u32 deepest_stack(std::span<const std::map<u32, StackNeed>> programs) {
  constexpr u32 kMost = XG_PROGRAM_FRAMES * XG_PROGRAM_STACK;
  // Of each function with so many functions of a chain at most, one more each time.
  std::vector<std::map<u32, u32>> depths(programs.size());
  u32 deepest = 0;
  for (u32 functions = 1; functions <= XG_PROGRAM_FRAMES; ++functions) {
    std::vector<std::map<u32, u32>> next(programs.size());
    u32 entries = 0;
    for (std::size_t p = 0; p < programs.size(); ++p) {
      for (const auto& [start, need] : programs[p]) {
        u32 below = 0;
        for (u32 called : need.calls) below = std::max(below, depths[p][called]);
        next[p][start] = need.bytes + below;
      }
      entries = std::max(entries, next[p][0]);
    }
    // One whose tail is a program's has that one's stack in the place of its own.
    for (std::size_t p = 0; p < programs.size(); ++p)
      for (const auto& [start, need] : programs[p])
        if (need.tail_calls) next[p][start] = std::max(next[p][start], entries);
    depths = std::move(next);
    for (const auto& depth : depths) deepest = std::max(deepest, depth.at(0));
  }
  return std::min(deepest, kMost);
}

}  // namespace xdpgpu::gpu::programs
