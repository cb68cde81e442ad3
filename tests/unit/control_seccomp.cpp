// SPDX-License-Identifier: MIT
//
// The system-call filter, put on real processes of ours that try what is forbidden, and what is not.
#include "userspace/control/seccomp.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/bpf.h>
#include <linux/if_xdp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "maps/types.h"
#include "userspace/control/ioctl_requests.hpp"
#include "userspace/control/privileges.hpp"

namespace xdpgpu::control {
namespace {

#if defined(XDPGPU_SANITIZED)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

constexpr int kKilled = -1000, kNotFiltered = 200;

int outcome_of(pid_t child) {
  int status = 0;
  if (waitpid(child, &status, 0) != child) return kNotFiltered;
  if (WIFSIGNALED(status)) return WTERMSIG(status) == SIGSYS ? kKilled : -WTERMSIG(status);
  return WEXITSTATUS(status);
}

// What comes of `act` in a child that has given up its privileges and is filtered: 0, an errno, or kKilled.
int filtered_by(const std::function<Result<void>()>& restrict_it, const std::function<long()>& act) {
  const pid_t child = fork();
  if (child != 0) return outcome_of(child);
  if (geteuid() == 0) {
    if (!become_nobody()) _exit(kNotFiltered);
  } else if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    _exit(kNotFiltered);
  }
  if (!restrict_it()) _exit(kNotFiltered);
  errno = 0;
  const long result = act();
  _exit(result < 0 ? errno : 0);
}
int filtered(const std::function<long()>& act, Drivers drivers = {}) {
  return filtered_by([&] { return restrict_system_calls(drivers); }, act);
}
int filtered_as_compiler(const std::function<long()>& act) { return filtered_by(restrict_compiler, act); }

class ControlSeccomp : public ::testing::Test {
 protected:
  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "the sanitizers' runtime asks for more than the filter lets through";
  }
};

TEST_F(ControlSeccomp, KillsWhoAsksForWhatAnIntruderWants) {
  EXPECT_EQ(filtered([] {
              const char* const arguments[] = {"/bin/true", nullptr};
              return execve(arguments[0], const_cast<char* const*>(arguments), nullptr);
            }),
            kKilled);
  EXPECT_EQ(filtered([] { return ptrace(PTRACE_ATTACH, getppid(), nullptr, nullptr); }), kKilled);
  EXPECT_EQ(filtered([] { return unshare(CLONE_NEWUSER); }), kKilled);
  for (const long call : {SYS_execveat,
                          SYS_mount,
                          SYS_umount2,
                          SYS_setns,
                          SYS_pivot_root,
                          SYS_chroot,
                          SYS_init_module,
                          SYS_finit_module,
                          SYS_kexec_load,
                          SYS_process_vm_readv,
                          SYS_process_vm_writev,
                          SYS_pidfd_getfd,
                          SYS_setuid,
                          SYS_setresuid,
                          SYS_setgroups,
                          SYS_capset,
                          SYS_keyctl,
                          SYS_userfaultfd,
                          SYS_open_by_handle_at,
                          SYS_personality})
    for (const Drivers drivers : {Drivers{}, Drivers{true, true}})
      EXPECT_EQ(filtered([call] { return syscall(call, 0, 0, 0, 0, 0); }, drivers), kKilled) << call;
}

#if defined(__x86_64__)
TEST_F(ControlSeccomp, KillsWhoAsksByAnotherTableOfCalls) {
  constexpr long kX32 = 0x40000000;
  for (const long call : {long{SYS_getpid}, long{SYS_write}, long{SYS_execve}, 520L /* execve, its own */})
    EXPECT_EQ(filtered([call] { return syscall(call | kX32, 0, 0, 0); }), kKilled) << call;
  EXPECT_THAT(filtered([] {
                long call = 20;  // getpid of 32 bits
                asm volatile("int $0x80" : "+a"(call) : : "memory");
                return call;
              }),
              ::testing::AnyOf(kKilled, -SIGSEGV))
      << "a kernel without it knows no such interrupt";
}
#endif

