// SPDX-License-Identifier: MIT
#include "userspace/policy/kept_verdicts.hpp"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "userspace/policy/caching.hpp"
#include "userspace/policy/stage_names.hpp"

namespace xdpgpu::policy {
namespace {

constexpr u32 kMostPairs = 10'000;  // of rules that are compared for packets in common

class Comparison {
 public:
  Comparison(const Policy& before, const Policy& after) : before_(before), after_(after) {
    for (const auto& [name, list] : after.lists) {
      const auto old = before.lists.find(name);
      same_lists_[name] = old != before.lists.end() && old->second.prefixes == list.prefixes &&
                          old->second.names == list.names && !old->second.left_out && !list.left_out;
    }
    for (const auto& pipeline : after.pipelines) same_pipelines_[pipeline.name] = same_pipeline(pipeline);
    for (u32 i = 0; i < after.rules.size(); ++i) at_[after.rules[i].name] = i;
    same_.resize(before.rules.size());
    for (u32 i = 0; i < before.rules.size(); ++i) {
      const auto at = at_.find(before.rules[i].name);
      if (at != at_.end() && same(before.rules[i], after.rules[at->second])) same_[i] = at->second;
    }
  }

  std::vector<std::optional<u32>> run() {
    std::vector<std::optional<u32>> kept(after_.rules.size());
    if (!same_ahead_of_rules()) return kept;
    for (u32 i = 0; i < before_.rules.size(); ++i)
      if (same_[i] && before_.rules[i].action == Rule::Action::inspect && nothing_between(i))
        kept[*same_[i]] = i;
    return kept;
  }

 private:
  // Management and control protocols are told before the rules.
  bool same_ahead_of_rules() const {
    if (before_.management.size() != after_.management.size()) return false;
    for (u64 i = 0; i < after_.management.size(); ++i)
      if (!same(before_.management[i], after_.management[i])) return false;
    return named_control(before_) == named_control(after_);
  }
  static u32 named_control(const Policy& policy) {
    u32 named = 0;
    for (const auto& rule : policy.rules)
      for (const u32 kind : rule.match.control) named |= 1u << kind;
    return named;
  }
  // Of rule `rule` of before, which after has, too: has after all that stands ahead of it and might match its
  // packets?
  bool nothing_between(u32 rule) {
    for (u32 i = 0; i < rule; ++i) {
      if (same_[i] && *same_[i] < *same_[rule]) continue;
      if (++pairs_ > kMostPairs || may_both_match(before_, before_.rules[i].match, before_.rules[rule].match))
        return false;
    }
    return true;
  }
  bool same(const Rule& a, const Rule& b) const {
    if (a.action != b.action || a.pipeline != b.pipeline || !(a.limit == b.limit)) return false;
    const bool leads = a.action == Rule::Action::inspect || a.action == Rule::Action::mirror;
    return (!leads || is_same(same_pipelines_, a.pipeline)) && same(a.match, b.match);
  }
  bool same(const Match& a, const Match& b) const {
    return a == b && same_lists(a.src_lists) && same_lists(a.dst_lists);
  }
  bool same_lists(const std::vector<std::string>& names) const {
    return std::all_of(names.begin(), names.end(),
                       [&](const auto& name) { return is_same(same_lists_, name); });
  }
  bool same_pipeline(const Pipeline& pipeline) const {
    const auto old = std::find_if(before_.pipelines.begin(), before_.pipelines.end(),
                                  [&](const Pipeline& one) { return one.name == pipeline.name; });
    if (old == before_.pipelines.end() || old->inner != pipeline.inner || !(old->stages == pipeline.stages))
      return false;
    return std::all_of(pipeline.stages.begin(), pipeline.stages.end(), [&](const Stage& stage) {
      // Rules that are not here may be others now.
      if (const auto* rules = gpu::file_rules(stage); rules != nullptr && !rules->signatures) return false;
      const auto names = lists_of(stage);
      return std::all_of(names.begin(), names.end(),
                         [&](const auto& name) { return is_same(same_lists_, name); });
    });
  }
  using Sameness = std::unordered_map<std::string_view, bool>;
  static bool is_same(const Sameness& of, std::string_view name) {
    const auto at = of.find(name);
    return at != of.end() && at->second;
  }

  const Policy& before_;
  const Policy& after_;
  Sameness same_lists_, same_pipelines_;
  std::unordered_map<std::string_view, u32> at_;  // after's rules
  std::vector<std::optional<u32>> same_;          // by before's rules: after's
  u32 pairs_ = 0;
};

}  // namespace

std::vector<std::optional<u32>> kept_verdicts(const Policy& before, const Policy& after) {
  return Comparison(before, after).run();
}

}  // namespace xdpgpu::policy
