// SPDX-License-Identifier: MIT
//
// bench/programs/kernel_program.hpp: a program as the kernel runs it: by BPF_PROG_TEST_RUN, attached to
// nothing.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/programs/filters.hpp"

namespace xdpgpu::bench {

class KernelProgram {
 public:
  // Loads the object as libbpf does, and fills its maps. The error is a sentence: it is not for us to load,
  // or the kernel does not take it.
  static gpu::Result<std::unique_ptr<KernelProgram>> load(const Filter& filter);
  virtual ~KernelProgram() = default;

  // It is machine code, and not interpreted.
  virtual bool is_compiled() const = 0;
  // XDP_*, of one run. The error says why there was none.
  virtual gpu::Result<u32> answer(std::span<const u8> packet) const = 0;

  struct Sample {
    std::span<const u8> packet;
    u32 answer = 0;  // the right one
  };
  // Packets a second of so many CPUs together, each with a thread of its own that stays there and runs all
  // samples in turn, `repeat` times each in one system call, until so many seconds have gone by. Time is the
  // kernel's, of the runs alone: while a system call begins with another program than the last one the kernel
  // rewrites code of its own, and waits, which takes milliseconds. The error says what went wrong, a wrong
  // answer too.
  virtual gpu::Result<double> packets_per_second(std::span<const Sample> samples, u32 repeat, u32 cpus,
                                                 double seconds) const = 0;
};

// CPUs that this process may use.
std::vector<int> usable_cpus();

}  // namespace xdpgpu::bench
