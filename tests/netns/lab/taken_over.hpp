// SPDX-License-Identifier: MIT
//
// tests/netns/lab/taken_over.hpp: a process in which somebody else's code runs: system calls that it makes
// because the test wants them, with its own credentials, descriptors, filters and rule sets. By ptrace, on
// x86-64.
#pragma once

#include <sys/types.h>
#include <sys/user.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace xdpgpu::lab {

// Its first thread stands still while this lives, and then goes on where it was. All of it is the thread's
// that made it.
class TakenOver {
 public:
  // Throws Error.
  explicit TakenOver(pid_t pid);
  ~TakenOver();
  TakenOver(const TakenOver&) = delete;
  TakenOver& operator=(const TakenOver&) = delete;

  // What the kernel answers: 0 or more, or a negative errno. Throws Error when the process dies of it.
  long call(long number, std::initializer_list<std::uint64_t> arguments);
  // The address of a copy in the process, good until the next `forget`. At most 4,000 bytes in all.
  std::uint64_t place(const void* bytes, std::size_t size);
  std::uint64_t place(const std::string& text) { return place(text.c_str(), text.size() + 1); }
  void forget() noexcept { placed_ = 0; }

 private:
  pid_t pid_;
  user_regs_struct before_{};
  std::size_t placed_ = 0;
  bool dead_ = false;
};

}  // namespace xdpgpu::lab
