// SPDX-License-Identifier: MIT
//
// userspace/control/request/bypass.hpp: every packet passes, or the policy decides again.
#pragma once

#include "userspace/control/request_registry.hpp"

namespace xdpgpu::control {

struct Bypass {
  static constexpr std::string_view kName = "bypass";
  static constexpr RequestKind kKind = RequestKind::urgent;
  struct Arguments {
    bool on = false;
    static void fields(auto& self, auto& field) { field("on", self.on); }
  };
  struct Answer {
    bool bypass = false;
    static void fields(auto& self, auto& field) { field("bypass", self.bypass); }
  };
  static Result<Answer> serve(Attached& attached, const Asked<Arguments>& asked) {
    if (auto set = attached.set_bypass(asked.arguments.on); !set) return Error(set.error());
    return Answer{asked.arguments.on};
  }
};
inline RegisteredRequest<Bypass> registered_bypass;

}  // namespace xdpgpu::control
