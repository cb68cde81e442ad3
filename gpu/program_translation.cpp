// SPDX-License-Identifier: MIT
#include "gpu/program_translation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "gpu/program_kinds.hpp"
#include "gpu/stages/program_code.h"
#include "maps/hash.h"

namespace xdpgpu::gpu::programs {
namespace {

// A function is in the text once for each place that it is called from.
constexpr u32 kMostInstructions = 1 << 14;  // in the text
constexpr u32 kMostMaps = 64, kMostKeyWords = 16, kMostPrograms = 65;
// An access of which nobody knows the memory looks for it among the values of so many maps.
constexpr u32 kMostTried = 16;
// Of a program with more maps it asks for it, but on stacks: the text would be long.
constexpr u32 kMostInText = 6;
// A map that is looked up at more places has a function of its own that is not inlined.
constexpr u32 kMostInlined = 1;

using Of = Kind::Of;
using i64 = std::int64_t;
using Failure = tl::unexpected<std::string>;

// Why the words are none of a program; empty: they are one.
std::string wrong_words(const Decoded& program) {
  const auto& tables = program.tables;
  const u64 count = program.code.size() / 4;
  if (program.code.size() % 4 != 0 || count == 0 || count > kMostInstructions)
    return fmt::format("it has {} instructions, and 1 to {} are translated", count, kMostInstructions);
  if (tables.size() < XG_PROGRAM_TABLE_WORDS || tables[XG_PROGRAM_TABLE_MAPS] > kMostMaps ||
      u64{tables[XG_PROGRAM_TABLE_RECORDS]} + tables[XG_PROGRAM_TABLE_MAPS] * XG_PROGRAM_MAP_WORDS >
          tables.size())
    return fmt::format("its maps are more than {}, or their records are not whole", kMostMaps);
  if (tables[XG_PROGRAM_TABLE_PROGRAMS] > kMostPrograms ||
      u64{tables[XG_PROGRAM_TABLE_FIRST]} + tables[XG_PROGRAM_TABLE_PROGRAMS] > tables.size())
    return fmt::format("it goes on with more than {} programs, or it is not said where these begin",
                       kMostPrograms - 1);
  for (u32 i = 0; i < tables[XG_PROGRAM_TABLE_PROGRAMS]; ++i)
    if (tables[tables[XG_PROGRAM_TABLE_FIRST] + i] >= count)
      return fmt::format("its program {} begins nowhere", i);
  for (u32 at = 0; at < count; ++at) {
    const Operation one = operation_at(program.code, at);
    const bool jumps = one.operation >= XG_PROGRAM_JEQ && one.operation <= XG_PROGRAM_JA;
    const bool writes = one.operation < XG_PROGRAM_JEQ || one.operation == XG_PROGRAM_LOAD ||
                        one.operation == XG_PROGRAM_LOAD_COUNT || one.operation == XG_PROGRAM_NUMBER;
    const bool keeps = one.operation == XG_PROGRAM_LOAD_COUNT || one.operation == XG_PROGRAM_ADD_UP;
    const bool ends = one.operation == XG_PROGRAM_EXIT || one.operation == XG_PROGRAM_JA ||
                      one.operation == XG_PROGRAM_NONE;
    const u64 next = u64{at} + (one.operation == XG_PROGRAM_NUMBER ? 2 : 1);
    if (one.destination > (writes ? 9 : 10) || one.source > 10 ||
        ((jumps || one.operation == XG_PROGRAM_CALL) && one.what >= count) || (!ends && next >= count) ||
        (keeps && one.immediate >= XG_PROGRAM_COUNTED))
      return fmt::format("its instruction {} is none", at);
  }
  return {};
}

std::string number(u64 value) { return fmt::format("u64({:#x}ull)", value); }
std::string reg(u32 number) { return number == 10 ? std::string("XG_R10") : fmt::format("r{}", number); }

// What the interpreter does for a text, which goes on behind it.
bool is_asked(u32 operation) {
  return operation == XG_PROGRAM_ATOMIC || operation == XG_PROGRAM_UPDATE || operation == XG_PROGRAM_ERASE ||
         operation == XG_PROGRAM_CSUM_DIFF || operation == XG_PROGRAM_REDIRECT ||
         operation == XG_PROGRAM_REDIRECT_MAP || operation == XG_PROGRAM_PERF_OUTPUT ||
         operation == XG_PROGRAM_RING_OUTPUT || operation == XG_PROGRAM_FIB_LOOKUP ||
         operation == XG_PROGRAM_RESERVE || operation == XG_PROGRAM_SUBMIT || operation == XG_PROGRAM_DISCARD;
}
bool adjusts(u32 operation) {
  return operation == XG_PROGRAM_ADJUST_HEAD || operation == XG_PROGRAM_ADJUST_META ||
         operation == XG_PROGRAM_ADJUST_TAIL;
}
// Whether how many steps it comes to is in the instructions alone.
bool counts_itself(const std::vector<u32>& code) {
  for (u32 at = 0; at < code.size() / 4; ++at)
    if (const u32 operation = operation_at(code, at).operation;
        adjusts(operation) || operation == XG_PROGRAM_LOOP || operation == XG_PROGRAM_TAIL_CALL ||
        (is_asked(operation) && operation != XG_PROGRAM_ATOMIC))
      return false;
  return !goes_round(code);
}

// The text of one program.
class Translator {
 public:
  Translator(const Decoded& program, std::string name)
      : program_(program), name_(std::move(name)), counts_steps_(!counts_itself(program.code)) {
    for (u32 map = 0; map < maps(); ++map)
      keeps_.order = keeps_.order && map_word(map, XG_PROGRAM_MAP_TYPE) != XG_PROGRAM_LRU_HASH;
    for (u32 at = 0; at < program.code.size() / 4; ++at)
      has_tails_ = has_tails_ || operation_at(program.code, at).operation == XG_PROGRAM_TAIL_CALL;
    for (u32 map = 0; map < maps(); ++map) is_keyed_ = is_keyed_ || is_sharded(map);
    keeps_.packet = keeps_packet(program.code);
  }

