// SPDX-License-Identifier: MIT
//
// userspace/dataplane/socket.hpp: AF_XDP sockets over the frame region. The region is registered as up
// to two UMEMs, one for zero-copy ports and one for copy ports, because the kernel forces every socket
// of a UMEM into the first one's mode.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "userspace/dataplane/busy_poll.hpp"
#include "userspace/dataplane/frame_region.hpp"
#include "userspace/dataplane/rings.hpp"

namespace xdpgpu::dataplane {

class Umem;

// Descriptors of a socket's rings, powers of two.
struct RingSizes {
  u32 receive = 2048;  // RX and fill
  u32 send = 2048;     // TX and completion; the same on all sockets of a UMEM
};

struct SocketOptions {
  std::string ifname;
  u32 queue = 0;
  RingSizes rings{};
  bool receives = true;  // false: a TX-only socket (the reinjection pair)
  u32 mark = 0;          // SO_MARK of what it sends; 0: none
  BusyPoll busy_poll{};
};

// What the kernel lost behind the redirect since the socket was made (XDP_STATISTICS).
struct SocketLosses {
  u64 dropped = 0, ring_full = 0;
  u64 fill_ring_empty = 0;  // times that the kernel found no frame; such packets are among the dropped
  u64 packets() const noexcept { return dropped + ring_full; }
};

// One socket with its four rings. Closed by the destructor: the kernel then gives up all its frames.
class Socket {
 public:
  Receiver receiver;
  alignas(64) Transmitter transmitter;  // may be another thread's than the receiver

  // Over rings that whoever asks maps into both halves, and serves in the kernel's place: for bench/worker.
  // It has no descriptor.
  static std::unique_ptr<Socket> over_memory() { return std::unique_ptr<Socket>(new Socket); }
  ~Socket();
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  int fd() const noexcept { return fd_; }
  bool receives() const noexcept { return receives_; }
  // Each recvfrom() on it runs the driver's poll once, without waiting.
  bool busy_polls() const noexcept { return busy_polls_; }
  // A system call.
  SocketLosses losses() const noexcept;

 private:
  friend class Umem;
  Socket() = default;
  xsk_socket* xsk_ = nullptr;
  int fd_ = -1;
  bool receives_ = false, busy_polls_ = false;
};

// One registration of the whole region in one mode. Made with its first socket, as the kernel wants it.
class Umem {
 public:
  // chunks_per_frame: that the driver may use, 1 or 2, where no other frame begins at the second.
  // multi_buffer: a packet may be of several descriptors, on all its sockets (XDP_USE_SG; Linux 6.7, where
  // the sockets that share a UMEM take it from the first).
  Umem(const FrameRegion& region, bool zero_copy, u32 chunks_per_frame = 1, bool multi_buffer = false)
      : region_(region),
        chunks_per_frame_(chunks_per_frame),
        zero_copy_(zero_copy),
        multi_buffer_(multi_buffer) {}
  ~Umem();  // its sockets must be gone
  Umem(const Umem&) = delete;
  Umem& operator=(const Umem&) = delete;

  bool zero_copy() const noexcept { return zero_copy_; }
  // Opens and binds a socket in this UMEM's mode, and verifies the mode. On failure nothing stays. A
  // queue that is busy is tried for half a second: the kernel takes its time to unbind a closed socket.
  Result<std::unique_ptr<Socket>> open(const SocketOptions& options);

 private:
  Result<void> create(Socket& first, const RingSizes& rings);
  // 0, or the negative error with which the kernel refused the bind.
  Result<int> bind(Socket& socket, const SocketOptions& options);
  void discard(Socket& first, const RingSizes& rings) noexcept;

  const FrameRegion& region_;
  u32 chunks_per_frame_;
  bool zero_copy_, multi_buffer_;
  xsk_umem* umem_ = nullptr;
  u32 sockets_ = 0;
};

}  // namespace xdpgpu::dataplane
