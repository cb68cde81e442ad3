// SPDX-License-Identifier: MIT
#include "userspace/compiler/programs/map_uses.hpp"

#include <linux/bpf.h>

#include <algorithm>
#include <array>
#include <optional>

namespace xdpgpu::programs {
namespace {

// What a register may have: addresses of maps, and of what is in them, a bit a map; and of a stack.
struct Value {
  u64 maps = 0, contents = 0;
  bool stack = false;
  bool operator==(const Value&) const = default;
  bool add(const Value& other) {
    const Value before = *this;
    maps |= other.maps;
    contents |= other.contents;
    stack |= other.stack;
    return *this != before;
  }
};
static_assert(kMostMaps <= 64);

using Registers = std::array<Value, 11>;

// In front of an instruction: what the registers have, and the eights of bytes of the function's own stack,
// from its lowest on. Without any there: none of them has anything.
struct State {
  Registers registers{};
  std::vector<Value> stack;
  bool add(const State& other) {
    bool more = false;
    for (std::size_t i = 0; i < registers.size(); i++) more |= registers[i].add(other.registers[i]);
    if (stack.empty() && !other.stack.empty()) stack.resize(other.stack.size());
    for (std::size_t i = 0; i < other.stack.size(); i++) more |= stack[i].add(other.stack[i]);
    return more;
  }
};
constexpr int kStackBytes = 512;

// Each register's values grow only, by 128 bits at most: that many times an instruction is looked at again.
constexpr std::size_t kMostLookedAt = 65'536;
// Instructions that are looked at where stacks are followed, too.
constexpr std::size_t kMostWork = 2'000'000;

// Values flow from instruction to instruction, and through a function's own stack. What has been put into any
// other stack, or by another address than R10, may come from any stack, and what any function returns, from
// any call: that is less exact, and never wrong. No other memory gives addresses, and no half of one is one:
// what the kernel's verifier takes does not load them from there.
class Flow {
 public:
  // Without stacks: what has been put into one may come from any.
  Flow(const Program& program, bool follows_stacks)
      : program_(program),
        all_(program.instructions),
        follows_stacks_(follows_stacks),
        before_(all_.size()),
        reached_(all_.size()),
        waits_(all_.size()) {}

  // Nothing: it is too much work, with stacks.
  std::optional<std::vector<MapUse>> uses() {
    if (all_.size() > kMostLookedAt) return std::vector<MapUse>(program_.maps.size(), MapUse::unknown);
    bool again = true;
    while (again) {
      more_ = false;
      for (const u32 start : function_starts(program_))
        reach(start, {with_stack(start == 0 ? Registers{} : entry_), {}});
      while (!waiting_.empty()) {
        if (follows_stacks_ && ++work_ > kMostWork) return std::nullopt;
        const u32 at = waiting_.back();
        waiting_.pop_back();
        waits_[at] = false;
        step(at);
      }
      // What came into memory since may come out of it anywhere.
      again = more_;
      if (again)
        for (u32 i = 0; i < all_.size(); i++)
          if (reached_[i]) wait(i);
    }
    std::vector<MapUse> uses;
    for (std::size_t i = 0; i < program_.maps.size(); i++) {
      const u64 bit = u64{1} << i;
      uses.push_back((written_ & bit) != 0 ? MapUse::writes
                     : (read_ & bit) != 0  ? MapUse::reads
                                           : MapUse::names);
    }
    return uses;
  }

 private:
  void wait(u32 at) {
    if (waits_[at]) return;
    waits_[at] = true;
    waiting_.push_back(at);
  }
  void reach(std::size_t at, const State& with) {
    bool more = !reached_[at];
    reached_[at] = true;
    more |= before_[at].add(with);
    if (more) wait(static_cast<u32>(at));
  }
  void put(Value& where, const Value& value) { more_ |= where.add(value); }

