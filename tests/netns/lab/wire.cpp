// SPDX-License-Identifier: MIT
#include "tests/netns/lab/wire.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <thread>

namespace xdpgpu::lab {
namespace {

using Clock = std::chrono::steady_clock;

Fd packet_socket(const Interface& interface, int protocol) {
  return interface.ns().run([&] {
    Fd fd(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
    if (!fd) throw Error(fmt::format("cannot open a packet socket: {}", std::strerror(errno)));
    const int size = 64 << 20;
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
    setsockopt(fd.get(), SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size));
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(static_cast<std::uint16_t>(protocol));
    address.sll_ifindex = static_cast<int>(interface.ifindex());
    if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) < 0)
      throw Error(
          fmt::format("cannot bind a packet socket to {}: {}", interface.ifname(), std::strerror(errno)));
    return fd;
  });
}

constexpr std::size_t kBurst = 64;

struct Burst {
  std::array<mmsghdr, kBurst> messages{};
  std::array<iovec, kBurst> parts{};
  Burst() {
    for (std::size_t i = 0; i < kBurst; ++i) {
      messages[i].msg_hdr.msg_iov = &parts[i];
      messages[i].msg_hdr.msg_iovlen = 1;
    }
  }
  void set(std::size_t i, const Frame& frame) {
    parts[i] = {const_cast<std::uint8_t*>(frame.data()), frame.size()};
  }
};

}  // namespace

Sender::Sender(const Interface& interface, bool bypass_qdisc) : fd_(packet_socket(interface, 0)) {
  const int bypass = bypass_qdisc ? 1 : 0;
  setsockopt(fd_.get(), SOL_PACKET, PACKET_QDISC_BYPASS, &bypass, sizeof(bypass));
}

void Sender::send(std::span<const Frame> frames) {
  Burst burst;
  while (!frames.empty()) {
    const std::size_t count = std::min(kBurst, frames.size());
    for (std::size_t i = 0; i < count; ++i) burst.set(i, frames[i]);
    const int sent = sendmmsg(fd_.get(), burst.messages.data(), static_cast<unsigned>(count), 0);
    if (sent > 0) {
      frames = frames.subspan(static_cast<std::size_t>(sent));
    } else if (errno == ENOBUFS || errno == EAGAIN || errno == EINTR) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    } else {
      throw Error(fmt::format("cannot send a frame of {} bytes: {}", frames[0].size(), std::strerror(errno)));
    }
  }
}

void Sender::send_paced(std::span<const Frame> frames, unsigned pps) {
  const auto start = Clock::now();
  std::size_t sent = 0;
  while (sent < frames.size()) {
    const double elapsed = std::chrono::duration<double>(Clock::now() - start).count();
    const std::size_t due = std::min(frames.size(), static_cast<std::size_t>(elapsed * pps) + 1);
    if (due > sent) {
      send(frames.subspan(sent, due - sent));
      sent = due;
    }
    std::this_thread::sleep_for(1ms);
  }
}

std::uint64_t Sender::blast(std::span<const Frame> frames, std::uint64_t packets, Millis duration) {
  std::vector<iovec> parts(frames.size());
  std::vector<mmsghdr> messages(frames.size());
  for (std::size_t i = 0; i < frames.size(); ++i) {
    parts[i] = {const_cast<std::uint8_t*>(frames[i].data()), frames[i].size()};
    messages[i].msg_hdr.msg_iov = &parts[i];
    messages[i].msg_hdr.msg_iovlen = 1;
  }
  const auto end = Clock::now() + duration;
  std::uint64_t total = 0;
  std::size_t next = 0;
  while (total < packets && Clock::now() < end) {
    const auto count = std::min<std::uint64_t>({kBurst, packets - total, frames.size() - next});
    const int sent = sendmmsg(fd_.get(), &messages[next], static_cast<unsigned>(count), 0);
    if (sent <= 0) {
      if (errno != ENOBUFS && errno != EAGAIN && errno != EINTR)
        throw Error(fmt::format("cannot send: {}", std::strerror(errno)));
      continue;
    }
    total += static_cast<std::uint64_t>(sent);
    next = (next + static_cast<std::size_t>(sent)) % frames.size();
  }
  return total;
}

Sniffer::Sniffer(const Interface& interface, Direction direction)
    : fd_(packet_socket(interface, ETH_P_ALL)), direction_(direction), buffer_(65536 + 64) {
  packet_mreq membership{};
  membership.mr_ifindex = static_cast<int>(interface.ifindex());
  membership.mr_type = PACKET_MR_PROMISC;
  setsockopt(fd_.get(), SOL_PACKET, PACKET_ADD_MEMBERSHIP, &membership, sizeof(membership));
  const int on = 1;
  setsockopt(fd_.get(), SOL_PACKET, PACKET_AUXDATA, &on, sizeof(on));
  setsockopt(fd_.get(), SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on));
  if (direction == Direction::incoming)
    setsockopt(fd_.get(), SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof(on));
}