  tl::expected<std::string, std::string> translate() {
    Kinds given;
    given.registers.fill({Of::anything});
    given.registers[1] = {Of::context};
    given.registers[10] = {Of::stack, 0};
    chain_.push_back({.start = 0, .from = 0, .bytes = stack_bytes(0)});
    if (auto done = add_function(given); !done) return Failure(done.error());
    for (u32 program = 1; has_tails_ && program < programs(); ++program)
      if (auto done = add_program(program); !done) return Failure(done.error());
    return whole();
  }

 private:
  // One of the functions that call each other, the entry first.
  struct Frame {
    u32 start = 0;
    u32 from = 0, bytes = 0;  // of the stack
    u32 return_to = 0;        // the instruction
    bool turns = false;       // it is bpf_loop's, and called again
    u32 run = 0;              // of all calls of all functions, by which labels are told apart
  };

  u32 stack_bytes(u32 start) const { return ((program_.code[u64{start} * 4] >> 24) & 0x7f) * 8; }
  u32 map_word(u32 map, u32 word) const {
    return program_.tables[program_.tables[XG_PROGRAM_TABLE_RECORDS] + map * XG_PROGRAM_MAP_WORDS + word];
  }
  u32 maps() const { return program_.tables[XG_PROGRAM_TABLE_MAPS]; }
  // With those that it goes on with.
  u32 programs() const { return program_.tables[XG_PROGRAM_TABLE_PROGRAMS]; }
  bool is_sharded(u32 map) const {
    return map_word(map, XG_PROGRAM_MAP_SHARD_SHIFT) != 32 &&
           map_word(map, XG_PROGRAM_MAP_TYPE) == XG_PROGRAM_LRU_HASH;
  }
  const Frame& frame() const { return chain_.back(); }
  u32 depth() const { return static_cast<u32>(chain_.size()) - 1; }

  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    body_ += "  ";
    fmt::format_to(std::back_inserter(body_), format, std::forward<Args>(args)...);
    body_ += "\n";
  }

  std::string operand(const Operation& one) const {
    return one.takes_register ? reg(one.source) : number(one.immediate);
  }
  // The packet goes on in the interpreter, with the instruction that is being translated; from its beginning,
  // where that comes to the same.
  std::string leave() const {
    if (!changed_) return "goto again";
    return fmt::format("XG_LEAVE({}u, {}u, leave{})", at_, left_, frame().run);
  }

  tl::expected<void, std::string> add_function(const Kinds& given) {
    const u32 stack = depth();
    chain_.back().run = runs_++;
    const Frame own = frame();
    stack_words_ = std::max(stack_words_, (own.from + own.bytes) / 4);
    const Function function = followed(program_.code, own.start, given, stack, keeps_);
    written_ += static_cast<u32>(function.instructions.size());
    if (written_ > kMostInstructions)
      return Failure(
          fmt::format("with each function at each place that calls it, it has more than {} instructions",
                      kMostInstructions));
    line("#define XG_R10 {}", stack_end());
    define_calls();
    for (u32 word = own.from / 4; word < (own.from + own.bytes) / 4; ++word) line("s[{}] = 0u;", word);
    line("goto {};", label(own.start));
    Kinds kinds;
    for (std::size_t i = 0; i < function.instructions.size(); ++i) {
      at_ = function.instructions[i];
      if (const auto found = function.at_block.find(at_); found != function.at_block.end()) {
        kinds = found->second;
        changed_ = kinds.changed;
        begin_block(function, i);
        look_ahead(kinds);
      }
      const Operation one = operation_at(program_.code, at_);
      if (auto done = add(one, kinds); !done) return done;
      // The text behind it may be something else's.
      const u32 next = at_ + (one.operation == XG_PROGRAM_NUMBER ? 2 : 1);
      const bool goes_on = one.operation != XG_PROGRAM_EXIT && one.operation != XG_PROGRAM_JA &&
                           one.operation != XG_PROGRAM_NONE;
      if (goes_on && (i + 1 == function.instructions.size() || function.instructions[i + 1] != next))
        return Failure(fmt::format("its instruction {} is followed by none", at_));
      follow(one, stack, keeps_, kinds);
      changed_ = kinds.changed;
      left_ -= 1;
    }
    add_leaving();
    line("#undef XG_R10");
    return {};
  }

  // One that another one goes on with: in its place, and nothing else is known of it.
  tl::expected<void, std::string> add_program(u32 program) {
    const u32 start = program_.tables[program_.tables[XG_PROGRAM_TABLE_FIRST] + program];
    Kinds given;
    given.registers.fill({Of::anything});
    given.registers[1] = {Of::context};
    given.registers[10] = {Of::stack, 0};
    given.changed = true;
    given.written = !keeps_.packet;
    chain_ = {{.start = start, .from = 0, .bytes = stack_bytes(start)}};
    line("program_{}:", program);
    return add_function(given);
  }

