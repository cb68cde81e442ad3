// SPDX-License-Identifier: MIT
#include "gpu/program_counts.hpp"

#include <fmt/format.h>
#include <linux/bpf.h>

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <tuple>
#include <vector>

#include "gpu/program_bits.hpp"
#include "gpu/program_keys.hpp"

namespace xdpgpu::gpu::programs {
namespace {

constexpr i64 kFar = i64{1} << 31;  // of a pointer: no offset beyond it is followed
constexpr i64 kPacketFar = i64{1} << 35;
constexpr i64 kPacketEnd = 3776;  // a place in the frame: all others of the packet's are in front of it
constexpr std::size_t kMostPlaces = 4096;     // that jumps lead to
constexpr std::size_t kMostWork = 1'500'000;  // instructions followed, in all rounds
constexpr u32 kMostRounds = 24;
constexpr u32 kMostGrowths = 64;  // of what is not known at a place, before offsets are given up
constexpr u32 kRouteBytes = 64;   // of struct bpf_fib_lookup
constexpr u32 kRegisters = 11, kStackSlots = 64;
constexpr u32 kNobody = ~0u;

// A record is what is reserved of a ringbuf: the run's own, as its packet is.
enum class Kind : u8 { number, context, stack, packet, map, value, record };

// What is known of a register, or of eight bytes of the stack.
struct Value {
  Kind kind = Kind::number;
  u8 width = 0;           // of the load
  Bits bits{};            // of a number
  u64 maps = 0;           // a bit each: those that it may be, or may be a value of
  u64 element = 0;        // a name for that value; those of one state that have the same one are the same
  i64 low = 0, high = 0;  // offset
  // Of a number that is what a load found and a sum of numbers: the load, where from, and the sum.
  u32 load = kNobody;
  i64 from = 0;
  Bits added{};
  bool operator==(const Value&) const = default;

  u64 shaky() const { return kind == Kind::number ? bits.shaky : 0; }
  Bits as_bits() const { return kind == Kind::number ? bits : Bits::unknown(); }
  bool is_zero() const { return kind == Kind::number && bits == Bits::known(0); }
};

Value number(Bits bits) { return {.bits = bits}; }
Value pointer(Kind kind, i64 low, i64 high, u64 maps = 0, u64 element = 0) {
  return {.kind = kind, .maps = maps, .element = element, .low = low, .high = high};
}

// Names of values: found by a look-up; a map's only one; of different ones where ways meet.
u64 found_by(u32 at) { return u64{1} << 60 | at; }
u64 only_one_of(u32 map) { return u64{2} << 60 | map; }
u64 met_at(u32 at, u32 slot) { return u64{3} << 60 | u64{at} << 16 | slot; }
bool is_met_at(u64 element, u32 at) { return element >> 16 == met_at(at, 0) >> 16; }
constexpr u64 kAnyElement = 0;

struct State {
  std::array<Value, kRegisters> registers;
  std::vector<Value> stack;  // from the top down; behind it all is 0
  bool operator==(const State&) const = default;

  Value& slot(u32 number) {
    if (number < kRegisters) return registers[number];
    if (stack.size() <= number - kRegisters)
      stack.resize(number - kRegisters + 1, Value{.bits = Bits::known(0)});
    return stack[number - kRegisters];
  }
  template <class F>
  void each(F f) {
    for (Value& value : registers) f(value);
    for (Value& value : stack) f(value);
  }
};

struct Where {
  u32 map, offset, width;
  bool operator<(const Where& other) const {
    return std::tie(map, offset, width) < std::tie(other.map, other.offset, other.width);
  }
};

class Follower {
 public:
  explicit Follower(const Program& program) : program_(program), code_(program.instructions) {
    leaders_.resize(code_.size());
    for (std::size_t at = 0; at < code_.size(); ++at) {
      is_second_.push_back(at != 0 && !is_second_[at - 1] && is_wide(code_[at - 1]));
      if (is_second_[at] || !is_jump(code_[at])) continue;
      if (const auto to = target(static_cast<u32>(at))) leaders_[*to] = true;
    }
    group_.resize(code_.size());
    for (u32 at = 0; at < code_.size(); ++at) group_[at] = at;
  }

  Taken follow() {
    if (program_.maps.size() > 64) return no("it has more than 64 maps");
    for (u32 map = 0; map < program_.maps.size(); ++map)
      if (program_.maps[map].type == BPF_MAP_TYPE_LRU_HASH) ordered_ |= u64{1} << map;
    if (static_cast<std::size_t>(std::count(leaders_.begin(), leaders_.end(), true)) > kMostPlaces)
      return no("it has too many jumps to be followed");
    // What is found out about one way may change what is so on another: until nothing is new.
    for (u32 round = 0; round < kMostRounds; ++round) {
      news_ = false;
      why_.clear();
      counts_ = {};
      kept_.clear();
      pass();
      if (gave_up_) return no("it is too large to be followed");
      if (!news_) break;
    }
    if (news_) return no("it is too large to be followed");
    if (!why_.empty()) return no(why_);
    if (auto why = why_no_key(program_, keyed_calls_, stack_writes_); !why.empty()) return no(why);
    return settled();
  }

 private:
  static Taken no(std::string why) { return {Taking::in_order, std::move(why), {}}; }

