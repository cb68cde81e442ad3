// SPDX-License-Identifier: MIT
#include "userspace/control/status_report.hpp"

#include <fmt/format.h>

namespace xdpgpu::control {

Result<StatusReport> read_report(const Json& json) try {
  StatusReport report;
  read_json(json, report);
  return report;
} catch (const Json::exception& error) {
  return Error(fmt::format(
      "the process answered with a report that this command cannot read ({}); use the command that it was "
      "started with",
      error.what()));
}

}  // namespace xdpgpu::control
