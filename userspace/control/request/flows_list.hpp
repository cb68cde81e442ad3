// SPDX-License-Identifier: MIT
//
// userspace/control/request/flows_list.hpp: the flow verdicts that the kernel remembers, or a part of them.
#pragma once

#include "userspace/control/request_registry.hpp"

namespace xdpgpu::control {

struct FlowsList {
  static constexpr std::string_view kName = "flows.list";
  static constexpr RequestKind kKind = RequestKind::reads;
  // As of a FlowQuery, whose values stand where nothing is said.
  struct Arguments {
    std::optional<std::string> interface {};
    std::optional<u64> limit{};
    std::optional<u32> from{};
    std::optional<std::vector<u32>> indices{};
    static void fields(auto& self, auto& field) {
      field("interface", self.interface);
      field("limit", self.limit);
      field("from", self.from);
      field("indices", self.indices);
    }
  };
  using Answer = FlowsReport;
  static Result<Answer> serve(const Attached& attached, const Asked<Arguments>& asked) {
    const auto& [interface, limit, from, indices] = asked.arguments;
    if ((from || indices) && !interface)
      return Error(std::string(from ? "\"from\" is an index of one port: name its \"interface\""
                                    : "\"indices\" are one port's: name its \"interface\""));
    const FlowQuery all;
    return attached.flows({.interface = interface.value_or(all.interface),
                           .limit = limit.value_or(all.limit),
                           .from = from.value_or(all.from),
                           .indices = indices});
  }
};
inline RegisteredRequest<FlowsList> registered_flows_list;

}  // namespace xdpgpu::control
