// SPDX-License-Identifier: MIT
//
// userspace/host/netns.hpp: another network namespace than the one that a command was started in.
#pragma once

#include <string>

#include "userspace/host/interface.hpp"

namespace xdpgpu::host {

// Moves the process (which has one thread yet) into a network namespace: that of a process, by its number;
// one that "ip netns" made, by its name; or any, by a path, such as /proc/1234/ns/net. Only the network
// changes: files, mounts and the BPF filesystem stay what they are. Needs CAP_SYS_ADMIN. The error is a
// sentence.
Result<void> enter_netns(const std::string& name);

}  // namespace xdpgpu::host
