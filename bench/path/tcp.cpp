// SPDX-License-Identifier: MIT
#include "bench/path/tcp.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

namespace xdpgpu::bed {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kChunk = 128 << 10;

lab::Fd tcp_socket() {
  lab::Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval limit{5, 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  return fd;
}

// Closed sockets must not go on talking into the next row's counters.
void forget_when_closed(const lab::Fd& fd) {
  const linger at_once{1, 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
}

[[noreturn]] void fail(const char* what) {
  throw lab::Error(std::string(what) + ": " + std::strerror(errno));
}

}  // namespace

Transferred transfer_tcp(const lab::Namespace& client, const lab::Namespace& server,
                         const std::string& address, double seconds) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(5201);
  inet_pton(AF_INET, address.c_str(), &to.sin_addr);
  const auto* name = reinterpret_cast<const sockaddr*>(&to);

  const lab::Fd listener = server.run([&] {
    lab::Fd fd = tcp_socket();
    const int on = 1;
    setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd.get(), name, sizeof(to)) != 0 || listen(fd.get(), 1) != 0) fail("cannot listen");
    return fd;
  });
  const lab::Fd sending = client.run([&] {
    lab::Fd fd = tcp_socket();
    if (connect(fd.get(), name, sizeof(to)) != 0) fail("cannot connect");
    return fd;
  });
  const lab::Fd receiving(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!receiving) fail("cannot accept");
  forget_when_closed(sending);
  forget_when_closed(receiving);

  const auto start = Clock::now();
  std::thread sender([&] {
    const std::vector<char> zeros(kChunk);
    const auto end = start + std::chrono::duration<double>(seconds);
    while (Clock::now() < end && send(sending.get(), zeros.data(), zeros.size(), MSG_NOSIGNAL) > 0) {
    }
    shutdown(sending.get(), SHUT_WR);
  });
  std::vector<char> buffer(kChunk);
  double bytes = 0;
  for (ssize_t got; (got = recv(receiving.get(), buffer.data(), buffer.size(), 0)) > 0;)
    bytes += static_cast<double>(got);
  const double elapsed = std::chrono::duration<double>(Clock::now() - start).count();
  sender.join();
  return {bytes, bytes * 8e-9 / elapsed};
}

}  // namespace xdpgpu::bed
