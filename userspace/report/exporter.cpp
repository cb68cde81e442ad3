// SPDX-License-Identifier: MIT
#include "userspace/report/exporter.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>

#include "userspace/control/forked.hpp"
#include "userspace/control/privileges.hpp"
#include "userspace/control/seccomp.hpp"
#include "userspace/report/attaches.hpp"

namespace xdpgpu::report {
namespace {

namespace asio = boost::asio;
using control::Error;
using control::Result;
using Local = asio::local::stream_protocol;

constexpr std::size_t kMostBytes = std::size_t{64} << 20;  // of a text
constexpr char kServing = 'r';         // what the half that serves says first, once it can
constexpr std::size_t kMostSaid = 64;  // sentences
// As long as what was told is told again: so often at most processes are asked, however many there are to
// read it.
constexpr auto kFresh = std::chrono::milliseconds(250);

// ---- the half that serves --------------------------------------------------------------------------------

// Asks the other half, one question at a time; who asks the same meanwhile gets the same answer.
class Asker {
 public:
  Asker(asio::io_context& context, int fd) : socket_(context, Local(), fd) {}

  int descriptor() { return socket_.native_handle(); }

  void ask(Asked asked, const HttpServer::Done& done) {
    Known& known = known_[asked];
    if (known.text && Clock::now() - known.at < kFresh) return done(known.text);
    known.waiting.push_back(done);
    if (known.waiting.size() > 1) return;
    questions_.push_back(asked);
    if (questions_.size() == 1) next();
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Known {
    std::shared_ptr<const std::string> text;
    Clock::time_point at;
    std::vector<HttpServer::Done> waiting;
  };

  void next() {
    byte_ = static_cast<char>(questions_.front());
    asio::async_write(socket_, asio::buffer(&byte_, 1), [this](const auto& error, std::size_t) {
      if (error) _exit(1);
      asio::async_read(
          socket_, asio::buffer(&length_, sizeof(length_)), [this](const auto& failed, std::size_t) {
            if (failed || length_ > kMostBytes) _exit(1);
            answer_ = std::make_shared<std::string>(length_, '\0');
            asio::async_read(socket_, asio::buffer(*answer_), [this](const auto& cut, std::size_t) {
              if (cut) _exit(1);
              tell();
            });
          });
    });
  }
  void tell() {
    Known& known = known_[questions_.front()];
    questions_.erase(questions_.begin());
    known.text = std::exchange(answer_, nullptr);
    known.at = Clock::now();
    const auto waiting = std::exchange(known.waiting, {});
    for (const auto& done : waiting) done(known.text);
    if (!questions_.empty()) next();
  }

  Local::socket socket_;
  std::map<Asked, Known> known_;
  std::vector<Asked> questions_;
  char byte_ = 0;
  u32 length_ = 0;
  std::shared_ptr<std::string> answer_;
};

// Never returns.
[[noreturn]] void serve(std::vector<Listener> listeners, kernel::Fd other, const WebConfig& web) {
  const auto give_up = [](const std::string& why) {
    fmt::print(stderr, "xdpgpu: {}\n", why);
    _exit(1);
  };
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::vector<int> keep{other.get()};
  for (const Listener& listener : listeners) keep.push_back(listener.socket.get());
  control::close_others(keep);
  try {
    asio::io_context context(1);
    Asker asker(context, other.release());
    const HttpServer server(context, std::move(listeners), web,
                            [&](Asked asked, const HttpServer::Done& done) { asker.ask(asked, done); });
    if (geteuid() == 0)
      if (const auto nobody = control::become_nobody(control::Groups::none); !nobody) give_up(nobody.error());
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    const auto mode = control::seccomp_mode(std::getenv("XDPGPU_SECCOMP"));
    if (!mode) give_up(mode.error());
    if (*mode != control::SeccompMode::off)
      if (const auto restricted = control::restrict_exporter(); !restricted) give_up(restricted.error());
    if (write(asker.descriptor(), &kServing, 1) != 1) _exit(1);
    context.run();
  } catch (const std::exception& error) {
    give_up(fmt::format("metrics cannot be served: {}", error.what()));
  }
  _exit(1);
}

// ---- the half that asks ----------------------------------------------------------------------------------

bool send_all(int fd, const void* bytes, std::size_t length) {
  const auto* at = static_cast<const char*>(bytes);
  while (length) {
    const auto sent = send(fd, at, length, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += sent;
    length -= static_cast<std::size_t>(sent);
  }
  return true;
}

// One question; false: the other half has gone. `said`: what was said of those that may not be asked.
bool answer(int fd, const ExporterOptions& options, std::set<std::string>& said) {
  char asked = 0;
  if (recv(fd, &asked, 1, 0) != 1) return false;
  std::string text;
  switch (static_cast<Asked>(asked)) {
    case Asked::metrics:
    case Asked::openmetrics:
    case Asked::status: {
      const Answers answers = ask_all(options.only_here);
      for (const std::string& why : answers.refused)
        if (said.size() < kMostSaid && said.insert(why).second) fmt::print(stderr, "xdpgpu: {}\n", why);
      text = text_of(static_cast<Asked>(asked), answers.attaches, options.limits);
      break;
    }
    default:  // it has been taken over
      return false;
  }
  if (text.size() > kMostBytes) text.clear();
  const u32 length = static_cast<u32>(text.size());
  return send_all(fd, &length, sizeof(length)) && send_all(fd, text.data(), text.size());
}

// gone: it has closed its end, and may still be saying why.
Error ended(pid_t child, bool gone) {
  int status = 0;
  bool reaped = false;
  for (int i = 0; gone && !reaped && i < 100; ++i) {
    reaped = waitpid(child, &status, WNOHANG) == child;
    if (!reaped) usleep(10'000);
  }
  if (!reaped) {
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
  }
  const bool killed = WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL;
  return Error(fmt::format(
      "the process that serves metrics ended{}; start it again",
      killed ? fmt::format(" by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status))) : ""));
}

}  // namespace

std::string text_of(Asked asked, const std::vector<Attach>& all, const Limits& limits) {
  if (asked != Asked::status)
    return metrics_text(all, asked == Asked::openmetrics ? Syntax::openmetrics : Syntax::prometheus, limits);
  auto list = control::Json::array();
  for (const Attach& attach : all) {
    control::Json one{{"attach", attach.name}, {"netns", attach.netns}};
    if (attach.status) one["status"] = control::as_json(*attach.status);
    list.push_back(std::move(one));
  }
  // A name may be of bytes that are no UTF-8.
  return list.dump(-1, ' ', true, control::Json::error_handler_t::replace);
}

Result<void> run_exporter(const ExporterOptions& options,
                          const std::function<void(const std::vector<std::string>&)>& ready) {
  std::vector<Listener> listeners;
  std::vector<std::string> places;
  const auto remove_sockets = [&] {
    for (std::size_t i = 0; i < listeners.size(); ++i)
      if (!options.places[i].path.empty()) unlink(options.places[i].path.c_str());
  };
  for (const Place& place : options.places) {
    auto listener = listen_there(place, options.group);
    if (!listener) {
      remove_sockets();
      return Error(listener.error());
    }
    const std::size_t port_at = place.text.rfind(':') + 1;
    places.push_back(place.path.empty()
                         ? fmt::format("{}{}", place.text.substr(0, port_at), bound_port(listener->get()))
                         : place.text);
    listeners.push_back({std::move(*listener), place.loopback});
  }
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  int pair[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
    return Error(fmt::format("cannot make a pair of sockets: {}", std::strerror(errno)));
  kernel::Fd mine(pair[0]), its(pair[1]);
  const pid_t child = fork();
  if (child < 0) return Error(fmt::format("cannot start the process that serves: {}", std::strerror(errno)));
  if (child == 0) serve(std::move(listeners), std::move(its), options.web);
  its = kernel::Fd();
  for (Listener& listener : listeners) listener.socket = kernel::Fd();
  const kernel::Fd signal(signalfd(-1, &signals, SFD_CLOEXEC));
  std::set<std::string> said;
  char first = 0;
  bool serves = recv(mine.get(), &first, 1, 0) == 1 && first == kServing;
  if (serves) ready(places);
  while (serves) {
    pollfd fds[] = {{mine.get(), POLLIN, 0}, {signal.get(), POLLIN, 0}};
    if (poll(fds, 2, -1) < 0 && errno != EINTR) break;
    if (fds[1].revents) break;
    if (fds[0].revents) serves = answer(mine.get(), options, said);
  }
  const Error end = ended(child, !serves);
  remove_sockets();
  if (!serves) return end;
  return {};
}

}  // namespace xdpgpu::report
