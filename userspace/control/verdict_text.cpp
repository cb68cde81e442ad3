// SPDX-License-Identifier: MIT
#include "userspace/control/verdict_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "maps/control.h"

namespace xdpgpu::control {
namespace {

// "passed by a rule" says which one.
std::string reason_of(const PacketVerdict& verdict) {
  if (verdict.rule.empty()) return verdict.reason;
  switch (verdict.kernel_reason) {
    case XG_KERNEL_pass_rule:
      return fmt::format("passed by rule \"{}\"", verdict.rule);
    case XG_KERNEL_drop_rule:
      return fmt::format("dropped by rule \"{}\"", verdict.rule);
    case XG_KERNEL_drop_limit:
      return fmt::format("dropped: over the limit of rule \"{}\"", verdict.rule);
    default:
      return fmt::format("{} by rule \"{}\"", verdict.reason, verdict.rule);
  }
}

}  // namespace

std::string why_of(const PacketVerdict& verdict) {
  std::string why = reason_of(verdict);
  if (verdict.headers_cut) why += ", headers cut by the capture";
  if (!verdict.pipeline.empty()) why += fmt::format(" in pipeline {}: {}", verdict.pipeline, verdict.stage);
  if (verdict.changed_length) why += ", changed";
  if (!verdict.mirrors.empty()) why += fmt::format("; mirrored to {}", fmt::join(verdict.mirrors, ", "));
  return why;
}

}  // namespace xdpgpu::control
