// SPDX-License-Identifier: MIT
//
// userspace/kernel/trusted.hpp: may what stands at a path be root's word? Pins, links, sockets and locks are
// found by name, and where anybody can put something in that place (a BPF filesystem is mounted with mode
// 1777), what is opened, believed or removed there would be somebody else's choice.
#pragma once

#include <string>

#include "userspace/kernel/kernel.hpp"

namespace xdpgpu::kernel {

// Whether something stands there. The error says which part of the path is a symbolic link, not root's, or
// can be exchanged by others: what a folder that others write holds counts only where the folder is sticky
// and what it holds is root's. Then nobody but root can exchange anything between this look and the use of
// the path. open_to_others: whether others may write to what stands there itself (a control socket).
Result<bool> stands_by_root(const std::string& path, bool open_to_others = false);

}  // namespace xdpgpu::kernel
