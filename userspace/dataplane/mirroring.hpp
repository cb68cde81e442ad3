// SPDX-License-Identifier: MIT
//
// userspace/dataplane/mirroring.hpp: the device's look at the packets that the ports' XDP programs mirror
// (maps/mirror.h), and how far it has come. It is opened and closed by one thread at a time, and asked by
// any; packets pass through here by no way.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "gpu/gpu.hpp"
#include "maps/counters.h"
#include "userspace/dataplane/result.hpp"

namespace xdpgpu::dataplane {

// Of all ports together: maps/counters.h says what each counts.
struct MirrorStatus {
  std::string device;
#define XG_X(name, ...) u64 name = 0;
  XG_MIRROR_COUNTERS(XG_X)
#undef XG_X
};

class Mirroring {
 public:
  // The ports' memory outlives this object.
  explicit Mirroring(std::vector<gpu::MirrorPort> ports) : options_{std::move(ports)} {}

  // Has the device look, unless it does already. The device outlives this object or close().
  Result<void> open(gpu::Device& device);
  // The last counts stay.
  void close() noexcept;
  // The device has failed, and looks at nothing any more.
  void device_failed() noexcept;
  // It is back, opened anew: has it look again, if it did.
  Result<void> device_is_back(gpu::Device& device);

  // How many packets each ring has been given by now.
  std::vector<u64> heads() const;
  // Has the device taken so many of each ring? Also true when it does not look, and never will at these.
  bool past(const std::vector<u64>& heads) const noexcept;

  // Nothing if the device has never looked.
  std::optional<MirrorStatus> status() const;

 private:
  template <class Visit>
  void each_state(Visit visit) const {
    for (const gpu::MirrorPort& port : options_.ports)
      for (u32 ring = 0; ring < port.rings; ++ring) visit(port.states[ring]);
  }

  gpu::MirrorOptions options_;
  mutable std::mutex mutex_;  // of what follows
  std::unique_ptr<gpu::Mirror> mirror_;
  bool failed_ = false;
  std::string device_;
  MirrorStatus before_;  // the counts of those that are closed
};

}  // namespace xdpgpu::dataplane
