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
  static void serve(Attached& attached, const Asked<Arguments>& /*asked*/, const Reply& reply) {
    attached.confirm([&attached, reply](tl::expected<void, Refusal> confirmed) {
      reply(confirmed ? Response::success(as_json(Answer{attached.generation()}))
                      : Response::failure(std::move(confirmed.error())));
    });
  }
};
inline RegisteredRequest<PolicyConfirm> registered_policy_confirm;

}  // namespace xdpgpu::control
