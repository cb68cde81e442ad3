// SPDX-License-Identifier: MIT
#include "tests/netns/lab/traffic.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <future>
#include <random>
#include <set>

namespace xdpgpu::lab {
namespace {

using Clock = std::chrono::steady_clock;

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
  int family = AF_INET;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

SocketAddress socket_address(const std::string& address, std::uint16_t port) {
  SocketAddress result;
  if (address.find(':') != std::string::npos) {
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&result.storage);
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    if (inet_pton(AF_INET6, address.c_str(), &v6->sin6_addr) != 1)
      throw Error(fmt::format("{} is not an address", address));
    result.size = sizeof(*v6);
    result.family = AF_INET6;
  } else {
    auto* v4 = reinterpret_cast<sockaddr_in*>(&result.storage);
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    if (inet_pton(AF_INET, address.c_str(), &v4->sin_addr) != 1)
      throw Error(fmt::format("{} is not an address", address));
    result.size = sizeof(*v4);
  }
  return result;
}

Fd open_socket(const Namespace& ns, int family, int type, int protocol) {
  return ns.run([&] {
    Fd fd(socket(family, type | SOCK_CLOEXEC, protocol));
    if (!fd)
      throw Error(
          fmt::format("cannot open a socket in the namespace {}: {}", ns.name(), std::strerror(errno)));
    return fd;
  });
}

void set_timeout(int fd, Millis timeout) {
  const timeval value{timeout.count() / 1000, timeout.count() % 1000 * 1000};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &value, sizeof(value));
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &value, sizeof(value));
}

bool readable_within(int fd, Millis timeout) {
  pollfd wait{fd, POLLIN, 0};
  return poll(&wait, 1, static_cast<int>(std::max<std::int64_t>(timeout.count(), 0))) > 0;
}

std::uint16_t port_of(int fd) {
  sockaddr_storage local{};
  socklen_t size = sizeof(local);
  getsockname(fd, reinterpret_cast<sockaddr*>(&local), &size);
  return local.ss_family == AF_INET6 ? ntohs(reinterpret_cast<sockaddr_in6*>(&local)->sin6_port)
                                     : ntohs(reinterpret_cast<sockaddr_in*>(&local)->sin_port);
}

std::uint16_t internet_checksum(const std::vector<std::uint8_t>& bytes) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i + 1 < bytes.size(); i += 2) sum += bytes[i] | bytes[i + 1] << 8U;
  if (bytes.size() % 2 != 0) sum += bytes.back();
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

}  // namespace