  // Loads whose values meet have one place.
  Taken settled() {
    std::map<u32, u32> places;
    for (const auto& [store, group] : kept_) {
      const u32 place = places.try_emplace(group, static_cast<u32>(places.size())).first->second;
      counts_.stores[store] = place;
    }
    if (places.size() > kMostKept)
      return no(fmt::format("it counts by loads and stores in more than {} places", kMostKept));
    for (u32 at = 0; at < code_.size(); ++at)
      if (const auto place = places.find(group_of(at)); place != places.end() && loads_.contains(at))
        counts_.loads[at] = place->second;
    Taken taken{Taking::counting, "it changes its maps by additions alone, and reads no bit that they change",
                counts_};
    for (const auto& [map, offset, width] : counted_) taken.counted.push_back({map, offset, width});
    u64 keyed = 0;
    for (const KeyedCall& call : keyed_calls_) keyed |= call.maps;
    if (keyed == 0) return taken;
    for_each_map(keyed, [&](u32 map) { taken.keyed.push_back(map); });
    taken.how = Taking::by_key;
    taken.why = fmt::format("it looks into {} by one key alone, and only counts in others",
                            std::has_single_bit(keyed) ? names(keyed) : "its LRU hashes");
    return taken;
  }

  static bool is_wide(const Instruction& i) { return i.opcode == (BPF_LD | BPF_IMM | BPF_DW); }
  static bool is_jump(const Instruction& i) {
    const u8 kind = BPF_CLASS(i.opcode), what = BPF_OP(i.opcode);
    return (kind == BPF_JMP || kind == BPF_JMP32) && what != BPF_CALL && what != BPF_EXIT;
  }
  std::optional<u32> target(u32 at) const {
    const Instruction& i = code_[at];
    const i64 to = i64{at} + 1 + (i.opcode == (BPF_JMP32 | BPF_JA) ? i64{i.immediate} : i64{i.offset});
    if (to < 0 || to >= static_cast<i64>(code_.size())) return std::nullopt;
    return static_cast<u32>(to);
  }

  u32 group_of(u32 load) {
    while (group_[load] != load) load = group_[load] = group_[group_[load]];
    return load;
  }

  void pass() {
    states_.clear();
    growths_.clear();
    loads_.clear();
    State first;
    for (Value& one : first.registers) one = number(Bits::known(0));
    first.registers[1] = pointer(Kind::context, 0, 0);
    first.registers[10] = pointer(Kind::stack, 0, 0);
    open_.clear();
    arrive(0, std::move(first));
    // The first one first: where nothing goes back, all ways to a place are known by then.
    while (!open_.empty() && !gave_up_) {
      const u32 at = *open_.begin();
      open_.erase(open_.begin());
      walk(at, states_.at(at));
    }
  }

  // From one place that jumps lead to, or the program's beginning, to the next ones.
  void walk(u32 at, State state) {
    state_ = std::move(state);
    for (at_ = at;;) {
      if (++work_ > kMostWork || at_ >= code_.size()) {
        gave_up_ = true;
        return;
      }
      const Instruction& i = code_[at_];
      if (is_jump(i)) {
        work_ += 8;
        if (BPF_OP(i.opcode) != BPF_JA) look_at_condition(i);
        if (const auto to = target(at_)) arrive(*to, state_);
        if (BPF_OP(i.opcode) == BPF_JA) return;
      } else if (!step(i)) {
        return;
      }
      at_ += is_wide(i) ? 2 : 1;
      if (at_ < code_.size() && leaders_[at_]) {
        arrive(at_, state_);
        return;
      }
    }
  }

  // Ways meet at a place.
  void arrive(u32 at, State state) {
    const auto [place, is_new] = states_.try_emplace(at, state);
    if (!is_new && !meet(at, place->second, state)) return;
    if (is_new) tidy(at, place->second);
    open_.insert(at);
  }

  // Names that belong to this place begin anew.
  void tidy(u32 at, State& state) {
    State same = state;
    meet(at, state, same);
  }

  // What holds whichever way was taken. True: it is less than before.
  bool meet(u32 at, State& before, State& other) {
    const u32 slots = kRegisters + static_cast<u32>(std::max(before.stack.size(), other.stack.size()));
    work_ += slots / 8;
    const bool gives_up = growths_[at] > kMostGrowths;
    if (slots > kRegisters) {
      before.slot(slots - 1);
      other.slot(slots - 1);
    }
    const State was = before;
    std::map<std::pair<u64, u64>, u64> names;
    const auto name = [&](u64 one, u64 two, u32 slot) {
      if (one == kAnyElement || two == kAnyElement) return kAnyElement;
      const bool keeps = one == two && !is_met_at(one, at);
      return names.try_emplace({one, two}, keeps ? one : met_at(at, slot)).first->second;
    };
    for (u32 slot = 0; slot < slots; ++slot)
      before.slot(slot) = met(before.slot(slot), other.slot(slot), gives_up,
                              [&](u64 one, u64 two) { return name(one, two, slot); });
    const bool grows = before != was;
    if (grows) ++growths_[at];
    return grows;
  }

