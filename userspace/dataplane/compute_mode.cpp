// SPDX-License-Identifier: MIT
#include "userspace/dataplane/compute_mode.hpp"

#include <array>

namespace xdpgpu::dataplane {
namespace {

struct Named {
  ComputeMode mode;
  std::string_view name;
};
constexpr std::array kNames{Named{ComputeMode::automatic, "auto"}, Named{ComputeMode::inlined, "inline"},
                            Named{ComputeMode::split, "split"}, Named{ComputeMode::persistent, "persistent"}};

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

ComputeMode resolve(ComputeMode mode, const gpu::DeviceInfo& device) noexcept {
  if (mode != ComputeMode::automatic) return mode;
  return device.persistent && !device.persistent_takes_core ? ComputeMode::persistent : ComputeMode::inlined;
}

gpu::Drive drive_of(ComputeMode mode) noexcept {
  return mode == ComputeMode::persistent ? gpu::Drive::persistent : gpu::Drive::launched;
}

}  // namespace xdpgpu::dataplane
