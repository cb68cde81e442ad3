// SPDX-License-Identifier: MIT
#include "userspace/control/leftovers.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xdp/libxdp.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string_view>
#include <thread>

#include "maps/control.h"
#include "userspace/control/busy_poll.hpp"
#include "userspace/control/client.hpp"
#include "userspace/control/offloads.hpp"
#include "userspace/kernel/egress_feed.hpp"
#include "userspace/kernel/names.hpp"
#include "userspace/kernel/netlink.hpp"
#include "userspace/kernel/pins.hpp"
#include "userspace/kernel/trusted.hpp"
#include "userspace/kernel/xdp_link.hpp"
#include "userspace/policy/values.hpp"

namespace xdpgpu::control {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kProgram = "xdpgpu";
constexpr const char* kNowhere = "dead";  // beside the sockets, where nothing is called so

struct MultiprogCloser {
  void operator()(xdp_multiprog* programs) const noexcept { xdp_multiprog__close(programs); }
};

// Our program on an interface, whether it is alone or a component of libxdp's dispatcher.
struct Found {
  std::unique_ptr<xdp_multiprog, MultiprogCloser> programs;
  xdp_program* program = nullptr;  // one of them; nullptr: ours is not there
  bool alone = false;
};

Found find_program(int ifindex) {
  Found found;
  xdp_multiprog* programs = xdp_multiprog__get_from_ifindex(ifindex);
  if (libxdp_get_error(programs)) return found;
  found.programs.reset(programs);
  const auto ours = [](xdp_program* program) { return kProgram == xdp_program__name(program); };
  found.alone = xdp_multiprog__is_legacy(programs);
  if (found.alone) {
    found.program = xdp_multiprog__main_prog(programs);
    if (found.program && !ours(found.program)) found.program = nullptr;
    return found;
  }
  found.program = xdp_multiprog__next_prog(nullptr, programs);
  while (found.program && !ours(found.program))
    found.program = xdp_multiprog__next_prog(found.program, programs);
  return found;
}

bool remove_program(int ifindex) {
  const Found found = find_program(ifindex);
  if (!found.program) return false;
  const auto mode = xdp_multiprog__attach_mode(found.programs.get());
  if (!found.alone) return xdp_program__detach(found.program, ifindex, mode, 0) == 0;
  return kernel::take_off(ifindex, xdp_program__fd(found.program), xdp_program__id(found.program),
                          mode == XDP_MODE_SKB ? XDP_FLAGS_SKB_MODE : XDP_FLAGS_DRV_MODE) == 0;
}

// The interface may have been renamed, and its process have yet to see that: a socket of its name is not
// there then, or is somebody else's who is dead.
Result<void> refuse_if_program_lives(const std::string& ifname, Presence socket) {
  const unsigned ifindex = if_nametoindex(ifname.c_str());
  if (ifindex == 0) return {};
  const Found found = find_program(static_cast<int>(ifindex));
  const kernel::Fd state = kernel::queue_state_of(found.program ? xdp_program__fd(found.program) : -1);
  if (!state) return {};
  const std::string name = kernel::pinned_as(state.get());
  if (!name.empty() && name != ifname) socket = find_process(name);
  if (name.empty() || socket == Presence::absent)
    socket = kernel::has_beating_worker(state.get()) ? Presence::running : Presence::dead;
  if (socket != Presence::running) return {};
  for (const auto& scope : kernel::names::other_scopes())
    if (const auto there = kernel::pinned_as(state.get(), scope); name.empty() && !there.empty())
      return Error(fmt::format(
          "{} was attached as {} in another network namespace ({}), and its process lives; end that "
          "process (SIGTERM), which undoes everything",
          ifname, there, scope.empty() ? "the host's" : scope));
  if (!name.empty() && name != ifname)
    return Error(
        fmt::format("{} is attached, as {}, and its process lives, which has yet to see that it was renamed; "
                    "run the command again in a moment, or detach it with \"xdpgpu detach {}\"",
                    ifname, name, kernel::names::operand(name)));
  const std::string path = kernel::names::socket(ifname);
  if (const Halves living = halves_of(path); !name.empty() && (living.broker || living.data_plane))
    return Error(without_its_socket(ifname, path, living));
  return Error(
      fmt::format("{} is attached and its process lives, though {} was removed; end that process (SIGTERM), "
                  "which undoes everything",
                  ifname, name.empty() ? kernel::names::pin_folder(ifname) : path));
}

// By what is pinned under its name, it is found wherever the interface is by now.
bool remove_program_of(const std::string& ifname) {
  const kernel::Fd link = kernel::pinned_link(ifname);
  if (kernel::look_at_link(link.get())) return bpf_link_detach(link.get()) == 0;
  const unsigned ifindex = if_nametoindex(ifname.c_str());
  return ifindex != 0 && remove_program(static_cast<int>(ifindex));
}

// Is it still the file that bears the lock's name?
bool is_there(const kernel::Fd& file, const std::string& path) {
  struct stat ours {
  }, there{};
  return fstat(file.get(), &ours) == 0 && lstat(path.c_str(), &there) == 0 && ours.st_ino == there.st_ino &&
         ours.st_dev == there.st_dev;
}

// Whoever may use the control socket is to reach it, whatever root's umask is. Another holder may remove what
// it stands in meanwhile: then there is no lock to open.
bool make_folder(const std::string& path) {
  if (mkdir(path.c_str(), 0755) == 0) {
    (void)!chmod(path.c_str(), 0755);
    return true;
  }
  return errno == EEXIST || errno == ENOENT;
}

void sign(const kernel::Fd& file) {
  const std::string id = std::to_string(getpid());
  if (ftruncate(file.get(), 0) == 0) (void)!pwrite(file.get(), id.data(), id.size(), 0);
}

std::string holder(const kernel::Fd& file) {
  char id[16] = {};
  const ssize_t length = pread(file.get(), id, sizeof(id) - 1, 0);
  return length > 0 ? fmt::format("process {}", id) : std::string("a process");
}

// What to do about a folder in which something cannot be made or removed.
std::string cure_of(int error, const std::string& path) {
  switch (error) {
    case EROFS:
      return fmt::format("its file system is mounted read-only: mount it writable (findmnt -T {})",
                         fs::path(path).parent_path().string());
    case ENOSPC:
    case EDQUOT:
      return fmt::format("make room on its file system (df {0}; df -i {0})",
                         fs::path(XG_RUN_ROOT).parent_path().string());
    case EMFILE:
    case ENFILE:
      return "raise the limit of open files (ulimit -n)";
    case EACCES:
    case EPERM:
      return "run it as root";
    default:
      return "look at what stands there";
  }
}

bool remove_pairs(unsigned ifindex) {
  const auto netlink = kernel::Netlink::open();
  if (!netlink) return false;
  const bool cutter = netlink->remove_link(fmt::format("xg{}c", ifindex));
  return netlink->remove_link(fmt::format("xg{}w", ifindex)) || cutter;
}

}  // namespace

