// SPDX-License-Identifier: MIT
#include "tests/netns/lab/taken_over.hpp"

#include <fmt/format.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>

#include "tests/netns/lab/namespace.hpp"

namespace xdpgpu::lab {
namespace {

constexpr std::size_t kRoom = 4000, kRedZone = 128;

Error failed(pid_t pid, const char* what) {
  return Error(fmt::format("cannot take over process {}: {}: {}", pid, what, std::strerror(errno)));
}

// The next stop; false when the process is dead instead.
bool wait_for_stop(pid_t pid) {
  int status = 0;
  return waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status);
}

}  // namespace

#if defined(__x86_64__)

TakenOver::TakenOver(pid_t pid) : pid_(pid) {
  if (ptrace(PTRACE_SEIZE, pid, nullptr, nullptr) != 0) throw failed(pid, "seize");
  if (ptrace(PTRACE_INTERRUPT, pid, nullptr, nullptr) != 0 || !wait_for_stop(pid))
    throw failed(pid, "interrupt");
  errno = 0;
  if (ptrace(PTRACE_GETREGS, pid, nullptr, &before_) != 0) throw failed(pid, "registers");
  // It waits in a system call, so that the instruction of one is behind it.
  const long code = ptrace(PTRACE_PEEKTEXT, pid, before_.rip - 2, nullptr);
  if ((code & 0xffff) != 0x050f) throw failed(pid, "it waits in no system call");
}

TakenOver::~TakenOver() {
  if (dead_) return;
  ptrace(PTRACE_SETREGS, pid_, nullptr, &before_);
  ptrace(PTRACE_DETACH, pid_, nullptr, nullptr);
}

long TakenOver::call(long number, std::initializer_list<std::uint64_t> arguments) {
  user_regs_struct registers = before_;
  registers.rip = before_.rip - 2;
  registers.rax = static_cast<std::uint64_t>(number);
  registers.orig_rax = ~0ull;  // nothing to begin again
  registers.rsp = before_.rsp - kRedZone - kRoom;
  decltype(&registers.rdi) places[] = {&registers.rdi, &registers.rsi, &registers.rdx,
                                       &registers.r10, &registers.r8,  &registers.r9};
  std::size_t i = 0;
  for (const auto argument : arguments) *places[i++] = argument;
  if (ptrace(PTRACE_SETREGS, pid_, nullptr, &registers) != 0 ||
      ptrace(PTRACE_SINGLESTEP, pid_, nullptr, nullptr) != 0)
    throw failed(pid_, "a step");
  if (!wait_for_stop(pid_)) {
    dead_ = true;
    throw Error(fmt::format("process {} died of system call {}", pid_, number));
  }
  if (ptrace(PTRACE_GETREGS, pid_, nullptr, &registers) != 0) throw failed(pid_, "registers");
  return static_cast<long>(registers.rax);
}

std::uint64_t TakenOver::place(const void* bytes, std::size_t size) {
  placed_ += (size + 15) / 16 * 16;
  const std::uint64_t address = (before_.rsp - kRedZone - placed_) & ~15ull;
  const iovec from{const_cast<void*>(bytes), size}, to{reinterpret_cast<void*>(address), size};
  if (placed_ > kRoom - 64 || process_vm_writev(pid_, &from, 1, &to, 1, 0) != static_cast<ssize_t>(size))
    throw failed(pid_, "its memory");
  return address;
}

#else

TakenOver::TakenOver(pid_t pid) : pid_(pid) {
  errno = ENOSYS;
  throw failed(pid, "this processor");
}
TakenOver::~TakenOver() = default;
long TakenOver::call(long, std::initializer_list<std::uint64_t>) { return -ENOSYS; }
std::uint64_t TakenOver::place(const void*, std::size_t) { return 0; }

#endif

}  // namespace xdpgpu::lab
