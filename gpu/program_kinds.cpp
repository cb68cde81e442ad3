// SPDX-License-Identifier: MIT
#include "gpu/program_kinds.hpp"

#include <deque>
#include <set>

#include "gpu/stages/program_numbers.h"

namespace xdpgpu::gpu::programs {
namespace {

using Of = Kind::Of;

constexpr Kind kAnything{Of::anything};

Kind met(const Kind& a, const Kind& b) {
  if (a == b || b.of == Of::nothing) return a;
  return a.of == Of::nothing ? b : kAnything;
}
// False: nothing is new.
bool meet(Kinds& into, const Kinds& other) {
  const Kinds before = into;
  for (u32 i = 0; i < into.registers.size(); ++i)
    into.registers[i] = met(into.registers[i], other.registers[i]);
  into.changed |= other.changed;
  into.written |= other.written;
  std::erase_if(into.spilled, [&](const auto& one) {
    const auto found = other.spilled.find(one.first);
    return found == other.spilled.end() || found->second != one.second;
  });
  return into != before;
}

Kind of_pointer(u64 pointer) {
  const u32 object = static_cast<u32>(pointer >> 32);
  if (object >= XG_PROGRAM_MAPS && object < XG_PROGRAM_VALUES) return {Of::map, object - XG_PROGRAM_MAPS};
  if (object == XG_PROGRAM_FUNCTION) return {Of::function, static_cast<u32>(pointer)};
  return kAnything;
}

bool is_arithmetic(u32 operation) { return operation < XG_PROGRAM_JEQ; }
bool is_condition(u32 operation) { return operation >= XG_PROGRAM_JEQ && operation < XG_PROGRAM_JA; }

void call(Kinds& kinds, const Kind& answer) {
  kinds.registers[0] = answer;
  for (u32 i = 1; i < 6; ++i) kinds.registers[i] = kAnything;
}

Kind sum(const Operation& one, const Kinds& kinds) {
  const Kind to = kinds.registers[one.destination];
  const Kind by = one.takes_register ? kinds.registers[one.source] : kAnything;
  if (to.of == Of::anything && one.operation == XG_PROGRAM_ADD) return by.of == Of::map ? kAnything : by;
  return by.of == Of::anything && to.of != Of::map ? to : kAnything;
}

bool changes_maps(const Operation& one, const Keeps& keeps, const Kinds& kinds) {
  switch (one.operation) {
    case XG_PROGRAM_STORE:
      // Where it is not the stack, the text is left with this instruction.
      return kinds.registers[one.destination].of != Of::stack;
    case XG_PROGRAM_ATOMIC:
    case XG_PROGRAM_ADD_UP:
    case XG_PROGRAM_ADD_TO:
    case XG_PROGRAM_CALL:
      return true;
    case XG_PROGRAM_LOOK_UP:
      return !keeps.order;  // an LRU hash's
    case XG_PROGRAM_TIME:
    case XG_PROGRAM_RANDOM:
    case XG_PROGRAM_QUEUE:
      return false;
    default:
      return one.operation >= XG_PROGRAM_LOOK_UP;
  }
}

// Another place than these the text does not write to, but to the packet.
bool is_elsewhere(const Kind& kind) {
  return kind.of == Of::stack || kind.of == Of::value || kind.of == Of::record;
}
bool writes_packet(const Operation& one, const Keeps& keeps, const Kinds& kinds) {
  switch (one.operation) {
    case XG_PROGRAM_STORE:
      return !is_elsewhere(kinds.registers[one.destination]);
    case XG_PROGRAM_ADJUST_HEAD:
    case XG_PROGRAM_ADJUST_META:
    case XG_PROGRAM_ADJUST_TAIL:
      return true;
    case XG_PROGRAM_CALL:
    case XG_PROGRAM_LOOP:
      return !keeps.packet;
    default:
      return false;
  }
}

}  // namespace

bool keeps_packet(std::span<const u32> code) {
  for (u32 at = 0; at < code.size() / 4; ++at) {
    const Operation one = operation_at(code, at);
    if ((one.operation == XG_PROGRAM_STORE && one.destination != 10) ||
        (one.operation >= XG_PROGRAM_ADJUST_HEAD && one.operation <= XG_PROGRAM_ADJUST_TAIL))
      return false;
  }
  return true;
}

Operation operation_at(std::span<const u32> code, u32 at) {
  const u32 flags = code[u64{at} * 4];
  return {.operation = flags & 0xff,
          .destination = (flags >> 8) & 15,
          .source = (flags >> 12) & 15,
          .bytes = 1u << ((flags >> 16) & 3),
          .takes_register = (flags & XG_PROGRAM_X) != 0,
          .narrow = (flags & XG_PROGRAM_32) != 0,
          .with_sign = (flags & XG_PROGRAM_SIGNED) != 0,
          .flags = flags & 0x00ffffff,
          .what = code[u64{at} * 4 + 1],
          .immediate = code[u64{at} * 4 + 2] | u64{code[u64{at} * 4 + 3]} << 32};
}

bool ends_block(u32 operation) {
  return (operation >= XG_PROGRAM_JEQ && operation <= XG_PROGRAM_JA) || operation == XG_PROGRAM_ATOMIC ||
         operation == XG_PROGRAM_CALL || operation == XG_PROGRAM_EXIT || operation >= XG_PROGRAM_LOOK_UP;
}

void follow(const Operation& one, u32 stack, const Keeps& keeps, Kinds& kinds) {
  Kind& to = kinds.registers[one.destination];
  const auto place = static_cast<std::int32_t>(one.what);
  kinds.changed |= changes_maps(one, keeps, kinds);
  kinds.written |= writes_packet(one, keeps, kinds);
  if (is_arithmetic(one.operation)) {
    const bool moves = one.operation == XG_PROGRAM_MOV && !one.narrow && one.what == 64;
    if (moves)
      to = one.takes_register ? kinds.registers[one.source] : kAnything;
    else if ((one.operation == XG_PROGRAM_ADD || one.operation == XG_PROGRAM_SUB) && !one.narrow)
      to = sum(one, kinds);
    else
      to = kAnything;
  } else if (one.operation == XG_PROGRAM_LOAD || one.operation == XG_PROGRAM_LOAD_COUNT) {
    const Kind from = kinds.registers[one.source];
    to = kAnything;
    if (from.of == Of::context && one.bytes == 4 && one.what <= 8) to = {Of::packet};
    if (one.source == 10 && one.bytes == 8)
      if (const auto found = kinds.spilled.find(place); found != kinds.spilled.end()) to = found->second;
  } else if (one.operation == XG_PROGRAM_STORE) {
    if (one.destination != 10) return;
    for (std::int32_t at = place - 7; at < place + static_cast<std::int32_t>(one.bytes); ++at)
      kinds.spilled.erase(at);
    if (one.bytes == 8 && one.takes_register) kinds.spilled[place] = kinds.registers[one.source];
  } else if (one.operation == XG_PROGRAM_ATOMIC) {
    kinds.registers[0] = kAnything;
    kinds.registers[one.source] = one.source == 10 ? Kind{Of::stack, stack} : kAnything;
  } else if (one.operation == XG_PROGRAM_NUMBER) {
    to = of_pointer(one.immediate);
  } else if (one.operation == XG_PROGRAM_LOOK_UP) {
    const Kind map = kinds.registers[1];
    call(kinds, map.of == Of::map ? Kind{Of::value, map.number} : kAnything);
  } else if (one.operation == XG_PROGRAM_RESERVE) {
    call(kinds, {Of::record});
  } else if (one.operation == XG_PROGRAM_FIB_LOOKUP) {
    kinds.spilled.clear();
    call(kinds, kAnything);
  } else if (one.operation == XG_PROGRAM_CALL || one.operation >= XG_PROGRAM_LOOK_UP) {
    call(kinds, kAnything);
  }
}

Function followed(std::span<const u32> code, u32 start, const Kinds& given, u32 stack, const Keeps& keeps) {
  Function made;
  std::map<u32, Kinds> before;  // by instruction
  std::deque<u32> waiting{start};
  std::set<u32> leaders{start};
  before[start] = given;
  const auto reach = [&](u32 at, const Kinds& kinds) {
    const auto [found, is_new] = before.try_emplace(at, kinds);
    if (is_new || meet(found->second, kinds)) waiting.push_back(at);
  };
  while (!waiting.empty()) {
    const u32 at = waiting.front();
    waiting.pop_front();
    const Operation one = operation_at(code, at);
    Kinds kinds = before[at];
    follow(one, stack, keeps, kinds);
    if (one.operation == XG_PROGRAM_EXIT || one.operation == XG_PROGRAM_NONE) continue;
    if (is_condition(one.operation) || one.operation == XG_PROGRAM_JA) {
      leaders.insert(one.what);
      reach(one.what, kinds);
      if (one.operation == XG_PROGRAM_JA) continue;
    }
    const u32 next = at + (one.operation == XG_PROGRAM_NUMBER ? 2 : 1);
    if (ends_block(one.operation)) leaders.insert(next);
    reach(next, kinds);
  }
  for (const auto& [at, kinds] : before) {
    made.instructions.push_back(at);
    if (leaders.contains(at)) made.at_block.emplace(at, kinds);
  }
  return made;
}

bool goes_round(std::span<const u32> code) {
  const u32 count = static_cast<u32>(code.size() / 4);
  enum class Seen : u8 { no, under_way, over };
  std::vector<Seen> seen(count, Seen::no);
  struct Step {
    u32 at;
    u32 next;  // which of those that follow it comes next
  };
  std::vector<Step> path;
  for (u32 start = 0; start < count; ++start) {
    if (seen[start] == Seen::no) path.push_back({start, 0});
    while (!path.empty()) {
      const u32 at = path.back().at, number = path.back().next++;
      const Operation one = operation_at(code, at);
      const bool jumps = one.operation >= XG_PROGRAM_JEQ && one.operation <= XG_PROGRAM_JA;
      const bool goes_on = one.operation != XG_PROGRAM_JA && one.operation != XG_PROGRAM_EXIT &&
                           one.operation != XG_PROGRAM_NONE;
      seen[at] = number < 2 ? Seen::under_way : Seen::over;
      if (number == 2) path.pop_back();
      if (number > 1 || (number == 0 ? !goes_on : !jumps)) continue;
      const u32 to = number == 1 ? one.what : at + (one.operation == XG_PROGRAM_NUMBER ? 2 : 1);
      if (to >= count) continue;
      if (seen[to] == Seen::under_way) return true;
      if (seen[to] == Seen::no) path.push_back({to, 0});
    }
  }
  return false;
}

}  // namespace xdpgpu::gpu::programs
