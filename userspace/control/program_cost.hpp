// SPDX-License-Identifier: MIT
//
// userspace/control/program_cost.hpp: what it costs a device to have a program decide a packet, measured.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gpu/pipelines.hpp"
#include "userspace/control/result.hpp"

namespace xdpgpu::control {

// Ethernet frames, each of XG_FRAME_MAX bytes at most: more of a packet is not shown to the program.
using CostFrames = std::vector<std::vector<u8>>;
// TCP and UDP over IPv4 and IPv6, to and from any address and port, as short as Ethernet has them. The same
// ones each time.
CostFrames made_up_frames();
// The first ones of a capture. The error is a sentence.
Result<CostFrames> frames_of_capture(const std::string& path);

struct ProgramCost {
  std::string device;      // its name
  double nanoseconds = 0;  // a packet, where one queue is always busy; a CPU's is one thread
  u32 batch = 0;           // packets at a time
};
// Opens the device for it; its name is one that gpu::open_device() takes. The pipelines are one with the
// program alone, whose maps have what they have at first. Takes some tenths of a second, and a second or two
// where the program is translated first. The error is a sentence.
Result<ProgramCost> cost_on(const std::string& device, std::shared_ptr<const gpu::Pipelines> pipelines,
                            const CostFrames& frames);

}  // namespace xdpgpu::control
