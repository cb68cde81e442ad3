// SPDX-License-Identifier: MIT
//
// userspace/control/request/detach.hpp: the attach ends. Answered when everything is undone.
#pragma once

#include "userspace/control/request_registry.hpp"

namespace xdpgpu::control {

struct Detach {
  static constexpr std::string_view kName = "detach";
  static constexpr RequestKind kKind = RequestKind::changes;
  struct Arguments {
    std::optional<bool> keep{};  // what the kernel decides by stays, for a later attach
    static void fields(auto& self, auto& field) { field("keep", self.keep); }
  };
  using Answer = StatusReport;
  static void serve(Attached& attached, const Asked<Arguments>& asked, const Reply& reply) {
    attached.detach(asked.arguments.keep.value_or(false), reply);
  }
};
inline RegisteredRequest<Detach> registered_detach;

}  // namespace xdpgpu::control