TEST_F(ControlSeccomp, RefusesWhatIsOnNoList) {
  const auto refused = [](long call, long a = 0, long b = 0, long c = 0) {
    return filtered([=] { return syscall(call, a, b, c, 0, 0); });
  };
  for (const int domain : {AF_PACKET, AF_XDP, AF_NETLINK, AF_VSOCK, AF_ALG})
    EXPECT_EQ(refused(SYS_socket, domain, SOCK_RAW), EPERM) << domain;
  EXPECT_EQ(refused(SYS_socket, AF_INET, SOCK_RAW, IPPROTO_ICMP), EPERM);
  EXPECT_EQ(refused(SYS_socket, AF_INET6, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMPV6), EPERM);
  // Each a module that the kernel loads for whoever asks.
  constexpr int kSmc = 256, kL2tp = 115;
  for (const auto& [type, protocol] : std::vector<std::pair<int, int>>{{SOCK_STREAM, IPPROTO_SCTP},
                                                                       {SOCK_STREAM, IPPROTO_MPTCP},
                                                                       {SOCK_STREAM, kSmc},
                                                                       {SOCK_DGRAM, IPPROTO_UDPLITE},
                                                                       {SOCK_DGRAM, kL2tp},
                                                                       {SOCK_DGRAM, IPPROTO_ICMP}})
    for (const int domain : {AF_INET, AF_INET6})
      EXPECT_EQ(refused(SYS_socket, domain, type, protocol), EPERM) << protocol;
  for (const int domain : {AF_INET, AF_INET6}) {
    EXPECT_NE(refused(SYS_socket, domain, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP), EPERM);
    EXPECT_NE(refused(SYS_socket, domain, SOCK_DGRAM, 0), EPERM);
  }
  EXPECT_EQ(refused(SYS_socket, AF_UNIX, SOCK_STREAM, 0), 0);
  for (const int command : {BPF_MAP_UPDATE_BATCH, BPF_MAP_DELETE_BATCH, BPF_MAP_LOOKUP_AND_DELETE_ELEM,
                            BPF_MAP_LOOKUP_AND_DELETE_BATCH, BPF_MAP_FREEZE})
    EXPECT_EQ(refused(SYS_bpf, command), EPERM) << "maps are the broker's to change: " << command;
  // Of its own programs it has maps to write; all other descriptors are read-only, or there are none.
  for (const int command : {BPF_MAP_UPDATE_ELEM, BPF_MAP_DELETE_ELEM, BPF_MAP_GET_NEXT_KEY})
    EXPECT_NE(refused(SYS_bpf, command), EPERM) << command;
  for (const int command : {BPF_MAP_CREATE, BPF_PROG_LOAD, BPF_OBJ_GET, BPF_OBJ_PIN, BPF_MAP_GET_FD_BY_ID,
                            BPF_PROG_GET_FD_BY_ID, BPF_PROG_ATTACH, BPF_LINK_CREATE, BPF_BTF_LOAD})
    EXPECT_EQ(refused(SYS_bpf, command), EPERM) << command;
  EXPECT_EQ(refused(SYS_kill, getpid(), SIGTERM), EPERM) << "other processes of the same user";
  EXPECT_EQ(refused(SYS_tgkill, getpid(), getpid(), SIGTERM), EPERM) << "likewise";
  for (const Drivers drivers : {Drivers{}, Drivers{true, true}})
    for (const long high : {0L, 1L << 32}) {
      const auto asked = [&](long command, long argument) {
        return filtered([=] { return syscall(SYS_fcntl, 0, command | high, argument); }, drivers);
      };
      for (const long command : {F_SETOWN, F_SETOWN_EX, F_SETSIG, F_SETLEASE, F_NOTIFY})
        EXPECT_EQ(asked(command, SIGKILL), EPERM) << "likewise, by a descriptor: " << command;
      for (const long command : {F_GETFL, F_GETFD, F_DUPFD_CLOEXEC}) EXPECT_NE(asked(command, 0), EPERM);
    }
  EXPECT_EQ(refused(SYS_io_uring_setup, 8), EPERM) << "calls that no filter sees";
  EXPECT_EQ(refused(SYS_perf_event_open), EPERM);
  const auto set = [](long option, Drivers drivers) {
    return filtered([=] { return syscall(SYS_setsockopt, -1, SOL_SOCKET, option, 0, 0); }, drivers);
  };
  for (const long option : {SO_LINGER, SO_SNDBUF, SO_TYPE, SO_ATTACH_FILTER, SO_RCVTIMEO})
    EXPECT_EQ(set(option, {}), EPERM) << "nobody has options to set any more: " << option;
  for (const long high : {0L, 1L << 32, -1L << 32})
    EXPECT_EQ(set(SO_LINGER | high, {true, true}), EPERM) << "whoever closes it waits";
  for (const long option : {SO_SNDBUF, SO_TYPE}) EXPECT_NE(set(option, {true, true}), EPERM) << option;
  EXPECT_EQ(refused(SYS_prctl, PR_SET_DUMPABLE, 1), EPERM);
  EXPECT_EQ(refused(SYS_bind, 0), EPERM);
  EXPECT_EQ(refused(SYS_listen, 0), EPERM);
  for (const Drivers drivers : {Drivers{}, Drivers{true, true}})
    EXPECT_EQ(filtered([] { return shutdown(0, SHUT_RDWR); }, drivers), EPERM)
        << "the listener, which is the next data plane's as well, would listen never again";
  EXPECT_EQ(refused(SYS_ioctl, 0, TIOCSTI), EPERM);
  EXPECT_EQ(refused(SYS_clone, SIGCHLD), EPERM) << "a process";
  EXPECT_EQ(refused(SYS_fork), EPERM);
  EXPECT_EQ(refused(SYS_vfork), EPERM);
  EXPECT_EQ(refused(SYS_clone3), ENOSYS) << "so that glibc takes clone";
  EXPECT_EQ(refused(SYS_clone, CLONE_VM | CLONE_SIGHAND | CLONE_THREAD | CLONE_NEWUSER), EPERM);
}