PingResult ping(const Namespace& from, const std::string& address, const PingOptions& options) {
  static std::atomic<std::uint16_t> identifiers{static_cast<std::uint16_t>(getpid() << 4)};
  const std::uint16_t identifier = ++identifiers;
  const SocketAddress destination = socket_address(address, 0);
  const bool v6 = destination.family == AF_INET6;
  const Fd fd = open_socket(from, destination.family, SOCK_RAW, v6 ? int{IPPROTO_ICMPV6} : int{IPPROTO_ICMP});

  PingResult result;
  std::set<unsigned> answered;
  std::vector<double> times;
  for (unsigned sequence = 1; sequence <= options.count; ++sequence) {
    std::vector<std::uint8_t> echo{static_cast<std::uint8_t>(v6 ? ICMP6_ECHO_REQUEST : ICMP_ECHO),
                                   0,
                                   0,
                                   0,
                                   static_cast<std::uint8_t>(identifier >> 8),
                                   static_cast<std::uint8_t>(identifier),
                                   static_cast<std::uint8_t>(sequence >> 8),
                                   static_cast<std::uint8_t>(sequence)};
    for (std::size_t i = 0; i < options.size; ++i)
      echo.push_back(static_cast<std::uint8_t>(i * 7 + sequence));
    if (!v6) {
      const std::uint16_t checksum = internet_checksum(echo);
      std::memcpy(&echo[2], &checksum, 2);
    }
    const auto start = Clock::now();
    if (sendto(fd.get(), echo.data(), echo.size(), 0, destination.get(), destination.size) < 0)
      throw Error(fmt::format("cannot send an echo to {}: {}", address, std::strerror(errno)));
    ++result.sent;
    const auto deadline = start + options.timeout;
    bool got = false;
    while (!got) {
      const auto left = std::chrono::duration_cast<Millis>(deadline - Clock::now());
      if (!readable_within(fd.get(), left)) break;
      std::array<std::uint8_t, 65536> buffer{};
      const ssize_t length = recv(fd.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
      const std::size_t skip = v6 ? 0 : (buffer[0] & 0xfU) * 4U;
      if (length < static_cast<ssize_t>(skip + echo.size())) continue;
      const std::uint8_t* reply = buffer.data() + skip;
      if (reply[0] != (v6 ? int{ICMP6_ECHO_REPLY} : int{ICMP_ECHOREPLY}) ||
          std::memcmp(reply + 4, &echo[4], 2) != 0)
        continue;
      const unsigned number = reply[6] << 8U | reply[7];
      if (!answered.insert(number).second) {
        ++result.duplicates;
        continue;
      }
      if (number != sequence || std::memcmp(reply + 8, &echo[8], options.size) != 0) continue;
      times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
      ++result.received;
      got = true;
    }
    if (sequence < options.count) std::this_thread::sleep_for(options.interval);
  }
  std::sort(times.begin(), times.end());
  if (!times.empty()) result.median_rtt_us = times[times.size() / 2];
  return result;
}

// ---- TCP -------------------------------------------------------------------------------------------

namespace {

// The content: 64-bit words of a counter through a mixer, so that a lost, repeated or moved byte shows.
std::uint64_t word_at(std::uint64_t index) {
  std::uint64_t z = (index + 1) * 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  return z ^ (z >> 31);
}

void fill(std::span<std::uint64_t> words, std::uint64_t first) {
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = word_at(first + i);
}

constexpr std::size_t kChunkWords = 8192;

struct Received {
  std::uint64_t bytes = 0;
  std::string problem;
};

Received receive_all(int fd, std::uint64_t expected) {
  Received result;
  std::vector<std::uint64_t> buffer(kChunkWords), reference(kChunkWords + 1);
  while (result.bytes < expected) {
    const ssize_t length = recv(fd, buffer.data(), buffer.size() * 8, 0);
    if (length < 0) {
      result.problem = fmt::format("the receiver stopped after {} of {} bytes: {}", result.bytes, expected,
                                   std::strerror(errno));
      return result;
    }
    if (length == 0) {
      result.problem = fmt::format("the connection ended after {} of {} bytes", result.bytes, expected);
      return result;
    }
    fill(reference, result.bytes / 8);
    const auto* wanted = reinterpret_cast<const std::uint8_t*>(reference.data()) + result.bytes % 8;
    if (std::memcmp(buffer.data(), wanted, static_cast<std::size_t>(length)) != 0) {
      result.problem = fmt::format("wrong content behind byte {}", result.bytes);
      return result;
    }
    result.bytes += static_cast<std::uint64_t>(length);
  }
  return result;
}

std::string send_all(int fd, std::uint64_t bytes, const std::function<void()>& half_way) {
  bool called = !half_way;
  std::vector<std::uint64_t> buffer(kChunkWords);
  for (std::uint64_t sent = 0; sent < bytes;) {
    if (!called && sent >= bytes / 2) {
      half_way();
      called = true;
    }
    fill(buffer, sent / 8);
    const std::size_t chunk =
        static_cast<std::size_t>(std::min<std::uint64_t>(bytes - sent, buffer.size() * 8));
    for (std::size_t at = 0; at < chunk;) {
      const ssize_t n =
          ::send(fd, reinterpret_cast<const char*>(buffer.data()) + at, chunk - at, MSG_NOSIGNAL);
      if (n <= 0)
        return fmt::format("the sender stopped after {} of {} bytes: {}", sent + at, bytes,
                           std::strerror(errno));
      at += static_cast<std::size_t>(n);
    }
    sent += chunk;
  }
  return {};
}

Fd listen_on(const Namespace& server, const SocketAddress& address) {
  Fd listener = open_socket(server, address.family, SOCK_STREAM, 0);
  const int on = 1;
  setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(listener.get(), address.get(), address.size) < 0 || listen(listener.get(), 4) < 0)
    throw Error(fmt::format("cannot listen in the namespace {}: {}", server.name(), std::strerror(errno)));
  return listener;
}

bool connect_within(int fd, const SocketAddress& address, Millis timeout) {
  const timeval value{timeout.count() / 1000, timeout.count() % 1000 * 1000};
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &value, sizeof(value));
  return connect(fd, address.get(), address.size) == 0;
}

}  // namespace

TransferResult tcp_transfer(const Namespace& client, const Namespace& server,
                            const std::string& server_address, const TransferOptions& options) {
  const SocketAddress address = socket_address(server_address, options.port);
  const Fd listener = listen_on(server, address);

  auto serving = std::async(std::launch::async, [&] {
    if (!readable_within(listener.get(), options.timeout)) return Received{0, "no connection came in"};
    const Fd connection(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    set_timeout(connection.get(), options.timeout);
    Received received = receive_all(connection.get(), options.bytes);
    if (options.reply && received.problem.empty()) {
      const std::uint64_t echo = received.bytes;
      if (::send(connection.get(), &echo, sizeof(echo), MSG_NOSIGNAL) != sizeof(echo))
        received.problem = "the receiver could not answer";
    }
    return received;
  });

  TransferResult result;
  const auto start = Clock::now();
  {
    const Fd fd = open_socket(client, address.family, SOCK_STREAM, 0);
    if (!connect_within(fd.get(), address, options.timeout)) {
      result.problem = fmt::format("cannot connect to {}: {}", server_address, std::strerror(errno));
    } else {
      set_timeout(fd.get(), options.timeout);
      result.problem = send_all(fd.get(), options.bytes, options.half_way);
      std::uint64_t echo = 0;
      if (result.problem.empty() && options.reply &&
          (recv(fd.get(), &echo, sizeof(echo), MSG_WAITALL) != sizeof(echo) || echo != options.bytes))
        result.problem = "the receiver's answer did not come back";
    }
    if (!result.problem.empty()) {
      const linger abort_now{1, 0};
      setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &abort_now, sizeof(abort_now));
      shutdown(listener.get(), SHUT_RDWR);
    }
  }
  const Received received = serving.get();
  result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  result.bytes = received.bytes;
  if (!received.problem.empty()) result.problem += (result.problem.empty() ? "" : "; ") + received.problem;
  result.intact = result.problem.empty() && received.bytes == options.bytes;
  return result;
}

