// SPDX-License-Identifier: MIT
//
// userspace/kernel/tc_hook.hpp: where tc programs stand on an interface.
#pragma once

#include <bpf/libbpf.h>

#include "maps/types.h"

namespace xdpgpu::kernel {

// points: BPF_TC_INGRESS, BPF_TC_EGRESS, or both.
inline bpf_tc_hook tc_hook(u32 ifindex, unsigned points) {
  bpf_tc_hook hook{};
  hook.sz = sizeof(hook);
  hook.ifindex = static_cast<int>(ifindex);
  hook.attach_point = static_cast<bpf_tc_attach_point>(points);
  return hook;
}

}  // namespace xdpgpu::kernel
