// SPDX-License-Identifier: MIT
#include "userspace/control/processes.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

namespace xdpgpu::control {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDataPlane = "xdpgpu-data";  // as it calls itself

std::vector<pid_t> all_processes() {
  std::vector<pid_t> all;
  std::error_code error;
  for (auto at = fs::directory_iterator("/proc", error); !error && at != fs::directory_iterator();
       at.increment(error)) {
    const std::string name = at->path().filename();
    pid_t id = 0;
    const auto [end, problem] = std::from_chars(name.data(), name.data() + name.size(), id);
    if (problem == std::errc() && end == name.data() + name.size()) all.push_back(id);
  }
  return all;
}

pid_t data_plane_of(pid_t broker) {
  for (const pid_t process : all_processes())
    if (const auto look = look_at_process(process);
        look && look->parent == broker && look->name == kDataPlane && !look->has_ended())
      return process;
  return 0;
}

// As links in /proc/PID/fd have it; empty: nobody listens there.
std::string listener_at(const std::string& path) {
  constexpr unsigned long kListens = 1UL << 16;  // __SO_ACCEPTCON
  std::ifstream sockets("/proc/self/net/unix");
  std::string line;
  std::getline(sockets, line);
  while (std::getline(sockets, line)) {
    std::istringstream fields(line);
    std::string number, references, protocol, flags, type, state, inode, name;
    if (!(fields >> number >> references >> protocol >> flags >> type >> state >> inode >> name)) continue;
    unsigned long bits = 0;
    std::from_chars(flags.data(), flags.data() + flags.size(), bits, 16);
    if (name == path && (bits & kListens) != 0) return fmt::format("socket:[{}]", inode);
  }
  return {};
}

bool holds(pid_t process, const std::string& descriptor) {
  std::error_code error, ignored;
  for (auto at = fs::directory_iterator(fmt::format("/proc/{}/fd", process), error);
       !error && at != fs::directory_iterator(); at.increment(error))
    if (fs::read_symlink(at->path(), ignored) == descriptor) return true;
  return false;
}

}  // namespace

std::optional<ProcessLook> look_at_process(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string line;
  if (process <= 0 || !std::getline(file, line)) return std::nullopt;
  // "pid (name) S parent ...", and the name may have anything in it.
  const auto begin = line.find('('), end = line.rfind(") ");
  if (begin == std::string::npos || end == std::string::npos || end < begin) return std::nullopt;
  ProcessLook look;
  look.name = line.substr(begin + 1, end - begin - 1);
  std::istringstream rest(line.substr(end + 2));
  if (!(rest >> look.state >> look.parent)) return std::nullopt;
  return look;
}

Halves halves_at(int socket) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || peer.pid <= 0) return {};
  return {.broker = peer.pid, .data_plane = data_plane_of(peer.pid)};
}

Halves halves_of(const std::string& path) {
  std::error_code error;
  const fs::path link = fs::read_symlink(path, error);  // of another interface's name
  const std::string socket = listener_at(error ? path : (fs::path(path).parent_path() / link).string());
  if (socket.empty()) return {};
  Halves found;
  for (const pid_t process : all_processes()) {
    const auto look = look_at_process(process);
    if (!look || !holds(process, socket)) continue;
    (look->name == kDataPlane ? found.data_plane : found.broker) = process;
  }
  return found;
}

std::string why_stopped(const Halves& halves) {
  const auto stopped = [](pid_t process) {
    const auto look = look_at_process(process);
    return look && look->is_stopped();
  };
  if (stopped(halves.data_plane))
    return fmt::format(
        "its data plane, process {}, is stopped (SIGSTOP, or a debugger), and on_failure decides for what is "
        "to be inspected; let it go on with \"kill -CONT {}\"",
        halves.data_plane, halves.data_plane);
  if (stopped(halves.broker))
    return fmt::format(
        "its privileged half, process {}, is stopped (SIGSTOP, Ctrl-Z, or a debugger); let it go on with "
        "\"kill -CONT {}\"",
        halves.broker, halves.broker);
  return {};
}

bool is_at_work(const Halves& halves) {
  for (const pid_t process : {halves.data_plane, halves.broker})
    if (const auto look = look_at_process(process); look && look->state == 'R') return true;
  return false;
}

}  // namespace xdpgpu::control
