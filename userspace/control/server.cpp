// SPDX-License-Identifier: MIT
#include "userspace/control/server.hpp"

#include <fmt/format.h>
#include <grp.h>
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
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

namespace xdpgpu::control {
namespace {

namespace asio = boost::asio;
using Protocol = asio::local::stream_protocol;
using boost::system::error_code;

std::optional<gid_t> operators_group() {
  const group* entry = getgrnam("xdpgpu");
  if (!entry) return std::nullopt;
  return entry->gr_gid;
}

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

bool allowed(int fd, std::optional<gid_t> operators) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return false;
  if (peer.uid == 0) return true;
  return operators && in_group(fd, peer.gid, *operators);
}

}  // namespace

Result<kernel::Fd> listen_at(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path))
    return tl::unexpected(fmt::format("the control socket's path {} is too long", path));
  std::memcpy(address.sun_path, path.data(), path.size());
  auto failed = [&](const char* what) {
    return tl::unexpected(
        fmt::format("cannot {} the control socket {}: {}", what, path, std::strerror(errno)));
  };
  kernel::Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return failed("make");
  const auto operators = operators_group();
  const mode_t old = umask(operators ? 0117 : 0177);
  const int bound = bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  umask(old);
  if (bound != 0) return failed("bind");
  if (operators && chown(path.c_str(), 0, *operators) != 0) return failed("hand over");
  if (listen(fd.get(), 16) != 0) return failed("listen on");
  return fd;
}

struct Server::Impl : std::enable_shared_from_this<Impl> {
  class Session;

  Impl(asio::io_context& io, kernel::Fd listener, Handler h, Limits l)
      : context(io), acceptor(io, Protocol(), listener.release()), handler(std::move(h)), limits(l) {}

  void accept();

  asio::io_context& context;
  Protocol::acceptor acceptor;
  Handler handler;
  Limits limits;
  std::optional<gid_t> operators = operators_group();
  std::size_t sessions = 0;
  bool stopped = false;
};

// Reads a request, has it handled, writes the answer, and so on until the client is done.
class Server::Impl::Session : public std::enable_shared_from_this<Session> {
 public:
  Session(std::shared_ptr<Impl> server, Protocol::socket socket)
      : server_(std::move(server)), socket_(std::move(socket)), deadline_(server_->context) {
    server_->sessions++;
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() { server_->sessions--; }

  void start() {
    if (server_->sessions > server_->limits.sessions)
      return refuse(fmt::format("{} clients are connected already; try again", server_->limits.sessions));
    if (!allowed(socket_.native_handle(), server_->operators))
      return refuse("only root and the group xdpgpu may ask; run it with sudo");
    read();
  }

 private:
  void refuse(std::string why) { write(Response::failure(std::move(why)), false); }

  void limit_time() {
    deadline_.expires_after(std::chrono::seconds(server_->limits.idle_s));
    deadline_.async_wait([weak = weak_from_this()](const error_code& error) {
      if (error) return;
      if (const auto self = weak.lock()) {
        error_code ignored;
        self->socket_.close(ignored);
      }
    });
  }

  void read() {
    limit_time();
    asio::async_read_until(socket_, asio::dynamic_buffer(input_, kMaxMessage), '\n',
                           [self = shared_from_this()](const error_code& error, std::size_t length) {
                             self->deadline_.cancel();
                             self->take(error, length);
                           });
  }

  void take(const error_code& error, std::size_t length) {
    // async_read_until reports a full buffer without a newline as not_found.
    if (error == asio::error::not_found)
      return refuse(fmt::format("the request is longer than {} MiB", kMaxMessage >> 20));
    if (error || server_->stopped) return;
    auto request = decode_request(std::string_view(input_).substr(0, length));
    input_.erase(0, length);
    if (!request) return refuse(request.error());
    request_ = std::move(*request);
    read_files(request_.files.begin());
  }

  // What follows the request's line; then has it handled.
  void read_files(Files::iterator file) {
    for (; file != request_.files.end(); ++file) {
      std::string& content = file->second;
      const std::size_t here = std::min(content.size(), input_.size());
      input_.copy(content.data(), here);
      input_.erase(0, here);
      if (here == content.size()) continue;
      limit_time();
      asio::async_read(socket_, asio::buffer(content.data() + here, content.size() - here),
                       [self = shared_from_this(), file](const error_code& error, std::size_t) {
                         self->deadline_.cancel();
                         if (!error && !self->server_->stopped) self->read_files(std::next(file));
                       });
      return;
    }
    server_->handler(std::exchange(request_, {}),
                     [self = shared_from_this()](Response response) { self->write(response, true); });
  }

  void write(const Response& response, bool go_on) {
    output_ = encode(response);
    if (output_.size() > kMaxMessage)
      output_ = encode(Response::failure(
          fmt::format("the answer is longer than {} MiB; ask for less (--limit)", kMaxMessage >> 20)));
    limit_time();
    asio::async_write(socket_, asio::buffer(output_),
                      [self = shared_from_this(), go_on](const error_code& error, std::size_t) {
                        self->deadline_.cancel();
                        if (!error && go_on) self->read();
                      });
  }

  std::shared_ptr<Impl> server_;
  Protocol::socket socket_;
  asio::steady_timer deadline_;
  std::string input_;
  Request request_;
  std::string output_;
};

void Server::Impl::accept() {
  acceptor.async_accept([weak = weak_from_this()](const error_code& error, Protocol::socket socket) {
    const auto self = weak.lock();
    if (!self || self->stopped || error == asio::error::operation_aborted) return;
    if (!error) std::make_shared<Session>(self, std::move(socket))->start();
    self->accept();
  });
}

Server::Server(asio::io_context& context, kernel::Fd listener, Handler handler, Limits limits)
    : impl_(std::make_shared<Impl>(context, std::move(listener), std::move(handler), limits)) {
  impl_->accept();
}

Server::~Server() {
  impl_->stopped = true;
  error_code ignored;
  impl_->acceptor.close(ignored);
}

}  // namespace xdpgpu::control
