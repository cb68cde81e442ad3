// SPDX-License-Identifier: MIT
#include "userspace/kernel/names.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>

#include "maps/control.h"
#include "userspace/kernel/kernel.hpp"

namespace xdpgpu::kernel::names {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kScope = "netns-";
constexpr std::string_view kSocket = ".sock";

// The initial namespace's: its inode since 6.18 (NET_NS_INIT_INO in linux/nsfs.h), its cookie before that,
// when it was the first one to get one.
constexpr u64 kInitialInode = 0xEFFFFFF9;
constexpr u64 kInitialCookie = 1;

NetNamespace find_own() {
  NetNamespace own;
  struct stat file {};
  if (stat("/proc/thread-self/ns/net", &file) == 0) own.inode = file.st_ino;
  socklen_t size = sizeof(own.cookie);
  const Fd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (getsockopt(socket.get(), SOL_SOCKET, SO_NETNS_COOKIE, &own.cookie, &size) != 0) own.cookie = 0;
  own.initial = own.inode == kInitialInode || own.cookie == kInitialCookie;
  if (!own.initial) own.scope = fmt::format("{}{}-{}", kScope, own.inode, own.cookie);
  return own;
}

// No interface's name is so long.
bool is_scope(const std::string& name) { return name.starts_with(kScope) && name.size() >= 16; }

std::string below(const char* root, const Scope& scope) {
  return scope.empty() ? root : fmt::format("{}/{}", root, scope);
}

template <class F>
void each_entry(const std::string& folder, F&& use) {
  std::error_code error;
  for (auto at = fs::directory_iterator(folder, error); !error && at != fs::directory_iterator();
       at.increment(error))
    use(at->path().filename().string());
}

}  // namespace

const NetNamespace& own() {
  static const NetNamespace own = find_own();
  return own;
}

namespace {

// Set once, before there is a second thread.
std::string& remembered() {
  static std::string name;
  return name;
}

}  // namespace

void remember_netns(const std::string& name) { remembered() = name; }
const std::string& remembered_netns() { return remembered(); }

std::string operand(const std::string& ifname, const Scope& scope) {
  std::string netns = remembered();
  // Of another one only the inode is known: "netns-INODE-COOKIE".
  if (scope != own_scope())
    netns = scope.empty() ? "1" : "NAME-OF-" + scope.substr(kScope.size(), scope.rfind('-') - kScope.size());
  return netns.empty() ? ifname : fmt::format("{} --netns {}", ifname, netns);
}

std::vector<Scope> other_scopes() {
  std::set<Scope> found;
  for (const char* root : {XG_PIN_ROOT, XG_RUN_ROOT})
    each_entry(root, [&](const std::string& name) {
      if (is_scope(name)) found.insert(name);
    });
  found.insert(Scope());
  found.erase(own_scope());
  return {found.begin(), found.end()};
}

std::string pin_root(const Scope& scope) { return below(XG_PIN_ROOT, scope); }
std::string run_root(const Scope& scope) { return below(XG_RUN_ROOT, scope); }

std::string pin_folder(const std::string& ifname, const Scope& scope) {
  std::string name = ifname;
  std::replace(name.begin(), name.end(), '.', ':');
  return fmt::format("{}/{}", pin_root(scope), name);
}

std::string pinned_interface(const std::string& folder) {
  if (is_scope(folder)) return {};
  std::string name = folder;
  std::replace(name.begin(), name.end(), ':', '.');
  return name;
}

std::string socket(const std::string& ifname, const Scope& scope) {
  return fmt::format("{}/{}{}", run_root(scope), ifname, kSocket);
}

std::string note(const std::string& ifname, const char* kind, const Scope& scope) {
  return fmt::format("{}/{}.{}", run_root(scope), ifname, kind);
}

std::string lock(const Scope& scope) { return run_root(scope) + "/lock"; }

std::vector<std::string> interfaces_with_socket(const Scope& scope) {
  std::vector<std::string> found;
  each_entry(run_root(scope), [&](const std::string& file) {
    if (file.size() > kSocket.size() && file.ends_with(kSocket))
      found.push_back(file.substr(0, file.size() - kSocket.size()));
  });
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<std::string> interfaces_with_pins(const Scope& scope) {
  std::vector<std::string> found;
  each_entry(pin_root(scope), [&](const std::string& folder) {
    if (auto name = pinned_interface(folder); !name.empty()) found.push_back(std::move(name));
  });
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace xdpgpu::kernel::names