// The kernel takes a request's lower 32 bits, whatever is in the others.
TEST_F(ControlSeccomp, AsksNoTerminalForAnything) {
  constexpr u64 kHighBits[] = {0, u64{1} << 32, 0xffffffff00000000u};
  for (const Drivers drivers :
       {Drivers{}, Drivers{.cuda = true}, Drivers{.vulkan = true}, Drivers{true, true}})
    for (const u64 high : kHighBits) {
      const auto outcome = [&](u64 request) {
        return filtered([=] { return syscall(SYS_ioctl, 0, high | request, 0); }, drivers);
      };
      for (const u64 request : {TIOCSTI, TIOCLINUX, TIOCSCTTY, TIOCSETD, TIOCCONS, TIOCNOTTY, TCGETS, TCSETS,
                                TCSETSF, TIOCSPGRP, FIONREAD, FIOASYNC})
        EXPECT_EQ(outcome(request), EPERM) << std::hex << request;
      EXPECT_NE(outcome(FIONBIO), EPERM) << "Asio's sockets";
    }
}

TEST_F(ControlSeccomp, AsksOnlyDriversOfItsDevices) {
  constexpr u64 kNvidiaControl = 0xc020462a, kNvidiaControlOfAnotherSize = 0xc040462a,
                kNvidiaRegistry = 0xc028464d, kNvidiaAnyOther = 0xc01046d3, kNvidiaI2c = 0xc0484639,
                kUvmInitialize = 0x30000001, kUvmRegisterGpu = 37, kUvmWriteProcess = 63, kUvmTest = 200,
                kDrmVersion = 0xc0406400, kPerfReset = 0x2403, kLoop = 0x4c00, kTunSetIff = 0x400454ca,
                kPtmx = 0x80045430, kUsb = 0xc0105500, kBlock = 0x1261, kVhost = 0xaf00,
                kFramebuffer = 0x4600;
  const auto asked = [](u64 request, Drivers drivers) {
    return filtered([=] { return syscall(SYS_ioctl, 0, request, 0); }, drivers);
  };
  constexpr Drivers kCuda{.cuda = true}, kVulkan{.vulkan = true};
  for (const u64 request : {kNvidiaControl, kNvidiaControlOfAnotherSize, kUvmInitialize, kUvmRegisterGpu}) {
    EXPECT_EQ(asked(request, {}), EPERM) << std::hex << request;
    EXPECT_NE(asked(request, kCuda), EPERM) << std::hex << request;
    EXPECT_NE(asked(request, kVulkan), EPERM) << std::hex << request;
    EXPECT_NE(asked(0xffffffff00000000u | request, kCuda), EPERM) << "an int with its sign";
  }
  EXPECT_EQ(asked(kDrmVersion, kCuda), EPERM);
  EXPECT_NE(asked(kDrmVersion, kVulkan), EPERM);
  for (const u64 request : {kNvidiaRegistry, kNvidiaAnyOther, kNvidiaI2c, kUvmWriteProcess, kUvmTest,
                            kPerfReset, kLoop, kTunSetIff, kPtmx, kUsb, kBlock, kVhost, kFramebuffer})
    EXPECT_EQ(asked(request, {true, true}), EPERM) << std::hex << request;
}

