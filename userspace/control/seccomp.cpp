// SPDX-License-Identifier: MIT
#include "userspace/control/seccomp.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <linux/bpf.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "maps/types.h"
#include "userspace/kernel/kernel.hpp"

namespace xdpgpu::control {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
constexpr bool kSanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
constexpr bool kSanitized = false;
#endif

// What the process itself, glibc, Asio and the CPU device ask for.
constexpr std::array kOwn{
    // rings, sockets and files that are open
    SCMP_SYS(accept), SCMP_SYS(accept4), SCMP_SYS(close), SCMP_SYS(connect), SCMP_SYS(dup), SCMP_SYS(dup2),
    SCMP_SYS(dup3), SCMP_SYS(epoll_create1), SCMP_SYS(epoll_ctl), SCMP_SYS(epoll_pwait), SCMP_SYS(epoll_wait),
    SCMP_SYS(eventfd2), SCMP_SYS(fcntl), SCMP_SYS(fstat), SCMP_SYS(getdents64), SCMP_SYS(getpeername),
    SCMP_SYS(getsockname), SCMP_SYS(getsockopt), SCMP_SYS(lseek), SCMP_SYS(newfstatat), SCMP_SYS(poll),
    SCMP_SYS(ppoll), SCMP_SYS(pread64), SCMP_SYS(read), SCMP_SYS(readlink), SCMP_SYS(readlinkat),
    SCMP_SYS(readv), SCMP_SYS(recvfrom), SCMP_SYS(recvmsg), SCMP_SYS(sendmsg), SCMP_SYS(sendto),
    SCMP_SYS(setsockopt), SCMP_SYS(shutdown), SCMP_SYS(statx), SCMP_SYS(timerfd_create),
    SCMP_SYS(timerfd_settime), SCMP_SYS(write), SCMP_SYS(writev),
    // memory
    SCMP_SYS(brk), SCMP_SYS(madvise), SCMP_SYS(mremap), SCMP_SYS(munmap),
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
                             SCMP_SYS(ioctl),
                             SCMP_SYS(lstat),
                             SCMP_SYS(mbind),
                             SCMP_SYS(memfd_create),
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

// A call that may be made only so.
struct Limited {
  int call;
  std::vector<scmp_arg_cmp> arguments;
};

scmp_arg_cmp is(unsigned argument, u64 value) { return {argument, SCMP_CMP_EQ, value, 0}; }
scmp_arg_cmp masked(unsigned argument, u64 mask, u64 value) {
  return {argument, SCMP_CMP_MASKED_EQ, mask, value};
}

std::vector<Limited> limited(bool drivers, bool recorded) {
  constexpr u64 kNamespaces = CLONE_NEWCGROUP | CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWPID |
                              CLONE_NEWUSER | CLONE_NEWUTS;
  constexpr u64 kThreads = CLONE_THREAD | CLONE_SIGHAND | CLONE_VM;
  std::vector<Limited> calls{
      {SCMP_SYS(clone), {masked(0, kThreads | kNamespaces | CLONE_PTRACE, kThreads)}},
      {SCMP_SYS(tgkill), {is(0, static_cast<u64>(getpid()))}},  // abort
      {SCMP_SYS(prlimit64), {is(2, 0)}},                        // asking, not setting
  };
  for (const u64 option : {PR_SET_NAME, PR_GET_NAME, PR_SET_VMA})
    calls.push_back({SCMP_SYS(prctl), {is(0, option)}});
  // Health checks, the system log, and what interfaces are asked through (and told nothing: that takes a
  // capability).
  for (const u64 domain : {AF_UNIX, AF_INET, AF_INET6})
    for (const u64 type : {SOCK_STREAM, SOCK_DGRAM})
      calls.push_back({SCMP_SYS(socket), {is(0, domain), masked(1, 0xf, type)}});
  // The maps that it has descriptors of.
  for (const u64 command :
       {BPF_MAP_LOOKUP_ELEM, BPF_MAP_UPDATE_ELEM, BPF_MAP_DELETE_ELEM, BPF_MAP_GET_NEXT_KEY,
        BPF_MAP_LOOKUP_BATCH, BPF_MAP_UPDATE_BATCH, BPF_OBJ_GET_INFO_BY_FD})
    calls.push_back({SCMP_SYS(bpf), {is(0, command)}});
  if (drivers) return calls;
  for (const int call : {SCMP_SYS(mmap), SCMP_SYS(mprotect)})
    calls.push_back({call, {masked(2, PROT_EXEC, 0)}});
  constexpr u64 kWriting = O_ACCMODE | O_CREAT | O_TRUNC | O_TMPFILE;
  calls.push_back({SCMP_SYS(openat), {masked(2, kWriting & ~u64{O_DIRECTORY}, O_RDONLY)}});
  for (const u64 request : {FIONBIO, SIOCETHTOOL, SIOCGIFMTU, SIOCGIFNAME, SIOCGIFINDEX, TCGETS})
    calls.push_back({SCMP_SYS(ioctl), {is(1, request)}});
  if (recorded)
    for (const u64 request : {SECCOMP_IOCTL_NOTIF_RECV, SECCOMP_IOCTL_NOTIF_SEND})
      calls.push_back({SCMP_SYS(ioctl), {is(1, request)}});
  return calls;
}

struct Release {
  void operator()(void* context) const noexcept { seccomp_release(context); }
};
using Context = std::unique_ptr<void, Release>;

Error failed(const char* what, int error) {
  return Error(
      fmt::format("the data plane's system calls cannot be filtered: {}: {}; run a kernel with "
                  "CONFIG_SECCOMP_FILTER, or set XDPGPU_SECCOMP=off to go without",
                  what, std::strerror(error < 0 ? -error : error)));
}

// `others`: what becomes of a call on no list.
Result<Context> make_filter(Drivers drivers, u32 others, bool recorded) {
  Context filter(seccomp_init(others));
  if (!filter) return failed("seccomp_init", ENOMEM);
  int error = 0;
  const auto add = [&](u32 action, int call, const std::vector<scmp_arg_cmp>& arguments = {}) {
    if (error == 0)
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
  for (const auto& [call, arguments] : limited(any_driver, recorded)) add(SCMP_ACT_ALLOW, call, arguments);
  if (any_driver)
    for (const int call : kDriver) add(SCMP_ACT_ALLOW, call);
  if (drivers.cuda)
    for (const int call : kCuda) add(SCMP_ACT_ALLOW, call);
  if (drivers.vulkan)
    for (const int call : kVulkan) add(SCMP_ACT_ALLOW, call);
  add(SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3));
  if (!recorded)
    for (const int call : kNever) add(SCMP_ACT_KILL_PROCESS, call);
  if (error != 0) return failed("making the filter", error);
  return filter;
}

}  // namespace

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
  if (const int error = seccomp_load(filter->get()); error != 0) return failed("seccomp", error);
  return {};
}