  std::string label(u32 at) const { return fmt::format("l{}_{}", frame().run, at); }

  void begin_block(const Function& function, std::size_t first) {
    left_ = 0;
    for (std::size_t i = first; i < function.instructions.size(); ++i) {
      if (i != first && function.at_block.contains(function.instructions[i])) break;
      left_ += 1;
      if (ends_block(operation_at(program_.code, function.instructions[i]).operation)) break;
    }
    line("{}:", label(at_));
    // What does not loop takes each instruction of the text once at most: whole() asks for so many steps.
    if (!counts_steps_) return;
    // All of a block's steps are counted at its beginning. The interpreter says which one is too many.
    line("steps += {}u;", left_);
    line("if (steps > most) {};", leave());
  }

  // What a block loads of the packet by registers that it does not change before is looked for once for each
  // of these. Where it is not there, some instruction of the block ends the program: the interpreter says
  // which.
  void look_ahead(Kinds kinds) {
    struct Reach {
      i64 first = 0, last = 0;
      u32 loads = 0;
    };
    std::map<u32, Reach> reaches;  // by register
    std::set<u32> changed;
    looked_ahead_.clear();
    for (u32 at = at_, left = left_; left != 0; --left) {
      const Operation one = operation_at(program_.code, at);
      const bool loads = one.operation == XG_PROGRAM_LOAD;
      if (loads && kinds.registers[one.source].of == Of::packet && !kinds.written &&
          !changed.contains(one.source)) {
        const i64 first = static_cast<std::int32_t>(one.what), last = first + one.bytes;
        Reach& reach = reaches.try_emplace(one.source, Reach{first, last, 0}).first->second;
        reach = {std::min(reach.first, first), std::max(reach.last, last), reach.loads + 1};
        looked_ahead_.insert(at);
      }
      if (loads || one.operation < XG_PROGRAM_JEQ || one.operation == XG_PROGRAM_LOAD_COUNT ||
          one.operation == XG_PROGRAM_NUMBER)
        changed.insert(one.destination);
      follow(one, depth(), keeps_, kinds);
      at += one.operation == XG_PROGRAM_NUMBER ? 2 : 1;
    }
    for (const auto& [base, reach] : reaches) {
      line("if (!xg_translated_in_packet({} + {}, first, room, {}u)) {};", reg(base),
           number(static_cast<u64>(reach.first)), reach.last - reach.first, leave());
      line("w{} = xg_translated_byte(window, xg_program_low({}), {}u);", base, reg(base),
           static_cast<u32>(reach.last));
    }
  }

  // The rest of this function's runs, in the interpreter.
  void add_leaving() {
    line("leave{}:", frame().run);
    line("XG_BEGIN");
    line("XG_CALLS_{}", frame().run);
    line("goto leave;");
  }
  // The machine's calls are those of this function.
  void define_calls() {
    std::string text = fmt::format("m.frames = {}u;", chain_.size());
    if (has_tails_)
      text += fmt::format(" m.tails = tails; m.stack_from[0] = 0u; m.stack_bytes[0] = {}u;", chain_[0].bytes);
    for (std::size_t i = 1; i < chain_.size(); ++i) {
      text += fmt::format(" m.return_to[{}] = {}u;", i, chain_[i].return_to);
      if (chain_[i].turns)
        text += fmt::format(
            " m.loop_turns[{0}] = turns{0}; m.loop_turn[{0}] = turn{0}; m.loop_context[{0}] = context{0}; "
            "m.loop_function[{0}] = {1}u;",
            i, chain_[i].start);
      else
        text += fmt::format(" m.loop_turns[{0}] = m.loop_context[{0}] = u64(0);", i);
      text += fmt::format(" m.stack_from[{0}] = {1}u; m.stack_bytes[{0}] = {2}u;", i, chain_[i].from,
                          chain_[i].bytes);
      for (u32 saved = 0; saved < 4; ++saved)
        text += fmt::format(" m.saved[{}] = s{}_{};", i * 4 + saved, i, saved + 6);
    }
    line("#define XG_CALLS_{} {} m.r[10] = {}; for (i = 0u; i < {}u; i++) m.stack[i] = s[i];", frame().run,
         text, stack_end(), (frame().from + frame().bytes) / 4);
  }
  std::string stack_end() const {
    return number(xg_program_pointer(XG_PROGRAM_STACKS + depth(), XG_PROGRAM_STACK));
  }

