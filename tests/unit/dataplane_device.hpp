// SPDX-License-Identifier: MIT
//
// tests/unit/dataplane_device.hpp: a device's queue whose batches finish when the test says so.
#pragma once

#include <array>
#include <deque>
#include <vector>

#include "gpu/gpu.hpp"

namespace xdpgpu::dataplane {

template <u32 capacity, u32 depth>
class TestDevice : public gpu::Queue {
 public:
  // ready: batches that poll() may hand out at first.
  explicit TestDevice(u32 ready) : finished(ready) {
    for (u32 i = 0; i < depth; ++i) {
      descriptors_[i].resize(capacity);
      slots_[i].descriptors = descriptors_[i].data();
      slots_[i].capacity = capacity;
      slots_[i].index = i;
      free_.push_back(&slots_[i]);
    }
  }
  gpu::Slot* acquire() noexcept override {
    if (free_.empty()) return nullptr;
    gpu::Slot* slot = free_.front();
    free_.pop_front();
    slot->failed = false;
    return slot;
  }
  gpu::Submit submit(gpu::Slot* slot, u32 count, u32 generation) noexcept override {
    if (generation == unknown) return gpu::Submit::unknown_generation;
    if (broken) return gpu::Submit::device_failed;
    slot->count = count;
    slot->generation = generation;
    flying_.push_back(slot);
    return gpu::Submit::ok;
  }
  gpu::Slot* poll() noexcept override {
    if (flying_.empty() || finished == 0) return nullptr;
    --finished;
    gpu::Slot* slot = flying_.front();
    flying_.pop_front();
    slot->failed = broken;
    return slot;
  }
  void release(gpu::Slot* slot) noexcept override { free_.push_back(slot); }
  u32 in_flight() const noexcept override { return static_cast<u32>(flying_.size()); }

  u32 finished;     // batches that poll() may hand out
  u32 unknown = 0;  // a generation that the device does not know
  bool broken = false;

 private:
  std::array<std::vector<xg_descriptor>, depth> descriptors_;
  std::array<gpu::Slot, depth> slots_;
  std::deque<gpu::Slot*> free_, flying_;
};

}  // namespace xdpgpu::dataplane
