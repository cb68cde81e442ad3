// SPDX-License-Identifier: MIT
//
// userspace/control/request/policy_confirm.hpp: the policy that was applied on trial stays.
#pragma once

#include "userspace/control/request_registry.hpp"

namespace xdpgpu::control {

struct PolicyConfirm {
  static constexpr std::string_view kName = "policy.confirm";
  static constexpr RequestKind kKind = RequestKind::changes;
  using Arguments = Nothing;
  struct Answer {
    u32 generation = 0;
    static void fields(auto& self, auto& field) { field("generation", self.generation); }
  };
  static Result<Answer> serve(Attached& attached, const Asked<Arguments>& /*asked*/) {
    if (!attached.confirm())
      return Error(
          std::string("there is no policy to confirm: it is in force for good, or was taken back; apply it "
                      "again with \"xdpgpu policy apply IF FILE --confirm TIME\""));
    return Answer{attached.generation()};
  }
};
inline RegisteredRequest<PolicyConfirm> registered_policy_confirm;

}  // namespace xdpgpu::control