// ---- recording --------------------------------------------------------------------------------------

struct SystemCallRecorder::Impl {
  Say say;
  Context filter;  // its descriptor is that of the notifications
  int notifications = -1;
  kernel::Fd end;
  seccomp_notif* request = nullptr;
  seccomp_notif_resp* response = nullptr;
  std::map<int, unsigned> told_by;  // the argument that a limited call is looked at by
  std::set<std::string> asked;
  std::thread thread;

  ~Impl() { seccomp_notify_free(request, response); }
  void run();
  std::string describe(const seccomp_data& call) const;
};

std::string SystemCallRecorder::Impl::describe(const seccomp_data& call) const {
  char* resolved = seccomp_syscall_resolve_num_arch(call.arch, call.nr);
  std::string name = resolved != nullptr ? resolved : fmt::format("number {}", call.nr);
  std::free(resolved);
  const auto argument = told_by.find(call.nr);
  if (argument == told_by.end()) return name;
  return fmt::format("{} (argument {}: {:#x})", name, argument->second, call.args[argument->second]);
}

// Answers first, and speaks then: who waits may hold the lock of what is spoken by.
void SystemCallRecorder::Impl::run() {
  while (true) {
    pollfd events[2] = {{notifications, POLLIN, 0}, {end.get(), POLLIN, 0}};
    if (poll(events, 2, -1) < 0 && errno != EINTR) return;
    if (events[1].revents != 0) return;
    if (events[0].revents == 0) continue;
    std::memset(request, 0, sizeof(*request));  // as the kernel wants it
    // An error is that of a thread which was interrupted, and waits no more.
    if (seccomp_notify_receive(notifications, request) != 0) continue;
    const seccomp_data call = request->data;
    std::memset(response, 0, sizeof(*response));
    response->id = request->id;
    response->flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    (void)seccomp_notify_respond(notifications, response);
    if (const auto [news, is_new] = asked.insert(describe(call)); is_new)
      say(fmt::format("XDPGPU_SECCOMP=record: asked for {}", *news));
  }
}

Result<std::unique_ptr<SystemCallRecorder>> SystemCallRecorder::start(Drivers drivers, Say say) {
  auto filter = make_filter(drivers, SCMP_ACT_NOTIFY, true);
  if (!filter) return Error(filter.error());
  auto impl = std::make_unique<Impl>();
  impl->say = std::move(say);
  impl->filter = std::move(*filter);
  for (const auto& [call, arguments] : limited(drivers.cuda || drivers.vulkan, true))
    impl->told_by[call] = arguments.front().arg;
  impl->end = kernel::Fd(eventfd(0, EFD_CLOEXEC));
  if (!impl->end || seccomp_notify_alloc(&impl->request, &impl->response) != 0)
    return failed("making the recorder", errno);
  if (const int error = seccomp_load(impl->filter.get()); error != 0) return failed("seccomp", error);
  impl->notifications = seccomp_notify_fd(impl->filter.get());
  if (impl->notifications < 0) return failed("seccomp_notify_fd", EINVAL);
  impl->thread = std::thread([recorder = impl.get()] { recorder->run(); });
  return std::unique_ptr<SystemCallRecorder>(new SystemCallRecorder(std::move(impl)));
}

SystemCallRecorder::SystemCallRecorder(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

SystemCallRecorder::~SystemCallRecorder() {
  const u64 one = 1;
  if (write(impl_->end.get(), &one, sizeof(one)) != sizeof(one)) impl_->thread.detach();
  if (impl_->thread.joinable()) impl_->thread.join();
  impl_->say(fmt::format("XDPGPU_SECCOMP=record: asked for beyond the filter: {}",
                         impl_->asked.empty() ? "none" : fmt::format("{}", fmt::join(impl_->asked, ", "))));
}

}  // namespace xdpgpu::control
