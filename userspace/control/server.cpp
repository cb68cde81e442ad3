// SPDX-License-Identifier: MIT
#include "userspace/control/server.hpp"

#include <fmt/format.h>
#include <grp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <cstring>
#include <exception>
#include <list>
#include <map>
#include <new>
#include <optional>
#include <utility>
#include <vector>

namespace xdpgpu::control {
namespace {

namespace asio = boost::asio;
using Protocol = asio::local::stream_protocol;
using boost::system::error_code;
using Clock = asio::steady_timer::clock_type;

// A file is given memory as it comes, not as it is announced.
constexpr std::size_t kFilePart = std::size_t{1} << 20;

bool in_group(int fd, gid_t primary, gid_t wanted) {
  if (primary == wanted) return true;
  std::vector<gid_t> groups(64);
  auto length = static_cast<socklen_t>(groups.size() * sizeof(gid_t));
  if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &length) != 0) {
    if (errno != ERANGE) return false;
    groups.resize(length / sizeof(gid_t));
    if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &length) != 0) return false;
  }
  groups.resize(length / sizeof(gid_t));
  return std::find(groups.begin(), groups.end(), wanted) != groups.end();
}

std::optional<ucred> peer_of(int fd) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return std::nullopt;
  return peer;
}

bool admitted(int fd, const ucred& peer, const Server::Admission& admission) {
  if (peer.uid == 0) return true;
  return admission.group && peer.uid != admission.excluded && in_group(fd, peer.gid, admission.group->gid);
}

// For one that is not waited for: the answer if there is room for it, and nothing else.
void tell(int fd, std::string why) {
  const std::string line = encode(Response::failure(std::move(why)));
  (void)send(fd, line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

// The client's end is closed for good. One that has said all that it has to say, and listens, is there.
bool has_left(int fd) {
  pollfd end{fd, 0, 0};
  return poll(&end, 1, 0) > 0 && (end.revents & (POLLHUP | POLLERR)) != 0;
}

}  // namespace

bool is_admitted(int fd, const Server::Admission& admission) {
  const auto peer = peer_of(fd);
  return peer && admitted(fd, *peer, admission);
}

Result<std::optional<ControlGroup>> find_control_group(const std::string& name) {
  const std::string wanted = name.empty() ? "xdpgpu" : name;
  if (const group* entry = getgrnam(wanted.c_str())) return ControlGroup{wanted, entry->gr_gid};
  if (name.empty()) return std::nullopt;
  return Error(
      fmt::format("there is no group \"{}\"; make it with \"groupadd --system {}\", or name another with "
                  "--control-group",
                  name, name));
}

Result<kernel::Fd> listen_at(const std::string& path, const std::optional<ControlGroup>& group) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path))
    return tl::unexpected(fmt::format("the socket's path {} is too long", path));
  std::memcpy(address.sun_path, path.data(), path.size());
  auto failed = [&](const char* what) {
    return tl::unexpected(fmt::format("cannot {} the socket {}: {}", what, path, std::strerror(errno)));
  };
  kernel::Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return failed("make");
  const mode_t old = umask(group ? 0117 : 0177);
  const int bound = bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  umask(old);
  if (bound != 0) return failed("bind");
  if (group && chown(path.c_str(), 0, group->gid) != 0) return failed("hand over");
  if (listen(fd.get(), 16) != 0) return failed("listen on");
  return fd;
}

struct Server::Impl : std::enable_shared_from_this<Impl> {
  class Session;

  Impl(asio::io_context& io, kernel::Fd listener, Handler h, Admission a, Limits l)
      : context(io),
        acceptor(io, Protocol(), listener.release()),
        handler(std::move(h)),
        admission(std::move(a)),
        limits(l) {}

  void accept();
  void admit(Protocol::socket socket);
  bool make_room(bool for_root);

  asio::io_context& context;
  Protocol::acceptor acceptor;
  Handler handler;
  Admission admission;
  Limits limits;
  std::size_t sessions = 0;
  std::size_t files_bytes = 0;  // announced by requests under way
  std::list<Session*> awaited;  // whose client's turn it is, the longest first
  std::list<Session*> handled;  // whose request is, which may take a while
  bool stopped = false;
};

