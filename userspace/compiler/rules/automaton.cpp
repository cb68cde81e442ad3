// SPDX-License-Identifier: MIT
#define PCRE2_CODE_UNIT_WIDTH 8
#include "userspace/compiler/rules/automaton.hpp"

#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "userspace/compiler/rules/regex.hpp"

namespace xdpgpu::rules {
namespace {

namespace sig = gpu::signatures;

// Before those that are alike are one. And steps from state to state, until it is known which follow which.
constexpr std::size_t kMostStates = 1u << 14, kMostParts = 2048, kMostSteps = 1u << 22;

// ---- the tree's states -----------------------------------------------------------------------------------

struct State {
  enum class Kind : u8 { bytes, assertion, fork, accept } kind = Kind::fork;
  Bytes bytes{};
  Assertion assertion{};
  std::array<u32, 2> next{};  // the second one: of a fork
};

// From the end to the start: what stands behind another one has a lower number. The first state accepts.
class States {
 public:
  explicit States(const RegexNode& tree) {
    states_.push_back({State::Kind::accept});
    start_ = add(tree, 0);
  }
  // Any number of bytes is in front.
  u32 add_search() {
    const u32 fork = push({State::Kind::fork});
    const u32 any = push({State::Kind::bytes, Bytes().set(), {}, {fork, 0}});
    states_[fork].next = {any, start_};
    start_ = fork;
    return any;
  }
  bool too_many() const { return states_.size() > kMostStates; }
  u32 start() const { return start_; }
  const std::vector<State>& all() const { return states_; }

 private:
  u32 push(const State& state) {
    states_.push_back(state);
    return static_cast<u32>(states_.size() - 1);
  }
  // The state that a node begins with, if `next` is behind it.
  u32 add(const RegexNode& node, u32 next) {
    using Kind = RegexNode::Kind;
    if (too_many()) return next;
    switch (node.kind) {
      case Kind::bytes:
        return push({State::Kind::bytes, node.bytes, {}, {next, 0}});
      case Kind::assertion:
        return push({State::Kind::assertion, {}, node.assertion, {next, 0}});
      case Kind::sequence:
        for (auto part = node.parts.rbegin(); part != node.parts.rend(); ++part) next = add(*part, next);
        return next;
      case Kind::either: {
        u32 made = add(node.parts.back(), next);
        for (auto part = node.parts.rbegin() + 1; part != node.parts.rend(); ++part)
          made = push({State::Kind::fork, {}, {}, {add(*part, next), made}});
        return made;
      }
      case Kind::repeat:
        return repeat(node, next);
    }
    return next;
  }
  u32 repeat(const RegexNode& node, u32 next) {
    const RegexNode& body = node.parts.front();
    u32 made = next, copies = node.least;
    if (node.most == kNoMost) {
      const u32 fork = push({State::Kind::fork});
      const u32 again = add(body, fork);
      states_[fork].next = {again, next};
      made = node.least == 0 ? fork : again;
      copies -= node.least == 0 ? 0 : 1;
    } else {
      for (u32 i = node.least; i < node.most && !too_many(); i++)
        made = push({State::Kind::fork, {}, {}, {add(body, made), next}});
    }
    for (u32 i = 0; i < copies && !too_many(); i++) {
      const u32 before = made;
      made = add(body, made);
      if (made == before) break;  // it is empty
    }
    return made;
  }

  std::vector<State> states_;
  u32 start_ = 0;
};

// ---- kinds of bytes --------------------------------------------------------------------------------------

// A bit for each kind of bytes, and two for the place behind which there is none: no byte, and a newline that
// is the last one. What an assertion lets stand behind a place is a set of these.
using Kinds = u32;
constexpr u32 kMostKinds = 30;
constexpr Kinds kNothing = 1u << 30, kLastNewline = 1u << 31;

class Partition {
 public:
  explicit Partition(const std::vector<State>& states) {
    kinds_.push_back(Bytes().set());
    for (const State& state : states) {
      if (state.kind != State::Kind::assertion) continue;
      using Kind = Assertion::Kind;
      split(Bytes().set('\n'));
      if (state.assertion.kind == Kind::word || state.assertion.kind == Kind::not_word) split(word_bytes());
      split(state.assertion.bytes);
    }
  }
  bool too_many() const { return kinds_.size() > kMostKinds; }
  u32 count() const { return static_cast<u32>(kinds_.size()); }
  const Bytes& bytes(u32 kind) const { return kinds_[kind]; }
  u32 kind_of(u8 byte) const {
    u32 kind = 0;
    while (!kinds_[kind][byte]) kind++;
    return kind;
  }
  Kinds all() const { return with(Bytes().set()) | kNothing; }
  // Those of some bytes, each of which is in them or not.
  Kinds with(const Bytes& bytes) const {
    Kinds made = 0;
    for (u32 i = 0; i < count(); i++)
      if ((kinds_[i] & bytes).any()) made |= 1u << i;
    return bytes['\n'] ? made | kLastNewline : made;
  }

