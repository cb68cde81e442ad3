// SPDX-License-Identifier: MIT
#include "userspace/control/output_relay.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

#include "userspace/kernel/kernel.hpp"

namespace xdpgpu::control {
namespace {

constexpr std::chrono::seconds kPatience{5};
constexpr int kPipeBytes = 256 << 10;
constexpr std::array kOutputs{STDOUT_FILENO, STDERR_FILENO};
constexpr std::string_view kEraseLine = "\033[K";

Error failed(const char* what) {
  return Error(
      fmt::format("what attach says cannot be led past the data plane: {}: {}", what, std::strerror(errno)));
}

// The bytes that the UTF-8 character with this first one has; 0: none begins so.
std::size_t length_of(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return 2;
  if (first >= 0xe0 && first <= 0xef) return 3;
  return first >= 0xf0 && first <= 0xf4 ? 4 : 0;
}

// U+0080 to U+009F are control characters, too.
bool is_control(const std::string& character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (first < 0x80) return first == 0x7f || (first < 0x20 && first != '\n' && first != '\r' && first != '\t');
  return first == 0xc2 && static_cast<unsigned char>(character[1]) < 0xa0;
}

}  // namespace

std::string Printable::operator()(std::string_view bytes) {
  std::string clean;
  clean.reserve(bytes.size());
  // What was begun in vain gives its first byte up; the others begin anew.
  const auto give_up = [&] {
    const std::string rest = std::exchange(begun_, {}).substr(1);
    clean += '?';
    clean += (*this)(rest);
  };
  for (const char byte : bytes) {
    begun_ += byte;
    if (begun_[0] == kEraseLine[0]) {
      if (begun_ == kEraseLine)
        clean += std::exchange(begun_, {});
      else if (!kEraseLine.starts_with(begun_))
        give_up();
      continue;
    }
    const std::size_t length = length_of(static_cast<unsigned char>(begun_[0]));
    const bool continued = begun_.size() == 1 || (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
    if (length == 0 || !continued) {
      give_up();
    } else if (begun_.size() == length) {
      clean += is_control(begun_) ? "?" : begun_;
      begun_.clear();
    }
  }
  return clean;
}

struct OutputRelay::Shared {
  struct Way {
    kernel::Fd from, to;
    Printable printable;
    bool open = true;
  };
  std::array<Way, 2> ways;  // standard output, standard error
  kernel::Fd end;           // said when nothing is added any more
  std::atomic<u64> moved = 0;
  std::promise<void> done;

  void run();
  bool move(Way& way);
};

// False where there is nothing to be had now.
bool OutputRelay::Shared::move(Way& way) {
  char buffer[16384];
  const ssize_t length = read(way.from.get(), buffer, sizeof(buffer));
  if (length == 0) way.open = false;
  if (length <= 0) return length < 0 && errno == EINTR;
  const std::string clean = way.printable({buffer, static_cast<std::size_t>(length)});
  for (std::string_view rest = clean; !rest.empty() && way.to;) {
    const ssize_t written = write(way.to.get(), rest.data(), rest.size());
    if (written >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(written));
      moved++;
    } else if (errno == EAGAIN) {
      pollfd room{way.to.get(), POLLOUT, 0};
      poll(&room, 1, -1);
    } else if (errno != EINTR) {
      way.to = kernel::Fd();  // nobody reads there any more; what comes is thrown away
    }
  }
  moved++;
  return true;
}

void OutputRelay::Shared::run() {
  bool ending = false;
  while (ways[0].open || ways[1].open) {
    pollfd events[3] = {{ways[0].open ? ways[0].from.get() : -1, POLLIN, 0},
                        {ways[1].open ? ways[1].from.get() : -1, POLLIN, 0},
                        {ending ? -1 : end.get(), POLLIN, 0}};
    const int ready = poll(events, 3, ending ? 0 : -1);
    if (ready < 0 && errno != EINTR) break;
    if (ending && ready == 0) break;
    if (ready <= 0) continue;
    if (events[2].revents != 0) ending = true;
    for (std::size_t i = 0; i < 2; i++)
      if (events[i].revents != 0) move(ways[i]);
  }
  done.set_value();
}

Result<std::unique_ptr<OutputRelay>> OutputRelay::start() {
  std::unique_ptr<OutputRelay> relay(new OutputRelay);
  auto shared = std::make_shared<Shared>();
  shared->end = kernel::Fd(eventfd(0, EFD_CLOEXEC));
  if (!shared->end) return failed("eventfd");
  std::array<kernel::Fd, 2> writers;
  for (std::size_t i = 0; i < 2; i++) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return failed("pipe");
    shared->ways[i].from = kernel::Fd(ends[0]);
    writers[i] = kernel::Fd(ends[1]);
    (void)fcntl(ends[1], F_SETPIPE_SZ, kPipeBytes);
    // Where it is closed, what comes is thrown away.
    for (auto* copy : {&relay->before_[i], &shared->ways[i].to})
      *copy = kernel::Fd(fcntl(kOutputs[i], F_DUPFD_CLOEXEC, 3));
  }
  relay->done_ = shared->done.get_future();
  // Signals are other threads', and SIGPIPE nobody's.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread([shared] { shared->run(); }).detach();
  } catch (const std::system_error& error) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    errno = error.code().value();
    return failed("a thread");
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  relay->shared_ = std::move(shared);
  std::fflush(nullptr);
  for (std::size_t i = 0; i < 2; i++) dup2(writers[i].get(), kOutputs[i]);
  return relay;
}