// Reads a request, has it handled, writes the answer, and so on until the client is done.
class Server::Impl::Session : public std::enable_shared_from_this<Session> {
 public:
  Session(std::shared_ptr<Impl> server, Protocol::socket socket, bool of_root)
      : server_(std::move(server)),
        socket_(std::move(socket)),
        deadline_(server_->context),
        of_root_(of_root),
        place_(server_->awaited.end()),
        handled_(server_->handled.end()) {
    server_->sessions++;
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() { leave(); }

  bool of_root() const { return of_root_; }
  void start() { read(); }

  // Its place is free from here on.
  void leave() {
    if (std::exchange(left_, true)) return;
    stop_waiting();
    stop_handling();
    files_.reset();
    server_->sessions--;
    error_code ignored;
    socket_.close(ignored);
  }
  bool client_left() { return has_left(socket_.native_handle()); }
  void give_way() {
    tell(socket_.native_handle(),
         "other clients needed the place of this one, which was waited for; try again");
    leave();
  }

 private:
  void refuse(std::string why) { write(Response::failure(std::move(why)), false); }

  // For all of what comes next: a client that sends byte by byte has no more time than others.
  void wait_for_client() {
    wait_for_client_until(Clock::now() + std::chrono::seconds(server_->limits.idle_s));
  }
  void wait_for_client_until(Clock::time_point until) {
    stop_waiting();
    place_ = server_->awaited.insert(server_->awaited.end(), this);
    deadline_.expires_at(until);
    deadline_.async_wait([weak = weak_from_this()](const error_code& error) {
      if (error) return;
      if (const auto self = weak.lock()) self->time_is_up();
    });
  }
  // If it is the client that is waited for, and still for the same thing: this may have been on its way while
  // something else took its time.
  void time_is_up() {
    if (place_ != server_->awaited.end() && deadline_.expiry() <= Clock::now()) leave();
  }
  void stop_waiting() {
    deadline_.cancel();
    if (place_ != server_->awaited.end()) server_->awaited.erase(place_);
    place_ = server_->awaited.end();
  }

  void read() {
    wait_for_client();
    asio::async_read_until(socket_, asio::dynamic_buffer(input_, kMaxMessage), '\n',
                           [self = shared_from_this()](const error_code& error, std::size_t length) {
                             self->take(error, length);
                           });
  }

  void take(const error_code& error, std::size_t length) {
    // async_read_until reports a full buffer without a newline as not_found.
    if (error == asio::error::not_found)
      return refuse(fmt::format("the request is longer than {} MiB", kMaxMessage >> 20));
    if (error || left_ || server_->stopped) return;
    const Clock::time_point until = deadline_.expiry(), begun = Clock::now();
    stop_waiting();
    auto request = decode_request(std::string_view(input_).substr(0, length));
    input_.erase(0, length);
    if (!request) return refuse(request.error());
    std::size_t bytes = 0;
    for (const auto& [name, size] : request->announced) bytes += size;
    if (bytes > server_->limits.files_bytes - server_->files_bytes)
      return refuse(
          fmt::format("other clients are sending files, and of all together {} MiB are taken; try again",
                      server_->limits.files_bytes >> 20));
    server_->files_bytes += bytes;
    files_ =
        std::shared_ptr<void>(nullptr, [server = server_, bytes](void*) { server->files_bytes -= bytes; });
    request_ = std::move(*request);
    wait_for_client_until(until + (Clock::now() - begun));
    read_files(request_.announced.begin());
  }

  // Address space, as memory is taken when it is written to: growing step by step would copy it, while nobody
  // else is answered.
  static void reserve(std::string& content, std::size_t bytes) {
    try {
      content.reserve(bytes);
    } catch (const std::bad_alloc&) {
      return;  // then step by step, as far as there is some
    }
  }

  // What follows the request's line, as it comes; then has it handled.
  void read_files(std::map<std::string, std::size_t>::iterator file) {
    for (; file != request_.announced.end(); ++file) {
      std::string& content = request_.files[file->first];
      reserve(content, file->second);
      const std::size_t here = std::min(file->second - content.size(), input_.size());
      content.append(input_, 0, here);
      input_.erase(0, here);
      if (content.size() == file->second) continue;
      const std::size_t had = content.size();
      content.resize(had + std::min(file->second - had, kFilePart));
      asio::async_read(socket_, asio::buffer(content.data() + had, content.size() - had),
                       [self = shared_from_this(), file](const error_code& error, std::size_t) {
                         if (!error && !self->left_ && !self->server_->stopped) self->read_files(file);
                       });
      return;
    }
    stop_waiting();
    // Whoever gave up was told that nothing came of it.
    if (client_left()) return leave();
    request_.left = [weak = weak_from_this()] {
      const auto self = weak.lock();
      return !self || self->left_ || self->client_left();
    };
    handled_ = server_->handled.insert(server_->handled.end(), this);
    // The process serves packets, whatever a request is like. The files are there until it is answered.
    try {
      server_->handler(std::exchange(request_, {}),
                       [self = shared_from_this(), files = std::exchange(files_, nullptr)](
                           const Response& response) { self->write(response, true); });
    } catch (const std::exception& error) {
      if (handled_ != server_->handled.end())  // it has not been answered
        refuse(fmt::format("the request could not be handled: {}", error.what()));
    }
  }

  void stop_handling() {
    if (handled_ != server_->handled.end()) server_->handled.erase(handled_);
    handled_ = server_->handled.end();
  }

  void write(const Response& response, bool go_on) {
    if (left_) return;
    stop_handling();
    files_.reset();
    output_ = encode(response);
    if (output_.size() > kMaxMessage)
      output_ = encode(Response::failure(
          fmt::format("the answer is longer than {} MiB; ask for less (--limit)", kMaxMessage >> 20)));
    wait_for_client();
    asio::async_write(socket_, asio::buffer(output_),
                      [self = shared_from_this(), go_on](const error_code& error, std::size_t) {
                        if (!error && !self->left_ && go_on) self->read();
                      });
  }

  std::shared_ptr<Impl> server_;
  Protocol::socket socket_;
  asio::steady_timer deadline_;
  bool of_root_;
  bool left_ = false;
  std::list<Session*>::iterator place_, handled_;
  std::string input_;
  Request request_;
  std::shared_ptr<void> files_;  // its files' part of Impl::files_bytes
  std::string output_;
};

bool Server::Impl::make_room(bool for_root) {
  if (sessions < limits.sessions) return true;
  if (const auto gone =
          std::find_if(handled.begin(), handled.end(), [](auto* one) { return one->client_left(); });
      gone != handled.end()) {
    (*gone)->leave();
    return true;
  }
  auto longest =
      std::find_if(awaited.begin(), awaited.end(), [](const auto* one) { return !one->of_root(); });
  if (longest == awaited.end() && for_root) longest = awaited.begin();
  if (longest == awaited.end()) return false;
  (*longest)->give_way();
  return true;
}

void Server::Impl::admit(Protocol::socket socket) {
  const int fd = socket.native_handle();
  const auto peer = peer_of(fd);
  if (!peer || !admitted(fd, *peer, admission))
    return tell(fd, fmt::format("only root{} may ask; run it with sudo",
                                admission.group ? " and members of the group " + admission.group->name : ""));
  if (!make_room(peer->uid == 0))
    return tell(fd, fmt::format("{} clients are connected already; try again", limits.sessions));
  std::make_shared<Session>(shared_from_this(), std::move(socket), peer->uid == 0)->start();
}

void Server::Impl::accept() {
  acceptor.async_accept([weak = weak_from_this()](const error_code& error, Protocol::socket socket) {
    const auto self = weak.lock();
    if (!self || self->stopped || error == asio::error::operation_aborted) return;
    if (!error) self->admit(std::move(socket));
    self->accept();
  });
}

Server::Server(asio::io_context& context, kernel::Fd listener, Handler handler, Admission admission,
               Limits limits)
    : impl_(std::make_shared<Impl>(context, std::move(listener), std::move(handler), std::move(admission),
                                   limits)) {
  impl_->accept();
}

Server::~Server() {
  impl_->stopped = true;
  error_code ignored;
  impl_->acceptor.close(ignored);
}

}  // namespace xdpgpu::control