// Each holder removes the file, maybe between our opening and our locking it: then it is another one's that
// is there now, or none, and ours is nobody's lock.
Result<RunLock> RunLock::take(std::chrono::milliseconds patience, const kernel::names::Scope& scope) {
  constexpr std::chrono::milliseconds kStep{5};
  const auto until = std::chrono::steady_clock::now() + patience;
  const std::string root = kernel::names::run_root(scope), path = kernel::names::lock(scope);
  while (true) {
    for (const auto& folder : {std::string(XG_RUN_ROOT), root}) {
      if (!make_folder(folder))
        return Error(
            fmt::format("cannot make {}: {}; {}", folder, std::strerror(errno), cure_of(errno, folder)));
      if (const auto stands = kernel::stands_by_root(folder); !stands) return Error(stands.error());
    }
    kernel::Fd file(open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file && errno != ENOENT)
      return Error(fmt::format("cannot open {}: {}; {}", path, std::strerror(errno), cure_of(errno, path)));
    if (file && flock(file.get(), LOCK_EX | LOCK_NB) == 0) {
      if (is_there(file, path)) {
        sign(file);
        return RunLock(std::move(file), scope);
      }
      continue;
    }
    if (file && errno != EWOULDBLOCK && errno != EINTR)
      return Error(fmt::format("cannot lock {}: {}", path, std::strerror(errno)));
    if (std::chrono::steady_clock::now() >= until)
      return Error(
          fmt::format("another attach or detach is under way and has not come to its end within {:.1f} s: "
                      "{} holds {}; run the command again, and end that process if it is stuck",
                      std::chrono::duration<double>(patience).count(), holder(file), path));
    std::this_thread::sleep_for(kStep);
  }
}

