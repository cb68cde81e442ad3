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
#include "userspace/kernel/netlink.hpp"
#include "userspace/kernel/pins.hpp"
#include "userspace/kernel/xdp_link.hpp"
#include "userspace/policy/values.hpp"

namespace xdpgpu::control {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kProgram = "xdpgpu";
constexpr const char* kLock = XG_RUN_ROOT "/lock";
constexpr const char* kNowhere = "dead";  // in XG_RUN_ROOT, where nothing is called so

struct MultiprogCloser {
  void operator()(xdp_multiprog* programs) const noexcept { xdp_multiprog__close(programs); }
};

// Takes our program off, whether it is alone or a component of libxdp's dispatcher.
bool remove_program(int ifindex) {
  xdp_multiprog* found = xdp_multiprog__get_from_ifindex(ifindex);
  if (libxdp_get_error(found)) return false;
  const std::unique_ptr<xdp_multiprog, MultiprogCloser> programs(found);
  const auto mode = xdp_multiprog__attach_mode(found);
  if (xdp_multiprog__is_legacy(found)) {
    xdp_program* program = xdp_multiprog__main_prog(found);
    if (!program || kProgram != xdp_program__name(program)) return false;
    return kernel::take_off(ifindex, xdp_program__fd(program), xdp_program__id(program),
                            mode == XDP_MODE_SKB ? XDP_FLAGS_SKB_MODE : XDP_FLAGS_DRV_MODE) == 0;
  }
  for (xdp_program* program = xdp_multiprog__next_prog(nullptr, found); program;
       program = xdp_multiprog__next_prog(program, found))
    if (kProgram == xdp_program__name(program)) return xdp_program__detach(program, ifindex, mode, 0) == 0;
  return false;
}

// By what is pinned under its name, it is found wherever the interface is by now.
bool remove_program_of(const std::string& ifname) {
  const kernel::Fd link = kernel::pinned_link(ifname);
  if (kernel::look_at_link(link.get())) return bpf_link_detach(link.get()) == 0;
  const unsigned ifindex = if_nametoindex(ifname.c_str());
  return ifindex != 0 && remove_program(static_cast<int>(ifindex));
}

// Is it still the file that bears the lock's name?
bool is_there(const kernel::Fd& file) {
  struct stat ours {
  }, there{};
  return fstat(file.get(), &ours) == 0 && lstat(kLock, &there) == 0 && ours.st_ino == there.st_ino &&
         ours.st_dev == there.st_dev;
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

bool remove_pair(unsigned ifindex) {
  const auto netlink = kernel::Netlink::open();
  return netlink && netlink->remove_link(fmt::format("xg{}w", ifindex));
}

}  // namespace

// Each holder removes the file, maybe between our opening and our locking it: then it is another one's that
// is there now, or none, and ours is nobody's lock.
Result<RunLock> RunLock::take(std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds kStep{5};
  const auto until = std::chrono::steady_clock::now() + patience;
  while (true) {
    if (mkdir(XG_RUN_ROOT, 0755) != 0 && errno != EEXIST)
      return Error(fmt::format("cannot make {}: {}; run it as root", XG_RUN_ROOT, std::strerror(errno)));
    kernel::Fd file(open(kLock, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file && errno != ENOENT)
      return Error(fmt::format("cannot open {}: {}; run it as root", kLock, std::strerror(errno)));
    if (file && flock(file.get(), LOCK_EX | LOCK_NB) == 0) {
      if (is_there(file)) {
        sign(file);
        return RunLock(std::move(file));
      }
      continue;
    }
    if (file && errno != EWOULDBLOCK && errno != EINTR)
      return Error(fmt::format("cannot lock {}: {}", kLock, std::strerror(errno)));
    if (std::chrono::steady_clock::now() >= until)
      return Error(
          fmt::format("another attach or detach is under way and has not come to its end within {:.1f} s: "
                      "{} holds {}; run the command again, and end that process if it is stuck",
                      std::chrono::duration<double>(patience).count(), holder(file), kLock));
    std::this_thread::sleep_for(kStep);
  }
}

RunLock::~RunLock() {
  if (!file_) return;
  unlink(kLock);  // before the lock ends, so never another's
  rmdir(XG_RUN_ROOT);
}

void orphan_links(const std::string& ifname, const RunLock&) {
  const std::string target = fs::path(socket_path(ifname)).filename();
  std::vector<fs::path> orphans;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(XG_RUN_ROOT, error))
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
  if (find_process(ifname) == Presence::running)
    return Error(fmt::format("{} is attached and its process lives; detach it with \"xdpgpu detach {}\"",
                             ifname, ifname));
  const bool all = keep == Keep::nothing;
  if (all && remove_program_of(ifname)) removed.emplace_back("XDP program");
  if (const unsigned ifindex = if_nametoindex(ifname.c_str())) {
    if (kernel::EgressFeed::remove_leftover(ifindex)) removed.emplace_back("egress filter");
    if (remove_pair(ifindex)) removed.emplace_back("reinjection pair");
    if (all)
      for (const auto& name : restore_offloads(ifname)) removed.push_back("changed offload " + name);
  }
  if (all)
    for (const auto& name : restore_busy_poll(ifname)) removed.push_back("changed setting " + name);
  std::error_code error;
  const fs::path pins = fs::path(XG_PIN_ROOT) / ifname;
  if (all && fs::exists(pins, error)) {
    kernel::remove_pins(ifname);
    if (fs::exists(pins, error))
      return Error(fmt::format("cannot remove the pins in {}; run it as root", pins.string()));
    removed.emplace_back("pins");
  }
  const std::string socket = socket_path(ifname);
  if (fs::symlink_status(socket, error).type() != fs::file_type::not_found) {
    if (unlink(socket.c_str()) != 0) return Error(fmt::format("cannot remove {}; run it as root", socket));
    removed.emplace_back("control socket");
  }
  orphan_links(ifname, lock);
  return removed;
}

}  // namespace xdpgpu::control