 private:
  void split(const Bytes& bytes) {
    const std::size_t before = kinds_.size();
    for (std::size_t i = 0; i < before && !too_many(); i++) {
      const Bytes in = kinds_[i] & bytes, out = kinds_[i] & ~bytes;
      if (in.none() || out.none()) continue;
      kinds_[i] = in;
      kinds_.push_back(out);
    }
  }
  std::vector<Bytes> kinds_;
};

// ---- which may follow which ------------------------------------------------------------------------------

// What stands in front of a place: a kind of bytes, or nothing.
using Before = std::optional<u32>;

// What may stand behind a place, if it is to go on with a state.
struct Ways {
  std::map<u32, Kinds> to;  // states of bytes
  Kinds accept = 0;
};

class Walk {
 public:
  Walk(const std::vector<State>& states, const Partition& partition) : states_(states), kinds_(partition) {}

  bool too_long() const { return steps_ > kMostSteps; }

  Ways from(u32 state, Before before) {
    Ways made;
    std::set<std::pair<u32, Kinds>> seen;
    std::vector<std::pair<u32, Kinds>> left{{state, kinds_.all()}};
    for (; !left.empty(); steps_++) {
      const auto [at, may] = left.back();
      left.pop_back();
      if (may == 0 || !seen.emplace(at, may).second) continue;
      const State& one = states_[at];
      switch (one.kind) {
        case State::Kind::accept:
          made.accept |= may;
          break;
        case State::Kind::bytes:
          made.to[at] |= may;
          break;
        case State::Kind::fork:
          left.emplace_back(one.next[1], may);
          left.emplace_back(one.next[0], may);
          break;
        case State::Kind::assertion:
          left.emplace_back(one.next[0], may & behind(one.assertion, before));
          break;
      }
    }
    return made;
  }

 private:
  Kinds behind(const Assertion& assertion, Before before) const {
    using Kind = Assertion::Kind;
    const auto is_before = [&](const Bytes& bytes) {
      return before && (kinds_.bytes(*before) & bytes).any();
    };
    const Bytes newline = Bytes().set('\n');
    const Kinds all = kinds_.all();
    const auto when = [&](bool holds) { return holds ? all : 0; };
    switch (assertion.kind) {
      case Kind::begin:
        return when(!before);
      case Kind::line_begin:
        return !before ? all : is_before(newline) ? all & ~kNothing : 0;
      case Kind::end:
        return kNothing;
      case Kind::end_or_newline:
        return kNothing | kLastNewline;
      case Kind::line_end:
        return kNothing | kinds_.with(newline);
      case Kind::word:
      case Kind::not_word: {
        const Kinds word = kinds_.with(word_bytes());
        return is_before(word_bytes()) == (assertion.kind == Kind::word) ? all & ~word : word;
      }
      case Kind::next:
        return kinds_.with(assertion.bytes);
      case Kind::not_next:
        return all & ~kinds_.with(assertion.bytes);
      case Kind::before:
        return when(is_before(assertion.bytes));
      case Kind::not_before:
        return when(!is_before(assertion.bytes));
    }
    return 0;
  }