  void step(u32 at) {
    const Instruction& one = all_[at];
    State state = before_[at];
    Registers& now = state.registers;
    std::size_t next = at + 1;
    const auto target = [&](std::int64_t by) { return static_cast<std::size_t>(std::int64_t{at} + 1 + by); };
    switch (one.opcode & 7) {
      case BPF_LD:
        now[one.destination] = constant(one);
        next++;
        break;
      case BPF_LDX:
        read_ |= now[one.source].contents;
        now[one.destination] = loaded(one, state);
        break;
      case BPF_ST:
      case BPF_STX:
        store(one, state);
        break;
      case BPF_ALU:
      case BPF_ALU64:
        arithmetic(one, now);
        break;
      default: {
        const int operation = one.opcode & 0xf0;
        if (operation == BPF_EXIT) {
          put(returned_, now[0]);
          return;
        }
        if (operation == BPF_CALL)
          call(one, target(one.immediate), now);
        else if (operation == BPF_JA)
          next = target((one.opcode & 7) == BPF_JMP ? one.offset : one.immediate);
        else
          reach(target(one.offset), state);
      }
    }
    reach(next, state);
  }

  static Registers with_stack(Registers registers) {
    registers[BPF_REG_10].stack = true;
    return registers;
  }

  static Value constant(const Instruction& one) {
    if (one.source == BPF_PSEUDO_MAP_IDX) return {.maps = u64{1} << one.immediate};
    if (one.source == BPF_PSEUDO_MAP_IDX_VALUE) return {.contents = u64{1} << one.immediate};
    return {};
  }

  static int bytes_of(const Instruction& one) {
    const int size = one.opcode & 0x18;
    return size == BPF_B ? 1 : size == BPF_H ? 2 : size == BPF_W ? 4 : 8;
  }
  // Which eights of the own stack an instruction is about, by R10; nothing: it is about anything.
  struct Eights {
    std::size_t first, last;
    bool whole;  // exactly one of them
  };
  std::optional<Eights> eights_of(const Instruction& one, u8 base) const {
    const int at = kStackBytes + one.offset, bytes = bytes_of(one);
    if (!follows_stacks_ || base != BPF_REG_10 || at < 0 || at + bytes > kStackBytes) return std::nullopt;
    return Eights{static_cast<std::size_t>(at / 8), static_cast<std::size_t>((at + bytes - 1) / 8),
                  bytes == 8 && at % 8 == 0};
  }

  Value loaded(const Instruction& one, const State& state) const {
    if (bytes_of(one) < 8) return {};
    const auto eights = eights_of(one, one.source);
    if (!eights) return state.registers[one.source].stack ? memory_ : Value{};
    Value found = stray_;
    if (!state.stack.empty())
      for (std::size_t i = eights->first; i <= eights->last; i++) (void)found.add(state.stack[i]);
    return found;
  }

  void put_on_stack(const Eights& eights, bool replaces, const Value& value, State& state) {
    if (state.stack.empty()) {
      if (value == Value{}) return;
      state.stack.resize(kStackBytes / 8);
    }
    for (std::size_t i = eights.first; i <= eights.last; i++)
      if (replaces)
        state.stack[i] = value;
      else
        (void)state.stack[i].add(value);
  }

  void store(const Instruction& one, State& state) {
    Registers& now = state.registers;
    const bool by_register = (one.opcode & 7) == BPF_STX, atomic = (one.opcode & 0xe0) == BPF_ATOMIC;
    written_ |= now[one.destination].contents;
    const Value value = by_register && bytes_of(one) == 8 ? now[one.source] : Value{};
    const auto eights = eights_of(one, one.destination);
    if (eights)
      put_on_stack(*eights, eights->whole && !(by_register && atomic), value, state);
    else
      put(stray_, value);
    put(memory_, value);
    if (!by_register || !atomic) return;
    read_ |= now[one.destination].contents;
    if (one.immediate == BPF_CMPXCHG)
      now[0] = memory_;
    else if ((one.immediate & BPF_FETCH) != 0)
      now[one.source] = memory_;
  }

