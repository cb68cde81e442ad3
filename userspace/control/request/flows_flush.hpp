// SPDX-License-Identifier: MIT
//
// userspace/control/request/flows_flush.hpp: all cached flow verdicts are void, at once: the same policy is
// in force as another generation.
#pragma once

#include "userspace/control/request_registry.hpp"

namespace xdpgpu::control {

struct FlowsFlush {
  static constexpr std::string_view kName = "flows.flush";
  static constexpr RequestKind kKind = RequestKind::changes;
  using Arguments = Nothing;
  struct Answer {
    u32 generation = 0;
    static void fields(auto& self, auto& field) { field("generation", self.generation); }
  };
  static void serve(Attached& attached, const Asked<Arguments>& /*asked*/, const Reply& reply) {
    attached.renew([&attached, reply](const tl::expected<void, Refusal>& renewed) {
      reply(renewed ? Response::success(as_json(Answer{attached.generation()}))
                    : Response::failure(renewed.error()));
    });
  }
};
inline RegisteredRequest<FlowsFlush> registered_flows_flush;

}  // namespace xdpgpu::control
