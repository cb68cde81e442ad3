// SPDX-License-Identifier: MIT
//
// bench/worker/workers.hpp: workers side by side, each a thread on a core of its own with rings and frames of
// its own, in front of one device that has one region: packets a second from rings to rings, by the wall
// clock. The kernel's side is played by the worker's own thread, and its time is said apart.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/pages.hpp"
#include "bench/worker/lane.hpp"
#include "gpu/gpu.hpp"

namespace xdpgpu::bench {

struct WorkersOptions {
  std::string device;  // "cuda:1", or with the policy's compute.mode behind, "cuda/auto"; none is "inline"
  std::string stage;   // as Lane::pipeline() has it
  std::vector<int> cores{};  // of the workers, each one's own
  u32 batch = 1024;          // of the device, and as many packets come in at a turn
  u32 depth = 4;
  u32 length = 64;
  bool huge = false;
};

struct Wall {
  double packets_a_second = 0;  // of all workers
  double ns = 0;                // a packet, of a worker's core
  double kernel_ns = 0;         // of them, where the kernel's side moved packets
};

class Workers {
 public:
  // Throws std::runtime_error, a sentence.
  explicit Workers(const WorkersOptions& options);
  ~Workers();

  // The first `count` of them work, for so many seconds after a while that is not counted. Throws
  // std::runtime_error where one has no core.
  Wall run(u32 count, double seconds);
  // Lets what is under way come out, and counts; what is wrong with the accounts or with any packet's
  // verdict, or nothing. Once, at the end.
  std::string check();

 private:
  WorkersOptions options_;
  Pages region_;
  std::unique_ptr<gpu::Device> device_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  bool resident_ = false;
};

// Cores that this process may run on, those that share none with one before them first.
std::vector<int> own_cores();

}  // namespace xdpgpu::bench