  tl::expected<void, std::string> add(const Operation& one, Kinds& kinds) {
    if (one.operation < XG_PROGRAM_JEQ) {
      add_arithmetic(one);
    } else if (one.operation <= XG_PROGRAM_JA) {
      add_jump(one);
    } else if (one.operation == XG_PROGRAM_LOAD || one.operation == XG_PROGRAM_LOAD_COUNT) {
      add_load(one, kinds);
    } else if (one.operation == XG_PROGRAM_STORE) {
      add_store(one, kinds);
    } else if (one.operation == XG_PROGRAM_ADD_UP || one.operation == XG_PROGRAM_ADD_TO) {
      add_count(one, kinds);
    } else if (one.operation == XG_PROGRAM_NUMBER) {
      line("{} = {};", reg(one.destination), number(one.immediate));
    } else if (one.operation == XG_PROGRAM_CALL) {
      return add_call(one.what, false, kinds);
    } else if (one.operation == XG_PROGRAM_LOOP) {
      return add_loop(kinds);
    } else if (one.operation == XG_PROGRAM_EXIT) {
      if (depth() == 0)
        line("goto over;");
      else
        line("goto back{};", frame().run);
    } else if (one.operation == XG_PROGRAM_TAIL_CALL) {
      add_tail_call(kinds);
    } else if (one.operation == XG_PROGRAM_LOOK_UP) {
      add_look_up(one, kinds);
    } else if (one.operation == XG_PROGRAM_TIME || one.operation == XG_PROGRAM_RANDOM ||
               one.operation == XG_PROGRAM_QUEUE) {
      line("r0 = u64(m.{});", one.operation == XG_PROGRAM_TIME     ? "time"
                              : one.operation == XG_PROGRAM_RANDOM ? "random"
                                                                   : "queue");
      line("XG_FORGET;");
    } else if (adjusts(one.operation)) {
      add_adjusting(one);
    } else if (is_asked(one.operation)) {
      add_asking(one, kinds);
    } else {
      line("{};", leave());
    }
    return {};
  }

  // Whatever it does to maps and to the machine stays there. An atomic operation may go where nobody has
  // looked: then to the packet.
  void add_asking(const Operation& one, const Kinds& kinds) {
    asks_ = begins_ = true;
    line("XG_ASK({}u, XG_CALLS_{})", at_, frame().run);
    if (one.operation == XG_PROGRAM_ATOMIC && !kinds.written) line("if (m.lines_used != 0u) goto ended;");
  }
  void add_adjusting(const Operation& one) {
    begins_ = true;
    line("if (r1 != {}) {};", programs::number(xg_program_pointer(XG_PROGRAM_CONTEXT, 0)), leave());
    line("XG_BEGIN");
    line("m.steps = steps; r0 = xg_program_adjusted(m, {}u, xg_program_low(r2)); steps = m.steps;",
         one.operation);
    line("if (m.fault != 0u) goto ended;");
    line("XG_FORGET;");
  }

  void add_arithmetic(const Operation& one) {
    const std::string to = reg(one.destination), by = operand(one);
    const char* const plain = one.operation == XG_PROGRAM_ADD   ? "+"
                              : one.operation == XG_PROGRAM_SUB ? "-"
                              : one.operation == XG_PROGRAM_MUL ? "*"
                              : one.operation == XG_PROGRAM_OR  ? "|"
                              : one.operation == XG_PROGRAM_AND ? "&"
                              : one.operation == XG_PROGRAM_XOR ? "^"
                                                                : nullptr;
    if (plain != nullptr && one.narrow)
      line("{0} = u64(xg_program_low({0}) {1} xg_program_low({2}));", to, plain, by);
    else if (plain != nullptr)
      line("{0} = {0} {1} {2};", to, plain, by);
    else if ((one.operation == XG_PROGRAM_LSH || one.operation == XG_PROGRAM_RSH) && !one.narrow)
      line("{0} = {0} {1} xg_program_low({2} & u64(63u));", to, one.operation == XG_PROGRAM_LSH ? "<<" : ">>",
           by);
    else if (one.operation == XG_PROGRAM_MOV && one.what == 64 && !one.narrow)
      line("{} = {};", to, by);
    else if (one.operation == XG_PROGRAM_MOV && one.what == 64)
      line("{} = u64(xg_program_low({}));", to, by);
    else
      line("{0} = xg_program_computed({1}u, {2:#x}u, {3}u, {0}, {4});", to, one.operation, one.flags,
           one.what, by);
  }

  void add_jump(const Operation& one) {
    const char* const plain = one.operation == XG_PROGRAM_JEQ   ? "=="
                              : one.operation == XG_PROGRAM_JNE ? "!="
                              : one.operation == XG_PROGRAM_JGT ? ">"
                              : one.operation == XG_PROGRAM_JGE ? ">="
                              : one.operation == XG_PROGRAM_JLT ? "<"
                              : one.operation == XG_PROGRAM_JLE ? "<="
                                                                : nullptr;
    const std::string a = reg(one.destination), b = operand(one), to = label(one.what);
    if (one.operation == XG_PROGRAM_JA)
      line("goto {};", to);
    else if (plain != nullptr && one.narrow)
      line("if (xg_program_low({}) {} xg_program_low({})) goto {};", a, plain, b, to);
    else if (plain != nullptr)
      line("if ({} {} {}) goto {};", a, plain, b, to);
    else
      line("if (xg_program_holds({}u, {:#x}u, {}, {})) goto {};", one.operation, one.flags, a, b, to);
  }

