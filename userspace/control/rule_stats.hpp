// SPDX-License-Identifier: MIT
//
// userspace/control/rule_stats.hpp: the rules of the policies in force, given to workers
// (userspace/dataplane/alert_rules.hpp), and how often each has held for a packet; and what became of the
// packets of stages that run programs.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "userspace/compiler/compiled_policy.hpp"
#include "userspace/control/json_line.hpp"
#include "userspace/dataplane/event_log.hpp"

namespace xdpgpu::control {

struct FileRuleReport {
  std::string pipeline;
  u32 gid = 1, sid = 0, rev = 0;
  std::string signature;  // what it is about, in its own words
  u64 matched = 0;        // packets for which it held, since the attach
  double cost = 0;        // rules::cost_of()
  static void fields(auto& self, auto& field) {
    field("pipeline", self.pipeline);
    field("gid", self.gid);
    field("signature_id", self.sid);
    field("rev", self.rev);
    field("signature", self.signature);
    field("matched", self.matched);
    field("cost", self.cost);
  }
};
struct FileRulesReport {
  u64 rules = 0;    // that decide, of all pipelines
  u64 holding = 0;  // of these, that held for some packet
  u64 left_out = 0;
  std::vector<FileRuleReport> top;
  static void fields(auto& self, auto& field) {
    field("rules", self.rules);
    field("holding", self.holding);
    field("left_out", self.left_out);
    field("top", self.top);
  }
};

struct RuleQuery {
  // matches: those that held, the most often first; cost: all, the dearest first.
  enum class By : u8 { matches, cost } by = By::matches;
  u64 limit = 20;
};
inline constexpr u64 kMostRulesListed = 1000;
inline constexpr std::string_view kRuleOrders[] = {"matches", "cost"};

// A program's map on a device, and the kernel's (map_twins.hpp).
struct MapTwinReport {
  std::string map, home, direction;
  u64 entries = 0;    // when it was last looked at
  double lag_ms = 0;  // from one look to the next, of late
  std::string problem;
  static void fields(auto& self, auto& field) {
    field("map", self.map);
    field("home", self.home);
    field("direction", self.direction);
    field("entries", self.entries);
    field("lag_ms", self.lag_ms);
    field("problem", self.problem);
  }
};
// What a program's stage decided, since the attach.
struct ProgramReport {
  std::string pipeline;
  u32 stage = 0;                 // from 1
  std::string where = "device";  // or "kernel"
  // By what became of them, or why; those that went on are not here. In the kernel nobody learns that:
  // "given".
  std::map<std::string, u64> packets;
  std::vector<MapTwinReport> maps{};  // where a device runs it: those that the kernel has, too
  static void fields(auto& self, auto& field) {
    field("pipeline", self.pipeline);
    field("stage", self.stage);
    field("where", self.where);
    field("packets", self.packets);
    field("maps", self.maps);
  }
};

// The rules of a pipeline's stage that decides by rules; nullptr: it has none.
const gpu::FileRules* rules_of(const gpu::PipelineSettings& pipeline);
// As workers read them.
dataplane::AlertRules::Pipeline alert_rules_of(const gpu::PipelineSettings& pipeline);

// Of the control thread.
class RuleStats {
 public:
  // selection, logs (one a worker): outlive this object.
  RuleStats(dataplane::EventSelection& selection, const std::vector<dataplane::EventLog*>& logs);

  // A policy is about to be in force as that generation: packets may be of it from now on. One of the same
  // generation that did not come to be is forgotten.
  void coming(const std::shared_ptr<const compiler::CompiledPolicy>& policy, u32 generation);
  // No device knows an older one any more, and so no packet of one is under way. What was counted of rules
  // that newer ones have, too, counts on.
  void forget_before(u32 generation);

  // Of the policy that is in force.
  FileRulesReport top(const compiler::CompiledPolicy& policy, const RuleQuery& query) const;
  // Of the policy that is in force, in the order of its stages.
  std::vector<ProgramReport> programs(const compiler::CompiledPolicy& policy) const;

 private:
  using Pipelines = std::vector<dataplane::AlertRules::Pipeline>;
  struct Known {
    u32 generation = 0;
    std::shared_ptr<const compiler::CompiledPolicy> policy;
    Pipelines pipelines;
  };
  using Name = std::tuple<std::string, u32, u32>;  // pipeline, gid, sid
  using Counts = std::map<Name, u64>;
  using Place = std::pair<std::string, u32>;  // pipeline, stage
  using Decided = std::map<Place, std::array<u64, dataplane::AlertRules::kCountedRules>>;
  void publish();
  static void add(const Known& known, Counts& to);
  static void add(const Known& known, Decided& to);
  // Whether there were some. What they counted is kept.
  bool forget(const std::function<bool(u32 generation)>& those);

  dataplane::EventSelection& selection_;
  std::vector<const dataplane::AlertRules::Reader*> readers_;
  std::vector<Known> known_;  // the newest last
  // Of policies that are gone.
  Counts before_;
  Decided decided_before_;
};

}  // namespace xdpgpu::control
