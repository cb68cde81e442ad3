// SPDX-License-Identifier: MIT
#include "userspace/dataplane/socket.hpp"

#include <fmt/format.h>
#include <linux/if_xdp.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#ifndef SOL_XDP
#define SOL_XDP 283
#endif

namespace xdpgpu::dataplane {
namespace {

constexpr u16 kUseScatterGather = 1u << 4;  // XDP_USE_SG (linux/if_xdp.h, Linux 6.6)
constexpr int kSendBuffer = 64 << 20;       // copy mode: bytes of skbs under way
constexpr u32 kBusyTries = 50;
constexpr std::chrono::milliseconds kBusyPause{10};

std::string cause(int error, const SocketOptions& options) {
  switch (error) {
    case EBUSY:
      return "another AF_XDP socket is bound to it; stop that program";
    case EPERM:
      return "AF_XDP sockets need CAP_NET_RAW; run as root";
    case EINVAL:
      return fmt::format("it has no queue {} or cannot do this mode; see `ethtool -l {}`", options.queue,
                         options.ifname);
    case EOPNOTSUPP:
      return "the driver cannot do this mode";
    case ENOBUFS:
    case ENOMEM:
      return "no memory could be locked for it; raise the memory limit or lower io.frames_per_queue";
    default:
      return std::strerror(error);
  }
}

#ifndef SO_PREFER_BUSY_POLL
#define SO_PREFER_BUSY_POLL 69
#define SO_BUSY_POLL_BUDGET 70
#endif

// The name of the option that the kernel refused, errno saying why; nullptr: all are set.
const char* set_busy_poll(int fd, const BusyPoll& wanted) {
  const struct {
    int option;
    const char* name;
    int value;
  } settings[] = {{SO_PREFER_BUSY_POLL, "SO_PREFER_BUSY_POLL", 1},
                  {SO_BUSY_POLL, "SO_BUSY_POLL", static_cast<int>(wanted.us)},
                  {SO_BUSY_POLL_BUDGET, "SO_BUSY_POLL_BUDGET", static_cast<int>(wanted.budget)}};
  for (const auto& setting : settings)
    if (setsockopt(fd, SOL_SOCKET, setting.option, &setting.value, sizeof(setting.value)) != 0)
      return setting.name;
  return nullptr;
}

}  // namespace

Transmitter::Kick Transmitter::kick_once() noexcept {
  const u32 before = unsent();
  tx_most_ = std::max(tx_most_, before);
  if (!before || !xsk_ring_prod__needs_wakeup(&tx)) return Kick::done;
  // In copy mode it ends at the first packet that the interface refuses, which is gone then
  // (__xsk_generic_xmit).
  if (sendto(fd, nullptr, 0, MSG_DONTWAIT, nullptr, 0) >= 0 || errno != EBUSY)
    return unsent() == before ? Kick::done : Kick::again;
  const u32 said = __atomic_load_n(tx.consumer, __ATOMIC_ACQUIRE);
  if (static_cast<std::int32_t>(said - taken_) > 0) {
    taken_ = said;  // it sent some before, and said so
  } else if (taken_ != *tx.producer) {
    while (taken_ + 1 != *tx.producer && xsk_ring_prod__tx_desc(&tx, taken_)->options & kContinued) ++taken_;
    ++taken_;
  } else {
    return Kick::done;
  }
  ++refused_;
  return Kick::refused;
}

Socket::~Socket() {
  if (xsk_) xsk_socket__delete(xsk_);
}

SocketLosses Socket::losses() const noexcept {
  xdp_statistics statistics{};
  socklen_t size = sizeof(statistics);
  if (getsockopt(fd_, SOL_XDP, XDP_STATISTICS, &statistics, &size) != 0) return {};
  return {statistics.rx_dropped, statistics.rx_ring_full, statistics.rx_fill_ring_empty_descs};
}

Umem::~Umem() {
  if (umem_) xsk_umem__delete(umem_);
}

Result<void> Umem::create(Socket& first, const RingSizes& rings) {
  xsk_umem_config config{};
  config.fill_size = rings.receive;
  config.comp_size = rings.send;
  config.frame_size = chunks_per_frame_ * XG_CHUNK_SIZE;
  config.frame_headroom = XG_FRAME_HEADROOM;
  const int error = xsk_umem__create(&umem_, region_.base(), region_.bytes(), &first.receiver.fill,
                                     &first.transmitter.completion, &config);
  if (error == 0) return {};
  umem_ = nullptr;
  return tl::unexpected(fmt::format("cannot register {} MiB of frame memory with the kernel: {}; {}",
                                    region_.bytes() >> 20, std::strerror(-error),
                                    -error == EPERM ? "run as root, or with CAP_NET_RAW"
                                                    : "lower io.frames_per_queue or raise RLIMIT_MEMLOCK"));
}

// Takes back a registration whose first socket could not be bound. libxdp leaves the two rings mapped
// then, and a mapped ring would keep the registration alive.
void Umem::discard(Socket& first, const RingSizes& rings) noexcept {
  xdp_mmap_offsets offsets{};
  socklen_t size = sizeof(offsets);
  const int fd = xsk_umem__fd(umem_);
  if (getsockopt(fd, SOL_XDP, XDP_MMAP_OFFSETS, &offsets, &size) == 0) {
    munmap(static_cast<u8*>(first.receiver.fill.ring) - offsets.fr.desc,
           offsets.fr.desc + rings.receive * sizeof(u64));
    munmap(static_cast<u8*>(first.transmitter.completion.ring) - offsets.cr.desc,
           offsets.cr.desc + rings.send * sizeof(u64));
  }
  xsk_umem__delete(umem_);
  umem_ = nullptr;
}

Result<int> Umem::bind(Socket& socket, const SocketOptions& options) {
  const bool first = !umem_;
  if (first) {
    if (auto created = create(socket, options.rings); !created) return tl::unexpected(created.error());
  }
  xsk_socket_config config{};
  config.rx_size = options.rings.receive;
  config.tx_size = options.rings.send;
  config.libxdp_flags = XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD;
  config.bind_flags = static_cast<u16>(XDP_USE_NEED_WAKEUP | (zero_copy_ ? XDP_ZEROCOPY : XDP_COPY) |
                                       (multi_buffer_ ? kUseScatterGather : 0));
  const int error =
      xsk_socket__create_shared(&socket.xsk_, options.ifname.c_str(), options.queue, umem_,
                                options.receives ? &socket.receiver.rx : nullptr, &socket.transmitter.tx,
                                &socket.receiver.fill, &socket.transmitter.completion, &config);
  if (!error) return 0;
  socket.xsk_ = nullptr;
  if (first) discard(socket, options.rings);
  return error;
}

Result<std::unique_ptr<Socket>> Umem::open(const SocketOptions& options) {
  std::unique_ptr<Socket> socket;
  int error = 0;
  for (u32 i = 0; i < kBusyTries; ++i) {
    if (i) std::this_thread::sleep_for(kBusyPause);
    socket.reset(new Socket);
    auto bound = bind(*socket, options);
    if (!bound) return tl::unexpected(bound.error());
    error = *bound;
    if (error != -EBUSY) break;
  }
  if (error)
    return tl::unexpected(fmt::format("cannot open an AF_XDP socket in {} mode on {} queue {}: {}",
                                      zero_copy_ ? "zero-copy" : "copy", options.ifname, options.queue,
                                      cause(-error, options)));
  socket->fd_ = xsk_socket__fd(socket->xsk_);
  socket->transmitter.fd = socket->fd_;
  socket->receives_ = options.receives;
  ++sockets_;

  xdp_options bound{};
  socklen_t size = sizeof(bound);
  if (getsockopt(socket->fd_, SOL_XDP, XDP_OPTIONS, &bound, &size) != 0 ||
      static_cast<bool>(bound.flags & XDP_OPTIONS_ZEROCOPY) != zero_copy_)
    return tl::unexpected(fmt::format("{} queue {} was bound in another mode than asked for ({})",
                                      options.ifname, options.queue, zero_copy_ ? "zero-copy" : "copy"));

  if (options.busy_poll.wanted) {
    const char* refused = set_busy_poll(socket->fd_, options.busy_poll);
    if (refused && options.busy_poll.required)
      return tl::unexpected(
          fmt::format("cannot poll the driver of {} queue {} from user space: the kernel refuses {} ({}); "
                      "set io.busy_poll "
                      "to \"auto\" or false{}",
                      options.ifname, options.queue, refused, std::strerror(errno),
                      errno == EPERM ? ", or grant CAP_NET_ADMIN" : ""));
    // Half set it would cost a system call a turn and save nothing.
    const int off = 0;
    if (refused) setsockopt(socket->fd_, SOL_SOCKET, SO_PREFER_BUSY_POLL, &off, sizeof(off));
    socket->busy_polls_ = !refused;
  }

  // Best effort: without it a burst of more than the default buffer is sent in several turns.
  setsockopt(socket->fd_, SOL_SOCKET, SO_SNDBUFFORCE, &kSendBuffer, sizeof(kSendBuffer));
  if (options.mark && setsockopt(socket->fd_, SOL_SOCKET, SO_MARK, &options.mark, sizeof(options.mark)) != 0)
    return tl::unexpected(fmt::format("cannot mark what is sent on {}: {}; this needs CAP_NET_ADMIN",
                                      options.ifname, std::strerror(errno)));
  return socket;
}

}  // namespace xdpgpu::dataplane
