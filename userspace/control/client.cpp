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
#include <chrono>
#include <filesystem>
#include <thread>

#include "userspace/control/last_end.hpp"
#include "userspace/control/processes.hpp"
#include "userspace/control/request_registry.hpp"
#include "userspace/kernel/names.hpp"
#include "userspace/kernel/pins.hpp"
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
  const auto look = look_at_process(peer.pid);
  return look && look->has_ended();  // nobody has waited for it yet
}

// Compiling a large policy takes the longest.
constexpr std::chrono::seconds kReadPatience{2}, kPatience{60};

// What nobody has registered is the process's to refuse.
RequestKind kind_of(const std::string& request) {
  const AnyRequest* const known = AnyRequest::find(request);
  return known ? known->kind() : RequestKind::changes;
}

std::string no_answer(const std::string& ifname, const Halves& halves, bool asks, Clock::duration waited) {
  if (const std::string why = why_stopped(halves); !why.empty())
    return fmt::format("the process that attached {} does not answer: {}{}", ifname, why,
                       asks ? "" : "; what was asked for here is not done then");
  std::string text = fmt::format("the process that attached {} does not answer within {} s", ifname,
                                 std::chrono::duration_cast<std::chrono::seconds>(waited).count());
  if (halves.data_plane == 0) return text;
  return text + fmt::format(
                    "; where its data plane, process {}, stays so, \"kill -KILL {}\" has another one "
                    "started, and on_failure decides meanwhile",
                    halves.data_plane, halves.data_plane);
}

// Runs the context until `answered`, or until there is nothing to wait for any more: false.
template <class F>
bool wait_for_answer(asio::io_context& context, int socket, bool asks, Clock::time_point until,
                     Clock::time_point last, F&& answered) {
  constexpr std::chrono::milliseconds kStep{100};
  auto look = std::min(until, Clock::now() + kReadPatience);
  while (true) {
    context.run_until(look);
    if (answered()) return true;
    const auto now = Clock::now();
    const Halves halves = halves_at(socket);
    const auto data_plane = look_at_process(halves.data_plane);
    if (data_plane && data_plane->is_stopped()) return false;
    if (now >= until && (!asks || now >= last || !is_at_work(halves))) return false;
    look = now + kStep;
  }
}

}  // namespace

std::string not_attached(const std::string& ifname, const kernel::names::Scope& scope) {
  const std::string before = last_end_text(last_end(ifname, scope)),
                    operand = kernel::names::operand(ifname, scope);
  const bool left = static_cast<bool>(kernel::pinned_link(ifname, scope));
  return fmt::format("{} is not attached{}{}; attach it with \"xdpgpu attach {}\"{}", ifname,
                     before.empty() ? "" : " (its last attach " + before + ")",
                     left ? ", but the XDP program that was left there goes on deciding, by on_failure what "
                            "is to be inspected"
                          : "",
                     operand,
                     left ? fmt::format(", or take that off with \"xdpgpu detach {}\"", operand) : "");
}

std::string without_its_socket(const std::string& ifname, const std::string& path, const Halves& living) {
  const pid_t process = living.broker ? living.broker : living.data_plane;
  return fmt::format(
      "{} is attached, and its process, {}, lives, but the control socket {} was removed, so that no command "
      "reaches it; end it with \"kill {}\", which undoes everything, and attach again",
      ifname, process, path, process);
}

Halves find_halves(const std::string& ifname) {
  asio::io_context context;
  Socket socket(context);
  const std::string path = kernel::names::socket(ifname);
  return connect(socket, path) ? halves_of(path) : halves_at(socket.native_handle());
}

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

Result<Response> ask(const std::string& ifname, Request request, const kernel::names::Scope& scope) {
  const std::string path = kernel::names::socket(ifname, scope);
  // Who answers there is to be whom root has answer.
  if (const auto stands = kernel::stands_by_root(fs::path(path).parent_path()); !stands)
    return tl::unexpected(stands.error());
  asio::io_context context;
  Socket socket(context);
  const RequestKind kind = kind_of(request.name);
  const bool asks = kind == RequestKind::reads;
  const auto begin = Clock::now(), until = begin + (kind == RequestKind::changes ? kPatience : kReadPatience);
  if (const error_code error = connect(socket, path, until)) {
    if (error == asio::error::would_block)
      return tl::unexpected(no_answer(ifname, halves_of(path), asks, Clock::now() - begin));
    if (no_socket(error))
      if (const Halves living = halves_of(path); living.broker || living.data_plane)
        return tl::unexpected(without_its_socket(ifname, path, living));
    const bool dead = nobody_listens(error) || (no_socket(error) && without_socket(path) == Presence::dead);
    if (no_socket(error) && !dead) return tl::unexpected(not_attached(ifname, scope));
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
  if (!wait_for_answer(context, socket.native_handle(), asks, until, begin + kPatience,
                       [&] { return failure != asio::error::would_block; }))
    return tl::unexpected(no_answer(ifname, halves_at(socket.native_handle()), asks, Clock::now() - begin));
  if (failure)
    return tl::unexpected(
        fmt::format("the process that attached {} broke off: {}", ifname,
                    failure == asio::error::eof ? "it closed the connection" : failure.message()));
  return decode_response(answer);
}

}  // namespace xdpgpu::control
