// SPDX-License-Identifier: MIT
//
// userspace/kernel/logging.hpp: libbpf and libxdp print to stderr by themselves; an operator gets one
// sentence instead, and it may quote their last word.
#pragma once

#include <string>

namespace xdpgpu::kernel {

// From now on nothing is printed; warnings are remembered per thread. Cheap, to be called before use.
void quiet_libraries();
// The calling thread's last warning since the last call, on one line; empty if there was none.
std::string last_library_message();
// Likewise the first one, which often names the cause where the last one names what became of it. It counts
// as the last one's call, too.
std::string first_library_message();

}  // namespace xdpgpu::kernel
