// SPDX-License-Identifier: MIT
#include "userspace/policy/notes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "userspace/policy/fragments.hpp"
#include "userspace/policy/one_sided.hpp"
#include "userspace/policy/values.hpp"

namespace xdpgpu::policy {
namespace {

constexpr u64 kMostWork = 20'000'000;       // values compared to find rules that are never met
constexpr std::size_t kMostCompared = 256;  // prefixes of one side
constexpr std::size_t kMostOfAKind = 20;
constexpr u8 kTcp = 6;

// ---- which match holds which -----------------------------------------------------------------------------

bool holds(const Prefix& a, const Prefix& b) {
  if (a.family != b.family || a.length > b.length) return false;
  const u32 bytes = a.length / 8, rest = a.length % 8;
  if (std::memcmp(a.address, b.address, bytes) != 0) return false;
  return rest == 0 || ((a.address[bytes] ^ b.address[bytes]) >> (8 - rest)) == 0;
}
bool holds(const PortRange& a, const PortRange& b) { return a.first <= b.first && b.last <= a.last; }
bool holds(const VlanRange& a, const VlanRange& b) { return a.first <= b.first && b.last <= a.last; }
bool holds(u8 a, u8 b) { return a == b; }
bool holds(u32 a, u32 b) { return a == b; }

bool flags_in(const Match& a, const Match& b) {
  if (!a.tcp_flags_mask) return true;
  return b.tcp_flags_mask && (*a.tcp_flags_mask & ~*b.tcp_flags_mask) == 0 &&
         (b.tcp_flags_value & *a.tcp_flags_mask) == a.tcp_flags_value;
}

// Counts what it costs, as a policy may have thousands of rules with hundreds of values each.
class Comparison {
 public:
  Comparison(const Policy& policy, u64& work) : policy_(policy), work_(work) {}

  bool covers(const Match& a, const Match& b) {
    work_ += 1;
    // That a rule names a control protocol has an effect of its own: rules decide on it.
    if (a.control.empty() ? !b.control.empty() : !all_in(a.control, b.control)) return false;
    return (!a.family || a.family == b.family) && flags_in(a, b) && protocols_in(a, b) &&
           all_in(a.vlans, b.vlans) && all_in(a.src_ports, b.src_ports) && all_in(a.dst_ports, b.dst_ports) &&
           addresses_in({a.src, a.src_lists}, {b.src, b.src_lists}) &&
           addresses_in({a.dst, a.dst_lists}, {b.dst, b.dst_lists});
  }

 private:
  struct Side {
    const std::vector<Prefix>& prefixes;
    const std::vector<std::string>& lists;
    bool empty() const { return prefixes.empty() && lists.empty(); }
  };

  // One dimension, where nothing named is everything.
  template <class T>
  bool all_in(const std::vector<T>& a, const std::vector<T>& b) {
    if (a.empty()) return true;
    work_ += a.size() * b.size();
    return !b.empty() && std::all_of(b.begin(), b.end(), [&](const T& one) {
      return std::any_of(a.begin(), a.end(), [&](const T& other) { return holds(other, one); });
    });
  }
  // Flags are TCP's. Looked at for each pair of rules, so nothing is copied.
  bool protocols_in(const Match& a, const Match& b) {
    if (!b.tcp_flags_mask) return all_in(a.protocols, b.protocols);
    return a.protocols.empty() ||
           std::find(a.protocols.begin(), a.protocols.end(), kTcp) != a.protocols.end();
  }
  const std::vector<Prefix>& list_of(const std::string& name) const {
    static const std::vector<Prefix> none;
    const auto list = policy_.lists.find(name);
    return list == policy_.lists.end() ? none : list->second.prefixes;
  }
  bool addresses_in(const Side& a, const Side& b) {
    if (a.empty()) return true;
    if (b.empty()) return false;
    std::vector<Prefix> larger;
    const auto add = [&](const std::vector<Prefix>& prefixes) {
      if (larger.size() + prefixes.size() <= kMostCompared)
        larger.insert(larger.end(), prefixes.begin(), prefixes.end());
    };
    add(a.prefixes);
    for (const auto& name : a.lists) add(list_of(name));
    work_ += larger.size();
    const auto in_larger = [&](const std::vector<Prefix>& prefixes) {
      return !larger.empty() && prefixes.size() <= kMostCompared && all_in(larger, prefixes);
    };
    return (b.prefixes.empty() || in_larger(b.prefixes)) &&
           std::all_of(b.lists.begin(), b.lists.end(), [&](const std::string& name) {
             const bool same = std::find(a.lists.begin(), a.lists.end(), name) != a.lists.end();
             return (same && !list_of(name).empty()) || in_larger(list_of(name));
           });
  }