  template <class Name>
  Value met(const Value& one, const Value& two, bool gives_up, Name name) {
    // A look-up that found nothing is 0, and no address.
    if (one.kind == Kind::value && one.low == 0 && one.high == 0 && two.is_zero())
      return met_null(one, name, false);
    if (two.kind == Kind::value && two.low == 0 && two.high == 0 && one.is_zero())
      return met_null(two, name, true);
    if (one.kind != two.kind) return number(Bits::unknown(one.shaky() | two.shaky()));
    if (one.kind == Kind::number) {
      Value both = number(met_bits(one.bits, two.bits));
      if (one.load == kNobody || two.load == kNobody || one.from != two.from || one.width != two.width)
        return both;
      const u32 a = group_of(one.load), b = group_of(two.load);
      if (a != b) {
        group_[std::max(a, b)] = std::min(a, b);
        news_ = true;
      }
      both.load = std::min(a, b);
      both.from = one.from;
      both.width = one.width;
      both.maps = one.maps | two.maps;
      both.element = name(one.element, two.element);
      both.added = met_bits(one.added, two.added);
      return both;
    }
    Value both = one;
    both.low = std::min(one.low, two.low);
    both.high = std::max(one.high, two.high);
    const bool grows = both.low != one.low || both.high != one.high;
    if (grows && (gives_up || one.kind == Kind::context || one.kind == Kind::map))
      return number(Bits::unknown());
    both.maps |= two.maps;
    if (one.kind == Kind::value) both.element = name(one.element, two.element);
    return both;
  }
  template <class Name>
  static Value met_null(const Value& value, Name name, bool first) {
    Value both = value;
    constexpr u64 kNull = u64{4} << 60;
    both.element = first ? name(kNull, value.element) : name(value.element, kNull);
    return both;
  }

  // The first one is said, in the order of the program.
  void refuse(std::string why) {
    if (why_.empty() || at_ < why_at_) {
      why_ = std::move(why);
      why_at_ = at_;
    }
  }
  // True: none of these bits hangs on counts.
  bool holds_still(u64 shaky, std::string_view what) {
    if (shaky == 0) return true;
    refuse(fmt::format("instruction {} {} what it counts", at_, what));
    return false;
  }

  void look_at_condition(const Instruction& i) {
    const Bits one = operand(i.destination, i), two = second_operand(i);
    const u64 shaky = BPF_OP(i.opcode) == BPF_JSET ? and_bits(one, two).shaky : one.shaky | two.shaky;
    holds_still(shaky, "decides by");
  }
  Bits operand(u8 which, const Instruction& i) {
    const Bits bits = reg(which).as_bits();
    return BPF_CLASS(i.opcode) == BPF_JMP32 || BPF_CLASS(i.opcode) == BPF_ALU ? cut_bits(bits, 32) : bits;
  }
  Bits second_operand(const Instruction& i) {
    if (BPF_SRC(i.opcode) == BPF_X) return operand(i.source, i);
    const Bits bits = Bits::known(static_cast<u64>(i64{i.immediate}));
    return BPF_CLASS(i.opcode) == BPF_JMP32 || BPF_CLASS(i.opcode) == BPF_ALU ? cut_bits(bits, 32) : bits;
  }

  Value& reg(u8 which) { return state_.registers[std::min<u8>(which, 10)]; }

  // False: the way ends here.
  bool step(const Instruction& i) {
    switch (BPF_CLASS(i.opcode)) {
      case BPF_ALU:
      case BPF_ALU64:
        reg(i.destination) = computed(i);
        return true;
      case BPF_LDX:
        return load(i);
      case BPF_ST:
      case BPF_STX:
        return store(i);
      case BPF_LD:
        return wide(i);
      default:
        break;
    }
    if (i.opcode == (BPF_JMP | BPF_EXIT)) {
      holds_still(reg(0).shaky(), "ends with");
      return false;
    }
    return call(i);
  }

  bool wide(const Instruction& i) {
    if (!is_wide(i) || at_ + 1 >= code_.size()) {
      refuse(fmt::format("instruction {} is not followed", at_));
      return false;
    }
    const u32 low = static_cast<u32>(i.immediate), high = static_cast<u32>(code_[at_ + 1].immediate);
    Value& to = reg(i.destination);
    if (i.source == 0)
      to = number(Bits::known(u64{high} << 32 | low));
    else if (i.source == BPF_PSEUDO_MAP_IDX && low < program_.maps.size())
      to = pointer(Kind::map, 0, 0, u64{1} << low);
    else if (i.source == BPF_PSEUDO_MAP_IDX_VALUE && low < program_.maps.size() && high < kFar)
      to = pointer(Kind::value, high, high, u64{1} << low, only_one_of(low));
    else
      to = number(Bits::unknown());
    return true;
  }

  Value computed(const Instruction& i) {
    const bool wide = BPF_CLASS(i.opcode) == BPF_ALU64, is_register = BPF_SRC(i.opcode) == BPF_X;
    const u8 what = BPF_OP(i.opcode);
    const Value d = reg(i.destination);
    if (what == BPF_END) {
      const u32 bits = static_cast<u32>(i.immediate);
      const Bits of = d.as_bits();
      // No instruction: devices refuse it.
      if (bits != 16 && bits != 32 && bits != 64) return number(Bits::unknown(of.shaky));
      return number(wide || is_register ? swapped_bits(of, bits) : cut_bits(of, bits));
    }
    const Value s = is_register ? reg(i.source) : number(Bits::known(static_cast<u64>(i64{i.immediate})));
    if (what == BPF_MOV && i.offset == 0 && wide) return s;
    if (wide && (what == BPF_ADD || what == BPF_SUB))
      if (const auto moved = moved_pointer(d, s, what == BPF_SUB)) return *moved;
    const Bits a = wide ? d.as_bits() : cut_bits(d.as_bits(), 32),
               b = wide ? s.as_bits() : cut_bits(s.as_bits(), 32);
    Value made = number(result(what, i, a, b, wide));
    if (!wide) made.bits = cut_bits(made.bits, 32);
    // Of four bytes all of this is the same modulo 2^32.
    const auto counts = [&](const Value& of) { return of.load != kNobody && (wide || of.width == 4); };
    const Value* base = nullptr;
    Bits added = Bits::known(0);
    if (what == BPF_MOV && i.offset == 0 && counts(s)) {
      base = &s;
      added = s.added;
    } else if (what == BPF_ADD && counts(d) && !(counts(s) && !is_stored(d) && is_stored(s))) {
      base = &d;
      added = add_bits(d.added, s.as_bits());
    } else if (what == BPF_ADD && counts(s)) {
      base = &s;
      added = add_bits(s.added, d.as_bits());
    } else if (what == BPF_SUB && counts(d)) {
      base = &d;
      added = sub_bits(d.added, s.as_bits());
    }
    if (base != nullptr) {
      made.load = base->load;
      made.from = base->from;
      made.width = base->width;
      made.maps = base->maps;
      made.element = base->element;
      made.added = added;
    }
    return made;
  }

