// SPDX-License-Identifier: MIT
//
// userspace/control/request/flows_count.hpp: how many packets flows have had, of a part of one port's table.
#pragma once

#include "userspace/control/request_registry.hpp"

namespace xdpgpu::control {

struct FlowsCount {
  static constexpr std::string_view kName = "flows.count";
  static constexpr RequestKind kKind = RequestKind::reads;
  // As of a FlowCountQuery, whose values stand where nothing is said.
  struct Arguments {
    std::string interface {};
    std::optional<u32> from{}, entries{};
    std::optional<u64> since_ns{};
    static void fields(auto& self, auto& field) {
      field("interface", self.interface);
      field("from", self.from);
      field("entries", self.entries);
      field("since_ns", self.since_ns);
    }
  };
  using Answer = FlowCountsReport;
  static Result<Answer> serve(const Attached& attached, const Asked<Arguments>& asked) {
    const auto& [interface, from, entries, since_ns] = asked.arguments;
    const FlowCountQuery all;
    return attached.flow_counts({.interface = interface,
                                 .from = from.value_or(all.from),
                                 .entries = entries.value_or(all.entries),
                                 .since_ns = since_ns.value_or(all.since_ns)});
  }
};
inline RegisteredRequest<FlowsCount> registered_flows_count;

}  // namespace xdpgpu::control
