// SPDX-License-Identifier: MIT
//
// userspace/control/request/status.hpp: how the process is, and what became of the packets.
#pragma once

#include "userspace/control/request_registry.hpp"

namespace xdpgpu::control {

struct Status {
  static constexpr std::string_view kName = "status";
  static constexpr RequestKind kKind = RequestKind::reads;
  using Arguments = Nothing;
  using Answer = StatusReport;
  static Result<Answer> serve(const Attached& attached, const Asked<Arguments>& /*asked*/) {
    return attached.make_report();
  }
};
inline RegisteredRequest<Status> registered_status;

}  // namespace xdpgpu::control