bool tcp_connects(const Namespace& client, const Namespace& server, const std::string& server_address,
                  std::uint16_t port, Millis timeout) {
  const SocketAddress address = socket_address(server_address, port);
  const Fd listener = listen_on(server, address);
  const Fd fd = open_socket(client, address.family, SOCK_STREAM, 0);
  if (!connect_within(fd.get(), address, timeout)) return false;
  // It is ended in order: of one that nobody has accepted the listener sends a RST, which may overtake what
  // went before it by another queue.
  const Millis patience = std::min(timeout, Millis(500));
  if (!readable_within(listener.get(), patience)) return true;
  const Fd accepted(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  shutdown(fd.get(), SHUT_WR);
  if (!readable_within(accepted.get(), patience)) return true;
  shutdown(accepted.get(), SHUT_WR);
  readable_within(fd.get(), patience);
  return true;
}

TcpConnection::TcpConnection(const Namespace& client, const Namespace& server,
                             const std::string& server_address, std::uint16_t port) {
  const SocketAddress address = socket_address(server_address, port);
  const Fd listener = listen_on(server, address);
  client_ = open_socket(client, address.family, SOCK_STREAM, 0);
  constexpr Millis kPatience{5000};
  if (connect_within(client_.get(), address, kPatience) && readable_within(listener.get(), kPatience))
    server_ = Fd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!server_) throw Error(fmt::format("cannot connect to {} port {}", server_address, port));
  const int on = 1;
  setsockopt(client_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

TcpConnection::~TcpConnection() {
  const linger at_once{1, 0};
  setsockopt(client_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
}

void TcpConnection::say(std::string_view what) const {
  if (send(client_.get(), what.data(), what.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(what.size()))
    throw Error(fmt::format("cannot say anything over TCP: {}", std::strerror(errno)));
}

std::string TcpConnection::heard(Millis timeout) const {
  if (!readable_within(server_.get(), timeout)) return "";
  std::string data(65536, '\0');
  const ssize_t length = recv(server_.get(), data.data(), data.size(), MSG_DONTWAIT);
  data.resize(length < 0 ? 0 : static_cast<std::size_t>(length));
  return data;
}

std::uint16_t TcpConnection::client_port() const { return port_of(client_.get()); }

// ---- UDP -------------------------------------------------------------------------------------------

UdpSocket::UdpSocket(const Namespace& ns, const std::string& address, std::uint16_t port) {
  const SocketAddress local = socket_address(address, port);
  fd_ = open_socket(ns, local.family, SOCK_DGRAM, 0);
  const int size = 16 << 20;
  setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
  if (bind(fd_.get(), local.get(), local.size) < 0)
    throw Error(fmt::format("cannot bind {} port {} in the namespace {}: {}", address, port, ns.name(),
                            std::strerror(errno)));
}

void UdpSocket::send_to(const std::string& address, std::uint16_t port, std::string_view payload) const {
  const SocketAddress destination = socket_address(address, port);
  if (sendto(fd_.get(), payload.data(), payload.size(), 0, destination.get(), destination.size) < 0)
    throw Error(fmt::format("cannot send a datagram to {}: {}", address, std::strerror(errno)));
}

std::optional<std::string> UdpSocket::receive(Millis timeout) const {
  if (!readable_within(fd_.get(), timeout)) return std::nullopt;
  std::string payload(65536, '\0');
  const ssize_t length = recv(fd_.get(), payload.data(), payload.size(), MSG_DONTWAIT);
  if (length < 0) return std::nullopt;
  payload.resize(static_cast<std::size_t>(length));
  return payload;
}

std::vector<std::string> UdpSocket::drain(Millis quiet) const {
  std::vector<std::string> payloads;
  while (auto payload = receive(quiet)) payloads.push_back(std::move(*payload));
  return payloads;
}

std::uint16_t UdpSocket::port() const { return port_of(fd_.get()); }

}  // namespace xdpgpu::lab