void OutputRelay::wait() noexcept {
  if (!shared_) return;
  const u64 one = 1;
  if (write(shared_->end.get(), &one, sizeof(one)) == sizeof(one))
    for (u64 moved = shared_->moved; done_.wait_for(kPatience) != std::future_status::ready;)
      if (std::exchange(moved, shared_->moved) == moved) break;
  shared_.reset();
}

OutputRelay::~OutputRelay() {
  if (!shared_) return;
  std::fflush(nullptr);
  for (std::size_t i = 0; i < 2; i++)
    if (before_[i])
      dup2(before_[i].get(), kOutputs[i]);
    else
      close(kOutputs[i]);
  wait();
}

void OutputRelay::leave() noexcept {
  std::fflush(nullptr);
  if (const kernel::Fd null(open("/dev/null", O_RDWR | O_CLOEXEC)); null)
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null.get(), fd);
  wait();
  for (auto& fd : before_) fd = kernel::Fd();
}

namespace {

// A pipe that was inherited has its flags in common with the broker's, so that whoever has its writes wait
// has the broker's wait, too.
bool open_anew(int fd) {
  struct stat info {};
  if (fstat(fd, &info) != 0 || !S_ISFIFO(info.st_mode)) return true;
  const kernel::Fd own(open(fmt::format("/proc/self/fd/{}", fd).c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
  return own && dup2(own.get(), fd) >= 0;
}

}  // namespace

Result<void> silence(Outputs which) {
  const kernel::Fd null(open("/dev/null", O_WRONLY | O_CLOEXEC));
  if (!null) return Error(fmt::format("cannot open /dev/null: {}", std::strerror(errno)));
  for (const int fd : kOutputs)
    if ((which == Outputs::all || isatty(fd) == 1) && dup2(null.get(), fd) < 0)
      return Error(fmt::format("its output cannot be led nowhere: {}", std::strerror(errno)));
  return {};
}

Result<void> leave_terminal() {
  const kernel::Fd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null || dup2(null.get(), STDIN_FILENO) < 0)
    return Error(fmt::format("cannot open /dev/null: {}", std::strerror(errno)));
  if (setsid() < 0)
    return Error(fmt::format("a session of its own cannot be made: {}", std::strerror(errno)));
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (isatty(fd) == 1) return Error(std::string("it would have a terminal"));
  for (const int fd : kOutputs)
    if (!open_anew(fd))
      return Error(fmt::format("its output cannot be opened anew: {}", std::strerror(errno)));
  return {};
}

}  // namespace xdpgpu::control
