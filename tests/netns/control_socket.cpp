// SPDX-License-Identifier: MIT
#include "tests/netns/control_socket.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "tests/netns/product.hpp"

namespace xdpgpu::lab {
namespace {

void send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) throw Error(fmt::format("cannot send a request: {}", std::strerror(errno)));
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

Fd connected(const std::string& ifname, int flags) {
  Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
  const std::string path = run_file(ifname, "sock");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return fd;
  if (errno == EAGAIN) return Fd();
  throw Error(fmt::format("cannot connect to {}: {}", path, std::strerror(errno)));
}

}  // namespace

unsigned fill_queue(const std::string& ifname) {
  constexpr unsigned kMany = 1000;
  for (unsigned clients = 0; clients < kMany; ++clients)
    if (!connected(ifname, SOCK_NONBLOCK)) return clients;
  throw Error(fmt::format("the process that attached {} takes its clients", ifname));
}

nlohmann::json ask(const std::string& ifname, const std::string& request, nlohmann::json arguments,
                   const std::map<std::string, std::string>& files, std::chrono::milliseconds timeout) {
  const Fd fd = connected(ifname, 0);
  const timeval limit{timeout.count() / 1000, timeout.count() % 1000 * 1000};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));

  arguments["request"] = request;
  for (const auto& [name, content] : files) arguments["files"][name] = content.size();
  send_all(fd.get(), arguments.dump() + "\n");
  for (const auto& [name, content] : files) send_all(fd.get(), content);

  std::string line;
  std::array<char, 65536> buffer{};
  while (line.empty() || line.back() != '\n') {
    const ssize_t length = recv(fd.get(), buffer.data(), buffer.size(), 0);
    if (length <= 0)
      throw Error(fmt::format("no answer to {} from {}: {}", request, ifname,
                              length < 0 ? std::strerror(errno) : "it hung up"));
    line.append(buffer.data(), static_cast<std::size_t>(length));
  }
  return nlohmann::json::parse(line);
}

}  // namespace xdpgpu::lab
