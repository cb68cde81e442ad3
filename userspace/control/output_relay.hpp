// SPDX-License-Identifier: MIT
//
// userspace/control/output_relay.hpp: how what attach says comes out while the data plane has no terminal.
//
// While it lives, this process's standard output and error, and those of each process that it makes, are
// pipes. A thread of it takes what comes out of them to where they led before. So it can wait there for a
// stopped terminal or a slow reader while nobody else does. Who sees packets may have been taken over, and a
// terminal obeys what is written to it: of control characters only tabs, line ends and "erase the line" are
// passed on, others become '?'.
#pragma once

#include <array>
#include <future>
#include <memory>
#include <string>
#include <string_view>

#include "userspace/control/result.hpp"
#include "userspace/kernel/kernel.hpp"

namespace xdpgpu::control {

class OutputRelay {
 public:
  // The pipes' writing ends never wait: what does not fit is not taken.
  static Result<std::unique_ptr<OutputRelay>> start();
  // Puts standard output and error back to where they led, once what has been said is there; where nothing
  // has been taken there for five seconds, the rest is dropped.
  ~OutputRelay();
  // Likewise, but standard input, output and error lead nowhere from then on.
  void leave() noexcept;
  OutputRelay(const OutputRelay&) = delete;
  OutputRelay& operator=(const OutputRelay&) = delete;

 private:
  struct Shared;
  OutputRelay() = default;
  // Until all that was said is where it goes, or nobody takes it.
  void wait() noexcept;
  std::array<kernel::Fd, 2> before_;  // standard output and error
  std::shared_ptr<Shared> shared_;    // with a thread that may be left behind
  std::future<void> done_;
};

// What of a stream of bytes a terminal may be told. A character may be cut anywhere.
class Printable {
 public:
  std::string operator()(std::string_view bytes);

 private:
  std::string begun_;  // of a character, or of an escape sequence
};

// Has standard output and error lead nowhere: each, or each that is a terminal's.
enum class Outputs { all, terminals };
Result<void> silence(Outputs which);
// Takes this process out of its session, so that no terminal is its own, and takes its standard input away.
Result<void> leave_terminal();

}  // namespace xdpgpu::control