  // Which memory an address may be of, the most likely one first.
  std::vector<Kind> places(const Kind& likely) const {
    if (likely.of == Of::packet || likely.of == Of::stack || likely.of == Of::context ||
        likely.of == Of::record || (likely.of == Of::value && likely.number < maps()))
      return {likely};
    std::vector<Kind> all{{Of::packet}};
    for (u32 i = 0; i <= depth(); ++i) all.push_back({Of::stack, i});
    for (u32 i = 0; i < std::min(maps(), kMostTried); ++i) all.push_back({Of::value, i});
    return all;
  }
  // Nobody knows it, and there is too much that it may be.
  bool is_any(const Kind& likely) const { return maps() > kMostInText && places(likely).size() > 1; }
  std::string is_there(const Kind& kind, u32 bytes) const {
    switch (kind.of) {
      case Of::packet:
        return fmt::format("xg_translated_in_packet(a, first, room, {}u)", bytes);
      case Of::stack:
        return fmt::format("xg_translated_in_stack(a, {}u, {}u, {}u)", kind.number, chain_[kind.number].bytes,
                           bytes);
      case Of::value:
        return fmt::format("xg_translated_in_value(m, a, {}u, {}u)", kind.number, bytes);
      case Of::record:
        return fmt::format("xg_translated_in_record(m, a, {}u)", bytes);
      default:
        return bytes == 4 ? "xg_translated_in_context(a)" : "false";
    }
  }
  std::string stack_at(const Kind& kind) const {
    return fmt::format("xg_translated_stack_at(a, {}u, {}u)", chain_[kind.number].from,
                       chain_[kind.number].bytes);
  }
  static std::string value_at(const Kind& kind) {
    return fmt::format("xg_translated_value_at(m, a, {}u)", kind.number);
  }
  std::string got(const Kind& kind, u32 bytes) const {
    switch (kind.of) {
      case Of::packet:
        return fmt::format("xg_translated_packet_get(window, xg_program_low(a), {}u)", bytes);
      case Of::stack:
        return fmt::format("xg_program_words_get(s, {}, {}u)", stack_at(kind), bytes);
      case Of::value:
        return fmt::format("xg_translated_state_get(state, {}, {}u)", value_at(kind), bytes);
      case Of::record:
        return fmt::format("xg_program_words_get(m.record_words, xg_program_low(a), {}u)", bytes);
      default:
        return "xg_translated_context_get(m, a)";
    }
  }
  void address(u32 base, u32 offset) {
    const u64 by = xg_program_signed(offset, 32);
    line("a = {} + {};", reg(base), number(by));
  }

  void add_load(const Operation& one, const Kinds& kinds) {
    if (looked_ahead_.contains(at_)) {
      line("v = xg_translated_get(w{} + ({}), {}u);", one.source, static_cast<std::int32_t>(one.what),
           one.bytes);
    } else {
      address(one.source, one.what);
      const bool any = is_any(kinds.registers[one.source]);
      for (const Kind& kind : places(kinds.registers[one.source]))
        if (any && kind.of != Of::stack)
          continue;
        else if (kind.of == Of::packet && kinds.written)
          line(
              "if (xg_translated_is_packet(a)) {{ XG_BEGIN v = xg_program_loaded(m, a, {}u); if (m.fault != "
              "0u) goto ended; }} else",
              one.bytes);
        else
          line("if ({}) v = {}; else", is_there(kind, one.bytes), got(kind, one.bytes));
      begins_ = begins_ || kinds.written || any;
      if (any)
        line("{{ XG_BEGIN v = xg_program_loaded(m, a, {}u); if (m.fault != 0u) goto ended; }}", one.bytes);
      else
        line("{};", leave());
    }
    if (one.operation == XG_PROGRAM_LOAD_COUNT) line("c{} = v;", counted(one.immediate));
    if (one.with_sign)
      line("{} = xg_program_signed(v, {}u);", reg(one.destination), one.bytes * 8);
    else
      line("{} = v;", reg(one.destination));
  }

  void add_store(const Operation& one, const Kinds& kinds) {
    address(one.destination, one.what);
    const bool any = is_any(kinds.registers[one.destination]);
    for (const Kind& kind : places(kinds.registers[one.destination])) {
      if (any && kind.of != Of::stack) continue;
      if (kind.of == Of::stack)
        line("if ({}) xg_program_words_set(s, {}, {}u, {}); else", is_there(kind, one.bytes), stack_at(kind),
             one.bytes, operand(one));
      if (kind.of == Of::value &&
          (map_word(kind.number, XG_PROGRAM_MAP_FLAGS) & XG_PROGRAM_VALUES_READ_ONLY) == 0)
        line(
            "if ({4}{0} && xg_translated_is_aligned({1}, {2}u)) "
            "xg_translated_state_set(state, {1}, {2}u, {3}); "
            "else",
            is_there(kind, one.bytes), value_at(kind), one.bytes, operand(one),
            is_keyed_ ? "m.seeks_key == 0u && " : "");
      if (kind.of == Of::record)
        line("if ({}) xg_program_words_set(m.record_words, xg_program_low(a), {}u, {}); else",
             is_there(kind, one.bytes), one.bytes, operand(one));
      // Else what comes behind it takes the packet for one that is as it came.
      const bool is_known = kinds.registers[one.destination].of != Of::stack &&
                            kinds.registers[one.destination].of != Of::value &&
                            kinds.registers[one.destination].of != Of::record;
      if (kind.of == Of::packet && is_known)
        line(
            "if (xg_translated_is_packet(a)) {{ XG_BEGIN xg_program_stored(m, a, {}u, {}); if (m.fault != "
            "0u) goto ended; }} else",
            one.bytes, operand(one));
      begins_ = begins_ || (kind.of == Of::packet && is_known);
    }
    begins_ = begins_ || any;
    if (any)
      line("{{ XG_BEGIN xg_program_stored(m, a, {}u, {}); if (m.fault != 0u) goto ended; }}", one.bytes,
           operand(one));
    else
      line("{};", leave());
  }

