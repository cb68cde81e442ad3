// SPDX-License-Identifier: MIT
#include "tests/netns/lab/namespace.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/if_ether.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace xdpgpu::lab {
namespace {

void loopback_up() {
  const Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  if (ioctl(socket.get(), SIOCGIFFLAGS, &request) < 0) return;
  request.ifr_flags |= IFF_UP;
  ioctl(socket.get(), SIOCSIFFLAGS, &request);
}

bool write_file(const std::string& path, const std::string& value) {
  const Fd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  return fd && write(fd.get(), value.data(), value.size()) == static_cast<ssize_t>(value.size());
}

}  // namespace

Fd::~Fd() {
  if (fd_ >= 0) close(fd_);
}

std::string why_unavailable() {
  if (geteuid() != 0) return "needs root: network namespaces, veth pairs and XDP programs are made";
  std::string reason;
  std::thread([&] {
    if (unshare(CLONE_NEWNET) < 0) {
      reason = fmt::format("no network namespaces here: unshare(CLONE_NEWNET): {}", std::strerror(errno));
      return;
    }
    const Fd packet(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
    if (!packet) reason = fmt::format("no packet sockets here: socket(AF_PACKET): {}", std::strerror(errno));
  }).join();
  return reason;
}

bool kernel_at_least(unsigned major, unsigned minor) {
  utsname host{};
  unsigned has_major = 0, has_minor = 0;
  uname(&host);
  std::sscanf(host.release, "%u.%u", &has_major, &has_minor);
  return has_major > major || (has_major == major && has_minor >= minor);
}

Namespace::Namespace(std::string name) : name_(std::move(name)) {
  std::string problem;
  std::thread([&] {
    if (unshare(CLONE_NEWNET) < 0) {
      problem = std::strerror(errno);
      return;
    }
    problem = hold();
    loopback_up();
    // Hosts without IPv6 have none of these; that is no error here.
    for (const char* scope : {"all", "default"}) {
      const std::string conf = fmt::format("/proc/sys/net/ipv6/conf/{}/", scope);
      write_file(conf + "accept_dad", "0");
      write_file(conf + "dad_transmits", "0");
      write_file(conf + "accept_ra", "0");
      write_file(conf + "router_solicitations", "0");
      write_file(conf + "mldv2_unsolicited_report_interval", "0");
    }
  }).join();
  if (!problem.empty()) throw Error(fmt::format("cannot make the network namespace {}: {}", name_, problem));
}

Namespace Namespace::current() {
  Namespace ns;
  ns.name_ = "the present one";
  if (const std::string problem = ns.hold(); !problem.empty())
    throw Error(fmt::format("cannot hold the network namespace: {}", problem));
  return ns;
}

// The calling thread's. What is wrong, or nothing.
std::string Namespace::hold() {
  fd_ = Fd(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
  if (!fd_) return std::strerror(errno);
  const Fd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  socklen_t size = sizeof(cookie_);
  if (getsockopt(socket.get(), SOL_SOCKET, SO_NETNS_COOKIE, &cookie_, &size) != 0)
    return std::strerror(errno);
  struct stat info {};
  fstat(fd_.get(), &info);
  inode_ = info.st_ino;
  return {};
}

void Namespace::enter() const {
  if (setns(fd_.get(), CLONE_NEWNET) < 0)
    throw Error(fmt::format("cannot enter the network namespace {}: {}", name_, std::strerror(errno)));
}

void Namespace::sysctl(const std::string& key, const std::string& value) const {
  const bool done = run([&] { return write_file("/proc/sys/net/" + key, value); });
  if (!done)
    throw Error(fmt::format("cannot set net/{} to {} in the namespace {}: {}", key, value, name_,
                            std::strerror(errno)));
}

}  // namespace xdpgpu::lab
