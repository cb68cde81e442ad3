// SPDX-License-Identifier: MIT
#include "userspace/dataplane/compute_mode.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

namespace xdpgpu::dataplane {
namespace {

struct Named {
  ComputeMode mode;
  std::string_view name;
};
constexpr std::array kNames{Named{ComputeMode::automatic, "auto"}, Named{ComputeMode::inlined, "inline"},
                            Named{ComputeMode::split, "split"}, Named{ComputeMode::persistent, "persistent"},
                            Named{ComputeMode::graph, "graph"}};

}  // namespace

std::string_view name_of(ComputeMode mode) noexcept {
  for (const Named& named : kNames)
    if (named.mode == mode) return named.name;
  return "unknown";
}

std::optional<ComputeMode> compute_mode_of(std::string_view name) noexcept {
  for (const Named& named : kNames)
    if (named.name == name) return named.mode;
  return std::nullopt;
}

ComputeMode resolve(ComputeMode mode, const gpu::Choice& choice) noexcept {
  if (mode != ComputeMode::automatic) return mode;
  return choice.drive == gpu::Drive::persistent ? ComputeMode::persistent : ComputeMode::inlined;
}

std::string why(const gpu::Choice& choice, const gpu::DeviceInfo& device,
                const std::vector<std::string_view>& remembering) {
  switch (choice.reason) {
    case gpu::Reason::no_choice:
      break;
    case gpu::Reason::keeps_up:
      return "it keeps up, and this is the quickest";
    case gpu::Reason::answers_sooner:
      return "it keeps up, and answers sooner than persistent";
    case gpu::Reason::table:
      return remembering.empty() ? "a table is the limit"
                                 : fmt::format("{}'s {} the limit", fmt::join(remembering, "'s and "),
                                               remembering.size() == 1 ? "table is" : "tables are");
    case gpu::Reason::decides_more:
      return fmt::format(
          "it is behind, and decides more than {}",
          name_of(choice.drive == gpu::Drive::persistent ? ComputeMode::inlined : ComputeMode::persistent));
  }
  return device.persistent_takes_core ? "a thread that stays would take a second core for each queue"
                                      : fmt::format("{} has no kernel that stays", device.name);
}

gpu::Drive drive_of(ComputeMode mode) noexcept {
  switch (mode) {
    case ComputeMode::persistent:
      return gpu::Drive::persistent;
    case ComputeMode::graph:
      return gpu::Drive::graph;
    case ComputeMode::automatic:
      return gpu::Drive::automatic;
    default:
      return gpu::Drive::launched;
  }
}

}  // namespace xdpgpu::dataplane
