// SPDX-License-Identifier: MIT
#include "userspace/control/seccomp.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/bpf.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "maps/types.h"
#include "userspace/control/ioctl_requests.hpp"
#include "userspace/control/seccomp_filter.hpp"

namespace xdpgpu::control {
namespace {

#if defined(XDPGPU_SANITIZED)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// What the process itself, glibc, Asio and the CPU device ask for.
constexpr std::array kOwn{
    // rings, sockets and files that are open
    SCMP_SYS(accept), SCMP_SYS(accept4), SCMP_SYS(close), SCMP_SYS(connect), SCMP_SYS(dup), SCMP_SYS(dup2),
    SCMP_SYS(dup3), SCMP_SYS(epoll_create1), SCMP_SYS(epoll_ctl), SCMP_SYS(epoll_pwait), SCMP_SYS(epoll_wait),
    SCMP_SYS(eventfd2), SCMP_SYS(fstat), SCMP_SYS(getdents64), SCMP_SYS(getpeername), SCMP_SYS(getsockname),
    SCMP_SYS(getsockopt), SCMP_SYS(lseek), SCMP_SYS(newfstatat), SCMP_SYS(poll), SCMP_SYS(ppoll),
    SCMP_SYS(pread64), SCMP_SYS(read), SCMP_SYS(readlink), SCMP_SYS(readlinkat), SCMP_SYS(readv),
    SCMP_SYS(recvfrom), SCMP_SYS(recvmsg), SCMP_SYS(sendmsg), SCMP_SYS(sendto), SCMP_SYS(statx),
    SCMP_SYS(timerfd_create), SCMP_SYS(timerfd_settime), SCMP_SYS(write), SCMP_SYS(writev),
    // memory
    SCMP_SYS(brk), SCMP_SYS(madvise), SCMP_SYS(memfd_create), SCMP_SYS(mremap), SCMP_SYS(munmap),
    // threads and time
    SCMP_SYS(clock_getres), SCMP_SYS(clock_gettime), SCMP_SYS(clock_nanosleep), SCMP_SYS(exit),
    SCMP_SYS(exit_group), SCMP_SYS(futex), SCMP_SYS(getcpu), SCMP_SYS(getegid), SCMP_SYS(geteuid),
    SCMP_SYS(getgid), SCMP_SYS(getpid), SCMP_SYS(getrandom), SCMP_SYS(gettid), SCMP_SYS(gettimeofday),
    SCMP_SYS(getuid), SCMP_SYS(membarrier), SCMP_SYS(nanosleep), SCMP_SYS(restart_syscall), SCMP_SYS(rseq),
    SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn), SCMP_SYS(sched_getaffinity),
    SCMP_SYS(sched_setaffinity), SCMP_SYS(sched_yield), SCMP_SYS(set_robust_list), SCMP_SYS(sigaltstack),
    SCMP_SYS(sysinfo), SCMP_SYS(time), SCMP_SYS(uname)};

// What drivers of GPUs ask for beside it: device nodes and their ioctls, memory that is locked, shared or
// executable (compilers run in the process), caches in files, threads' priorities.
constexpr std::array kDriver{SCMP_SYS(access),
                             SCMP_SYS(faccessat),
                             SCMP_SYS(faccessat2),
                             SCMP_SYS(fadvise64),
                             SCMP_SYS(fallocate),
                             SCMP_SYS(fdatasync),
                             SCMP_SYS(flock),
                             SCMP_SYS(fstatfs),
                             SCMP_SYS(fsync),
                             SCMP_SYS(ftruncate),
                             SCMP_SYS(get_mempolicy),
                             SCMP_SYS(getcwd),
                             SCMP_SYS(getppid),
                             SCMP_SYS(getpriority),
                             SCMP_SYS(getrlimit),
                             SCMP_SYS(getrusage),
                             SCMP_SYS(lstat),
                             SCMP_SYS(mbind),
                             SCMP_SYS(mincore),
                             SCMP_SYS(mkdir),
                             SCMP_SYS(mkdirat),
                             SCMP_SYS(mlock),
                             SCMP_SYS(mlock2),
                             SCMP_SYS(mmap),
                             SCMP_SYS(mprotect),
                             SCMP_SYS(msync),
                             SCMP_SYS(munlock),
                             SCMP_SYS(open),
                             SCMP_SYS(openat),
                             SCMP_SYS(pipe),
                             SCMP_SYS(pipe2),
                             SCMP_SYS(pselect6),
                             SCMP_SYS(pwrite64),
                             SCMP_SYS(rename),
                             SCMP_SYS(renameat),
                             SCMP_SYS(renameat2),
                             SCMP_SYS(sched_get_priority_max),
                             SCMP_SYS(sched_get_priority_min),
                             SCMP_SYS(sched_getparam),
                             SCMP_SYS(sched_getscheduler),
                             SCMP_SYS(sched_setscheduler),
                             SCMP_SYS(select),
                             SCMP_SYS(set_mempolicy),
                             SCMP_SYS(setpriority),
                             SCMP_SYS(stat),
                             SCMP_SYS(statfs),
                             SCMP_SYS(times),
                             SCMP_SYS(umask),
                             SCMP_SYS(unlink),
                             SCMP_SYS(unlinkat)};
// Of one driver alone.
constexpr std::array kCuda{SCMP_SYS(eventfd),        SCMP_SYS(mlockall),     SCMP_SYS(move_pages),
                           SCMP_SYS(sched_setparam), SCMP_SYS(timer_create), SCMP_SYS(timer_delete),
                           SCMP_SYS(timer_settime)};
constexpr std::array kVulkan{SCMP_SYS(kcmp)};

// What somebody asks for who has taken over the process.
constexpr std::array kNever{SCMP_SYS(add_key),
                            SCMP_SYS(capset),
                            SCMP_SYS(chroot),
                            SCMP_SYS(clock_settime),
                            SCMP_SYS(delete_module),
                            SCMP_SYS(execve),
                            SCMP_SYS(execveat),
                            SCMP_SYS(finit_module),
                            SCMP_SYS(fsconfig),
                            SCMP_SYS(fsmount),
                            SCMP_SYS(fsopen),
                            SCMP_SYS(init_module),
                            SCMP_SYS(ioperm),
                            SCMP_SYS(iopl),
                            SCMP_SYS(kexec_file_load),
                            SCMP_SYS(kexec_load),
                            SCMP_SYS(keyctl),
                            SCMP_SYS(mount),
                            SCMP_SYS(mount_setattr),
                            SCMP_SYS(move_mount),
                            SCMP_SYS(open_by_handle_at),
                            SCMP_SYS(open_tree),
                            SCMP_SYS(personality),
                            SCMP_SYS(pidfd_getfd),
                            SCMP_SYS(pivot_root),
                            SCMP_SYS(process_vm_readv),
                            SCMP_SYS(process_vm_writev),
                            SCMP_SYS(ptrace),
                            SCMP_SYS(reboot),
                            SCMP_SYS(request_key),
                            SCMP_SYS(setfsgid),
                            SCMP_SYS(setfsuid),
                            SCMP_SYS(setgid),
                            SCMP_SYS(setgroups),
                            SCMP_SYS(setns),
                            SCMP_SYS(setregid),
                            SCMP_SYS(setresgid),
                            SCMP_SYS(setresuid),
                            SCMP_SYS(setreuid),
                            SCMP_SYS(settimeofday),
                            SCMP_SYS(setuid),
                            SCMP_SYS(swapoff),
                            SCMP_SYS(swapon),
                            SCMP_SYS(umount2),
                            SCMP_SYS(unshare),
                            SCMP_SYS(userfaultfd)};

// What every process does that has its descriptors: it is told something, computes, and says something.
constexpr std::array kNarrow{SCMP_SYS(recvmsg), SCMP_SYS(sendmsg), SCMP_SYS(close), SCMP_SYS(read),
                             SCMP_SYS(write), SCMP_SYS(writev), SCMP_SYS(lseek),
                             // memory
                             SCMP_SYS(brk), SCMP_SYS(madvise), SCMP_SYS(mremap), SCMP_SYS(munmap),
                             // itself and time
                             SCMP_SYS(clock_gettime), SCMP_SYS(exit), SCMP_SYS(exit_group), SCMP_SYS(futex),
                             SCMP_SYS(getpid), SCMP_SYS(getrandom), SCMP_SYS(gettid), SCMP_SYS(gettimeofday),
                             SCMP_SYS(membarrier), SCMP_SYS(restart_syscall), SCMP_SYS(rseq),
                             SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn),
                             SCMP_SYS(sched_getaffinity), SCMP_SYS(sched_yield), SCMP_SYS(set_robust_list),
                             SCMP_SYS(sysinfo)};