  const Policy& policy_;
  u64& work_;
};

// A stage's conditions as those of a rule.
Match match_of(const gpu::Conditions& from) {
  Match match;
  for (const auto& one : from.src) match.src.push_back(policy_prefix(one));
  for (const auto& one : from.dst) match.dst.push_back(policy_prefix(one));
  match.protocols = from.protocols;
  for (const auto& one : from.src_ports) match.src_ports.push_back({one.first, one.last});
  for (const auto& one : from.dst_ports) match.dst_ports.push_back({one.first, one.last});
  for (const auto& one : from.vlans) match.vlans.push_back({one.first, one.last});
  if (from.tcp_flags) {
    match.tcp_flags_mask = from.tcp_flags->mask;
    match.tcp_flags_value = from.tcp_flags->value;
  }
  return match;
}

// ---- what is likely wrong --------------------------------------------------------------------------------

struct Rung {
  const std::string& name;
  const Match& match;
  bool decides;
};

class Looker {
 public:
  explicit Looker(const Policy& policy) : policy_(policy) {}

  std::vector<std::string> run() {
    take(fragment_notes(policy_));
    locked_out();
    lists();
    rules();
    for (const auto& pipeline : policy_.pipelines) this->pipeline(pipeline);
    take(one_sided_notes(policy_));
    return std::move(notes_);
  }

 private:
  void take(std::vector<std::string> found) {
    const std::size_t more = found.size() > kMostOfAKind ? found.size() - kMostOfAKind : 0;
    if (more > 0) found.resize(kMostOfAKind);
    for (auto& note : found) notes_.push_back(std::move(note));
    if (more > 0) notes_.push_back(fmt::format("and {} more such notes", more));
  }

  void locked_out() {
    if (!policy_.management.empty()) return;
    const auto drops_all = [](const Rule& rule) {
      return rule.action == Rule::Action::drop && rule.match == Match{};
    };
    const auto rule = std::find_if(policy_.rules.begin(), policy_.rules.end(), drops_all);
    if (policy_.default_action != Do::drop && rule == policy_.rules.end()) return;
    notes_.push_back(fmt::format(
        "{} and there is no \"management\": whoever manages the host by such an interface may be locked out; "
        "name the addresses and the port that it is managed by",
        policy_.default_action == Do::drop ? std::string("\"default\" is \"drop\"")
                                           : fmt::format("the rule \"{}\" drops everything", rule->name)));
  }

  void lists() {
    std::vector<std::string> found;
    for (const auto& [name, list] : policy_.lists) {
      const bool file = !list.file.empty();
      const std::string which = fmt::format("the list \"{}\"", name);
      if (list.type == List::Type::domain) {
        if (list.names.count == 0 && !list.left_out)
          found.push_back(fmt::format("{} is empty{}: no name is in it; fill it or take it out", which,
                                      file ? fmt::format(", as no name stands in {}", list.file) : ""));
        continue;
      }
      if (list.prefixes.empty() && file)
        found.push_back(
            fmt::format("{} is empty, as no address or prefix stands in {}: rules that ask for it "
                        "match nothing; fetch the file again, or look at what is in it",
                        which, list.file));
      else if (list.prefixes.empty())
        found.push_back(
            fmt::format("{} is empty: rules that ask for it match nothing; fill it or take it out", which));
      for (const u8 family : {u8{4}, u8{6}})
        if (std::any_of(list.prefixes.begin(), list.prefixes.end(),
                        [&](const Prefix& prefix) { return prefix.length == 0 && prefix.family == family; }))
          found.push_back(
              fmt::format("{}{} holds {}, which is every IPv{} address; take it out of there, and "
                          "leave the address out of the rule where all are meant",
                          which, file ? fmt::format(" ({})", list.file) : "",
                          family == 4 ? "0.0.0.0/0" : "::/0", family));
    }
    take(std::move(found));
  }