  u32 counted(u64 place) {
    counts_ = std::max(counts_, static_cast<u32>(place) + 1);
    return static_cast<u32>(place);
  }
  void add_count(const Operation& one, const Kinds& kinds) {
    const std::string by = one.operation == XG_PROGRAM_ADD_TO
                               ? reg(one.source)
                               : fmt::format("{} - c{}", reg(one.source), counted(one.immediate));
    address(one.destination, one.what);
    for (const Kind& kind : places(kinds.registers[one.destination]))
      if (kind.of == Of::value && one.bytes >= 4 &&
          (map_word(kind.number, XG_PROGRAM_MAP_FLAGS) & XG_PROGRAM_VALUES_READ_ONLY) == 0)
        line("if ({}) xg_translated_add{}state, {}, {}u, {}); else", is_there(kind, one.bytes),
             is_keyed_ ? "(m, " : "_now(", value_at(kind), one.bytes, by);
    line("{};", leave());
  }

  // `turns`: bpf_loop calls it, with a number and what is in R3.
  tl::expected<void, std::string> add_call(u32 start, bool turns, const Kinds& kinds) {
    const Frame& caller = frame();
    const Frame called{.start = start,
                       .from = caller.from + caller.bytes,
                       .bytes = stack_bytes(start),
                       .return_to = at_ + 1,
                       .turns = turns};
    if (chain_.size() == XG_PROGRAM_FRAMES || called.from + called.bytes > XG_PROGRAM_STACK_BYTES) {
      line("{};", leave());
      return {};
    }
    const u32 number = depth() + 1, loop = turns ? loops_++ : 0;
    deepest_ = std::max(deepest_, number);
    if (turns) begin_loop(number, loop);
    for (u32 i = 6; i < 10; ++i) line("s{}_{} = r{};", number, i, i);
    Kinds given;
    given.registers.fill({Of::anything});
    given.changed = kinds.changed;
    given.written = kinds.written;
    if (turns) {
      // Behind another turn nothing else is known.
      given.registers[2] = kinds.registers[3];
      given.changed = true;
      given.written = given.written || !keeps_.packet;
      line("turn_{}:", loop);
      line("XG_FORGET; r1 = turn{0}; r2 = context{0};", number);
    } else {
      for (u32 i = 0; i < 10; ++i) given.registers[i] = kinds.registers[i];
    }
    given.registers[10] = {Of::stack, number};
    const u32 at = at_, left = left_;
    line("#undef XG_R10");
    chain_.push_back(called);
    if (auto done = add_function(given); !done) return done;
    const u32 run = frame().run;
    chain_.pop_back();
    at_ = at;
    left_ = left;
    line("#define XG_R10 {}", stack_end());
    line("back{}:", run);
    if (turns) {
      line("turn{} += u64(1);", number);
      line("if (r0 == u64(0) && turn{0} < turns{0}) goto turn_{1};", number, loop);
      line("r0 = turn{};", number);
    }
    for (u32 i = 6; i < 10; ++i) line("r{} = s{}_{};", i, number, i);
    if (turns) line("through_{}:", loop);
    line("XG_FORGET;");
    return {};
  }
  // Of the entry's function; what is called from it has the interpreter go on. So has what goes on with the
  // first program, which the text has once, as it begins.
  void add_tail_call(const Kinds& kinds) {
    const Kind map = kinds.registers[2];
    if (depth() != 0 || map.of != Of::map || map.number >= maps() ||
        map_word(map.number, XG_PROGRAM_MAP_TYPE) != XG_PROGRAM_PROGRAMS)
      return line("{};", leave());
    const std::string context = programs::number(xg_program_pointer(XG_PROGRAM_CONTEXT, 0));
    line("if (r1 != {} || r2 != {}) {};", context,
         programs::number(xg_program_pointer(XG_PROGRAM_MAPS + map.number, 0)), leave());
    line("at = 0u;");
    line("if (xg_program_low(r3) < {}u && tails < XG_PROGRAM_TAIL_CALLS)",
         map_word(map.number, XG_PROGRAM_MAP_ENTRIES));
    line("  at = XG_LOOK(state, xg_program_value_at(m, {}u, xg_program_low(r3)));", map.number);
    line("if (at == 1u || at > {}u) {};", programs(), leave());
    line("XG_FORGET;");
    for (u32 program = 1; program < programs(); ++program)
      line("if (at == {}u) {{ tails++; r1 = {}; goto program_{}; }}", program + 1, context, program);
  }

  // Where it does not turn at all, its answer is there at once.
  void begin_loop(u32 number, u32 loop) {
    loops_deepest_ = std::max(loops_deepest_, number);
    line("if (r4 != u64(0) || r1 > u64(XG_PROGRAM_LOOPS) || r1 == u64(0)) {{");
    line(
        "  r0 = r4 != u64(0) ? xg_program_error(XG_PROGRAM_EINVAL) : r1 == u64(0) ? u64(0) : u64(0u - "
        "XG_PROGRAM_E2BIG);");
    line("  goto through_{};", loop);
    line("}}");
    line("turns{0} = r1; turn{0} = u64(0); context{0} = r3;", number);
  }
  tl::expected<void, std::string> add_loop(const Kinds& kinds) {
    const Kind function = kinds.registers[2];
    if (function.of != Of::function || function.number >= program_.code.size() / 4) {
      line("{};", leave());
      return {};
    }
    line("if (r2 != {}) {};", programs::number(xg_program_pointer(XG_PROGRAM_FUNCTION, function.number)),
         leave());
    return add_call(function.number, true, kinds);
  }

