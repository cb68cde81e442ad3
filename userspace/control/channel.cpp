// SPDX-License-Identifier: MIT
#include "userspace/control/channel.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>

#include "userspace/kernel/descriptors.hpp"

namespace xdpgpu::control {
namespace {

constexpr u32 kMagic = Message{}.magic;

std::string system_error(const char* what) { return fmt::format("{}: {}", what, std::strerror(errno)); }

}  // namespace

Message Message::make(MessageType type, u32 a, u32 b, const std::string& text) {
  Message message;
  message.type = type;
  message.a = a;
  message.b = b;
  std::memcpy(message.text, text.data(), std::min(text.size(), sizeof(message.text) - 1));
  return message;
}

bool valid(const Message& message, std::size_t descriptors) {
  if (message.magic != kMagic || message.text[sizeof(message.text) - 1] != 0) return false;
  const std::size_t wanted = message.type == MessageType::maps_created ? 2
                             : message.type == MessageType::memory     ? 1
                             : message.type == MessageType::compiler   ? 1
                             : message.type == MessageType::log        ? 1
                             : message.type == MessageType::map        ? 1
                                                                       : 0;
  if (descriptors != wanted) return false;
  switch (message.type) {
    case MessageType::create_maps:
      return message.a >= 1 && message.a <= kMaxLines && message.b >= 1 && message.b <= kMaxRows;
    case MessageType::stopped:
      return message.a <= 1 && message.b <= 1;
    case MessageType::install_maps:
    case MessageType::watch_egress:
    case MessageType::ending:
    case MessageType::retire_programs:
    case MessageType::gone:
    case MessageType::stop:
      return message.a <= 1;
    case MessageType::load_program:
      return message.a <= 1 && message.b < XG_MAX_PROGRAMS;
    case MessageType::make_program_maps:
      return message.a <= 1 && message.b < kMaxMapOrders;
    case MessageType::program_map:
      return message.a <= 1 && message.b >> 8 < kMaxMapOrders;
    case MessageType::start_compiler:
      return message.a <= static_cast<u32>(CompilerFor::programs);
    case MessageType::renamed:
      return message.a < XG_MAX_PORTS;
    case MessageType::keep_policy:
      return message.a >= 1 && message.a <= kMaxKeptBytes;
    case MessageType::program_memory:
      return message.a >= 1 && message.a <= kMaxProgramBytes;
    case MessageType::activate:
      return message.a <= 1 && message.b >= 1;
    case MessageType::set_bypass:
      return message.a <= 1 && message.b <= kMostBypassSeconds && (message.a == 1 || message.b == 0);
    case MessageType::made:
      return message.a <= 0xff && message.b <= 1;
    case MessageType::set_state:
      return (message.a == XG_STATE_RUNNING || message.a == XG_STATE_BYPASS ||
              message.a == XG_STATE_DRAINING) &&
             message.b <= 1;
    case MessageType::ready:
    case MessageType::bypass_left:
    case MessageType::policy_kept:
    case MessageType::verify_program:
    case MessageType::compiler:
    case MessageType::map:
    case MessageType::open_log:
    case MessageType::log:
    case MessageType::reopen_logs:
    case MessageType::memory:
    case MessageType::maps_created:
    case MessageType::done:
    case MessageType::refused:
      return true;
  }
  return false;
}

Result<std::pair<Channel, Channel>> Channel::make_pair() {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0)
    return tl::unexpected(system_error("cannot make a socket pair"));
  return std::pair{Channel(kernel::Fd(fds[0])), Channel(kernel::Fd(fds[1]))};
}

void Channel::refuse_descriptors() noexcept {
  takes_descriptors_ = false;
  constexpr int kPassRights = 83;  // SO_PASSRIGHTS: newer than the headers that we build with
  const int off = 0;
  (void)setsockopt(fd_.get(), SOL_SOCKET, kPassRights, &off, sizeof(off));
}

Result<void> Channel::send(const Message& message, const std::vector<int>& descriptors) {
  if (descriptors.size() > kernel::kMostDescriptors)
    return tl::unexpected(std::string("too many descriptors for one message"));
  if (!kernel::send_with(fd_.get(), std::as_bytes(std::span(&message, 1)), descriptors, MSG_DONTWAIT)) {
    closed_ = errno == EPIPE || errno == ECONNRESET;
    return tl::unexpected(system_error("cannot send to the other half of the process"));
  }
  return {};
}

Result<Received> Channel::receive(std::chrono::milliseconds timeout) {
  pollfd ready{fd_.get(), POLLIN, 0};
  int count = 0;
  do {
    count = poll(&ready, 1, static_cast<int>(timeout.count()));
  } while (count < 0 && errno == EINTR);
  if (count == 0) return tl::unexpected(std::string("the other half of the process does not answer"));
  Received received;
  // A descriptor that is closed has its file look at that, which may take as long as others like.
  auto arrived = kernel::receive_with(fd_.get(), std::as_writable_bytes(std::span(&received.message, 1)),
                                      takes_descriptors_);
  if (arrived.length < 0 && errno != ECONNRESET) return tl::unexpected(system_error("cannot receive"));
  if (arrived.length <= 0) {
    closed_ = true;
    return tl::unexpected(std::string("the other half of the process is gone"));
  }
  received.descriptors = std::move(arrived.descriptors);
  if (arrived.length != static_cast<ssize_t>(sizeof(Message)) || !arrived.whole ||
      !valid(received.message, received.descriptors.size()))
    return tl::unexpected(std::string("the other half of the process sent an invalid message"));
  return received;
}

Result<Received> Channel::call(const Message& message, std::chrono::milliseconds timeout) {
  if (auto sent = send(message); !sent) return tl::unexpected(sent.error());
  while (true) {
    auto received = receive(timeout);
    if (!received) return received;
    if (received->message.type == MessageType::stop)
      stop_pending_ = received->message.a == 0 || stop_pending_ == Stop::undo ? Stop::undo : Stop::keep;
    else if (received->message.type == MessageType::reopen_logs)
      reopen_pending_ = true;
    else
      return received;
  }
}

}  // namespace xdpgpu::control