  void rules() {
    std::vector<Rung> rungs;
    rungs.reserve(policy_.rules.size());
    for (const auto& rule : policy_.rules)
      rungs.push_back(
          {rule.name, rule.match, rule.action != Rule::Action::limit && rule.action != Rule::Action::mirror});
    never_met(rungs, "");
    std::vector<std::string> found;
    for (const auto& pipeline : policy_.pipelines)
      if (std::none_of(policy_.rules.begin(), policy_.rules.end(),
                       [&](const Rule& rule) { return rule.pipeline == pipeline.name; }))
        found.push_back(
            fmt::format("no rule inspects with the pipeline \"{}\" or mirrors to it: no packet comes to it; "
                        "add a rule with "
                        "{{\"inspect\": \"{}\"}}, or take it out",
                        pipeline.name, pipeline.name));
    take(std::move(found));
  }

  // Rules behind one that takes each of their packets. where: " of ...", or empty.
  void never_met(const std::vector<Rung>& rungs, const std::string& where) {
    std::vector<std::string> found;
    std::vector<bool> met(rungs.size(), true);
    Comparison compared(policy_, work_);
    for (std::size_t i = 0; i < rungs.size() && work_ < kMostWork; i++) {
      if (!rungs[i].decides || !met[i]) continue;
      std::vector<std::string> names;
      for (std::size_t j = i + 1; j < rungs.size() && work_ < kMostWork; j++)
        if (met[j] && compared.covers(rungs[i].match, rungs[j].match)) {
          met[j] = false;
          names.push_back(rungs[j].name);
        }
      if (names.empty()) continue;
      const bool one = names.size() == 1;
      found.push_back(fmt::format(
          "the rule{} {}{} {} never met: \"{}\" ahead of {} takes every packet that {}; move {} in "
          "front of it, or take {} out",
          one ? "" : "s", named(names), where, one ? "is" : "are", rungs[i].name, one ? "it" : "them",
          one ? "it matches" : "they match", one ? "it" : "them", one ? "it" : "them"));
    }
    take(std::move(found));
  }

  void pipeline(const Pipeline& pipeline) {
    for (std::size_t i = 0; i < pipeline.stages.size(); i++) {
      const std::string where = fmt::format(" of pipeline \"{}\", stage {}", pipeline.name, i + 1);
      std::vector<Match> matches;
      std::vector<std::string> names;
      for (const gpu::StageRule& rule : gpu::rules_of(pipeline.stages[i])) {
        matches.push_back(match_of(rule.conditions));
        names.emplace_back(rule.name);
      }
      std::vector<Rung> rungs;
      rungs.reserve(names.size());
      for (std::size_t r = 0; r < names.size(); r++) rungs.push_back({names[r], matches[r], true});
      never_met(rungs, where);
      take(gpu::notes_of({pipeline.name, pipeline.stages, i}));
    }
  }

  const Policy& policy_;
  std::vector<std::string> notes_;
  u64 work_ = 0;
};

}  // namespace

std::string named(const std::vector<std::string>& names) {
  if (names.size() == 2) return fmt::format("\"{}\" and \"{}\"", names[0], names[1]);
  std::string text = fmt::format("\"{}\"", names.front());
  if (names.size() > 1) text += fmt::format(" and {} more", names.size() - 1);
  return text;
}

bool covers(const Policy& policy, const Match& a, const Match& b) {
  u64 work = 0;
  return Comparison(policy, work).covers(a, b);
}

std::vector<std::string> notes(const Policy& policy) { return Looker(policy).run(); }

}  // namespace xdpgpu::policy