  static void arithmetic(const Instruction& one, Registers& now) {
    const int operation = one.opcode & 0xf0;
    const bool by_register = (one.opcode & BPF_X) != 0 && operation != BPF_END;
    if (operation == BPF_MOV)
      now[one.destination] = by_register ? now[one.source] : Value{};
    else if (by_register)  // an address and a number, in any order
      (void)now[one.destination].add(now[one.source]);
  }

  void call(const Instruction& one, std::size_t target, Registers& now) {
    Registers arguments{};
    std::copy_n(now.begin() + 1, 5, arguments.begin() + 1);
    Value result;
    if (one.source == BPF_PSEUDO_CALL) {
      reach(target, {with_stack(arguments), {}});
      result = returned_;
    } else {
      result = helper(static_cast<u32>(one.immediate), arguments);
    }
    std::fill_n(now.begin(), 6, Value{});
    now[0] = result;
  }

  Value helper(u32 number, const Registers& arguments) {
    Value all;
    for (const Value& one : arguments) (void)all.add(one);
    const u64 map = arguments[1].maps;
    switch (number) {
      case BPF_FUNC_map_lookup_elem: {
        read_ |= map | all.contents;
        Value found{.contents = map};
        for (std::size_t i = 0; i < program_.maps.size(); i++)
          if ((map >> i & 1) != 0 && program_.maps[i].inner >= 0)
            found.maps |= u64{1} << program_.maps[i].inner;
        return found;
      }
      case BPF_FUNC_map_update_elem:
      case BPF_FUNC_map_delete_elem:
        written_ |= map;
        read_ |= all.contents;
        return {};
      case BPF_FUNC_perf_event_output:
      case BPF_FUNC_ringbuf_output:
      case BPF_FUNC_ringbuf_reserve:
        // Who puts something out writes to its map, as far as the operator is concerned.
        written_ |= number == BPF_FUNC_perf_event_output ? arguments[2].maps : map;
        read_ |= all.contents;
        return {};
      case BPF_FUNC_redirect_map:
      case BPF_FUNC_tail_call:
      case BPF_FUNC_csum_diff:
        read_ |= all.contents;
        return {};
      case BPF_FUNC_fib_lookup:
        read_ |= all.contents;
        written_ |= all.contents;
        return {};
      // These take numbers, and the context.
      case BPF_FUNC_ktime_get_ns:
      case BPF_FUNC_get_prandom_u32:
      case BPF_FUNC_get_smp_processor_id:
      case BPF_FUNC_redirect:
      case BPF_FUNC_ringbuf_submit:
      case BPF_FUNC_ringbuf_discard:
      case BPF_FUNC_xdp_adjust_head:
      case BPF_FUNC_xdp_adjust_meta:
      case BPF_FUNC_xdp_adjust_tail:
        return {};
      default:
        break;
    }
    // Another one may write to what it is given the address of, call functions with it, and give it back.
    read_ |= all.maps | all.contents;
    written_ |= all.maps | all.contents;
    const Value inside{.maps = all.maps, .contents = all.maps | all.contents, .stack = all.stack};
    for (std::size_t i = 1; i < 6; i++) put(entry_[i], inside);
    return inside;
  }

  const Program& program_;
  const std::vector<Instruction>& all_;
  bool follows_stacks_;
  std::size_t work_ = 0;
  std::vector<State> before_;
  std::vector<bool> reached_, waits_;
  std::vector<u32> waiting_;
  Registers entry_{};                // of functions that helpers call
  Value memory_, stray_, returned_;  // stray: what is not put by R10
  u64 read_ = 0, written_ = 0;
  bool more_ = false;
};

}  // namespace

std::vector<MapUse> map_uses(const Program& program) {
  if (const auto uses = Flow(program, true).uses()) return *uses;
  return *Flow(program, false).uses();
}

}  // namespace xdpgpu::programs
