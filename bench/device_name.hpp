// SPDX-License-Identifier: MIT
//
// bench/device_name.hpp: what benches that have no worker call a device: "cuda:1", or with the way its queue
// is driven behind it: "cuda:1/persistent", "cuda:1/auto".
#pragma once

#include <fmt/format.h>

#include <string>

#include "userspace/dataplane/compute_mode.hpp"

namespace xdpgpu::bench {

struct DeviceName {
  std::string device;  // as `xdpgpu devices` names it
  gpu::Drive drive = gpu::Drive::launched;
};

// Fails with a sentence where there is no such way, or it is one of a worker's threads.
inline gpu::Result<DeviceName> device_name(const std::string& name) {
  using dataplane::ComputeMode;
  const auto slash = name.find('/');
  DeviceName out{name.substr(0, slash)};
  if (slash == std::string::npos) return out;
  const auto mode = dataplane::compute_mode_of(name.substr(slash + 1));
  if (!mode || *mode == ComputeMode::split)
    return tl::unexpected(fmt::format(
        "{} names no way to drive a queue without a worker: take inline, persistent, graph or auto", name));
  out.drive = dataplane::drive_of(*mode);
  return out;
}

}  // namespace xdpgpu::bench
