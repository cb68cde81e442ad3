// SPDX-License-Identifier: MIT
#include "userspace/control/service_manager.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

namespace xdpgpu::control {
namespace {

std::optional<std::string> take_variable(const char* name) {
  const char* value = std::getenv(name);
  if (!value) return std::nullopt;
  std::string taken = value;
  unsetenv(name);
  return taken;
}

std::optional<unsigned long> number_in(const std::optional<std::string>& text) {
  unsigned long value = 0;
  if (!text) return std::nullopt;
  const char* end = text->data() + text->size();
  const auto [at, error] = std::from_chars(text->data(), end, value);
  return error == std::errc() && at == end ? std::optional(value) : std::nullopt;
}

constexpr unsigned long kLongestWatchdog = 86400UL * 1000 * 1000;  // us; beyond that it is no watchdog
constexpr std::chrono::milliseconds kBeatAgain{1000};

kernel::Fd connect_to_manager(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.size() < 2 || name.size() >= sizeof(address.sun_path) || (name[0] != '/' && name[0] != '@'))
    return {};
  name.copy(address.sun_path, name.size());
  if (name[0] == '@') address.sun_path[0] = 0;  // it has no file
  const std::size_t path = offsetof(sockaddr_un, sun_path) + name.size() + (name[0] == '@' ? 0 : 1);
  kernel::Fd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd ||
      connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), static_cast<socklen_t>(path)) != 0)
    return {};
  return fd;
}

}  // namespace

ServiceManager ServiceManager::from_environment() {
  ServiceManager manager;
  const auto name = take_variable("NOTIFY_SOCKET");
  const auto limit = number_in(take_variable("WATCHDOG_USEC"));
  const auto process = take_variable("WATCHDOG_PID");
  if (!name) return manager;
  manager.socket_ = connect_to_manager(*name);
  const bool ours = !process || number_in(process) == static_cast<unsigned long>(getpid());
  if (limit && ours && *limit <= kLongestWatchdog) manager.watchdog_ = std::chrono::microseconds(*limit);
  return manager;
}

bool ServiceManager::send(const std::string& text) const {
  return ::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
}

void ServiceManager::tell(const std::string& status, const std::function<bool()>& well) {
  if (!socket_) return;
  const auto now = Clock::now();
  const bool due = watchdog_.count() > 0 && now >= next_beat_, beats = due && well();
  // What is not well, or is not taken, is looked at again soon.
  if (due) next_beat_ = now + std::min<Clock::duration>(watchdog_ / 4, kBeatAgain);
  std::string text;
  if (!ready_) text += "READY=1\n";
  if (status != status_) {
    // A line each is the protocol.
    std::string line = status;
    std::replace(line.begin(), line.end(), '\n', ' ');
    text += fmt::format("STATUS={}\n", line);
  }
  if (beats) text += "WATCHDOG=1\n";
  if (text.empty() || !send(text)) return;
  ready_ = true;
  status_ = status;
  if (beats) next_beat_ = now + watchdog_ / 4;
}

void ServiceManager::stopping() {
  if (socket_ && ready_) (void)send("STOPPING=1\n");
  socket_ = kernel::Fd();
}

std::chrono::milliseconds ServiceManager::due_in() const {
  constexpr std::chrono::milliseconds kNever = std::chrono::hours(1), kSoon{1};
  if (!socket_ || watchdog_.count() == 0) return kNever;
  return std::max(kSoon, std::chrono::ceil<std::chrono::milliseconds>(next_beat_ - Clock::now()));
}

}  // namespace xdpgpu::control
