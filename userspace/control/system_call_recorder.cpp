// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <seccomp.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <thread>
#include <utility>

#include "userspace/control/ioctl_requests.hpp"
#include "userspace/control/seccomp.hpp"
#include "userspace/control/seccomp_filter.hpp"
#include "userspace/kernel/kernel.hpp"

namespace xdpgpu::control {
namespace {

// What of a call is only there while it waits. Who waits may hold the heap's lock, so this allocates nothing.
struct Seen {
  char text[256] = {};
};

// What a descriptor is: "/dev/nvidiactl", "socket:[123]".
void see_descriptor(Seen& seen, int fd) {
  char link[32];
  std::snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  if (readlink(link, seen.text, sizeof(seen.text) - 1) < 0) std::strcpy(seen.text, "no descriptor");
}

void see_path(Seen& seen, u64 address) {
  const std::size_t to_page_end = std::min<u64>(sizeof(seen.text) - 1, 4096 - address % 4096);
  const iovec local{seen.text, sizeof(seen.text) - 1};
  const iovec remote[2] = {{reinterpret_cast<void*>(address), to_page_end},
                           {reinterpret_cast<void*>(address + to_page_end), local.iov_len - to_page_end}};
  if (process_vm_readv(getpid(), &local, 1, remote, remote[1].iov_len > 0 ? 2 : 1, 0) < 0) seen.text[0] = 0;
}

// The arguments of calls that name a file: its path, and flags where there are some.
struct Naming {
  unsigned path;
  std::optional<unsigned> flags;
};
const std::map<int, Naming> kNaming{
    {SCMP_SYS(open), {0, 1}},       {SCMP_SYS(openat), {1, 2}},  {SCMP_SYS(mkdir), {0, {}}},
    {SCMP_SYS(mkdirat), {1, {}}},   {SCMP_SYS(rename), {0, {}}}, {SCMP_SYS(renameat), {1, {}}},
    {SCMP_SYS(renameat2), {1, {}}}, {SCMP_SYS(unlink), {0, {}}}, {SCMP_SYS(unlinkat), {1, {}}}};

std::string open_flags(u64 flags) {
  static constexpr std::array kAccess{"to read", "to write", "to read and write", "as nothing"};
  return fmt::format("{}{}{}", kAccess[flags & O_ACCMODE], flags & O_CREAT ? ", to create" : "",
                     flags & O_DIRECTORY ? ", a directory" : "");
}

// Numbers that differ from run to run say nothing.
std::string without_number(std::string_view name) {
  if (const auto bracket = name.find(":["); bracket != name.npos && !name.starts_with('/'))
    if (const auto kind = name.substr(0, bracket); kind != "anon_inode") return std::string(kind);
  if (const auto self = fmt::format("/proc/{}", getpid()); name.starts_with(self))
    return fmt::format("/proc/self{}", name.substr(self.size()));
  return std::string(name);
}

}  // namespace

struct SystemCallRecorder::Impl {
  Say say;
  Drivers drivers;
  Filter filter;  // its descriptor is that of the notifications
  int notifications = -1;
  kernel::Fd end;
  seccomp_notif* request = nullptr;
  seccomp_notif_resp* response = nullptr;
  std::map<int, unsigned> told_by;  // the argument that a limited call is looked at by
  std::set<std::string> asked, used;
  std::thread thread;

  ~Impl() { seccomp_notify_free(request, response); }
  void run();
  bool is_let_through(const seccomp_data& call) const;
  std::string describe(const seccomp_data& call, const Seen& seen) const;
};

bool SystemCallRecorder::Impl::is_let_through(const seccomp_data& call) const {
  if (call.nr == SCMP_SYS(ioctl)) return is_admitted(static_cast<u32>(call.args[1]), drivers);
  if (!kNaming.contains(call.nr)) return false;
  constexpr u64 kWriting = O_ACCMODE | O_CREAT | O_TRUNC;
  return drivers.cuda || drivers.vulkan || (call.nr == SCMP_SYS(openat) && (call.args[2] & kWriting) == 0);
}

std::string SystemCallRecorder::Impl::describe(const seccomp_data& call, const Seen& seen) const {
  char* resolved = seccomp_syscall_resolve_num_arch(call.arch, call.nr);
  std::string name = resolved != nullptr ? resolved : fmt::format("number {}", call.nr);
  std::free(resolved);
  if (call.nr == SCMP_SYS(ioctl))
    return fmt::format("ioctl {} of {}", describe_request(static_cast<u32>(call.args[1])),
                       without_number(seen.text));
  if (const auto naming = kNaming.find(call.nr); naming != kNaming.end()) {
    name = fmt::format("{} {}", name, without_number(seen.text));
    if (const auto& flags = naming->second.flags; flags) name += " " + open_flags(call.args[*flags]);
    return name;
  }
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
    Seen seen;
    if (call.nr == SCMP_SYS(ioctl)) see_descriptor(seen, static_cast<int>(call.args[0]));
    if (const auto naming = kNaming.find(call.nr); naming != kNaming.end())
      see_path(seen, call.args[naming->second.path]);
    std::memset(response, 0, sizeof(*response));
    response->id = request->id;
    response->flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    (void)seccomp_notify_respond(notifications, response);
    const bool let_through = is_let_through(call);
    if (const auto [news, is_new] = (let_through ? used : asked).insert(describe(call, seen)); is_new)
      say(fmt::format("XDPGPU_SECCOMP=record: {} {}", let_through ? "used" : "asked for", *news));
  }
}

Result<std::unique_ptr<SystemCallRecorder>> SystemCallRecorder::start(Drivers drivers, Say say) {
  auto filter = make_filter(drivers, SCMP_ACT_NOTIFY, true);
  if (!filter) return Error(filter.error());
  auto impl = std::make_unique<Impl>();
  impl->say = std::move(say);
  impl->drivers = drivers;
  impl->filter = std::move(*filter);
  for (const auto& [call, arguments] : limited_calls(drivers.cuda || drivers.vulkan))
    impl->told_by[call] = arguments.front().arg;
  impl->end = kernel::Fd(eventfd(0, EFD_CLOEXEC));
  if (!impl->end || seccomp_notify_alloc(&impl->request, &impl->response) != 0)
    return cannot_filter("making the recorder", errno);
  tzset();  // the system log asks for it, and the recorder must not wait for itself
  if (const int error = seccomp_load(impl->filter.get()); error != 0) return cannot_filter("seccomp", error);
  impl->notifications = seccomp_notify_fd(impl->filter.get());
  if (impl->notifications < 0) return cannot_filter("seccomp_notify_fd", EINVAL);
  impl->thread = std::thread([recorder = impl.get()] { recorder->run(); });
  return std::unique_ptr<SystemCallRecorder>(new SystemCallRecorder(std::move(impl)));
}

SystemCallRecorder::SystemCallRecorder(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

SystemCallRecorder::~SystemCallRecorder() {
  const u64 one = 1;
  if (write(impl_->end.get(), &one, sizeof(one)) != sizeof(one)) impl_->thread.detach();
  if (impl_->thread.joinable()) impl_->thread.join();
  const auto sum = [](const std::set<std::string>& calls) {
    return calls.empty() ? "none" : fmt::format("{}", fmt::join(calls, ", "));
  };
  if (!impl_->used.empty())
    impl_->say(
        fmt::format("XDPGPU_SECCOMP=record: used of what the filter lets through by request or path: {}",
                    sum(impl_->used)));
  impl_->say(fmt::format("XDPGPU_SECCOMP=record: asked for beyond the filter: {}", sum(impl_->asked)));
}

}  // namespace xdpgpu::control