  void add_look_up(const Operation& one, const Kinds& kinds) {
    const Kind map = kinds.registers[1];
    const bool known = map.of == Of::map && map.number < maps() &&
                       map_word(map.number, XG_PROGRAM_MAP_TYPE) != XG_PROGRAM_PROGRAMS &&
                       map_word(map.number, XG_PROGRAM_MAP_KEY) <= kMostKeyWords * 4;
    // A map that another one gave, or one of several: that is asked for, where steps are counted.
    if (!known) return counts_steps_ ? add_asking(one, kinds) : line("{};", leave());
    const u32 bytes = map_word(map.number, XG_PROGRAM_MAP_KEY), words = (bytes + 3) / 4;
    looked_up_[map.number] += 1;
    line("if (r1 != {}) {};", programs::number(xg_program_pointer(XG_PROGRAM_MAPS + map.number, 0)), leave());
    line("a = r2;");
    for (const Kind& kind : places(kinds.registers[2])) {
      if (kind.of == Of::context || kind.of == Of::record || (kind.of == Of::packet && kinds.written))
        continue;
      std::string key;
      for (u32 i = 0; i < words; ++i) {
        const u32 here = std::min(bytes - i * 4, 4u);
        key += fmt::format(" k{} = {};", i, key_word(kind, i * 4, here));
      }
      line("if ({}) {{{} }} else", is_there(kind, bytes), key);
    }
    line("{};", leave());
    key_words_ = std::max(key_words_, words);
    std::string arguments = "m";
    for (u32 i = 0; i < words; ++i) arguments += fmt::format(", k{}", i);
    line("r0 = look_up_{}({});", map.number, arguments);
    // It seeks its key, and has it; or it is not its own.
    if (is_sharded(map.number)) {
      ends_early_ = true;
      line("if (m.fault != 0u) {{ if (begun) xg_program_go_on(m); return; }}");
    }
    if (counts_steps_ && bytes >= 8) line("steps += {}u;", bytes / 8);
    written_ += bytes / 8;
    line("XG_FORGET;");
  }
  std::string key_word(const Kind& kind, u32 from, u32 bytes) const {
    if (kind.of == Of::packet)
      return fmt::format("xg_translated_packet_word(window, xg_program_low(a) + {}u, {}u)", from, bytes);
    const auto one = [&](u32 at, u32 count) {
      return kind.of == Of::stack
                 ? fmt::format("xg_program_words_get(s, {} + {}u, {}u)", stack_at(kind), at, count)
                 : fmt::format("xg_translated_state_get(state, {} + {}u, {}u)", value_at(kind), at, count);
    };
    if (bytes != 3) return fmt::format("xg_program_low({})", one(from, bytes));
    return fmt::format("xg_program_low({}) | (xg_program_low({}) << 16)", one(from, 2), one(from + 2, 1));
  }

