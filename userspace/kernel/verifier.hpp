// SPDX-License-Identifier: MIT
//
// userspace/kernel/verifier.hpp: what the kernel's verifier says of a program. It is loaded with its maps, is
// never attached, and nothing of it is left.
#pragma once

#include <string>

#include "gpu/programs.hpp"

namespace xdpgpu::kernel {

struct Verdict {
  enum class Said { takes, refuses, not_asked };
  Said said = Said::not_asked;
  std::string why;  // a sentence, where it does not take it
};

inline constexpr u64 kMostVerifiedBytes = u64{1} << 30;

// A program within its bounds (userspace/compiler/programs/check.hpp). fragments: it takes packets of several
// buffers. Arrays are made as large as they are; of other maps there are at most so many entries as the
// verifier needs to see what they are like. It is not asked for maps that take more than kMostVerifiedBytes,
// a map of each CPU's on all of them. Needs CAP_BPF and CAP_NET_ADMIN: without, the kernel was not asked.
Verdict verify(const gpu::programs::Program& program, bool fragments);

}  // namespace xdpgpu::kernel
