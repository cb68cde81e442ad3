// SPDX-License-Identifier: MIT
//
// userspace/control/output.hpp: what an attached process says.
#pragma once

#include <fcntl.h>
#include <syslog.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <string>

#include "userspace/control/protocol.hpp"
#include "userspace/kernel/kernel.hpp"

namespace xdpgpu::control {

// Where sentences go: to the terminal, or, in the background, to the system log. Any thread may tell a
// problem.
class Output {
 public:
  explicit Output(bool terminal_line)
      : live_(terminal_line),
        tty_(isatty(STDOUT_FILENO) == 1),
        null_(open("/dev/null", O_RDWR | O_CLOEXEC)) {}

  void text(const std::string& text) {
    end_line();
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }
  void json(const Json& json) { text(json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"); }
  void problem(const std::string& sentence) {
    if (background_) return syslog(LOG_WARNING, "%s", sentence.c_str());
    end_line();
    std::fprintf(stderr, "xdpgpu: %s\n", sentence.c_str());
  }
  // One line that replaces the last one where there is a terminal; elsewhere, only what is news.
  void live(const std::string& line, bool news) {
    if (!live_ || (!tty_ && !news)) return;
    std::printf(tty_ ? "\r\033[K%s" : "%s\n", line.c_str());
    std::fflush(stdout);
    open_line_ = tty_;
  }
  void to_background() {
    openlog("xdpgpu", LOG_PID, LOG_DAEMON);
    background_ = true;
    live_ = false;
    if (null_)
      for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null_.get(), fd);
  }

 private:
  void end_line() {
    if (open_line_.exchange(false)) std::fputs("\n", stdout);
  }
  bool live_;
  bool tty_;
  kernel::Fd null_;  // opened while it may be
  std::atomic<bool> open_line_ = false;
  std::atomic<bool> background_ = false;
};

}  // namespace xdpgpu::control
