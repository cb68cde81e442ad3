// SPDX-License-Identifier: MIT
#include "userspace/kernel/descriptors.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace xdpgpu::kernel {
namespace {

constexpr std::size_t kControl = CMSG_SPACE(kMostDescriptors * sizeof(int));

}  // namespace

bool send_with(int socket, std::span<const std::byte> data, std::span<const int> descriptors,
               int flags) noexcept {
  if (descriptors.size() > kMostDescriptors) {
    errno = E2BIG;
    return false;
  }
  iovec part{const_cast<std::byte*>(data.data()), data.size()};
  alignas(cmsghdr) std::array<char, kControl> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!descriptors.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* const beside = CMSG_FIRSTHDR(&header);
    beside->cmsg_level = SOL_SOCKET;
    beside->cmsg_type = SCM_RIGHTS;
    beside->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(beside), descriptors.data(), descriptors.size_bytes());
  }
  ssize_t sent = 0;
  do {
    sent = sendmsg(socket, &header, flags | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(data.size());
}

Arrived receive_with(int socket, std::span<std::byte> to, bool takes_descriptors) {
  iovec part{to.data(), to.size()};
  alignas(cmsghdr) std::array<char, kControl> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (takes_descriptors) {
    header.msg_control = control.data();
    header.msg_controllen = control.size();
  }
  Arrived arrived;
  do {
    arrived.length = recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  } while (arrived.length < 0 && errno == EINTR);
  if (arrived.length <= 0) return arrived;
  arrived.whole = (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
  for (cmsghdr* beside = CMSG_FIRSTHDR(&header); beside != nullptr; beside = CMSG_NXTHDR(&header, beside)) {
    if (beside->cmsg_level != SOL_SOCKET || beside->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (beside->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; i++) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(beside) + i * sizeof(int), sizeof(int));
      arrived.descriptors.emplace_back(fd);
    }
  }
  return arrived;
}

}  // namespace xdpgpu::kernel