bool Sniffer::next(Captured& out, int timeout_ms) {
  const auto end = Clock::now() + Millis(timeout_ms);
  while (true) {
    sockaddr_ll address{};
    iovec part{buffer_.data(), buffer_.size()};
    alignas(cmsghdr) std::array<char, 256> control{};
    msghdr message{};
    message.msg_name = &address;
    message.msg_namelen = sizeof(address);
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t length = recvmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_TRUNC);
    if (length < 0) {
      const auto left = std::chrono::duration_cast<Millis>(end - Clock::now()).count();
      if (left <= 0) return false;
      pollfd wait{fd_.get(), POLLIN, 0};
      poll(&wait, 1, static_cast<int>(left));
      continue;
    }
    out.outgoing = address.sll_pkttype == PACKET_OUTGOING;
    // Those that came before the socket was told to leave out what goes.
    if (direction_ == (out.outgoing ? Direction::incoming : Direction::outgoing)) continue;
    out.frame.assign(buffer_.begin(), buffer_.begin() + std::min<ssize_t>(length, 65536));
    out.tag_in_frame = true;
    for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
      if (c->cmsg_level == SOL_PACKET && c->cmsg_type == PACKET_AUXDATA) {
        tpacket_auxdata aux{};
        std::memcpy(&aux, CMSG_DATA(c), sizeof(aux));
        if ((aux.tp_status & TP_STATUS_VLAN_VALID) == 0 || out.frame.size() < 12) continue;
        const unsigned tpid = (aux.tp_status & TP_STATUS_VLAN_TPID_VALID) != 0 ? aux.tp_vlan_tpid : 0x8100U;
        const std::array<std::uint8_t, 4> tag{
            static_cast<std::uint8_t>(tpid >> 8), static_cast<std::uint8_t>(tpid),
            static_cast<std::uint8_t>(aux.tp_vlan_tci >> 8), static_cast<std::uint8_t>(aux.tp_vlan_tci)};
        out.frame.insert(out.frame.begin() + 12, tag.begin(), tag.end());
        out.tag_in_frame = false;
      } else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPNS) {
        timespec time{};
        std::memcpy(&time, CMSG_DATA(c), sizeof(time));
        out.time_ns = static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000U +
                      static_cast<std::uint64_t>(time.tv_nsec);
      }
    }
    return true;
  }
}

std::vector<Captured> Sniffer::take(std::size_t count, Millis timeout, const Filter& filter) {
  std::vector<Captured> result;
  const auto end = Clock::now() + timeout;
  Captured captured;
  while (result.size() < count) {
    const auto left = std::chrono::duration_cast<Millis>(end - Clock::now()).count();
    if (!next(captured, static_cast<int>(std::max<std::int64_t>(left, 0)))) break;
    if (!filter || filter(captured)) result.push_back(captured);
  }
  return result;
}

std::vector<Captured> Sniffer::drain(Millis quiet, Millis limit, const Filter& filter) {
  std::vector<Captured> result;
  const auto end = Clock::now() + limit;
  Captured captured;
  auto last = Clock::now();
  while (Clock::now() < end) {
    const auto left = std::chrono::duration_cast<Millis>(last + quiet - Clock::now()).count();
    if (!next(captured, static_cast<int>(std::max<std::int64_t>(left, 0)))) break;
    if (filter && !filter(captured)) continue;
    last = Clock::now();
    result.push_back(captured);
  }
  return result;
}

unsigned Sniffer::lost() {
  tpacket_stats statistics{};
  socklen_t size = sizeof(statistics);
  if (getsockopt(fd_.get(), SOL_PACKET, PACKET_STATISTICS, &statistics, &size) < 0) return 0;
  return statistics.tp_drops;
}

Sniffer::Filter udp_to(std::uint16_t dst_port) {
  return [dst_port](const Captured& captured) {
    const auto packet = parse(captured.frame);
    return packet && packet->protocol == kUdp && packet->dst_port == dst_port;
  };
}

Sniffer::Filter with_payload(std::string_view prefix) {
  return [prefix = std::string(prefix)](const Captured& captured) {
    const auto packet = parse(captured.frame);
    return packet && packet->payload.starts_with(prefix);
  };
}

}  // namespace xdpgpu::lab