// What names a file, so that a record looks at it.
constexpr std::array kNaming{SCMP_SYS(mkdir),     SCMP_SYS(mkdirat), SCMP_SYS(open),
                             SCMP_SYS(openat),    SCMP_SYS(rename),  SCMP_SYS(renameat),
                             SCMP_SYS(renameat2), SCMP_SYS(unlink),  SCMP_SYS(unlinkat)};

scmp_arg_cmp is(unsigned argument, u64 value) { return {argument, SCMP_CMP_EQ, value, 0}; }
scmp_arg_cmp masked(unsigned argument, u64 mask, u64 value) {
  return {argument, SCMP_CMP_MASKED_EQ, mask, value};
}

bool is_recorded(int call) {
  return call == SCMP_SYS(ioctl) || std::find(kNaming.begin(), kNaming.end(), call) != kNaming.end();
}

}  // namespace

std::vector<LimitedCall> limited_calls(bool drivers) {
  constexpr u64 kNamespaces = CLONE_NEWCGROUP | CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWPID |
                              CLONE_NEWUSER | CLONE_NEWUTS;
  constexpr u64 kThreads = CLONE_THREAD | CLONE_SIGHAND | CLONE_VM;
  constexpr u64 kInt = 0xffffffff;  // the kernel drops the rest
  std::vector<LimitedCall> calls{
      {SCMP_SYS(clone), {masked(0, kThreads | kNamespaces | CLONE_PTRACE, kThreads)}},
      {SCMP_SYS(tgkill), {is(0, static_cast<u64>(getpid()))}},  // abort
      {SCMP_SYS(prlimit64), {is(2, 0)}},                        // asking, not setting
  };
  for (const u64 option : {PR_SET_NAME, PR_GET_NAME, PR_SET_VMA})
    calls.push_back({SCMP_SYS(prctl), {is(0, option)}});
  // Not whom a descriptor signals, and with what: that ends other processes of the same user.
  for (const u64 command :
       {F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC, F_ADD_SEALS, F_GET_SEALS})
    calls.push_back({SCMP_SYS(fcntl), {masked(1, kInt, command)}});
  // Health checks, the system log, and what interfaces are asked through (and told nothing: that takes a
  // capability). Of each kind the usual protocol: for others the kernel loads modules, whoever asks.
  for (const u64 domain : {AF_UNIX, AF_INET, AF_INET6})
    for (const auto& [type, usual] :
         std::to_array<std::pair<u64, u64>>({{SOCK_STREAM, IPPROTO_TCP}, {SOCK_DGRAM, IPPROTO_UDP}}))
      for (const u64 protocol : {u64{0}, usual})
        calls.push_back({SCMP_SYS(socket), {is(0, domain), masked(1, 0xf, type), masked(2, kInt, protocol)}});
  // Maps are looked at, and those looked up in that it has descriptors of. By these it can change none but
  // the copies of its own programs' maps (map_twins.hpp): of others they are read-only. What changes those is
  // the broker's (userspace/kernel/access.hpp), or a store into memory.
  for (const u64 command : {BPF_MAP_LOOKUP_ELEM, BPF_MAP_LOOKUP_BATCH, BPF_OBJ_GET_INFO_BY_FD,
                            BPF_MAP_GET_NEXT_KEY, BPF_MAP_UPDATE_ELEM, BPF_MAP_DELETE_ELEM})
    calls.push_back({SCMP_SYS(bpf), {is(0, command)}});
  if (drivers) {
    // Nobody else sets options of sockets by now, some of which have the kernel run a program. All but 13: a
    // socket that lingers (SO_LINGER) would hold the broker up, as that closes what it was sent with a
    // message.
    for (const auto& [mask, value] :
         std::to_array<std::pair<u64, u64>>({{7, 0}, {3, 8}, {0, 12}, {1, 14}, {15, 16}, {31, 32}, {63, 64}}))
      calls.push_back({SCMP_SYS(setsockopt), {masked(2, ~mask, value)}});
    for (const u64 command :
         {F_GETLK, F_SETLK, F_SETLKW, F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW, F_SETPIPE_SZ, F_GETPIPE_SZ})
      calls.push_back({SCMP_SYS(fcntl), {masked(1, kInt, command)}});
    return calls;
  }
  for (const int call : {SCMP_SYS(mmap), SCMP_SYS(mprotect)})
    calls.push_back({call, {masked(2, PROT_EXEC, 0)}});
  constexpr u64 kWriting = O_ACCMODE | O_CREAT | O_TRUNC | O_TMPFILE;
  calls.push_back({SCMP_SYS(openat), {masked(2, kWriting & ~u64{O_DIRECTORY}, O_RDONLY)}});
  return calls;
}