// Of a run of each on a host with NVIDIA's driver 580, traffic, another policy and a device that came back
// included.
TEST_F(ControlSeccomp, LetsThroughWhatWasRecordedOfDrivers) {
  for (const u32 request : {0x17u, 0x18u, 0x21u, 0x22u, 0x42u, 0x49u, 0xc0104629u, 0xc030462bu})
    EXPECT_TRUE(is_admitted(request, {.cuda = true})) << std::hex << request;
  for (const u32 request :
       {0xc00446c9u, 0xc0104629u, 0xc01046ceu, 0xc01046cfu, 0xc020462au, 0xc020464fu, 0xc028465eu,
        0xc030462bu, 0xc0304658u, 0xc038464eu, 0xc0384654u, 0xc0404657u, 0xc0b8464au})
    EXPECT_TRUE(is_admitted(request, {.vulkan = true})) << std::hex << request;
}

TEST_F(ControlSeccomp, WritesNoFilesAndRunsNoNewCode) {
  const auto opened = [](const char* path, int flags) {
    return filtered([=] { return open(path, flags, 0600); });
  };
  EXPECT_EQ(opened("/tmp/xdpgpu-no", O_WRONLY | O_CREAT), EPERM);
  EXPECT_EQ(opened("/tmp", O_TMPFILE | O_RDWR), EPERM);
  EXPECT_EQ(opened("/dev/null", O_RDWR), EPERM);
  EXPECT_EQ(opened("/proc/self/mem", O_RDWR), EPERM);
  EXPECT_EQ(opened("/etc/shadow", O_RDONLY), EACCES) << "of another user";
  EXPECT_EQ(opened("/etc/passwd", O_RDONLY | O_CLOEXEC), 0);
  const auto mapped = [](int protection, Drivers drivers) {
    return filtered(
        [=] {
          return mmap(nullptr, 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? -1 : 0;
        },
        drivers);
  };
  EXPECT_EQ(mapped(PROT_READ | PROT_WRITE, {}), 0);
  EXPECT_EQ(mapped(PROT_READ | PROT_WRITE | PROT_EXEC, {}), EPERM);
  EXPECT_EQ(mapped(PROT_READ | PROT_EXEC, {.vulkan = true}), 0) << "its compiler runs in the process";
  EXPECT_EQ(filtered([] {
              void* memory = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
              return mprotect(memory, 4096, PROT_READ | PROT_EXEC);
            }),
            EPERM);
}

TEST_F(ControlSeccomp, LetsItsOwnWorkThrough) {
  EXPECT_EQ(filtered([]() -> long {
              // Threads that begin and end, memory of all sizes, time.
              std::atomic<int> ran = 0;
              for (int i = 0; i < 4; i++)
                std::thread([&] {
                  pthread_setname_np(pthread_self(), "worker");
                  std::string long_one(64 << 20, 'x');
                  long_one.resize(96 << 20);
                  ran += long_one[1000] == 'x';
                }).join();
              std::this_thread::sleep_for(std::chrono::milliseconds(1));
              // What interfaces are asked through, and a connect of a health check.
              char name[IF_NAMESIZE];
              if (if_indextoname(1, name) == nullptr) return -1;
              const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
              if (fd < 0) return -1;
              // And exceptions.
              try {
                throw std::runtime_error("none");
              } catch (const std::exception&) {
                ran++;
              }
              return ran == 5 ? 0 : -1;
            }),
            0);
  EXPECT_EQ(filtered([]() -> long { std::abort(); }), -SIGABRT);
}

TEST_F(ControlSeccomp, HoldsForThreadsThatWereThereBefore) {
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    std::atomic<bool> on = false;
    std::atomic<int> error = 0;
    std::thread earlier([&] {
      while (!on) std::this_thread::yield();
      error = socket(AF_NETLINK, SOCK_RAW, 0) < 0 ? errno : 0;
    });
    if (!restrict_system_calls({})) _exit(kNotFiltered);
    on = true;
    earlier.join();
    _exit(error);
  }
  EXPECT_EQ(outcome_of(child), EPERM);
}

