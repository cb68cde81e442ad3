// SPDX-License-Identifier: MIT
//
// userspace/dataplane/random_key.hpp: a key for hashes of what strangers choose.
#pragma once

#include <sys/random.h>

#include <array>

#include "maps/types.h"

namespace xdpgpu::dataplane {

// Of the kernel's random numbers; a system call.
inline std::array<u64, 2> random_key() {
  std::array<u64, 2> key{};
  (void)!getrandom(key.data(), sizeof(key), 0);
  return key;
}

}  // namespace xdpgpu::dataplane
