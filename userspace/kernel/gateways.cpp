// SPDX-License-Identifier: MIT
#include "userspace/kernel/gateways.hpp"

#include <bpf/bpf.h>
#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/route/nexthop.h>
#include <netlink/route/route.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstdlib>
#include <cstring>
#include <memory>

namespace xdpgpu::kernel {
namespace {

constexpr int kLongestDefault = 3;  // bits: 2000::/3 is one, too
constexpr int kPatienceMs = 200;    // for an answer of the kernel, which is at hand

struct SocketFree {
  void operator()(nl_sock* socket) const noexcept { nl_socket_free(socket); }
};
using Socket = std::unique_ptr<nl_sock, SocketFree>;
struct MessageFree {
  void operator()(nl_msg* message) const noexcept { nlmsg_free(message); }
};
using Message = std::unique_ptr<nl_msg, MessageFree>;
struct RouteFree {
  void operator()(rtnl_route* route) const noexcept { rtnl_route_put(route); }
};
using Route = std::unique_ptr<rtnl_route, RouteFree>;
struct BytesFree {
  void operator()(unsigned char* bytes) const noexcept { std::free(bytes); }
};
using Bytes = std::unique_ptr<unsigned char, BytesFree>;

// The kernel's answer to `request`: the first of its datagrams, which each message of is given to `take`.
template <class F>
void ask(const Message& request, F&& take) {
  const Socket socket(nl_socket_alloc());
  if (!socket || !request || nl_connect(socket.get(), NETLINK_ROUTE) < 0) return;
  // Without it a dump would not look at the request's table.
  const int on = 1;
  setsockopt(nl_socket_get_fd(socket.get()), SOL_NETLINK, NETLINK_GET_STRICT_CHK, &on, sizeof(on));
  if (nl_send_auto(socket.get(), request.get()) < 0) return;
  pollfd readable{nl_socket_get_fd(socket.get()), POLLIN, 0};
  if (poll(&readable, 1, kPatienceMs) != 1) return;
  sockaddr_nl from{};
  unsigned char* answer = nullptr;
  int left = nl_recv(socket.get(), &from, &answer, nullptr);
  const Bytes owned(answer);
  if (left <= 0) return;
  for (auto* header = reinterpret_cast<nlmsghdr*>(answer); nlmsg_ok(header, left);
       header = nlmsg_next(header, &left))
    take(header);
}

}  // namespace

// The next hops of a default route that the kernel tells.
void Gateways::add_hops(nlmsghdr* header, std::vector<Hop>& hops) {
  if (header->nlmsg_type != RTM_NEWROUTE) return;
  const auto* facts = static_cast<const rtmsg*>(nlmsg_data(header));
  if (facts->rtm_dst_len > kLongestDefault || facts->rtm_type != RTN_UNICAST) return;
  rtnl_route* parsed = nullptr;
  if (rtnl_route_parse(header, &parsed) < 0) return;
  const Route route(parsed);
  for (int i = 0; i < rtnl_route_get_nnexthops(parsed); i++) {
    rtnl_nexthop* next = rtnl_route_nexthop_n(parsed, i);
    const nl_addr* gateway = rtnl_route_nh_get_gateway(next);
    if (!gateway) gateway = rtnl_route_nh_get_via(next);
    if (!gateway) continue;
    const auto bytes = static_cast<std::size_t>(nl_addr_get_len(gateway));
    Hop hop{
        static_cast<u8>(nl_addr_get_family(gateway)), static_cast<u32>(rtnl_route_nh_get_ifindex(next)), {}};
    if (bytes > hop.address.size()) continue;
    std::memcpy(hop.address.data(), nl_addr_get_binary_addr(gateway), bytes);
    hops.push_back(hop);
  }
}

// The dump of the main table begins with its default routes, and its first datagram has room for dozens: the
// rest, which on a router is long, is left.
void Gateways::add_hops4(std::vector<Hop>& hops) {
  const Message request(nlmsg_alloc_simple(RTM_GETROUTE, NLM_F_REQUEST | NLM_F_DUMP));
  rtmsg wanted{};
  wanted.rtm_family = AF_INET;
  wanted.rtm_table = RT_TABLE_MAIN;
  if (!request || nlmsg_append(request.get(), &wanted, sizeof(wanted), NLMSG_ALIGNTO) < 0) return;
  ask(request, [&](nlmsghdr* header) { add_hops(header, hops); });
}

// A dump of IPv6 ends with them. So the kernel is asked for the route, with all its next hops, to addresses
// that hardly anything but a default route leads to: ::, the first of those that are assigned, and one that
// is not.
void Gateways::add_hops6(std::vector<Hop>& hops) {
  for (const u8 first : std::to_array<u8>({0x00, 0x20, 0x40})) {
    const Message request(nlmsg_alloc_simple(RTM_GETROUTE, NLM_F_REQUEST));
    rtmsg wanted{};
    wanted.rtm_family = AF_INET6;
    wanted.rtm_dst_len = 128;
    wanted.rtm_flags = RTM_F_FIB_MATCH;
    const std::array<u8, 16> address{first};
    if (!request || nlmsg_append(request.get(), &wanted, sizeof(wanted), NLMSG_ALIGNTO) < 0 ||
        nla_put(request.get(), RTA_DST, address.size(), address.data()) < 0)
      return;
    ask(request, [&](nlmsghdr* header) { add_hops(header, hops); });
  }
}

u64 Gateways::neighbour(const Hop& hop) {
  u64 mac = 0;
  const Message request(nlmsg_alloc_simple(RTM_GETNEIGH, NLM_F_REQUEST));
  ndmsg wanted{};
  wanted.ndm_family = hop.family;
  wanted.ndm_ifindex = static_cast<int>(hop.ifindex);
  if (!request || nlmsg_append(request.get(), &wanted, sizeof(wanted), NLMSG_ALIGNTO) < 0 ||
      nla_put(request.get(), NDA_DST, hop.family == AF_INET6 ? 16 : 4, hop.address.data()) < 0)
    return mac;
  ask(request, [&](nlmsghdr* header) {
    if (header->nlmsg_type != RTM_NEWNEIGH) return;
    const nlattr* address = nlmsg_find_attr(header, sizeof(ndmsg), NDA_LLADDR);
    if (address && nla_len(address) == 6) mac = xg_mac_number(static_cast<const u8*>(nla_data(address)));
  });
  return mac;
}

xg_gateways Gateways::look() {
  std::map<Hop, u64> now;
  xg_gateways found{};
  u32 count = 0;
  std::vector<Hop> hops;
  add_hops4(hops);
  add_hops6(hops);
  for (const Hop& hop : hops) {
    u64 mac = neighbour(hop);
    if (const auto before = known_.find(hop); mac == 0 && before != known_.end()) mac = before->second;
    if (mac == 0 || !now.emplace(hop, mac).second) continue;
    if (count < XG_GATEWAYS) found.mac[count++] = mac;
  }
  known_ = std::move(now);
  return found;
}

void tell_gateways(const PortMaps& maps, const xg_gateways& gateways) noexcept {
  const u32 zero = 0;
  bpf_map_update_elem(maps.gateways.get(), &zero, &gateways, BPF_ANY);
}

}  // namespace xdpgpu::kernel
