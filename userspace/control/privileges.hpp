// SPDX-License-Identifier: MIT
//
// userspace/control/privileges.hpp: how the data plane becomes nobody, in two steps.
#pragma once

#include <sys/types.h>

#include "userspace/control/result.hpp"

namespace xdpgpu::control {

// Step 1, right after the fork: becomes the system user `xdpgpu` (or `nobody` where there is none) with
// the groups `render` and `video` where they exist, no_new_privs, an empty bounding set, and of all
// capabilities only CAP_NET_RAW and CAP_IPC_LOCK: AF_XDP sockets and their locked memory are made with these.
// libxdp cannot take over a socket with mapped rings from another process, so the data plane makes its own.
// for_busy_poll keeps CAP_NET_ADMIN, too, without which the kernel refuses SO_PREFER_BUSY_POLL.
Result<void> keep_socket_privileges(bool for_busy_poll);

// Step 2, once the sockets are there and before any device library, policy or client is touched: no
// capability at all is left, nor can any be got again.
Result<void> drop_all_privileges();

// Whom it becomes.
uid_t data_plane_user_id();

// Both steps at once, for helpers that need no privilege; some need the devices' groups.
enum class Groups { devices, none };
Result<void> become_nobody(Groups groups = Groups::devices);

}  // namespace xdpgpu::control