  std::string whole() const {
    std::string text = "// Made by xdpgpu of an XDP program.\n#include \"gpu/stages/program_units.h\"\n";
    text += "XG_UNIT_CONSTANT u32 xg_program_known_maps[] = {";
    for (u32 map = 0; map < maps(); ++map)
      for (u32 word = 0; word < XG_PROGRAM_MAP_WORDS; ++word)
        text += fmt::format("{}u, ", map_word(map, word));
    text += "0u};\n#include \"gpu/stages/program_translated.h\"\n";
    for (const auto& [map, times] : looked_up_) {
      const u32 words = (map_word(map, XG_PROGRAM_MAP_KEY) + 3) / 4;
      std::string parameters, given;
      for (u32 i = 0; i < words; ++i) {
        parameters += fmt::format(", u32 k{}", i);
        given += fmt::format("{}k{}", i == 0 ? "" : ", ", i);
      }
      text += fmt::format(
          "{} u64 look_up_{}(xg_program_machine& m{}) {{\n  const u32 words[] = {{{}}};\n"
          "  return xg_translated_look_up(m, {}u, words);\n}}\n",
          times > kMostInlined ? "XG_SELDOM" : "XG_FN", map, parameters, given, map);
    }
    text += fmt::format("#define XG_LEAVE(instruction, left, where) {{ at = instruction; {}goto where; }}\n",
                        counts_steps_ ? "steps -= left; " : "");
    text += "#define XG_FORGET r1 = r2 = r3 = r4 = r5 = u64(0)\n";
    std::string given, taken;
    for (u32 i = 0; i < 10; ++i) {
      given += fmt::format(" m.r[{0}] = r{0};", i);
      taken += fmt::format(" r{0} = m.r[{0}];", i);
    }
    for (u32 i = 0; i < counts_; ++i) given += fmt::format(" m.counted[{0}] = c{0};", i);
    text += "#define XG_BEGIN if (!begun) { xg_program_prepare(m); begun = true; }\n";
    text += fmt::format("#define XG_GIVE{} m.steps = steps; m.next = at;\n", given);
    if (asks_)
      text += fmt::format(
          "#define XG_ASK(instruction, calls) {{ at = instruction; XG_BEGIN calls XG_GIVE xg_program_one(m); "
          "if (m.fault != 0u) goto ended;{} steps = m.steps; "
          "for (i = 0u; i < {}u; i++) s[i] = m.stack[i]; }}\n",
          taken, stack_words_);
    text += fmt::format("XG_UNIT void {}(xg_program_machine& m) {{\n", name_);
    text +=
        "  const u32 most = m.most_steps;\n"
        "  const u64 first = xg_translated_packet_pointer(m.meta), room = u64(m.end) - u64(m.meta);\n"
        "  const xg_translated_window window = xg_translated_window_of(m);\n  const xg_state state = "
        "m.state;\n"
        "  bool begun = false;\n  u32 steps = 0u, at = 0u, i = 0u;\n  u64 a = u64(0), v = u64(0);\n"
        "  u64 r0 = u64(0), r2 = u64(0), r3 = u64(0), r4 = u64(0), r5 = u64(0);\n"
        "  u64 r6 = u64(0), r7 = u64(0), r8 = u64(0), r9 = u64(0);\n"
        "  u64 r1 = xg_program_pointer(XG_PROGRAM_CONTEXT, 0u);\n";
    for (u32 i = 0; i < 10; ++i) text += fmt::format("  const u8* w{} = window.frame;\n", i);
    text += fmt::format("  u32 s[{}];\n", std::max(stack_words_, 1u));
    if (has_tails_) text += "  u32 tails = 0u;\n";
    for (u32 i = 0; i < counts_; ++i) text += fmt::format("  u64 c{} = u64(0);\n", i);
    for (u32 i = 0; i < key_words_; ++i) text += fmt::format("  u32 k{} = 0u;\n", i);
    for (u32 frame = 1; frame <= deepest_; ++frame)
      for (u32 i = 6; i < 10; ++i) text += fmt::format("  u64 s{}_{} = u64(0);\n", frame, i);
    for (u32 frame = 1; frame <= loops_deepest_; ++frame)
      text += fmt::format("  u64 turns{0} = u64(0), turn{0} = u64(0), context{0} = u64(0);\n", frame);
    if (!counts_steps_) text += fmt::format("  if (most < {}u) goto again;\n", written_);
    if (ends_early_) text += "  m.fault = 0u;\n";
    text += body_;
    text += "again:\n  xg_program_interpret(m);\n  return;\n";
    text += "leave:\n  XG_GIVE\nended:\n  xg_program_go_on(m);\n  return;\n";
    text += "over:\n  m.r[0] = r0;\n  m.steps = steps;\n";
    // What waits for the end of the run is given back.
    text += begins_ ? "  if (begun) {\n    m.frames = 0u;\n    return xg_program_go_on(m);\n  }\n" : "";
    text += "  m.fault = 0u;\n  m.redirect_to = 0u;\n}\n";
    return text;
  }

  const Decoded& program_;
  std::string name_;
  bool counts_steps_;
  Keeps keeps_{};
  bool asks_ = false;
  bool has_tails_ = false;   // it may go on with other programs
  bool is_keyed_ = false;    // runs may seek their key, or be ahead of their turns
  bool begins_ = false;      // it may come to use the machine
  bool ends_early_ = false;  // a look-up may end it
  bool changed_ = false;     // some map may have been, where the text stands
  std::string body_;
  std::vector<Frame> chain_;
  std::map<u32, u32> looked_up_;       // by map: at how many places
  std::set<u32> looked_ahead_;         // of the block's loads, those whose bytes were found at its beginning
  u32 at_ = 0;                         // the instruction that is being translated
  u32 left_ = 0;                       // of its block's instructions, it and those behind it
  u32 loops_ = 0, loops_deepest_ = 0;  // calls of bpf_loop; and in how many functions
  u32 runs_ = 0, written_ = 0, stack_words_ = 0, deepest_ = 0, counts_ = 0, key_words_ = 0;
};

std::string symbol_of(u64 name) { return fmt::format("xg_program_{:016x}", name); }

}  // namespace

u64 name_of(std::span<const u32> code, std::span<const u32> tables) {
  XG_SIP_BEGIN(0, 0);
  const auto add = [&](std::span<const u32> words) {
    const u64 count = words.size();
    XG_SIP_WORD(count);
    for (const u32 one : words) {
      const u64 word = one;
      XG_SIP_WORD(word);
    }
  };
  add(code);
  add(tables);
  XG_SIP_END();
  return v0 ^ v1 ^ v2 ^ v3;
}

tl::expected<std::string, std::string> translated(const Decoded& program) {
  if (auto why = wrong_words(program); !why.empty()) return Failure(std::move(why));
  return Translator(program, symbol_of(name_of(program.code, program.tables))).translate();
}

std::string chosen_of(std::span<const u64> names) {
  std::string text = "// Made by xdpgpu of a policy's programs.\n#include \"gpu/stages/program_units.h\"\n",
              choice;
  for (const u64 name : names) {
    text += fmt::format("XG_UNIT void {}(xg_program_machine& m);\n", symbol_of(name));
    choice += fmt::format("  if (name == {}) return {}(m);\n", number(name), symbol_of(name));
  }
  return text + "XG_UNIT void xg_program_run_there(xg_program_machine& m, u64 name) {\n" + choice +
         "  xg_program_interpret(m);\n}\n";
}

}  // namespace xdpgpu::gpu::programs
