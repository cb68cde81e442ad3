// SPDX-License-Identifier: MIT
//
// userspace/kernel/skeleton.hpp: the XDP program's object, opened with the sizes of one port, not loaded.
#pragma once

#include <memory>

#include "userspace/kernel/kernel.hpp"
#include "xdpgpu.skel.h"

namespace xdpgpu::kernel {

struct SkeletonCloser {
  void operator()(xdpgpu_bpf* skeleton) const noexcept { xdpgpu_bpf__destroy(skeleton); }
};
using Skeleton = std::unique_ptr<xdpgpu_bpf, SkeletonCloser>;

// Empty, with errno, on failure.
Skeleton open_sized(const PortOptions& options);

}  // namespace xdpgpu::kernel
