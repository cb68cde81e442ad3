// SPDX-License-Identifier: MIT
//
// userspace/control/device_codes.hpp: an attach's devices before its data plane is there: whether they can be
// opened, and machine code for GPUs that this build has none for, so that no driver compiles anything in a
// data plane.
#pragma once

#include <string>
#include <vector>

#include "gpu/gpu.hpp"
#include "userspace/control/result.hpp"

namespace xdpgpu::control {

// Where code is kept from one start to the next (userspace/compiler/disk_cache.hpp).
inline constexpr const char* kCodeFolder = "/var/cache/xdpgpu";

// Code for those of the devices (as open_device takes them) that want some: what was kept, or what a compiler
// of its own makes now, which is told on stderr, as it takes a while. filter: the compiler's system calls.
// The error is a sentence: their drivers will have to compile, and why.
Result<gpu::DeviceCodes> device_codes(const std::vector<std::string>& devices, bool filter);

// Opens the device in a throw-away process: a driver, once initialised, does not survive the fork that makes
// the data plane, and it has no business with root's privileges.
Result<void> try_device(const std::string& name, const gpu::DeviceCodes& codes);

}  // namespace xdpgpu::control
