// SPDX-License-Identifier: MIT
#include "userspace/compiler/programs/map_uses.hpp"

#include <linux/bpf.h>

#include <algorithm>
#include <array>

namespace xdpgpu::programs {
namespace {

// What a register may have: addresses of maps, and of what is in them. A bit a map.
struct Value {
  u64 maps = 0, contents = 0;
  bool operator==(const Value&) const = default;
  bool add(const Value& other) {
    const Value before = *this;
    maps |= other.maps;
    contents |= other.contents;
    return *this != before;
  }
};
static_assert(kMostMaps <= 64);

using Registers = std::array<Value, 11>;

// Each register's values grow only, by 128 bits at most: that many times an instruction is looked at again.
constexpr std::size_t kMostLookedAt = 65'536;

// Values flow from instruction to instruction. What has been put into any memory may come from any memory,
// and what any function returns, from any call: that is less exact, and never wrong.
class Flow {
 public:
  explicit Flow(const Program& program)
      : program_(program),
        all_(program.instructions),
        before_(all_.size()),
        reached_(all_.size()),
        waits_(all_.size()) {}

  std::vector<MapUse> uses() {
    if (all_.size() > kMostLookedAt) return std::vector<MapUse>(program_.maps.size(), MapUse::unknown);
    bool again = true;
    while (again) {
      more_ = false;
      for (const u32 start : function_starts(program_)) reach(start, start == 0 ? Registers{} : entry_);
      while (!waiting_.empty()) {
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
  void reach(std::size_t at, const Registers& with) {
    bool more = !reached_[at];
    reached_[at] = true;
    for (std::size_t i = 0; i < with.size(); i++) more |= before_[at][i].add(with[i]);
    if (more) wait(static_cast<u32>(at));
  }
  void put(Value& where, const Value& value) { more_ |= where.add(value); }

  void step(u32 at) {
    const Instruction& one = all_[at];
    Registers now = before_[at];
    std::size_t next = at + 1;
    const auto target = [&](std::int64_t by) { return static_cast<std::size_t>(std::int64_t{at} + 1 + by); };
    switch (one.opcode & 7) {
      case BPF_LD:
        now[one.destination] = constant(one);
        next++;
        break;
      case BPF_LDX:
        read_ |= now[one.source].contents;
        now[one.destination] = memory_;
        break;
      case BPF_ST:
      case BPF_STX:
        store(one, now);
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
          reach(target(one.offset), now);
      }
    }
    reach(next, now);
  }

  static Value constant(const Instruction& one) {
    if (one.source == BPF_PSEUDO_MAP_IDX) return {.maps = u64{1} << one.immediate, .contents = 0};
    if (one.source == BPF_PSEUDO_MAP_IDX_VALUE) return {.maps = 0, .contents = u64{1} << one.immediate};
    return {};
  }

  void store(const Instruction& one, Registers& now) {
    written_ |= now[one.destination].contents;
    if ((one.opcode & 7) == BPF_ST) return;
    put(memory_, now[one.source]);
    if ((one.opcode & 0xe0) != BPF_ATOMIC) return;
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
      reach(target, arguments);
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
        Value found{.maps = 0, .contents = map};
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
    const Value inside{.maps = all.maps, .contents = all.maps | all.contents};
    for (std::size_t i = 1; i < 6; i++) put(entry_[i], inside);
    return inside;
  }

  const Program& program_;
  const std::vector<Instruction>& all_;
  std::vector<Registers> before_;
  std::vector<bool> reached_, waits_;
  std::vector<u32> waiting_;
  Registers entry_{};  // of functions that helpers call
  Value memory_, returned_;
  u64 read_ = 0, written_ = 0;
  bool more_ = false;
};

}  // namespace

std::vector<MapUse> map_uses(const Program& program) { return Flow(program).uses(); }

}  // namespace xdpgpu::programs
