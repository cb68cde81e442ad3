// SPDX-License-Identifier: MIT
//
// userspace/control/output.hpp: what an attached process says.
#pragma once

#include <unistd.h>

#include <atomic>
#include <mutex>
#include <string>
#include <string_view>

#include "userspace/control/protocol.hpp"
#include "userspace/kernel/kernel.hpp"

namespace xdpgpu::control {

// Where sentences go: to the broker, which writes them where attach was told to, or, in the background, to
// the system log. Any thread may tell a problem. Nobody waits for who reads: lines come out whole and in
// order, up to a megabyte of them waits, and what comes beyond that is left out and counted.
class Output {
 public:
  // live: summaries are wanted. terminal: standard output comes out at one.
  Output(bool live, bool terminal);
  // Waits up to a second for what has not come out.
  ~Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  void text(const std::string& text);
  void json(const Json& json);
  // Where there is nobody any more who would write it, to the system log.
  void problem(const std::string& sentence);
  // One line that replaces the last one where there is a terminal; elsewhere, only what is news.
  void live(const std::string& line, bool news);
  // Gives what waits, as far as it is taken; to be called now and then.
  void flush();
  void to_background();

 private:
  struct Way {
    int fd;
    std::string waiting{};
    u64 left_out = 0;
    bool broken = false;
  };
  // Of the following, each is called with the lock.
  void say(Way& way, std::string_view text);
  void give(Way& way);
  void give_all();
  std::string line_ended(const std::string& text);

  std::mutex mutex_;
  Way out_{STDOUT_FILENO}, errors_{STDERR_FILENO};
  bool live_;
  const bool terminal_;
  kernel::Fd null_;  // opened while it may be
  bool open_line_ = false;
  std::atomic<bool> background_ = false;
};

}  // namespace xdpgpu::control
