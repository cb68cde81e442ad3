// SPDX-License-Identifier: MIT
#include "userspace/control/rule_stats.hpp"

#include <algorithm>
#include <utility>

namespace xdpgpu::control {
namespace {

bool limit_drops(const gpu::StageSettings& stage) {
  return std::visit(
      [](const auto& what) {
        if constexpr (requires { what.rules.heads; }) return what.limit == gpu::Action::drop;
        return true;
      },
      stage);
}

bool runs_program(const gpu::StageSettings& stage) { return gpu::traits_of(stage).programs; }

// Of a program's stage, as its table has it, where there is one (gpu::TableReport::outcomes); empty: there is
// no such rule.
std::string name_of(const gpu::StageSettings& stage, u32 rule) {
  if (rule < 2) return rule == 0 ? "sent" : "dropped";
  const std::string text = gpu::rule_text(stage, rule, nullptr);
  return text.empty() ? text : text.substr(1);
}

bool drops(gpu::signatures::Action action) {
  return action != gpu::signatures::Action::alert && action != gpu::signatures::Action::pass;
}

}  // namespace

const gpu::FileRules* rules_of(const gpu::PipelineSettings& pipeline) {
  for (const auto& stage : pipeline.stages)
    if (const auto* const rules = gpu::file_rules(stage)) return rules;
  return nullptr;
}

dataplane::AlertRules::Pipeline alert_rules_of(const gpu::PipelineSettings& pipeline) {
  dataplane::AlertRules::Pipeline made;
  const auto* const rules = rules_of(pipeline);
  if (rules == nullptr || !rules->heads) return made;
  made.inner = pipeline.inner;
  for (std::size_t s = 0; s < pipeline.stages.size(); s++)
    if (gpu::file_rules(pipeline.stages[s]) == rules) {
      made.stage = static_cast<u8>(s + 1);
      made.limit_drops = limit_drops(pipeline.stages[s]);
    }
  made.answers = !pipeline.inner;
  made.rules = rules->heads;
  made.drops_end = 0;
  for (std::size_t i = 0; i < rules->heads->size(); i++)
    if (drops((*rules->heads)[i].action)) made.drops_end = static_cast<u32>(i) + 1;
  if (rules->suppressed && !rules->suppressed->empty()) made.suppressed = rules->suppressed;
  return made;
}

RuleStats::RuleStats(dataplane::EventSelection& selection, const std::vector<dataplane::EventLog*>& logs)
    : selection_(selection) {
  for (auto* const log : logs) readers_.push_back(&log->finisher().reader());
}

void RuleStats::coming(const std::shared_ptr<const compiler::CompiledPolicy>& policy, u32 generation) {
  Known known{generation, policy, {}};
  for (const auto& pipeline : policy->pipelines->settings()) {
    auto& of = known.pipelines.emplace_back(alert_rules_of(pipeline));
    if (of.rules) of.matches = std::make_shared<dataplane::RuleMatches>(of.rules->size(), readers_.size());
    for (std::size_t s = 0; s < pipeline.stages.size(); s++)
      if (runs_program(pipeline.stages[s])) of.counted |= u64{1} << (s + 1);
    if (of.counted != 0)
      of.decided = std::make_shared<dataplane::RuleMatches>(
          dataplane::AlertRules::decided_at(static_cast<u32>(pipeline.stages.size()) + 1, 0),
          readers_.size());
  }
  forget([generation](u32 other) { return other == generation; });
  known_.push_back(std::move(known));
  publish();
}

void RuleStats::forget_before(u32 generation) {
  const auto is_older = [generation](u32 other) { return static_cast<std::int32_t>(other - generation) < 0; };
  if (!forget(is_older)) return;
  Counts counted;
  for (const Known& kept : known_)
    for (std::size_t p = 0; p < kept.pipelines.size(); p++)
      if (const auto& rules = kept.pipelines[p].rules)
        for (const gpu::RuleHead& rule : *rules) {
          const Name name(kept.policy->pipelines->settings()[p].name, rule.gid, rule.sid);
          if (const auto found = before_.find(name); found != before_.end()) counted.insert(*found);
        }
  before_ = std::move(counted);
  std::erase_if(decided_before_, [&](const auto& before) {
    return std::none_of(known_.begin(), known_.end(), [&](const Known& kept) {
      const auto& pipelines = kept.policy->pipelines->settings();
      for (std::size_t p = 0; p < pipelines.size(); p++)
        if (pipelines[p].name == before.first.first)
          return (kept.pipelines[p].counted >> before.first.second & 1) != 0;
      return false;
    });
  });
  publish();
}

bool RuleStats::forget(const std::function<bool(u32 generation)>& those) {
  return std::erase_if(known_, [&](const Known& known) {
           if (!those(known.generation)) return false;
           add(known, before_);
           add(known, decided_before_);
           return true;
         }) != 0;
}

void RuleStats::publish() {
  dataplane::AlertRules::Policies policies;
  for (const Known& known : known_) policies.push_back({known.generation, known.pipelines});
  selection_.rules().set(std::move(policies), readers_);
}

void RuleStats::add(const Known& known, Counts& to) {
  for (std::size_t p = 0; p < known.pipelines.size(); p++) {
    const auto& rules = known.pipelines[p].rules;
    const auto& matches = known.pipelines[p].matches;
    if (!rules || !matches) continue;
    for (std::size_t i = 0; i < rules->size(); i++)
      if (const u64 count = matches->of(i))
        to[{known.policy->pipelines->settings()[p].name, (*rules)[i].gid, (*rules)[i].sid}] += count;
  }
}

void RuleStats::add(const Known& known, Decided& to) {
  using dataplane::AlertRules;
  for (std::size_t p = 0; p < known.pipelines.size(); p++) {
    const AlertRules::Pipeline& pipeline = known.pipelines[p];
    const auto& settings = known.policy->pipelines->settings()[p];
    for (u32 stage = 1; pipeline.decided && stage <= settings.stages.size(); stage++) {
      if ((pipeline.counted >> stage & 1) == 0) continue;
      auto& sums = to[{settings.name, stage}];
      for (u32 rule = 0; rule < sums.size(); rule++)
        sums[rule] += pipeline.decided->of(AlertRules::decided_at(stage, rule));
    }
  }
}

std::vector<ProgramReport> RuleStats::programs(const compiler::CompiledPolicy& policy) const {
  Decided counts = decided_before_;
  for (const Known& known : known_) add(known, counts);
  std::vector<ProgramReport> reports;
  for (const auto& pipeline : policy.pipelines->settings())
    for (u32 stage = 1; stage <= pipeline.stages.size(); stage++) {
      const gpu::StageSettings& settings = pipeline.stages[stage - 1];
      if (!runs_program(settings)) continue;
      ProgramReport& report =
          reports.emplace_back(ProgramReport{.pipeline = pipeline.name, .stage = stage, .packets = {}});
      const auto found = counts.find({pipeline.name, stage});
      for (u32 rule = 0; rule < dataplane::AlertRules::kCountedRules; rule++)
        if (auto name = name_of(settings, rule); !name.empty())
          report.packets[std::move(name)] = found == counts.end() ? 0 : found->second[rule];
    }
  return reports;
}

FileRulesReport RuleStats::top(const compiler::CompiledPolicy& policy, const RuleQuery& query) const {
  FileRulesReport report;
  Counts counts = before_;
  for (const Known& known : known_) add(known, counts);
  const auto& pipelines = policy.pipelines->settings();
  // Which rule, how often; what is said of it is copied of those alone that are listed.
  struct Listed {
    std::size_t pipeline;
    const gpu::RuleHead* rule;
    u64 matched;
  };
  std::vector<Listed> all;
  for (std::size_t p = 0; p < pipelines.size(); p++) {
    const auto* const rules = rules_of(pipelines[p]);
    if (rules == nullptr || !rules->heads) continue;
    for (const gpu::RuleHead& rule : *rules->heads) {
      const auto found = counts.find({pipelines[p].name, rule.gid, rule.sid});
      all.push_back({p, &rule, found == counts.end() ? 0 : found->second});
    }
  }
  report.rules = all.size();
  const auto holds = [](const Listed& one) { return one.matched != 0; };
  report.holding = static_cast<u64>(std::count_if(all.begin(), all.end(), holds));
  const bool by_cost = query.by == RuleQuery::By::cost;
  if (!by_cost) std::erase_if(all, [&](const Listed& one) { return !holds(one); });
  const auto listed = std::min<std::size_t>(std::min(query.limit, kMostRulesListed), all.size());
  const auto before = [&](const Listed& one, const Listed& other) {
    const auto of = [&](const Listed& it) {
      const auto matched = static_cast<double>(it.matched);
      return by_cost ? std::pair(it.rule->cost, matched) : std::pair(matched, it.rule->cost);
    };
    if (of(one) != of(other)) return of(one) > of(other);
    return std::tuple(one.pipeline, one.rule->gid, one.rule->sid) <
           std::tuple(other.pipeline, other.rule->gid, other.rule->sid);
  };
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(listed), all.end(), before);
  report.left_out = all.size() - listed;
  all.resize(listed);
  for (const auto& [pipeline, rule, matched] : all)
    report.top.push_back(
        {pipelines[pipeline].name, rule->gid, rule->sid, rule->rev, rule->msg, matched, rule->cost});
  return report;
}

}  // namespace xdpgpu::control
