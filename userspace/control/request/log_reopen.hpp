// SPDX-License-Identifier: MIT
//
// userspace/control/request/log_reopen.hpp: the files of logs are opened anew.
#pragma once

#include "userspace/control/request_registry.hpp"

namespace xdpgpu::control {

struct LogReopen {
  static constexpr std::string_view kName = "log.reopen";
  static constexpr RequestKind kKind = RequestKind::changes;
  using Arguments = Nothing;
  struct Answer {
    u64 files = 0;  // of the policy's log
    std::vector<std::string> problems;
    static void fields(auto& self, auto& field) {
      field("files", self.files);
      field("problems", self.problems);
    }
  };
  static Result<Answer> serve(Attached& attached, const Asked<Arguments>& /*asked*/) {
    auto reopened = attached.reopen_logs();
    return Answer{reopened.files, std::move(reopened.problems)};
  }
};
inline RegisteredRequest<LogReopen> registered_log_reopen;

}  // namespace xdpgpu::control