namespace {

// Of a process that has its descriptors, and no business with anything else.
struct Narrow {
  std::span<const int> calls;        // beside those that every process makes
  std::vector<LimitedCall> limited;  // likewise
  std::span<const int> never;        // that the data plane has business with
};
LimitedCall fcntl_of(u64 command) {
  constexpr u64 kInt = 0xffffffff;  // the kernel drops the rest
  return {SCMP_SYS(fcntl), {masked(1, kInt, command)}};
}

Result<void> restrict_to(const Narrow& narrow) {
  Filter filter(seccomp_init(SCMP_ACT_ERRNO(EPERM)));
  if (!filter) return cannot_filter("seccomp_init", ENOMEM);
  int error = 0;
  const auto add = [&](u32 action, int call, const std::vector<scmp_arg_cmp>& arguments = {}) {
    if (error == 0)
      error = seccomp_rule_add_array(filter.get(), action, call, static_cast<unsigned>(arguments.size()),
                                     arguments.data());
  };
  for (const auto& [attribute, value] :
       {std::pair{SCMP_FLTATR_CTL_TSYNC, 1u}, std::pair{SCMP_FLTATR_CTL_SSB, 1u},
        std::pair{SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS}})
    if (error == 0) error = seccomp_attr_set(filter.get(), attribute, value);
  for (const int call : kNarrow) add(SCMP_ACT_ALLOW, call);
  for (const int call : narrow.calls) add(SCMP_ACT_ALLOW, call);
  // Of huge pages the data plane has frames.
  add(SCMP_ACT_ALLOW, SCMP_SYS(mmap), {masked(2, PROT_EXEC, 0), masked(3, MAP_HUGETLB, 0)});
  add(SCMP_ACT_ALLOW, SCMP_SYS(mprotect), {masked(2, PROT_EXEC, 0)});
  for (const u64 command : {F_GETFD, F_SETFD, F_GETFL})
    add(SCMP_ACT_ALLOW, SCMP_SYS(fcntl), fcntl_of(command).arguments);
  for (const auto& [call, arguments] : narrow.limited) add(SCMP_ACT_ALLOW, call, arguments);
  add(SCMP_ACT_ALLOW, SCMP_SYS(tgkill), {is(0, static_cast<u64>(getpid()))});  // abort
  add(SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3));
  for (const int call : kNever) add(SCMP_ACT_KILL_PROCESS, call);
  for (const int call : narrow.never) add(SCMP_ACT_KILL_PROCESS, call);
  if (error != 0) return cannot_filter("making the filter", error);
  if (const int loaded = seccomp_load(filter.get()); loaded != 0) return cannot_filter("seccomp", loaded);
  return {};
}

}  // namespace

