// SPDX-License-Identifier: MIT
//
// userspace/control/log_output.hpp: one output of a log: lines go out whole and in order, as far as whoever
// takes them does; nobody waits. What finds no room is counted as missed.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "userspace/control/fields.hpp"
#include "userspace/kernel/kernel.hpp"
#include "userspace/policy/policy.hpp"

namespace xdpgpu::control {

// Of `status`.
struct LogOutputReport {
  std::string output;  // "file:/var/log/xdpgpu/eve.json"
  bool open = false;
  u64 lines = 0;                       // that went out
  u64 bytes = 0;                       // of them
  u64 missed = 0;                      // lines: it was slow, full or not there
  u64 failures = 0;                    // times that it could not be opened or written
  std::optional<std::string> problem;  // that it has now
  static void fields(auto& self, auto& field) {
    field("output", self.output);
    field("open", self.open);
    field("lines", self.lines);
    field("bytes", self.bytes);
    field("missed", self.missed);
    field("failures", self.failures);
    field("problem", self.problem);
  }
};

// Single-threaded.
class LogOutput {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kMostWaiting = std::size_t{256} << 10;  // bytes of lines
  static constexpr std::chrono::seconds kPause{1};                     // before what failed is tried again

  explicit LogOutput(policy::LogOutput output);

  const policy::LogOutput& output() const noexcept { return output_; }
  // Whether it is to be opened (log_places.hpp): it is not, or is to be anew, and was not tried just now.
  // Each time once, until the answer.
  bool wants_opening(Clock::time_point now) noexcept;
  // Takes the descriptor in place of the one that it has. A line of which a part stands in the old one, and
  // the rest finds no room there, is missed.
  void opened(kernel::Fd fd);
  // Where it has one, lines go there until it can be opened.
  void not_opened(const std::string& why, Clock::time_point now);

  // A line with its newline, to be written in its turn.
  void add(std::string_view line);
  // Writes what can be written without waiting.
  void flush(Clock::time_point now);
  // What is to be said of it since last asked, a sentence; empty: nothing.
  std::string news() { return std::exchange(news_, {}); }
  LogOutputReport report() const;

 private:
  enum class Wrote { some, none, failed };
  // Of the lines that wait, or of the first.
  Wrote write_bytes();
  Wrote write_datagram();
  Wrote write_some();
  void failed(const std::string& why);
  void works_again();
  void miss_cut_line();
  void miss_all();
  std::size_t waiting() const noexcept { return buffer_.size() - begin_; }
  std::size_t line_end() const noexcept { return buffer_.find('\n', begin_) + 1; }

  policy::LogOutput output_;
  std::string place_;
  kernel::Fd fd_;
  bool socket_ = false, datagrams_ = false;
  bool asked_ = false, reopen_ = false;
  std::optional<Clock::time_point> open_at_, write_at_;  // after a failure: when it is tried again
  std::string buffer_;                                   // lines; those before begin_ have gone out
  std::size_t begin_ = 0;
  bool cut_ = false;        // of the first one a part is out already
  bool left_open_ = false;  // the last one that went out has no end
  bool end_first_ = false;  // and stands in the file that is open now
  std::string news_;
  LogOutputReport report_;
};

}  // namespace xdpgpu::control