  const std::vector<State>& states_;
  const Partition& kinds_;
  std::size_t steps_ = 0;
};

// ---- positions -------------------------------------------------------------------------------------------

// A state of bytes, for one kind of them, or for the newline that is the last byte. The state that accepts: a
// byte behind the match.
struct Part {
  u32 state = 0, kind = 0;
  bool is_last_newline = false;
  Bytes bytes{};
  std::set<u32> follow{}, before{};
  bool in_first = false, last = false, last_at_end = false;
};

class Parts {
 public:
  // searched: the state that takes the bytes in front of a match, if there may be any.
  Parts(const States& states, const Partition& kinds, std::optional<u32> searched)
      : states_(states.all()), kinds_(kinds), walk_(states_, kinds) {
    const Ways ways = walk_.from(states.start(), {});
    made_.empty = ways.accept == kinds_.all();
    made_.empty_at_end = (ways.accept & kNothing) != 0;
    if (made_.empty) return;
    first_ = of(ways);
    for (u32 i = 0; i < parts_.size() && !too_many(); i++) go_on(i);
    if (too_many()) return;
    for (const u32 i : first_) parts_[i].in_first = true;
    if (searched) always(*searched);
    for (u32 i = 0; i < parts_.size(); i++)
      for (const u32 other : parts_[i].follow) parts_[other].before.insert(i);
    drop_useless();
    merge();
  }
  bool too_many() const { return parts_.size() > kMostParts || walk_.too_long(); }

  // In the order in which they stand in the expression, so that most are followed by the next one.
  Result<sig::Regex> done() && {
    std::vector<u32> order;
    for (u32 i = 0; i < parts_.size(); i++)
      if (parts_[i].bytes.any()) order.push_back(i);
    if (too_many() || order.size() > sig::kMostPositions)
      return tl::unexpected(fmt::format("it has more than {} positions", sig::kMostPositions));
    const auto key = [&](u32 i) {
      const Part& part = parts_[i];
      return std::tuple(~part.state, part.kind, part.is_last_newline);
    };
    std::sort(order.begin(), order.end(), [&](u32 a, u32 b) { return key(a) < key(b); });
    std::map<u32, std::size_t> places;
    for (const u32 i : order) places.emplace(i, places.size());
    const auto positions = [&](const std::set<u32>& some) {
      sig::Positions bits;
      for (const u32 i : some)
        if (const auto found = places.find(i); found != places.end()) bits.set(found->second);
      return bits;
    };
    for (const u32 i : order) {
      const Part& part = parts_[i];
      const auto set = std::find(made_.sets.begin(), made_.sets.end(), part.bytes);
      made_.positions.push_back(static_cast<u8>(set - made_.sets.begin()));
      if (set == made_.sets.end()) made_.sets.push_back(part.bytes);
      made_.follow.push_back(positions(part.follow));
      made_.first[places[i]] = part.in_first;
      made_.last[places[i]] = part.last;
      made_.last_at_end[places[i]] = part.last_at_end;
    }
    made_.again = positions(again_);
    return std::move(made_);
  }

 private:
  u32 part(u32 state, u32 kind, bool is_last_newline) {
    const auto [found, is_new] =
        known_.try_emplace(std::tuple(state, kind, is_last_newline), static_cast<u32>(parts_.size()));
    if (is_new) {
      Part made{state, kind, is_last_newline};
      made.bytes = is_last_newline ? Bytes().set('\n') : kinds_.bytes(kind);
      if (states_[state].kind == State::Kind::bytes) made.bytes &= states_[state].bytes;
      parts_.push_back(std::move(made));
    }
    return found->second;
  }
  void add(u32 state, Kinds may, std::set<u32>& to) {
    const bool accepts = states_[state].kind == State::Kind::accept;
    const Bytes bytes = accepts ? Bytes().set() : states_[state].bytes;
    for (u32 kind = 0; kind < kinds_.count(); kind++)
      if ((may >> kind & 1) != 0 && (kinds_.bytes(kind) & bytes).any()) to.insert(part(state, kind, false));
    const u32 newline = kinds_.kind_of('\n');
    if ((may & kLastNewline) != 0 && (may >> newline & 1) == 0 && bytes['\n'])
      to.insert(part(state, newline, true));
  }
  std::set<u32> of(const Ways& ways) {
    std::set<u32> made;
    for (const auto& [state, may] : ways.to) add(state, may, made);
    if (ways.accept != 0) add(0, ways.accept, made);
    return made;
  }

