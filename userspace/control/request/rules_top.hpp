// SPDX-License-Identifier: MIT
//
// userspace/control/request/rules_top.hpp: which rules of the policy's files held for packets, and which are
// dear.
#pragma once

#include <fmt/format.h>

#include "userspace/control/request_registry.hpp"

namespace xdpgpu::control {

struct RulesTop {
  static constexpr std::string_view kName = "rules.top";
  static constexpr RequestKind kKind = RequestKind::reads;
  // As of a RuleQuery, whose values stand where nothing is said. by: one of kRuleOrders.
  struct Arguments {
    std::optional<std::string> by{};
    std::optional<u64> limit{};
    static void fields(auto& self, auto& field) {
      field("by", self.by);
      field("limit", self.limit);
    }
  };
  using Answer = FileRulesReport;
  static Result<Answer> serve(const Attached& attached, const Asked<Arguments>& asked) {
    const auto& [by, limit] = asked.arguments;
    RuleQuery query;
    if (by && *by == kRuleOrders[1])
      query.by = RuleQuery::By::cost;
    else if (by && *by != kRuleOrders[0])
      return Error(fmt::format("\"by\" is \"{}\" or \"{}\"", kRuleOrders[0], kRuleOrders[1]));
    query.limit = limit.value_or(query.limit);
    return attached.rules(query);
  }
};
inline RegisteredRequest<RulesTop> registered_rules_top;

}  // namespace xdpgpu::control