  static Bits result(u8 what, const Instruction& i, const Bits& a, const Bits& b, bool wide) {
    const u32 bits = wide ? 64 : 32;
    switch (what) {
      case BPF_ADD:
        return add_bits(a, b);
      case BPF_SUB:
        return sub_bits(a, b);
      case BPF_NEG:
        return sub_bits(Bits::known(0), a);
      case BPF_MUL:
        return mul_bits(a, b);
      case BPF_OR:
        return or_bits(a, b);
      case BPF_AND:
        return and_bits(a, b);
      case BPF_XOR:
        return xor_bits(a, b);
      case BPF_LSH:
        return shifted_bits(a, b, bits, [](const Bits& of, u32 by, u32) { return left_bits(of, by); });
      case BPF_RSH:
        return shifted_bits(a, b, bits, [](const Bits& of, u32 by, u32) { return right_bits(of, by); });
      case BPF_ARSH:
        return shifted_bits(
            a, b, bits, [](const Bits& of, u32 by, u32 all) { return right_bits_with_sign(of, by, all); });
      case BPF_MOV:
        return i.offset == 0 ? b : signed_bits(b, static_cast<u32>(i.offset));
      default:
        return Bits::unknown(a.shaky | b.shaky);
    }
  }

  // A pointer and a number, within bounds; nothing: it is neither.
  static std::optional<Value> moved_pointer(const Value& d, const Value& s, bool minus) {
    const bool first = d.kind != Kind::number, second = s.kind != Kind::number;
    if (first == second || (second && minus)) return std::nullopt;
    const Value& base = first ? d : s;
    const Bits by = (first ? s : d).bits;
    if (by.shaky != 0 || base.kind == Kind::map) return std::nullopt;
    i64 low = 0, high = 0;
    if (by.mask == 0) {
      low = high = static_cast<i64>(by.value);
    } else {
      if (base.kind != Kind::packet && base.kind != Kind::value && base.kind != Kind::record)
        return std::nullopt;
      if (by.most() > u64{1} << 33) return std::nullopt;
      low = static_cast<i64>(by.value);
      high = static_cast<i64>(by.most());
    }
    if (low < -kFar || high > (i64{1} << 33)) return std::nullopt;
    Value moved = base;
    moved.low = minus ? base.low - high : base.low + low;
    moved.high = minus ? base.high - low : base.high + high;
    const i64 far = base.kind == Kind::packet ? kPacketFar : kFar;
    if (moved.low < -kFar || moved.high > far) return std::nullopt;
    return moved;
  }

