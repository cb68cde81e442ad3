// SPDX-License-Identifier: MIT
//
// userspace/control/compiler_process.hpp: the compiler as its broker sees it: a process that is forked when
// the data plane asks for one, gives up every privilege, and has a socket to that data plane and nothing
// else: no map, no files, no network, no child. What it reads are policies and lists, which may be somebody
// else's. One that translates programs has a socket to the broker, too, to which it sends what is to be kept
// for the next start (userspace/compiler/kept_code.hpp).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <deque>
#include <functional>
#include <string>

#include "userspace/control/result.hpp"
#include "userspace/kernel/kernel.hpp"

namespace xdpgpu::control {

// Where the code of programs is kept from one start to the next, in the folder of device_codes.hpp.
inline constexpr const char* kProgramCodeFolder = "/var/cache/xdpgpu/programs";

class CompilerProcess {
 public:
  using Say = std::function<void(const std::string& sentence)>;
  // images: what the processor and the devices have in common. device_code: machine code, of this build's
  // PTX. translations: likewise, of programs that were decoded. Both of these read no policy.
  enum class Makes { images, device_code, translations };
  // filter: its system calls. forget: unmaps, in the child, what the broker shares with the kernel. say: what
  // became of it, where that is not what it does.
  CompilerProcess(bool filter, std::function<void()> forget, Say say, Makes makes = Makes::images)
      : filter_(filter), makes_(makes), forget_(std::move(forget)), say_(std::move(say)) {}
  ~CompilerProcess() { end(); }
  CompilerProcess(const CompilerProcess&) = delete;
  CompilerProcess& operator=(const CompilerProcess&) = delete;

  // Ends the one that there is, and starts another one: what it takes orders through. Refused where compilers
  // come and go too fast.
  Result<kernel::Fd> start();
  // Takes its end, if it has come, and keeps what it has sent for that.
  void reap();
  void end() noexcept;

 private:
  const char* name() const noexcept {
    return makes_ == Makes::translations ? "the compiler of programs" : "the compiler";
  }
  [[noreturn]] void become_it(kernel::Fd socket, kernel::Fd keeper, pid_t broker) noexcept;
  void keep_code();

  using Clock = std::chrono::steady_clock;
  // Each start is a fork of the broker, and namespaces that the kernel takes back when it likes.
  static constexpr std::size_t kMostStarts = 8;
  static constexpr std::chrono::seconds kStartsWithin{20};

  bool filter_;
  Makes makes_;
  std::function<void()> forget_;
  Say say_;
  pid_t child_ = -1;
  kernel::Fd keeper_;                     // translations: what it has made comes here
  bool is_told_ = false;                  // that it cannot be kept
  std::deque<Clock::time_point> starts_;  // the last ones
};

}  // namespace xdpgpu::control
