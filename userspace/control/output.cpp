// SPDX-License-Identifier: MIT
#include "userspace/control/output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <syslog.h>

#include <cerrno>
#include <chrono>
#include <utility>

namespace xdpgpu::control {
namespace {

constexpr std::size_t kMostWaiting = 1 << 20;
constexpr std::chrono::seconds kPatience{1};

void to_log(const std::string& sentence) { syslog(LOG_WARNING, "%s", sentence.c_str()); }

}  // namespace

Output::Output(bool live, bool terminal)
    : live_(live), terminal_(terminal), null_(open("/dev/null", O_RDWR | O_CLOEXEC)) {
  openlog("xdpgpu", LOG_PID, LOG_DAEMON);
}

Output::~Output() {
  const std::lock_guard lock(mutex_);
  give_all();
}

void Output::text(const std::string& text) {
  const std::lock_guard lock(mutex_);
  say(out_, line_ended(text));
}

void Output::json(const Json& json) {
  text(json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

void Output::problem(const std::string& sentence) {
  if (background_) return to_log(sentence);
  const std::lock_guard lock(mutex_);
  say(errors_, line_ended(fmt::format("xdpgpu: {}\n", sentence)));
  if (errors_.broken) to_log(sentence);
}

void Output::live(const std::string& line, bool news) {
  if (!live_ || (!terminal_ && !news)) return;
  const std::lock_guard lock(mutex_);
  if (!out_.waiting.empty()) return;  // the next one is news enough
  say(out_, terminal_ ? "\r\033[K" + line : line + "\n");
  open_line_ = terminal_;
}

void Output::flush() {
  const std::lock_guard lock(mutex_);
  for (Way* way : {&out_, &errors_}) {
    give(*way);
    if (const u64 lines = way->waiting.empty() ? std::exchange(way->left_out, 0) : 0; lines > 0)
      say(errors_, fmt::format("xdpgpu: {} messages were left out, as nobody took them in time\n", lines));
  }
}

void Output::to_background() {
  const std::lock_guard lock(mutex_);
  give_all();
  background_ = true;
  live_ = false;
  if (null_)
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null_.get(), fd);
}

void Output::say(Way& way, std::string_view text) {
  give(way);
  if (way.broken) return;
  if (way.waiting.size() + text.size() > kMostWaiting) {
    way.left_out++;
    return;
  }
  way.waiting += text;
  give(way);
}

void Output::give(Way& way) {
  std::size_t given = 0;
  while (given < way.waiting.size()) {
    const ssize_t n = write(way.fd, way.waiting.data() + given, way.waiting.size() - given);
    if (n >= 0) {
      given += static_cast<std::size_t>(n);
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      way.broken = true;  // the broker is gone
      given = way.waiting.size();
    }
  }
  way.waiting.erase(0, given);
}

void Output::give_all() {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  for (Way* way : {&out_, &errors_})
    while (give(*way), !way->waiting.empty()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
      pollfd room{way->fd, POLLOUT, 0};
      if (left.count() <= 0 || poll(&room, 1, static_cast<int>(left.count())) == 0) break;
    }
}

// Behind a summary that is to be replaced, on a line of its own.
std::string Output::line_ended(const std::string& text) {
  return std::exchange(open_line_, false) ? "\n" + text : text;
}

}  // namespace xdpgpu::control
