// SPDX-License-Identifier: MIT
#include "userspace/control/client.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <thread>

#include "userspace/kernel/names.hpp"
#include "userspace/kernel/trusted.hpp"

namespace xdpgpu::control {
namespace {

namespace asio = boost::asio;
namespace fs = std::filesystem;
using Socket = asio::local::stream_protocol::socket;
using boost::system::error_code;

using Clock = std::chrono::steady_clock;

// Never waits. would_block: as many clients as there is room for wait to be taken, so somebody listens and
// does not answer. (Asio takes that for a connection under way.)
error_code connect(Socket& socket, const std::string& path) {
  error_code error;
  // Too long a path is the one thing that the endpoint's constructor throws for.
  if (path.size() > 100) return asio::error::make_error_code(asio::error::name_too_long);
  const asio::local::stream_protocol::endpoint there(path);
  if (!socket.is_open()) socket.open(there.protocol(), error);
  if (!error) socket.native_non_blocking(true, error);
  if (!error && ::connect(socket.native_handle(), there.data(), static_cast<socklen_t>(there.size())) != 0)
    error.assign(errno, boost::system::system_category());
  return error;
}
error_code connect(Socket& socket, const std::string& path, Clock::time_point until) {
  constexpr std::chrono::milliseconds kStep{20};
  error_code error = connect(socket, path);
  for (; error == asio::error::would_block && Clock::now() < until; error = connect(socket, path))
    std::this_thread::sleep_for(kStep);
  return error;
}

bool nobody_listens(const error_code& error) { return error == asio::error::connection_refused; }
bool no_socket(const error_code& error) {
  return error == boost::system::errc::no_such_file_or_directory || error == asio::error::name_too_long;
}
// A symbolic link to a socket that is gone is a dead process's, too.
Presence without_socket(const std::string& path) {
  std::error_code ignored;
  return fs::is_symlink(fs::symlink_status(path, ignored)) ? Presence::dead : Presence::absent;
}

// Whether the process that listens, the broker, has ended. Where it cannot be told, it lives.
bool has_ended(Socket& socket) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  if (getsockopt(socket.native_handle(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || peer.pid <= 0)
    return false;
  if (kill(peer.pid, 0) != 0) return errno == ESRCH;
  // A process that nobody has waited for yet: "pid (name) Z".
  std::ifstream file(fmt::format("/proc/{}/stat", peer.pid));
  std::string line;
  std::getline(file, line);
  const auto name_end = line.rfind(") ");
  return name_end != std::string::npos && line.compare(name_end + 2, 1, "Z") == 0;
}

}  // namespace

Presence look_for_process(const std::string& ifname, const kernel::names::Scope& scope, std::string* why) {
  asio::io_context context;
  Socket socket(context);
  const std::string path = kernel::names::socket(ifname, scope);
  const error_code error = connect(socket, path);
  if (!error) return has_ended(socket) ? Presence::ending : Presence::running;
  if (why) *why = error.message();
  if (no_socket(error)) return without_socket(path);
  return nobody_listens(error) ? Presence::dead : Presence::running;
}

Presence find_process(const std::string& ifname, std::string* why) {
  // The data plane of a broker that was killed ends by itself; until then it still answers.
  constexpr std::chrono::milliseconds kStep{20};
  constexpr int kSteps = 250;
  Presence found = Presence::running;
  for (int i = 0; i < kSteps; i++) {
    found = look_for_process(ifname, kernel::names::own_scope(), why);
    if (found != Presence::ending) return found;
    std::this_thread::sleep_for(kStep);
  }
  return Presence::running;
}

Result<Response> ask(const std::string& ifname, Request request, std::chrono::milliseconds timeout,
                     const kernel::names::Scope& scope) {
  const std::string path = kernel::names::socket(ifname, scope);
  // Who answers there is to be whom root has answer.
  if (const auto stands = kernel::stands_by_root(fs::path(path).parent_path()); !stands)
    return tl::unexpected(stands.error());
  asio::io_context context;
  Socket socket(context);
  const auto until = Clock::now() + timeout;
  const auto no_answer = [&] {
    return tl::unexpected(fmt::format("the process that attached {} does not answer within {} s", ifname,
                                      std::chrono::duration_cast<std::chrono::seconds>(timeout).count()));
  };
  if (const error_code error = connect(socket, path, until)) {
    if (error == asio::error::would_block) return no_answer();
    const bool dead = nobody_listens(error) || (no_socket(error) && without_socket(path) == Presence::dead);
    if (no_socket(error) && !dead)
      return tl::unexpected(fmt::format("{} is not attached; attach it with \"xdpgpu attach {}\"", ifname,
                                        kernel::names::operand(ifname, scope)));
    if (dead)
      return tl::unexpected(
          fmt::format("the process that attached {} is dead; clean up with \"xdpgpu detach {}\"", ifname,
                      kernel::names::operand(ifname, scope)));
    return tl::unexpected(
        fmt::format("cannot reach the process that attached {}: {}; run as root, or as a member of the group "
                    "that attach was given",
                    ifname, error.message()));
  }

  request.ifname = ifname;
  const std::string line = encode(request);
  if (line.size() > kMaxMessage)
    return tl::unexpected(
        fmt::format("the request is longer than {} MiB; shorten the policy or its lists", kMaxMessage >> 20));
  std::vector<asio::const_buffer> message{asio::buffer(line)};
  std::size_t bytes = 0;
  for (const auto& [name, content] : request.files) {
    message.push_back(asio::buffer(content));
    bytes += content.size();
  }
  if (bytes > kMaxFilesBytes)
    return tl::unexpected(
        fmt::format("the policy's files are longer than {} MiB; shorten its lists", kMaxFilesBytes >> 20));
  std::string answer;
  error_code failure = asio::error::would_block;
  asio::async_write(socket, message, [&](const error_code& error, std::size_t) {
    if (error && error != asio::error::broken_pipe) {
      failure = error;
      return;
    }
    // After a broken pipe there may still be an answer that says why.
    asio::async_read_until(socket, asio::dynamic_buffer(answer, kMaxMessage), '\n',
                           [&](const error_code& e, std::size_t) { failure = e; });
  });
  context.run_until(until);
  if (failure == asio::error::would_block) return no_answer();
  if (failure)
    return tl::unexpected(
        fmt::format("the process that attached {} broke off: {}", ifname,
                    failure == asio::error::eof ? "it closed the connection" : failure.message()));
  return decode_response(answer);
}

}  // namespace xdpgpu::control
