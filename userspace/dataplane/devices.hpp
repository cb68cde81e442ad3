// SPDX-License-Identifier: MIT
//
// userspace/dataplane/devices.hpp: the compute devices of one engine. Each has the whole frame region and
// the flow verdict tables of all ports; each knows every generation; each serves workers of its own, worker
// i on device i modulo their number, so that a queue's packets, and the shard of the flow verdict tables
// that is the queue's, belong to one device alone. Pipelines whose stages remember packets have one device:
// each of several would know its own queues' packets only (DESIGN 4.5).
// From one thread at a time: the engine sees to it.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "gpu/gpu.hpp"
#include "gpu/pipelines.hpp"
#include "userspace/dataplane/result.hpp"

namespace xdpgpu::dataplane {

class Devices {
 public:
  Devices() = default;
  // The last device first: what one of several GPUs has registered, the later ones borrow (gpu.hpp).
  ~Devices();
  Devices(Devices&&) noexcept = default;
  Devices& operator=(Devices&& other) noexcept {
    devices_.swap(other.devices_);
    return *this;
  }

  struct Device {
    std::unique_ptr<gpu::Device> device;
    bool publishes = false;  // it writes the flow verdicts of its queues itself
    bool failed = false;     // and a standby has taken over, when it was last looked at
  };

  // Registers region and tables with each device, whose queues are yet to be opened. Both outlive the
  // result. On failure nothing stays; the error names the device where there are several.
  static Result<Devices> create(std::vector<std::unique_ptr<gpu::Device>> devices, void* region, u64 bytes,
                                gpu::Frames frames, const std::vector<gpu::FlowTables>& tables);

  bool empty() const noexcept { return devices_.empty(); }
  const std::vector<Device>& all() const noexcept { return devices_; }
  // Where there is one; the mirror's.
  gpu::Device& first() const noexcept { return *devices_.front().device; }
  const Device& of(u32 worker) const noexcept { return devices_[worker % devices_.size()]; }

  // Into each, or, if one of them fails, into none. Fails where there are several and a stage has a table.
  Result<void> load(u32 generation, const std::shared_ptr<const gpu::Pipelines>& pipelines);
  // Of a generation that is loaded, gpu::Device::change_words on each. Where one of them fails, the others
  // may have been changed.
  Result<void> change_words(u32 generation, std::span<const gpu::ChangedWords> changes);
  void unload(u32 generation) noexcept;
  // Of the devices that have failed since the last call and have a standby, what happened, a sentence each.
  std::vector<std::string> failed();
  // Tries those again whose time has come; what has come of it, a sentence each.
  std::vector<std::string> try_again();

 private:
  std::vector<Device> devices_;
};

}  // namespace xdpgpu::dataplane
