// SPDX-License-Identifier: MIT
//
// userspace/host/features.hpp: which of the kernel's and the host's abilities are there, each tried
// rather than guessed from the version where trying is harmless, and why each matters.
#pragma once

#include <string>
#include <vector>

#include "maps/types.h"

namespace xdpgpu::host {

enum class Have { yes, no, unknown };  // unknown: cannot be tried without privileges

struct Feature {
  std::string name;  // "af_xdp"
  Have have = Have::unknown;
  bool required = false;  // attach does not work without it
  std::string why;        // what it is good for
  std::string detail;     // how it was found, or the cause of a no
};

// Loads and creates a few throw-away BPF objects and sockets; leaves nothing.
std::vector<Feature> probe_features();

struct KernelVersion {
  u32 major = 0, minor = 0;
  std::string release;
  bool at_least(u32 a, u32 b) const { return major > a || (major == a && minor >= b); }
};
KernelVersion kernel_version();
KernelVersion parse_kernel_release(const std::string& release);

}  // namespace xdpgpu::host
