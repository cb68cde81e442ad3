// SPDX-License-Identifier: MIT
#include "userspace/report/listeners.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/ip/address.hpp>
#include <cerrno>
#include <charconv>
#include <cstring>

namespace xdpgpu::report {

using control::Error;
using control::Result;

namespace {

constexpr std::string_view kUnix = "unix:";

Error no_place(const std::string& text) {
  return Error(fmt::format(
      "\"{}\" is no place to listen at; say an address and a port, such as 127.0.0.1:9478 or [::1]:9478, or "
      "unix:PATH",
      text));
}

// Whether somebody takes connections there.
bool is_served(const sockaddr_un& address) {
  const kernel::Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return fd && connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

Result<kernel::Fd> listen_at_path(const Place& place, const std::optional<control::ControlGroup>& group) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (place.path.size() >= sizeof(address.sun_path))
    return Error(fmt::format("the path {} is too long for a socket", place.path));
  std::memcpy(address.sun_path, place.path.data(), place.path.size());
  struct stat there {};
  if (lstat(place.path.c_str(), &there) == 0) {
    if (!S_ISSOCK(there.st_mode))
      return Error(fmt::format("{} is there and is no socket; say another path", place.path));
    if (is_served(address))
      return Error(fmt::format("somebody listens at {} already; end that, or say another path", place.path));
    unlink(place.path.c_str());
  }
  return control::listen_at(place.path, group);
}

}  // namespace

Result<Place> parse_place(const std::string& text) {
  Place place;
  place.text = text;
  if (text.starts_with(kUnix)) {
    place.path = text.substr(kUnix.size());
    place.loopback = true;
    if (place.path.empty() || place.path.front() != '/') return no_place(text);
    return place;
  }
  const auto colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return no_place(text);
  std::string host = text.substr(0, colon);
  const bool bracketed = host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  boost::system::error_code error;
  const auto address = boost::asio::ip::make_address(host, error);
  const char* const end = text.data() + text.size();
  const auto [read, problem] = std::from_chars(text.data() + colon + 1, end, place.port);
  if (error || address.is_v6() != bracketed || problem != std::errc() || read != end) return no_place(text);
  place.address = address.to_string();
  place.loopback = address.is_loopback();
  return place;
}

Result<kernel::Fd> listen_there(const Place& place, const std::optional<control::ControlGroup>& group) {
  if (!place.path.empty()) return listen_at_path(place, group);
  const auto address = boost::asio::ip::make_address(place.address);
  sockaddr_storage storage{};
  socklen_t length = 0;
  if (address.is_v6()) {
    auto& v6 = reinterpret_cast<sockaddr_in6&>(storage);
    const auto v6_address = address.to_v6();
    const auto bytes = v6_address.to_bytes();
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(place.port);
    v6.sin6_scope_id = static_cast<std::uint32_t>(v6_address.scope_id());
    std::memcpy(&v6.sin6_addr, bytes.data(), bytes.size());
    length = sizeof(v6);
  } else {
    auto& v4 = reinterpret_cast<sockaddr_in&>(storage);
    v4.sin_family = AF_INET;
    v4.sin_port = htons(place.port);
    v4.sin_addr.s_addr = htonl(address.to_v4().to_uint());
    length = sizeof(v4);
  }
  const auto failed = [&] {
    return Error(fmt::format("cannot listen at {}: {}; say another place with --listen", place.text,
                             std::strerror(errno)));
  };
  kernel::Fd fd(socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
  const int yes = 1;
  if (!fd || setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0) return failed();
  if (address.is_v6() && setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof(yes)) != 0)
    return failed();
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&storage), length) != 0 || listen(fd.get(), 64) != 0)
    return failed();
  return fd;
}

u16 bound_port(int listener) {
  sockaddr_storage storage{};
  socklen_t length = sizeof(storage);
  if (getsockname(listener, reinterpret_cast<sockaddr*>(&storage), &length) != 0) return 0;
  if (storage.ss_family == AF_INET6) return ntohs(reinterpret_cast<sockaddr_in6&>(storage).sin6_port);
  return storage.ss_family == AF_INET ? ntohs(reinterpret_cast<sockaddr_in&>(storage).sin_port) : u16{0};
}

}  // namespace xdpgpu::report