Result<void> restrict_compiler() {
  // libbpf asks which kernel this is.
  static constexpr std::array kCalls{SCMP_SYS(uname)};
  static constexpr std::array kNotIts{SCMP_SYS(bpf), SCMP_SYS(connect), SCMP_SYS(ioctl), SCMP_SYS(socket)};
  return restrict_to({kCalls,
                      {{SCMP_SYS(memfd_create), {is(1, MFD_CLOEXEC | MFD_ALLOW_SEALING)}},
                       fcntl_of(F_ADD_SEALS),
                       fcntl_of(F_GET_SEALS)},
                      kNotIts});
}

Result<void> restrict_exporter() {
  static constexpr std::array kCalls{SCMP_SYS(accept),         SCMP_SYS(accept4),    SCMP_SYS(epoll_ctl),
                                     SCMP_SYS(epoll_pwait),    SCMP_SYS(epoll_wait), SCMP_SYS(getpeername),
                                     SCMP_SYS(getsockname),    SCMP_SYS(poll),       SCMP_SYS(readv),
                                     SCMP_SYS(recvfrom),       SCMP_SYS(sendto),     SCMP_SYS(shutdown),
                                     SCMP_SYS(timerfd_settime)};
  static constexpr std::array kNotIts{SCMP_SYS(bpf), SCMP_SYS(connect), SCMP_SYS(openat), SCMP_SYS(socket)};
  return restrict_to({kCalls, {{SCMP_SYS(ioctl), {is(1, FIONBIO)}}, fcntl_of(F_SETFL)}, kNotIts});
}