  void go_on(u32 i) {
    const u32 state = parts_[i].state;
    const bool is_last_newline = parts_[i].is_last_newline;
    if (states_[state].kind == State::Kind::accept) {
      (is_last_newline ? parts_[i].last_at_end : parts_[i].last) = true;
      return;
    }
    Ways ways = walk_.from(states_[state].next[0], parts_[i].kind);
    parts_[i].last_at_end = (ways.accept & kNothing) != 0;
    if (is_last_newline) return;
    parts_[i].last = ways.accept == kinds_.all();
    if (parts_[i].last) return;  // nothing more is asked
    auto follow = of(ways);
    parts_[i].follow = std::move(follow);
  }

  // One of the parts of a state that takes anything always has the byte in front. What all of them are
  // followed by may be each byte.
  void always(u32 state) {
    std::vector<u32> any;
    for (u32 i = 0; i < parts_.size(); i++)
      if (parts_[i].state == state) any.push_back(i);
    if (any.empty()) return;
    again_ = parts_[any.front()].follow;
    for (const u32 i : any)
      std::erase_if(again_, [&](u32 other) { return !parts_[i].follow.contains(other); });
    for (const u32 i : any)
      for (const u32 other : again_) parts_[i].follow.erase(other);
  }

  // Those behind which it never matches.
  void drop_useless() {
    std::vector<u32> left;
    std::set<u32> useful;
    for (u32 i = 0; i < parts_.size(); i++)
      if (parts_[i].last || parts_[i].last_at_end) left.push_back(i);
    while (!left.empty()) {
      const u32 i = left.back();
      left.pop_back();
      if (useful.insert(i).second) left.insert(left.end(), parts_[i].before.begin(), parts_[i].before.end());
    }
    for (u32 i = 0; i < parts_.size(); i++)
      if (!useful.contains(i)) drop(i);
  }
  void drop(u32 i) {
    for (const u32 other : parts_[i].before) parts_[other].follow.erase(i);
    for (const u32 other : parts_[i].follow) parts_[other].before.erase(i);
    again_.erase(i);
    parts_[i] = Part{};
  }

  // Parts of one state that nothing tells apart.
  void merge() {
    std::map<u32, std::vector<u32>> of_states;
    for (u32 i = 0; i < parts_.size(); i++)
      if (parts_[i].bytes.any() && !parts_[i].is_last_newline) of_states[parts_[i].state].push_back(i);
    for (bool more = true; more;) {
      more = false;
      for (auto& [state, all] : of_states)
        for (std::size_t a = 0; a < all.size(); a++)
          for (std::size_t b = a + 1; b < all.size();) {
            if (!alike(all[a], all[b])) {
              b++;
              continue;
            }
            parts_[all[a]].bytes |= parts_[all[b]].bytes;
            drop(all[b]);
            all.erase(all.begin() + static_cast<std::ptrdiff_t>(b));
            more = true;
          }
    }
  }
  bool alike(u32 a, u32 b) const {
    const Part &one = parts_[a], &other = parts_[b];
    return one.in_first == other.in_first && one.last == other.last && one.last_at_end == other.last_at_end &&
           again_.contains(a) == again_.contains(b) && one.follow == other.follow &&
           one.before == other.before;
  }

  const std::vector<State>& states_;
  const Partition& kinds_;
  Walk walk_;
  std::map<std::tuple<u32, u32, bool>, u32> known_;
  std::vector<Part> parts_;
  std::set<u32> first_, again_;
  sig::Regex made_;
};

}  // namespace

Result<sig::Regex> automaton_of(const Regex& regex) {
  auto tree = tree_of(regex);
  if (!tree) return tl::unexpected(std::move(tree.error()));
  States states(*tree);
  std::optional<u32> searched;
  if ((regex.options & PCRE2_ANCHORED) == 0) searched = states.add_search();
  const Partition kinds(states.all());
  if (states.too_many() || kinds.too_many())
    return tl::unexpected(fmt::format("it has more than {} positions", sig::kMostPositions));
  auto made = Parts(states, kinds, searched).done();
  if (!made) return made;
  made->negated = regex.negated;
  made->relative = regex.relative;
  return made;
}

}  // namespace xdpgpu::rules
