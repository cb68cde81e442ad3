// SPDX-License-Identifier: MIT
//
// bench/programs/power.hpp: what a GPU draws, by nvidia-smi, while something else uses it.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gpu/gpu.hpp"

namespace xdpgpu::bench {

// Asks again and again, from a thread of its own, from its making on.
class PowerMeter {
 public:
  // gpu: the number in "cuda:<n>". The error is a sentence: nvidia-smi is not there, or does not know.
  static gpu::Result<std::unique_ptr<PowerMeter>> start(u32 gpu);
  ~PowerMeter();
  PowerMeter(const PowerMeter&) = delete;
  PowerMeter& operator=(const PowerMeter&) = delete;

  // Watts: the median of the later half of what was asked, as what is said may be the last second's mean.
  // Nothing is asked any more.
  gpu::Result<double> stop();

 private:
  explicit PowerMeter(std::string gpu);
  void ask_on();

  std::string gpu_;  // as nvidia-smi takes it
  std::atomic<bool> ends_{false};
  std::vector<double> watts_;
  std::thread thread_;
};

}  // namespace xdpgpu::bench
