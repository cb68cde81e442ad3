// SPDX-License-Identifier: MIT
//
// userspace/kernel/xdp_link.hpp: XDP programs on interfaces by BPF links. A link belongs to the interface and
// not to its name: it goes along when that is renamed or moved to another network namespace. Pinned, it
// outlives who made it, and its program is replaced in one step.
#pragma once

#include <optional>

#include "userspace/kernel/kernel.hpp"

namespace xdpgpu::kernel {

// Puts the program on an interface that has none. 0, or -errno.
int create_xdp_link(int ifindex, int program, XdpMode mode, Fd& link) noexcept;

// Whose program it is and where it is now; nothing where the descriptor is no XDP link or its interface is
// gone.
struct XdpLinkInfo {
  u32 program_id = 0;
  u32 ifindex = 0;  // in the interface's own namespace
};
std::optional<XdpLinkInfo> look_at_link(int link) noexcept;

// The link that has this program on the interface, of whoever; empty: it is not on by a link.
Fd find_xdp_link(int ifindex, u32 program_id) noexcept;

// Takes a program off, by its link or else by its descriptor, which touches nobody else's. 0, or -errno.
int take_off(int ifindex, int program, u32 program_id, u32 mode_flag) noexcept;

}  // namespace xdpgpu::kernel
