// SPDX-License-Identifier: MIT
//
// userspace/compiler/programs/layouts.hpp: whether a program that wants to be fitted to the running kernel's
// structures ("compile once, run everywhere") fits as it is. It does where each member that it asks for is at
// the same place in the kernel: so are those of packets' headers and of struct xdp_md, which the kernel has
// promised. Another program is refused: libbpf fits one only while it loads it.
#pragma once

#include "userspace/compiler/programs/elf.hpp"
#include "userspace/compiler/programs/object.hpp"

struct btf;

namespace xdpgpu::programs {

// types: the object's own; nullptr: it has none. section, function: the program's. What stands in .text may
// be called by it. The error says what does not fit, behind "it ...".
Result<void> check_layouts(const ElfObject& object, const btf* types, const std::string& section,
                           const std::string& function, const KernelTypes& kernel_types);

}  // namespace xdpgpu::programs
