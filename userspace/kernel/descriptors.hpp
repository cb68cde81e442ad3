// SPDX-License-Identifier: MIT
//
// userspace/kernel/descriptors.hpp: messages with descriptors beside them (unix(7), SCM_RIGHTS), on a socket
// that keeps messages apart.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <vector>

#include "userspace/kernel/kernel.hpp"

namespace xdpgpu::kernel {

inline constexpr std::size_t kMostDescriptors = 2;  // beside a message

// Sends all of `data`. flags: of sendmsg(2). False: errno says why.
bool send_with(int socket, std::span<const std::byte> data, std::span<const int> descriptors,
               int flags) noexcept;

struct Arrived {
  ssize_t length = -1;               // as recvmsg(2) says; -1: errno says why
  bool whole = false;                // nothing of it was cut off
  std::vector<Fd> descriptors = {};  // all that came; they end with this process's programs
};
// Waits for a message. takes_descriptors: otherwise the kernel drops those that come.
Arrived receive_with(int socket, std::span<std::byte> to, bool takes_descriptors = true);

}  // namespace xdpgpu::kernel