TEST_F(ControlSeccomp, ARecordNamesWhatWasBeyondAndLetsItGoOn) {
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    const auto say = [&](const std::string& line) {
      if (write(fds[1], (line + "\n").data(), line.size() + 1) < 0) _exit(kNotFiltered);
    };
    int wrong = 0;
    {
      auto recorder = SystemCallRecorder::start({}, say);
      if (!recorder) _exit(kNotFiltered);
      for (int i = 0; i < 3; i++) {
        // Of what the filter lets through, and of what it does not.
        wrong += syscall(SYS_ioctl, fds[1], 0xc020462a, 0) == 0;
        wrong += open("/dev/null", O_RDONLY) < 0;
        wrong += syscall(SYS_ioctl, fds[1], FIONBIO, 0) == 0;
        wrong += syscall(SYS_getppid) <= 0;
        std::thread([&] { wrong += socket(AF_NETLINK, SOCK_RAW, 0) < 0; }).join();
      }
      wrong += getpid() <= 0;
    }
    _exit(wrong);
  }
  close(fds[1]);
  std::string said;
  char buffer[512];
  for (ssize_t n; (n = read(fds[0], buffer, sizeof(buffer))) > 0;)
    said.append(buffer, static_cast<std::size_t>(n));
  close(fds[0]);
  EXPECT_EQ(outcome_of(child), 0) << said;
  EXPECT_EQ(
      said,
      "XDPGPU_SECCOMP=record: asked for ioctl 0xc020462a (type 'F', nr 0x2a, 32 bytes, both ways) of "
      "pipe\n"
      "XDPGPU_SECCOMP=record: used openat /dev/null to read\n"
      "XDPGPU_SECCOMP=record: used ioctl 0x00005421 (type 'T', nr 0x21, 0 bytes, no data) of pipe\n"
      "XDPGPU_SECCOMP=record: asked for getppid\n"
      "XDPGPU_SECCOMP=record: asked for socket (argument 0: 0x10)\n"
      "XDPGPU_SECCOMP=record: used of what the filter lets through by request or path: ioctl 0x00005421 "
      "(type 'T', nr 0x21, 0 bytes, no data) of pipe, openat /dev/null to read\n"
      "XDPGPU_SECCOMP=record: asked for beyond the filter: getppid, ioctl 0xc020462a (type 'F', nr 0x2a, "
      "32 bytes, both ways) of pipe, socket (argument 0: 0x10)\n");
}