  static u32 bytes_of(u8 opcode) {
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

  // An address that is certainly none.
  static bool is_nowhere(const Value& base) {
    return base.kind == Kind::number && base.bits.mask == 0 && base.bits.value < (u64{1} << 31);
  }

  bool load(const Instruction& i) {
    const Value base = reg(i.source);
    const u32 width = bytes_of(i.opcode);
    const bool with_sign = BPF_MODE(i.opcode) == 0x80;
    Value& to = reg(i.destination);
    if (is_nowhere(base)) return false;
    Value loaded = number(cut_bits(Bits::unknown(), width * 8));
    const i64 low = base.low + i.offset, high = base.high + i.offset;
    if (base.kind == Kind::context) {
      if (width == 4 && (low == 0 || low == 4 || low == 8)) loaded = pointer(Kind::packet, 0, kPacketEnd);
    } else if (base.kind == Kind::stack) {
      if (low < -512 || high + width > 0) return may_be_nowhere(base);
      loaded = low == high ? of_stack(low, width)
                           : number(cut_bits(Bits::unknown(shaky_on_stack(low, high + width)), width * 8));
    } else if (base.kind == Kind::value) {
      loaded = of_value(base, low, high, width);
    } else if (base.kind != Kind::packet && base.kind != Kind::record) {
      refuse(fmt::format("instruction {} loads from an address that is not known beforehand", at_));
      return false;
    }
    if (with_sign) loaded = number(signed_bits(loaded.as_bits(), width * 8));
    to = loaded;
    return true;
  }

  Value of_value(const Value& base, i64 low, i64 high, u32 width) {
    Bits bits = cut_bits(Bits::unknown(), width * 8);
    if ((base.maps & ordered_) != 0) return number(bits);
    bits.shaky = shaky(base.maps, low, high, width) & bits.mask;
    Value loaded = number(bits);
    if (low != high || low < 0 || low % width != 0 || (width != 4 && width != 8)) return loaded;
    // What an earlier turn of it found is not kept any more.
    const u32 group = group_of(at_);
    forget([&](const Value& one) { return group_of(one.load) == group; });
    loads_.insert(at_);
    loaded.load = group;
    loaded.from = low;
    loaded.width = static_cast<u8>(width);
    loaded.maps = base.maps;
    loaded.element = base.element;
    loaded.added = Bits::known(0);
    return loaded;
  }

  // Which bits of what stands there hang on counts.
  u64 shaky(u64 maps, i64 low, i64 high, u32 width) const {
    u64 all = 0;
    for (u64 left = maps; left != 0; left &= left - 1) {
      const u32 map = static_cast<u32>(std::countr_zero(left));
      for (auto word = changing_.lower_bound({map, low - 3}); word != changing_.end(); ++word) {
        const auto& [of, at] = word->first;
        if (of != map || at >= high + width) break;
        if (low != high) return ~u64{0};
        const i64 by = (at - low) * 8;
        all |= by >= 0 ? u64{word->second} << by : u64{word->second} >> -by;
      }
    }
    return all;
  }

  // Values that were loaded are no beginning of a count any more.
  template <class Which>
  void forget(Which which) {
    state_.each([&](Value& one) {
      if (one.kind != Kind::number || one.load == kNobody || !which(one)) return;
      one = number(one.bits);
    });
  }

  Value of_stack(i64 low, u32 width) {
    const u64 from = static_cast<u64>(low + 512), slot = from / 8, by = from % 8;
    const Value& one = stack_slot(slot);
    if (by == 0 && width == 8) return one;
    if (by == 0 && width == 4 && one.kind == Kind::number && one.load != kNobody && one.width == 4) {
      Value part = one;
      part.bits = cut_bits(part.bits, 32);
      return part;
    }
    const Bits bits = one.as_bits();
    if (by + width <= 8) return number(cut_bits(right_bits(bits, static_cast<u32>(by) * 8), width * 8));
    const Bits next = stack_slot(slot + 1).as_bits();
    return number(cut_bits(Bits::unknown(bits.shaky | next.shaky), width * 8));
  }
  // By eights of the whole stack, from its lowest on.
  Value& stack_slot(u64 slot) { return state_.slot(kRegisters + (kStackSlots - 1 - static_cast<u32>(slot))); }

  bool store(const Instruction& i) {
    const Value base = reg(i.destination);
    const u32 width = bytes_of(i.opcode);
    const bool is_register = BPF_CLASS(i.opcode) == BPF_STX;
    const bool is_atomic = is_register && BPF_MODE(i.opcode) == BPF_ATOMIC;
    const Value what = is_register ? reg(i.source) : number(Bits::known(static_cast<u64>(i64{i.immediate})));
    if (is_nowhere(base)) return false;
    const i64 low = base.low + i.offset;
    switch (base.kind) {
      case Kind::context:
        return false;
      case Kind::packet:
        if (is_atomic) {
          refuse(fmt::format("instruction {} changes the packet atomically, which is not followed", at_));
          return false;
        }
        return holds_still(what.shaky(), "writes to the packet by");
      case Kind::record: {
        const bool exchanges = is_atomic && i.immediate == BPF_CMPXCHG;
        if (!holds_still(what.shaky() | (exchanges ? reg(0).shaky() : 0), "puts out")) return false;
        if (exchanges)
          reg(0) = number(Bits::unknown());
        else if (is_atomic && (i.immediate & BPF_FETCH) != 0)
          reg(i.source) = number(Bits::unknown());
        return true;
      }
      case Kind::stack:
        if (low < -512 || low + (base.high - base.low) + width > 0) return may_be_nowhere(base);
        if (base.low != base.high)
          put_somewhere(i, low, low + (base.high - base.low) + width, what);
        else
          is_atomic ? change_stack(i, low, width, what) : put_on_stack(low, width, what);
        return true;
      case Kind::value:
        break;
      default:
        refuse(fmt::format("instruction {} stores to an address that is not known beforehand", at_));
        return false;
    }
    if ((base.maps & ordered_) != 0) return store_ordered(i, base, what);
    if (base.low != base.high) {
      refuse(fmt::format("instruction {} stores to {} at a place that is not known beforehand", at_,
                         names(base.maps)));
      return false;
    }
    is_atomic ? add_atomically(i, base, low, width, what) : add(base, low, width, what);
    return true;
  }

  // Whatever it does to the value of an LRU hash: packets of its key see it in their order.
  bool store_ordered(const Instruction& i, const Value& base, const Value& what) {
    if ((base.maps & ~ordered_) != 0) {
      refuse(fmt::format("instruction {} stores to one of several maps, not all of them LRU hashes", at_));
      return false;
    }
    if (BPF_CLASS(i.opcode) == BPF_STX && BPF_MODE(i.opcode) == BPF_ATOMIC) {
      const bool exchanges = i.immediate == BPF_CMPXCHG;
      const u64 shaky = what.shaky() | (exchanges ? reg(0).shaky() : 0);
      if (exchanges)
        reg(0) = number(Bits::unknown());
      else if ((i.immediate & BPF_FETCH) != 0)
        reg(i.source) = number(Bits::unknown());
      return holds_still(shaky, "changes an LRU hash by");
    }
    return holds_still(what.shaky(), "writes to an LRU hash");
  }

  void put_on_stack(i64 low, u32 width, const Value& what) {
    if (ordered_ != 0) stack_writes_.insert({at_, low, width});
    const u64 from = static_cast<u64>(low + 512), slot = from / 8, by = from % 8;
    if (by == 0 && width == 8) {
      stack_slot(slot) = what;
      return;
    }
    const Bits bits = what.as_bits();
    if (by + width > 8) {
      for (const u64 one : {slot, slot + 1})
        stack_slot(one) = number(Bits::unknown(stack_slot(one).shaky() | (bits.shaky != 0 ? ~u64{0} : 0)));
      return;
    }
    Value& one = stack_slot(slot);
    const bool is_count =
        by == 0 && width == 4 && what.kind == Kind::number && what.load != kNobody && what.width == 4;
    const u64 mask = ((u64{1} << width * 8) - 1) << by * 8;
    const Bits now = put_bits(one.as_bits(), left_bits(bits, static_cast<u32>(by) * 8), mask);
    Value put = number(now);
    if (is_count) {
      put = what;
      put.bits = now;
    }
    one = put;
  }

  // Whether counts are in some of these bytes of the stack: all bits, or none.
  u64 shaky_on_stack(i64 from, i64 end) {
    u64 shaky = 0;
    for (i64 at = from; at < end; ++at) shaky |= of_stack(at, 1).shaky();
    return shaky != 0 ? ~u64{0} : 0;
  }
  // A place outside of the stack ends the program there; of several some may be inside.
  bool may_be_nowhere(const Value& base) {
    if (base.low != base.high)
      refuse(fmt::format("instruction {} comes to a place on the stack that is not known beforehand", at_));
    return false;
  }
  // An instruction writes to the stack somewhere between these places.
  void put_somewhere(const Instruction& i, i64 from, i64 end, const Value& what) {
    const u64 shaky = shaky_on_stack(from, end) | (what.shaky() != 0 ? ~u64{0} : 0) |
                      (i.immediate == BPF_CMPXCHG && reg(0).shaky() != 0 ? ~u64{0} : 0);
    for (i64 at = from; at < end; ++at) put_on_stack(at, 1, number(cut_bits(Bits::unknown(shaky), 8)));
    if (BPF_CLASS(i.opcode) != BPF_STX || BPF_MODE(i.opcode) != BPF_ATOMIC) return;
    if (i.immediate == BPF_CMPXCHG)
      reg(0) = number(Bits::unknown(shaky));
    else if ((i.immediate & BPF_FETCH) != 0)
      reg(i.source) = number(Bits::unknown(shaky));
  }

  void change_stack(const Instruction& i, i64 low, u32 width, const Value& what) {
    const Value before = of_stack(low, width);
    const bool exchanges = i.immediate == BPF_CMPXCHG;
    const u64 shaky = before.shaky() | what.shaky() | (exchanges ? reg(0).shaky() : 0);
    const Bits unknown = Bits::unknown(shaky != 0 ? ~u64{0} : 0);
    put_on_stack(low, width, number(unknown));
    if (exchanges)
      reg(0) = number(unknown);
    else if ((i.immediate & BPF_FETCH) != 0)
      reg(i.source) = number(unknown);
  }

  void add_atomically(const Instruction& i, const Value& base, i64 low, u32 width, const Value& what) {
    if (i.immediate != BPF_ADD) {
      refuse(fmt::format("instruction {} changes {} atomically, but not by an addition alone", at_,
                         names(base.maps)));
      reg(0) = reg(i.source) = number(Bits::unknown());
      return;
    }
    if (counts(base.maps, low, width, what.as_bits())) counts_.atomics.insert(at_);
  }
  void add(const Value& base, i64 low, u32 width, const Value& what) {
    for_each_map(base.maps, [&](u32 map) { note_stored(map, low, width); });
    if (what.kind != Kind::number || what.load == kNobody || what.from != low || what.width != width ||
        what.element != base.element || what.element == kAnyElement) {
      refuse(fmt::format("instruction {} stores to {}, and not what was there with a number added", at_,
                         names(base.maps)));
      return;
    }
    const u32 group = group_of(what.load);
    if (counts(base.maps, low, width, what.added)) {
      const auto [kept, is_new] = kept_.try_emplace(at_, group);
      if (!is_new && group_of(kept->second) != group) {
        group_[std::max(group_of(kept->second), group)] = std::min(group_of(kept->second), group);
        news_ = true;
      }
    }
  }

  // A number is added to these bytes of the maps. False: it is no count.
  bool counts(u64 maps, i64 low, u32 width, const Bits& added) {
    if (width < 4 || low < 0 || low % width != 0) {
      refuse(fmt::format("instruction {} adds to {} at byte {}, by {} bytes, which is no counter's place",
                         at_, names(maps), low, width));
      return false;
    }
    const Bits by = cut_bits(added, width * 8);
    if (!holds_still(by.shaky, "adds to a map by")) return false;
    const u64 may_be = by.value | by.mask;
    const u64 changes = upwards(may_be);
    for_each_map(maps, [&](u32 map) {
      note_stored(map, low, width);
      const Where other{map, static_cast<u32>(low) & ~7u, width == 4 ? 8u : 4u};
      if (counted_.contains(other) || (width == 8 && counted_.contains({map, static_cast<u32>(low) + 4, 4})))
        refuse(fmt::format("instruction {} adds to bytes of {} by {} of them, and another by {}", at_,
                           names(maps), width, 12 - width));
      if (counted_.insert({map, static_cast<u32>(low), width}).second) news_ = true;
      for (u32 word = 0; word < (width == 8 ? 2u : 1u); ++word) {
        const u32 bits = static_cast<u32>(changes >> word * 32);
        if (bits == 0) continue;
        u32& there = changing_[{map, low + word * 4}];
        news_ |= (bits & ~there) != 0;
        there |= bits;
      }
    });
    // What was found there before is not what is there now.
    forget([&](const Value& one) {
      return (one.maps & maps) != 0 && one.from < low + width && low < one.from + one.width;
    });
    return true;
  }

  void note_stored(u32 map, i64 low, u32 width) {
    news_ |= stored_.insert({map, static_cast<u32>(low), width}).second;
  }
  bool is_stored(const Value& loaded) const {
    bool is = false;
    for_each_map(loaded.maps, [&](u32 map) {
      is |= stored_.contains({map, static_cast<u32>(loaded.from), loaded.width});
    });
    return is;
  }
  template <class F>
  static void for_each_map(u64 maps, F f) {
    for (u64 left = maps; left != 0; left &= left - 1) f(static_cast<u32>(std::countr_zero(left)));
  }
  std::string names(u64 maps) const {
    if (!std::has_single_bit(maps)) return "one of several maps";
    return "the map " + program_.maps[static_cast<u32>(std::countr_zero(maps))].name;
  }

  bool call(const Instruction& i) {
    if (i.opcode != (BPF_JMP | BPF_CALL) || i.source != 0) {
      refuse(fmt::format("instruction {} calls a function of its own, which is not followed", at_));
      return false;
    }
    Value answer = number(Bits::unknown());
    switch (i.immediate) {
      case BPF_FUNC_map_lookup_elem: {
        const auto found = looked_up();
        if (!found) return false;
        answer = *found;
        break;
      }
      case BPF_FUNC_map_update_elem:
      case BPF_FUNC_map_delete_elem:
        if (!changed_entry(i.immediate == BPF_FUNC_map_update_elem)) return false;
        break;
      case BPF_FUNC_redirect:
        if (!holds_still(reg(1).shaky() | reg(2).shaky(), "gives a helper")) return false;
        break;
      case BPF_FUNC_redirect_map:
        // What programs redirect by they do not change.
        if (!holds_still(reg(1).shaky() | reg(2).shaky() | reg(3).shaky(), "gives a helper")) return false;
        break;
      case BPF_FUNC_csum_diff:
        if (!reads(reg(1), 512, reg(2)) || !reads(reg(3), 512, reg(4)) ||
            !holds_still(reg(2).shaky() | reg(4).shaky() | reg(5).shaky(), "gives a helper"))
          return false;
        answer = number(cut_bits(Bits::unknown(), 16));
        break;
      case BPF_FUNC_perf_event_output:
        // What it is answered hangs on the packet alone.
        if (!reads(reg(4), 512, reg(5)) || !holds_still(reg(3).shaky() | reg(5).shaky(), "gives a helper"))
          return false;
        break;
      case BPF_FUNC_ringbuf_output:
        if (!reads(reg(2), 512, reg(3)) || !holds_still(reg(3).shaky() | reg(4).shaky(), "gives a helper"))
          return false;
        break;
      case BPF_FUNC_ringbuf_reserve:
        if (!holds_still(reg(2).shaky() | reg(3).shaky(), "gives a helper")) return false;
        answer = pointer(Kind::record, 0, 0);
        break;
      case BPF_FUNC_ringbuf_submit:
      case BPF_FUNC_ringbuf_discard:
        break;
      case BPF_FUNC_fib_lookup:
        if (!looked_up_route()) return false;
        break;
      case BPF_FUNC_get_prandom_u32:
      case BPF_FUNC_get_smp_processor_id:
        answer = number(cut_bits(Bits::unknown(), 32));
        break;
      case BPF_FUNC_ktime_get_ns:
        break;
      case BPF_FUNC_xdp_adjust_head:
      case BPF_FUNC_xdp_adjust_meta:
      case BPF_FUNC_xdp_adjust_tail:
        // Where the packet's pointers point is the packet's, too: nobody's count.
        if (!holds_still(reg(2).shaky(), "moves the packet by")) return false;
        break;
      default:
        refuse(fmt::format("instruction {} calls helper {}, which is not followed", at_, i.immediate));
        return false;
    }
    reg(0) = answer;
    for (u8 one = 1; one <= 5; ++one) reg(one) = number(Bits::unknown());
    return true;
  }

  // Of the stack it makes what no count hangs on. False: it ends here, or is not followed.
  bool looked_up_route() {
    const Value at = reg(2);
    if (!reads(at, kRouteBytes, number(Bits::known(kRouteBytes))) ||
        !holds_still(reg(3).shaky() | reg(4).shaky(), "gives a helper"))
      return false;
    if (at.kind == Kind::stack && at.low != at.high) return may_be_nowhere(at);
    if (at.kind != Kind::stack || at.low < -512 || at.low + kRouteBytes > 0) return false;
    for (i64 byte = at.low; byte < at.low + kRouteBytes; ++byte)
      put_on_stack(byte, 1, number(cut_bits(Bits::unknown(), 8)));
    return true;
  }

  bool changed_entry(bool updates) {
    const Value map = reg(1);
    if (map.kind != Kind::map || (map.maps & ~ordered_) != 0) {
      refuse(fmt::format("instruction {} {} a map", at_,
                         updates ? "updates an entry of" : "deletes an entry of"));
      return false;
    }
    u32 bytes = 0;
    for_each_map(map.maps, [&](u32 one) { bytes = std::max(bytes, program_.maps[one].value_bytes); });
    if (updates &&
        (!reads(reg(3), bytes, number(Bits::known(bytes))) || !holds_still(reg(4).shaky(), "gives a helper")))
      return false;
    return comes_by_key(map, true);
  }
  // The helper's key has to hold still, and to stand at a known place of the stack where the map is ordered.
  bool comes_by_key(const Value& map, bool changes) {
    u32 bytes = 0;
    for_each_map(map.maps, [&](u32 one) { bytes = std::max(bytes, program_.maps[one].key_bytes); });
    const Value key = reg(2);
    if (!reads(key, bytes, number(Bits::known(bytes)))) return false;
    if ((map.maps & ordered_) == 0) return true;
    if (key.kind != Kind::stack || key.low != key.high || (map.maps & ~ordered_) != 0) {
      refuse(fmt::format(
          "instruction {} looks into {}, an LRU hash, by a key that does not stand at one place of its stack",
          at_, names(map.maps)));
      return false;
    }
    keyed_calls_.insert({at_, map.maps, key.low, changes});
    return true;
  }

  std::optional<Value> looked_up() {
    const Value map = reg(1);
    if (map.kind != Kind::map) {
      refuse(fmt::format("instruction {} looks up in a map that is not known beforehand", at_));
      return std::nullopt;
    }
    if (!comes_by_key(map, false)) return std::nullopt;
    // Its name is the new one's from now on.
    const u64 found = found_by(at_);
    state_.each([&](Value& one) {
      if (one.element != found) return;
      if (one.kind == Kind::value) one.element = kAnyElement;
      if (one.kind == Kind::number) one = number(one.bits);
    });
    return pointer(Kind::value, 0, 0, map.maps, found);
  }

  // A helper reads memory: all of it has to hold still. `bytes`: at most so many, but where `size` is more.
  bool reads(const Value& from, u32 bytes, const Value& size) {
    if (size.is_zero() || is_nowhere(from) || from.kind == Kind::packet || from.kind == Kind::context ||
        from.kind == Kind::map || from.kind == Kind::record)
      return true;
    if (from.kind == Kind::stack) {
      u64 shaky = 0;
      const i64 low = std::clamp<i64>(from.low, -512, 0);
      const bool is_known = size.kind == Kind::number && size.bits.mask == 0 && size.bits.value <= 512;
      const i64 end = is_known ? std::min<i64>(from.high + static_cast<i64>(size.bits.value), 0) : 0;
      for (i64 at = low; at < end; ++at) shaky |= of_stack(at, 1).shaky();
      return holds_still(shaky, "gives a helper");
    }
    if (from.kind == Kind::value) {
      u32 most = bytes;
      for_each_map(from.maps, [&](u32 map) { most = std::max(most, program_.maps[map].value_bytes); });
      u64 any = 0;
      for (i64 at = from.low; at < from.high + most; ++at) {
        any |= shaky(from.maps, at, at, 1) & 0xff;
        if (++work_ > kMostWork) gave_up_ = true;
        if (gave_up_) return false;
      }
      return holds_still(any, "gives a helper");
    }
    refuse(fmt::format("instruction {} gives a helper an address that is not known beforehand", at_));
    return false;
  }

  const Program& program_;
  const std::vector<Instruction>& code_;
  std::vector<bool> leaders_, is_second_;
  u64 ordered_ = 0;  // a bit each: LRU hashes
  std::size_t work_ = 0;
  bool gave_up_ = false;

  // Found out in all rounds.
  bool news_ = false;
  std::map<std::pair<u32, i64>, u32> changing_;  // by map and byte, four bytes each: the bits
  std::set<Where> counted_, stored_;
  std::set<KeyedCall> keyed_calls_;
  std::set<StackWrite> stack_writes_;
  std::vector<u32> group_;  // of loads that have one place

  // In this one.
  std::map<u32, State> states_;
  std::map<u32, u32> growths_;
  std::set<u32> open_;
  std::set<u32> loads_;
  std::map<u32, u32> kept_;  // stores -> the load's group
  Counts counts_;
  std::string why_;
  u32 why_at_ = 0;

  // Of this way.
  State state_;
  u32 at_ = 0;
};

bool calls_helper(const Instruction& i) { return i.opcode == (BPF_JMP | BPF_CALL) && i.source == 0; }

}  // namespace

bool changes_maps(const Program& program) {
  if (program.maps.empty()) return false;
  const auto is_lru = [](const Map& map) { return map.type == BPF_MAP_TYPE_LRU_HASH; };
  const auto changes = [](const Instruction& i) {
    if (calls_helper(i))
      return i.immediate == BPF_FUNC_map_update_elem || i.immediate == BPF_FUNC_map_delete_elem;
    const u8 kind = BPF_CLASS(i.opcode);
    return (kind == BPF_ST || kind == BPF_STX) && i.destination != BPF_REG_10;
  };
  return std::any_of(program.maps.begin(), program.maps.end(), is_lru) ||
         std::any_of(program.instructions.begin(), program.instructions.end(), changes) ||
         std::any_of(program.tails.begin(), program.tails.end(), [&](const Tail& tail) {
           return std::any_of(tail.instructions.begin(), tail.instructions.end(), changes);
         });
}

Taken how_taken(const Program& program) {
  if (!changes_maps(program)) return {Taking::side_by_side, "it changes no map", {}};
  if (!program.tails.empty())
    return {Taking::in_order, "it goes on with others (bpf_tail_call), which are not followed", {}};
  return Follower(program).follow();
}

}  // namespace xdpgpu::gpu::programs
