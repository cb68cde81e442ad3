// SPDX-License-Identifier: MIT
//
// bench/umem/queue.hpp: a device with one queue that decides the same frames over and over. The descriptors
// stand in the slots from the start, as it is the device that is measured and not who writes them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/umem/frames.hpp"
#include "gpu/gpu.hpp"

namespace xdpgpu::bench {

struct Rate {
  double packets_per_second = 0;
  std::string problem;  // what the verdicts say, or why it came to an end
};

class DeviceQueue {
 public:
  // device: "cuda:1", or with the way it is driven behind, "cuda/persistent". The frames outlive it; they
  // are `depth` times `batch`. Fails with a sentence.
  static gpu::Result<std::unique_ptr<DeviceQueue>> open(const std::string& device, const Frames& frames,
                                                        Stage stage, gpu::Frames how, u32 batch, u32 depth);

  // Decides for so many seconds, or until the device has answered nothing for five; before and behind it,
  // all frames once with their verdicts checked.
  Rate run(double seconds);

 private:
  gpu::Result<void> prepare(gpu::Drive drive, Stage stage, gpu::Frames how);
  // All frames once, checked.
  void check(std::string& problem);
  // The next batch that is over; nullptr where none is for five seconds.
  gpu::Slot* wait(std::string& problem);
  bool submit(std::string& problem, bool forget);
  void drain(std::string& problem);

  DeviceQueue(std::unique_ptr<gpu::Device> device, const Frames& frames, u32 batch, u32 depth)
      : frames_(frames), batch_(batch), depth_(depth), device_(std::move(device)) {}

  const Frames& frames_;
  u32 batch_, depth_;
  std::vector<u32> expected_;  // by slot and place
  std::unique_ptr<gpu::Device> device_;
  std::unique_ptr<gpu::Queue> queue_;
};

}  // namespace xdpgpu::bench
