// SPDX-License-Identifier: MIT
//
// userspace/control/request/list_show.hpp: the policy's lists of names, and what was changed of one of them
// since it was compiled.
#pragma once

#include "userspace/control/request_registry.hpp"

namespace xdpgpu::control {

struct ListShow {
  static constexpr std::string_view kName = "list.show";
  static constexpr RequestKind kKind = RequestKind::reads;
  static constexpr u64 kLimit = 1000;  // of its changes, where nothing is said
  struct Arguments {
    std::optional<std::string> list{};
    std::optional<u64> limit{};
    static void fields(auto& self, auto& field) {
      field("list", self.list);
      field("limit", self.limit);
    }
  };
  using Answer = ListsReport;
  static Result<Answer> serve(const Attached& attached, const Asked<Arguments>& asked) {
    const compiler::CompiledPolicy& policy = attached.policy();
    return report_lists(policy.policy, *policy.pipelines, *attached.changed_names(),
                        asked.arguments.list.value_or(""), asked.arguments.limit.value_or(kLimit));
  }
};
inline RegisteredRequest<ListShow> registered_list_show;

}  // namespace xdpgpu::control
