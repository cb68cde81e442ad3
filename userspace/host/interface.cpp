// SPDX-License-Identifier: MIT
#include "userspace/host/interface.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <linux/if_arp.h>
#include <linux/if_link.h>
#include <netlink/cache.h>
#include <netlink/netlink.h>
#include <netlink/route/link.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string_view>

#include "userspace/host/ethtool.hpp"
#include "userspace/host/xdp_features.hpp"

namespace xdpgpu::host {
namespace {

using NlSocket = std::unique_ptr<nl_sock, decltype(&nl_socket_free)>;
using Link = std::unique_ptr<rtnl_link, decltype(&rtnl_link_put)>;

NlSocket connect_route() {
  NlSocket socket(nl_socket_alloc(), nl_socket_free);
  if (socket && nl_connect(socket.get(), NETLINK_ROUTE) < 0) socket.reset();
  return socket;
}

Link find_link(nl_sock* socket, int ifindex, const char* name) {
  rtnl_link* link = nullptr;
  if (rtnl_link_get_kernel(socket, ifindex, name, &link) < 0) link = nullptr;
  return {link, rtnl_link_put};
}

std::string text_or_empty(const char* text) { return text ? text : ""; }

// sysfs shows the interfaces of the namespace it was mounted in, which need not be ours: only used where
// nothing else tells.
u32 count_receive_queues(const std::string& ifname, rtnl_link* link) {
  if (const auto channels = ethtool::receive_channels(ifname)) return *channels;
  const u32 queues = rtnl_link_get_num_rx_queues(link);
  return queues > 0 ? queues : 1;
}

int numa_node(const std::string& ifname, u32 ifindex) {
  const std::string folder = "/sys/class/net/" + ifname;
  // What is mounted at /sys may be another network namespace's, with another interface of this name.
  u32 shown = 0;
  std::ifstream(folder + "/ifindex") >> shown;
  int node = -1;
  if (shown == ifindex && !(std::ifstream(folder + "/device/numa_node") >> node)) return -1;
  return node;
}

// "name:\tnumber" of a descriptor's facts in /proc.
u32 fact_of(const std::string& facts, std::string_view name) {
  const auto at = facts.find(name);
  return at == std::string::npos
             ? 0
             : static_cast<u32>(std::strtoul(facts.c_str() + at + name.size(), nullptr, 10));
}

// Who has the interface's program by a link, which goes when the last one who holds it does.
void find_link_holder(InterfaceFacts& facts) {
  namespace fs = std::filesystem;
  std::error_code error;
  for (const auto& process : fs::directory_iterator("/proc", error)) {
    const int id = std::atoi(process.path().filename().c_str());
    if (id <= 0) continue;
    std::error_code gone;
    for (auto at = fs::directory_iterator(process.path() / "fdinfo", gone);
         !gone && at != fs::directory_iterator(); at.increment(gone)) {
      std::ifstream file(at->path());
      const std::string text{std::istreambuf_iterator<char>(file), {}};
      if (text.find("link_type:\txdp") == std::string::npos) continue;
      if (fact_of(text, "prog_id:\t") != facts.xdp_program_id || fact_of(text, "ifindex:\t") != facts.ifindex)
        continue;
      facts.xdp_link_holder = id;
      std::ifstream(process.path() / "comm") >> facts.xdp_link_holder_name;
      return;
    }
  }
}

void read_xdp_program(InterfaceFacts& facts) {
  LIBBPF_OPTS(bpf_xdp_query_opts, query);
  if (bpf_xdp_query(static_cast<int>(facts.ifindex), 0, &query) < 0 || query.prog_id == 0) return;
  facts.xdp_program_id = query.prog_id;
  facts.xdp_program_name = fmt::format("id {}", query.prog_id);
  const int fd = bpf_prog_get_fd_by_id(query.prog_id);
  if (fd < 0) return;
  bpf_prog_info info{};
  u32 length = sizeof(info);
  if (bpf_obj_get_info_by_fd(fd, &info, &length) == 0 && info.name[0])
    facts.xdp_program_name = std::string(info.name, strnlen(info.name, sizeof(info.name)));
  close(fd);
  if (!facts.xdp_program_name.starts_with("xdpgpu")) find_link_holder(facts);
}

}  // namespace

Result<InterfaceFacts> read_interface(const std::string& name) {
  if (name.empty() || name.size() >= IFNAMSIZ || name.find_first_of("/ \t\n") != std::string::npos)
    return tl::unexpected(fmt::format("\"{}\" is no interface name: 1 to {} characters, no space and no /",
                                      name, IFNAMSIZ - 1));
  const NlSocket socket = connect_route();
  if (!socket) return tl::unexpected(fmt::format("cannot read interface {}: no rtnetlink socket", name));
  const Link link = find_link(socket.get(), 0, name.c_str());
  if (!link)
    return tl::unexpected(
        fmt::format("there is no interface {} in this network namespace; see \"ip link\"", name));

  InterfaceFacts facts;
  facts.name = name;
  facts.ifindex = static_cast<u32>(rtnl_link_get_ifindex(link.get()));
  facts.kind = text_or_empty(rtnl_link_get_type(link.get()));
  facts.driver = ethtool::driver(name).value_or("");
  const u32 flags = rtnl_link_get_flags(link.get());
  facts.loopback = (flags & IFF_LOOPBACK) != 0;
  facts.ethernet = rtnl_link_get_arptype(link.get()) == ARPHRD_ETHER;
  facts.up = (flags & IFF_UP) != 0;
  facts.carrier = rtnl_link_get_carrier(link.get()) != 0;
  facts.mtu = rtnl_link_get_mtu(link.get());
  facts.rx_queues = count_receive_queues(name, link.get());
  if (const int master = rtnl_link_get_master(link.get()); master > 0) {
    if (const Link upper = find_link(socket.get(), master, nullptr)) {
      facts.master = text_or_empty(rtnl_link_get_name(upper.get()));
      facts.master_kind = text_or_empty(rtnl_link_get_type(upper.get()));
    }
  }
  facts.speed_mbps = ethtool::speed_mbps(name);
  facts.offloads = ethtool::offloads(name);
  facts.xdp_features = query_xdp_features(facts.ifindex);
  facts.numa_node = numa_node(name, facts.ifindex);
  read_xdp_program(facts);
  return facts;
}

std::optional<u32> interface_mtu(const std::string& name) {
  ifreq request{};
  if (name.empty() || name.size() >= IFNAMSIZ) return std::nullopt;
  std::memcpy(request.ifr_name, name.data(), name.size());
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const bool known = fd >= 0 && ioctl(fd, SIOCGIFMTU, &request) == 0;
  if (fd >= 0) close(fd);
  if (!known) return std::nullopt;
  return static_cast<u32>(request.ifr_mtu);
}

std::optional<u32> receive_queues(const std::string& name) { return ethtool::receive_channels(name); }

std::vector<std::string> list_interfaces() {
  std::vector<std::string> names;
  const NlSocket socket = connect_route();
  nl_cache* raw = nullptr;
  if (!socket || rtnl_link_alloc_cache(socket.get(), AF_UNSPEC, &raw) < 0) return names;
  const std::unique_ptr<nl_cache, decltype(&nl_cache_free)> cache(raw, nl_cache_free);
  for (nl_object* object = nl_cache_get_first(cache.get()); object; object = nl_cache_get_next(object)) {
    auto* link = reinterpret_cast<rtnl_link*>(object);
    if ((rtnl_link_get_flags(link) & IFF_LOOPBACK) == 0 && rtnl_link_get_arptype(link) == ARPHRD_ETHER)
      names.push_back(text_or_empty(rtnl_link_get_name(link)));
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace xdpgpu::host