Error cannot_filter(const char* what, int error) {
  return Error(
      fmt::format("system calls cannot be filtered: {}: {}; run a kernel with "
                  "CONFIG_SECCOMP_FILTER, or set XDPGPU_SECCOMP=off to go without",
                  what, std::strerror(error < 0 ? -error : error)));
}

Result<Filter> make_filter(Drivers drivers, u32 others, bool recorded) {
  Filter filter(seccomp_init(others));
  if (!filter) return cannot_filter("seccomp_init", ENOMEM);
  int error = 0;
  const auto add = [&](u32 action, int call, const std::vector<scmp_arg_cmp>& arguments = {}) {
    if (error == 0 && !(recorded && is_recorded(call)))
      error = seccomp_rule_add_array(filter.get(), action, call, static_cast<unsigned>(arguments.size()),
                                     arguments.data());
  };
  for (const auto& [attribute, value] :
       {std::pair{SCMP_FLTATR_CTL_TSYNC, 1u},
        // The cure for another processor's leaks is for processes that run others' code, and slow.
        std::pair{SCMP_FLTATR_CTL_SSB, 1u}, std::pair{SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS}})
    if (error == 0) error = seccomp_attr_set(filter.get(), attribute, value);
  const bool any_driver = drivers.cuda || drivers.vulkan;
  for (const int call : kOwn) add(SCMP_ACT_ALLOW, call);
  for (const auto& [call, arguments] : limited_calls(any_driver)) add(SCMP_ACT_ALLOW, call, arguments);
  if (any_driver)
    for (const int call : kDriver) add(SCMP_ACT_ALLOW, call);
  for (const auto& [mask, request] : admitted_requests(drivers))
    add(SCMP_ACT_ALLOW, SCMP_SYS(ioctl), {masked(1, mask, request)});
  if (drivers.cuda)
    for (const int call : kCuda) add(SCMP_ACT_ALLOW, call);
  if (drivers.vulkan)
    for (const int call : kVulkan) add(SCMP_ACT_ALLOW, call);
  add(SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3));
  if (!recorded) {
    for (const int call : kNever) add(SCMP_ACT_KILL_PROCESS, call);
  } else {
    for (const u64 request : {SECCOMP_IOCTL_NOTIF_RECV, SECCOMP_IOCTL_NOTIF_SEND}) {
      const scmp_arg_cmp asked = is(1, request);
      if (error == 0)
        error = seccomp_rule_add_array(filter.get(), SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1, &asked);
    }
    add(SCMP_ACT_ALLOW, SCMP_SYS(process_vm_readv));
  }
  if (error != 0) return cannot_filter("making the filter", error);
  return filter;
}

Result<SeccompMode> seccomp_mode(const char* said) {
  const std::string_view value = said != nullptr ? said : "";
  if (value == "record") return SeccompMode::record;
  if (value == "off") return SeccompMode::off;
  if (value.empty()) return kSanitized ? SeccompMode::off : SeccompMode::filter;
  return Error(fmt::format(
      "XDPGPU_SECCOMP is \"{}\": it may be \"record\" or \"off\", or not be set, which filters", value));
}

Result<void> restrict_system_calls(Drivers drivers) {
  auto filter = make_filter(drivers, SCMP_ACT_ERRNO(EPERM), false);
  if (!filter) return Error(filter.error());
  if (const int error = seccomp_load(filter->get()); error != 0) return cannot_filter("seccomp", error);
  return {};
}

}  // namespace xdpgpu::control
