// SPDX-License-Identifier: MIT
//
// userspace/kernel/verifier.hpp: what the kernel's verifier says of a program. It is loaded with its maps, is
// never attached, and nothing of it is left.
#pragma once

#include <string>
#include <vector>

#include "gpu/programs.hpp"
#include "userspace/kernel/kernel.hpp"

namespace xdpgpu::kernel {

struct Verdict {
  // not_asked: who asks may not, whatever the program; unaskable: the kernel is not asked of such a program.
  enum class Said { takes, refuses, not_asked, unaskable };
  Said said = Said::not_asked;
  std::string why;  // a sentence, where it does not take it
};

// What a program's maps may take of the kernel's memory while it is asked. Each entry of a map of each CPU's
// takes time on each.
inline constexpr u64 kMostVerifiedBytes = u64{1} << 30, kMostVerifiedPerCpuEntries = u64{1} << 22;

// A program within its bounds (userspace/compiler/programs/check.hpp). fragments: it takes packets of several
// buffers. Arrays of values are made as large as they are; of other maps there are at most so many entries as
// the verifier needs to see what they are like. It is not asked for maps that take more than
// kMostVerifiedBytes, or have more entries of each CPU than kMostVerifiedPerCpuEntries, nor of programs with
// maps of types that devices are not to have. Needs CAP_BPF and CAP_NET_ADMIN: whether those are there, the
// kernel is asked of a program that it takes.
Verdict verify(const gpu::programs::Program& program, bool fragments);

// One part of a program (gpu::programs::parts_of()), which finds its maps among `maps` by their numbers.
struct Loaded {
  Fd program;  // empty: the verdict says why
  Verdict verdict;
};
Loaded load(const gpu::programs::Program& part, bool fragments, const std::vector<Fd>& maps);

}  // namespace xdpgpu::kernel
