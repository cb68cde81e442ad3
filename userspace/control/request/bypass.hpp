// SPDX-License-Identifier: MIT
//
// userspace/control/request/bypass.hpp: every packet passes, for good or for a while, or the policy decides
// again.
#pragma once

#include "userspace/control/channel.hpp"
#include "userspace/control/request_registry.hpp"

namespace xdpgpu::control {

struct Bypass {
  static constexpr std::string_view kName = "bypass";
  static constexpr RequestKind kKind = RequestKind::urgent;
  // Longest time after which it can be asked to end by itself.
  static constexpr unsigned kMostSeconds = kMostBypassSeconds;
  static constexpr const char* kOnlyOn = "a bypass that is off has no time after which it ends";
  struct Arguments {
    bool on = false;
    std::optional<u64> for_s{};  // it ends by itself after so long
    static void fields(auto& self, auto& field) {
      field("on", self.on);
      field("for_s", self.for_s, Within{1, kMostSeconds, "a number of seconds"});
    }
  };
  struct Answer {
    bool bypass = false;
    std::optional<u64> ends_in_s{};
    static void fields(auto& self, auto& field) {
      field("bypass", self.bypass);
      field("ends_in_s", self.ends_in_s);
    }
  };
  static Result<Answer> serve(Attached& attached, const Asked<Arguments>& asked) {
    const auto& [on, for_s] = asked.arguments;
    if (!on && for_s) return Error(std::string(kOnlyOn));
    if (auto set = attached.set_bypass(on, std::chrono::seconds(for_s.value_or(0))); !set)
      return Error(set.error());
    return Answer{on, for_s};
  }
};
inline RegisteredRequest<Bypass> registered_bypass;

}  // namespace xdpgpu::control