TEST_F(ControlSeccomp, ACompilerHasNoFilesNoNetworkAndNoChild) {
  const auto outcome = [](auto act) { return filtered_as_compiler([act] { return long{act()}; }); };
  EXPECT_EQ(outcome([] { return open("/etc/passwd", O_RDONLY); }), EPERM);
  EXPECT_EQ(outcome([] { return open("/tmp", O_TMPFILE | O_RDWR, 0600); }), EPERM);
  EXPECT_EQ(outcome([] { return fork(); }), EPERM);
  EXPECT_EQ(outcome([] { return kill(getppid(), 0); }), EPERM);
  EXPECT_EQ(outcome([] { return fcntl(0, F_DUPFD, 10); }), EPERM);
  for (const int domain : {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_XDP})
    EXPECT_EQ(outcome([domain] { return socket(domain, SOCK_DGRAM, 0); }), kKilled) << domain;
  EXPECT_EQ(outcome([] { return connect(0, nullptr, 0); }), kKilled);
  EXPECT_EQ(outcome([] { return ioctl(0, FIONREAD, nullptr); }), kKilled);
  EXPECT_EQ(outcome([] {
              bpf_attr attribute{};
              return syscall(SYS_bpf, BPF_MAP_CREATE, &attribute, sizeof(attribute));
            }),
            kKilled);
  for (const long call :
       {SYS_execve, SYS_execveat, SYS_ptrace, SYS_unshare, SYS_setns, SYS_mount, SYS_setuid})
    EXPECT_EQ(outcome([call] { return syscall(call, 0, 0, 0, 0, 0); }), kKilled) << call;
  EXPECT_EQ(outcome([] {
              void* const code =
                  mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
              return code == MAP_FAILED ? -1 : 0;
            }),
            EPERM);
}

TEST_F(ControlSeccomp, AnExporterReachesNothingButWhatItWasGiven) {
  const auto outcome = [](auto act) { return filtered_by(restrict_exporter, [act] { return long{act()}; }); };
  EXPECT_EQ(outcome([] { return fork(); }), EPERM);
  EXPECT_EQ(outcome([] { return kill(getppid(), 0); }), EPERM);
  EXPECT_EQ(outcome([] { return fcntl(0, F_DUPFD, 10); }), EPERM);
  EXPECT_EQ(outcome([] { return ioctl(0, FIONREAD, nullptr); }), EPERM);
  EXPECT_EQ(outcome([] { return setsockopt(0, SOL_SOCKET, SO_ATTACH_FILTER, nullptr, 0); }), EPERM);
  EXPECT_EQ(outcome([] { return static_cast<int>(syscall(SYS_memfd_create, "x", 0)); }), EPERM);
  for (const int domain : {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_XDP})
    EXPECT_EQ(outcome([domain] { return socket(domain, SOCK_DGRAM, 0); }), kKilled) << domain;
  EXPECT_EQ(outcome([] { return connect(0, nullptr, 0); }), kKilled);
  EXPECT_EQ(outcome([] { return open("/etc/passwd", O_RDONLY); }), kKilled);
  for (const long call :
       {SYS_execve, SYS_execveat, SYS_ptrace, SYS_unshare, SYS_setns, SYS_mount, SYS_setuid, SYS_bpf})
    EXPECT_EQ(outcome([call] { return syscall(call, 0, 0, 0, 0, 0); }), kKilled) << call;
}
TEST_F(ControlSeccomp, ACompilerMakesMemoryAndHandsItOver) {
  EXPECT_EQ(filtered_as_compiler([]() -> long {
              int pair[2] = {3, 4};
              const int memory = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
              if (memory < 0 || write(memory, "artifact", 8) != 8) return -1;
              if (fcntl(memory, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
                return -1;
              if (fcntl(memory, F_GET_SEALS) == 0) return -1;
              void* const at = mmap(nullptr, 8, PROT_READ, MAP_SHARED, memory, 0);
              if (at == MAP_FAILED || munmap(at, 8) != 0) return -1;
              std::vector<char> large(std::size_t{64} << 20, 'x');
              close(pair[0]);
              return large.back() == 'x' ? 0 : -1;
            }),
            0);
}

TEST(ControlSeccompMode, IsNamedByTheEnvironment) {
  EXPECT_EQ(seccomp_mode(nullptr), kSanitized ? SeccompMode::off : SeccompMode::filter);
  EXPECT_EQ(seccomp_mode(""), seccomp_mode(nullptr));
  EXPECT_EQ(seccomp_mode("record"), SeccompMode::record);
  EXPECT_EQ(seccomp_mode("off"), SeccompMode::off);
  const auto wrong = seccomp_mode("on");
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error(), ::testing::HasSubstr("XDPGPU_SECCOMP"));
}

}  // namespace
}  // namespace xdpgpu::control