RunLock::~RunLock() {
  if (!file_) return;
  unlink(kernel::names::lock(scope_).c_str());  // before the lock ends, so never another's
  rmdir(kernel::names::run_root(scope_).c_str());
  rmdir(XG_RUN_ROOT);
}

void orphan_links(const std::string& ifname, const RunLock&) {
  const std::string target = fs::path(kernel::names::socket(ifname)).filename();
  std::vector<fs::path> orphans;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(kernel::names::run_root(), error))
    if (entry.is_symlink(error) && fs::read_symlink(entry, error) == target) orphans.push_back(entry);
  for (const auto& link : orphans) {
    fs::remove(link, error);
    fs::create_symlink(kNowhere, link, error);
  }
}

Result<std::vector<std::string>> remove_leftovers(const std::string& ifname, const RunLock& lock, Keep keep) {
  std::vector<std::string> removed;
  // The name becomes part of paths that are removed.
  if (!policy::is_interface_name(ifname))
    return Error(fmt::format("\"{}\" cannot be an interface's name; name the interface", ifname));
  if (auto ok = kernel::check_pins(ifname); !ok) return Error(ok.error());
  const Presence socket = find_process(ifname);
  if (socket == Presence::running)
    return Error(fmt::format("{} is attached and its process lives; detach it with \"xdpgpu detach {}\"",
                             ifname, kernel::names::operand(ifname)));
  if (auto dead = refuse_if_program_lives(ifname, socket); !dead) return Error(dead.error());
  const bool all = keep == Keep::nothing;
  if (all && remove_program_of(ifname)) removed.emplace_back("XDP program");
  if (const unsigned ifindex = if_nametoindex(ifname.c_str())) {
    if (kernel::EgressFeed::remove_leftover(ifindex)) removed.emplace_back("egress filter");
    if (remove_pairs(ifindex)) removed.emplace_back("reinjection pair");
    if (all)
      for (const auto& name : restore_offloads(ifname)) removed.push_back("changed offload " + name);
  }
  if (all)
    for (const auto& name : restore_busy_poll(ifname)) removed.push_back("changed setting " + name);
  std::error_code error;
  const fs::path pins = kernel::names::pin_folder(ifname);
  if (all && fs::exists(pins, error)) {
    kernel::remove_pins(ifname);
    if (fs::exists(pins, error))
      return Error(fmt::format("cannot remove the pins in {}; run it as root", pins.string()));
    removed.emplace_back("pins");
  }
  const std::string path = kernel::names::socket(ifname);
  if (fs::symlink_status(path, error).type() != fs::file_type::not_found) {
    if (unlink(path.c_str()) != 0)
      return Error(fmt::format("cannot remove {}: {}; {}", path, std::strerror(errno), cure_of(errno, path)));
    removed.emplace_back("control socket");
  }
  orphan_links(ifname, lock);
  return removed;
}

}  // namespace xdpgpu::control
