// SPDX-License-Identifier: MIT
#include "userspace/kernel/netlink.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/ethtool.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <linux/sockios.h>
#include <linux/tc_act/tc_mirred.h>
#include <net/if.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/route/link.h>
#include <netlink/route/link/inet6.h>
#include <netlink/route/link/veth.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

namespace xdpgpu::kernel {
namespace {

struct LinkPut {
  void operator()(rtnl_link* link) const noexcept { rtnl_link_put(link); }
};
using Link = std::unique_ptr<rtnl_link, LinkPut>;
struct AddressPut {
  void operator()(nl_addr* address) const noexcept { nl_addr_put(address); }
};
using Address = std::unique_ptr<nl_addr, AddressPut>;
struct MessageFree {
  void operator()(nl_msg* message) const noexcept { nlmsg_free(message); }
};
using Message = std::unique_ptr<nl_msg, MessageFree>;

std::string why(int error) {
  if (-error == NLE_PERM) return "permission denied; run as root, or with CAP_NET_ADMIN";
  return nl_geterror(error);
}

Result<Link> find(nl_sock* socket, const std::string& name) {
  rtnl_link* link = nullptr;
  if (const int error = rtnl_link_get_kernel(socket, 0, name.c_str(), &link); error < 0)
    return tl::unexpected(fmt::format("there is no interface {}: {}", name, why(error)));
  return Link(link);
}

std::optional<Mac> mac_of(rtnl_link* link) {
  const nl_addr* address = rtnl_link_get_addr(link);
  Mac mac{};
  if (!address || nl_addr_get_len(address) != mac.size()) return std::nullopt;
  std::memcpy(mac.data(), nl_addr_get_binary_addr(address), mac.size());
  return mac;
}

void shape_end(rtnl_link* end, const std::string& name, u32 queues, u32 mtu) {
  rtnl_link_set_name(end, name.c_str());
  rtnl_link_set_num_tx_queues(end, queues);
  rtnl_link_set_num_rx_queues(end, queues);
  rtnl_link_set_mtu(end, mtu);
  rtnl_link_set_flags(end, IFF_NOARP);
}

Result<void> change(nl_sock* socket, const std::string& name, rtnl_link* changes, const char* what) {
  auto link = find(socket, name);
  if (!link) return tl::unexpected(link.error());
  if (const int error = rtnl_link_change(socket, link->get(), changes, 0); error < 0)
    return tl::unexpected(fmt::format("cannot {} {}: {}", what, name, why(error)));
  return {};
}

// IPv6 would configure itself on the pair and send; where it is not in the kernel there is nothing to do.
void silence_ipv6(nl_sock* socket, const std::string& name) {
  Link changes(rtnl_link_alloc());
  if (rtnl_link_inet6_set_addr_gen_mode(changes.get(), IN6_ADDR_GEN_MODE_NONE) == 0)
    static_cast<void>(change(socket, name, changes.get(), "silence"));
  const Fd file(
      open(fmt::format("/proc/sys/net/ipv6/conf/{}/disable_ipv6", name).c_str(), O_WRONLY | O_CLOEXEC));
  if (file) [[maybe_unused]]
    const ssize_t written = write(file.get(), "1", 1);
}

}  // namespace

Result<Netlink> Netlink::open() {
  nl_sock* socket = nl_socket_alloc();
  if (!socket) return tl::unexpected(std::string("cannot make a netlink socket: out of memory"));
  Netlink netlink(socket);
  if (const int error = nl_connect(socket, NETLINK_ROUTE); error < 0)
    return tl::unexpected(fmt::format("cannot open a netlink socket: {}", why(error)));
  return netlink;
}

Netlink::~Netlink() {
  if (socket_) nl_socket_free(socket_);
}

Result<void> Netlink::add_veth(const std::string& name, const std::string& peer, u32 queues, u32 mtu) const {
  Link link(rtnl_link_veth_alloc());
  shape_end(link.get(), name, queues, mtu);
  shape_end(Link(rtnl_link_veth_get_peer(link.get())).get(), peer, queues, mtu);
  if (const int error = rtnl_link_add(socket_, link.get(), NLM_F_CREATE | NLM_F_EXCL); error < 0)
    return tl::unexpected(fmt::format("cannot make the veth pair {}, {}: {}", name, peer, why(error)));
  silence_ipv6(socket_, name);
  silence_ipv6(socket_, peer);
  return {};
}

bool Netlink::remove_link(const std::string& name) const noexcept {
  Link link(rtnl_link_alloc());
  rtnl_link_set_name(link.get(), name.c_str());
  return rtnl_link_delete(socket_, link.get()) == 0;
}

Result<Mac> Netlink::mac(const std::string& name) const {
  auto link = find(socket_, name);
  if (!link) return tl::unexpected(link.error());
  const auto mac = mac_of(link->get());
  if (!mac) return tl::unexpected(fmt::format("{} is not an Ethernet interface", name));
  return *mac;
}

std::optional<Mac> Netlink::mac(u32 ifindex) const noexcept {
  rtnl_link* found = nullptr;
  if (rtnl_link_get_kernel(socket_, static_cast<int>(ifindex), nullptr, &found) < 0) return std::nullopt;
  return mac_of(Link(found).get());
}

Result<void> Netlink::set_mac(const std::string& name, const Mac& mac) const {
  Link changes(rtnl_link_alloc());
  const Address address(nl_addr_build(AF_LLC, mac.data(), mac.size()));
  rtnl_link_set_addr(changes.get(), address.get());
  return change(socket_, name, changes.get(), "set the MAC address of");
}

Result<void> Netlink::set_up(const std::string& name) const {
  Link changes(rtnl_link_alloc());
  rtnl_link_set_flags(changes.get(), IFF_UP);
  return change(socket_, name, changes.get(), "bring up");
}

void Netlink::set_alias(const std::string& name, const std::string& alias) const noexcept {
  Link changes(rtnl_link_alloc());
  rtnl_link_set_ifalias(changes.get(), alias.c_str());
  static_cast<void>(change(socket_, name, changes.get(), "name"));
}

// libnl knows mirred only towards egress, so the message is put together here. A classic filter that
// always matches wants no classifier but the one that the programs need anyway.
Result<void> Netlink::redirect_ingress(u32 ifindex, u32 priority, u32 target_ifindex, Mirred how) const {
  const Message message(nlmsg_alloc_simple(RTM_NEWTFILTER, NLM_F_REQUEST | NLM_F_CREATE | NLM_F_EXCL));
  tcmsg header{};
  header.tcm_family = AF_UNSPEC;
  header.tcm_ifindex = static_cast<int>(ifindex);
  header.tcm_parent = TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS);
  header.tcm_info = TC_H_MAKE(priority << 16, __builtin_bswap16(ETH_P_ALL));
  nlmsg_append(message.get(), &header, sizeof(header), NLMSG_ALIGNTO);
  nla_put_string(message.get(), TCA_KIND, "bpf");
  nlattr* options = nla_nest_start(message.get(), TCA_OPTIONS);
  const sock_filter always{BPF_RET | BPF_K, 0, 0, 0xffffffff};
  nla_put_u16(message.get(), TCA_BPF_OPS_LEN, 1);
  nla_put(message.get(), TCA_BPF_OPS, sizeof(always), &always);
  nlattr* actions = nla_nest_start(message.get(), TCA_BPF_ACT);
  nlattr* first = nla_nest_start(message.get(), 1);
  nla_put_string(message.get(), TCA_ACT_KIND, "mirred");
  nlattr* action_options = nla_nest_start(message.get(), TCA_ACT_OPTIONS);
  tc_mirred redirect{};
  const bool in = how == Mirred::into_ingress;
  redirect.action = in ? TC_ACT_STOLEN : TC_ACT_SHOT;
  redirect.eaction = in ? TCA_INGRESS_REDIR : TCA_EGRESS_MIRROR;
  redirect.ifindex = target_ifindex;
  nla_put(message.get(), TCA_MIRRED_PARMS, sizeof(redirect), &redirect);
  nla_nest_end(message.get(), action_options);
  nla_nest_end(message.get(), first);
  nla_nest_end(message.get(), actions);
  nla_nest_end(message.get(), options);
  int error = nl_send_auto(socket_, message.get());
  if (error >= 0) error = nl_wait_for_ack(socket_);
  if (error < 0)
    return tl::unexpected(fmt::format(
        "cannot redirect with tc: {}; the kernel needs NET_CLS_BPF and NET_ACT_MIRRED", why(error)));
  return {};
}

std::optional<u32> Netlink::clsact_filters(u32 ifindex) const noexcept {
  u32 filters = 0;
  const std::unique_ptr<nl_cb, void (*)(nl_cb*)> callbacks(nl_cb_alloc(NL_CB_DEFAULT), nl_cb_put);
  if (!callbacks) return std::nullopt;
  nl_cb_set(
      callbacks.get(), NL_CB_VALID, NL_CB_CUSTOM,
      [](nl_msg* message, void* count) -> int {
        // The kernel tells of each chain's priorities, too, by messages without a filter in them.
        const auto* filter = static_cast<const tcmsg*>(nlmsg_data(nlmsg_hdr(message)));
        *static_cast<u32*>(count) += filter->tcm_handle != 0;
        return NL_OK;
      },
      &filters);
  for (const u32 way : {TC_H_MIN_INGRESS, TC_H_MIN_EGRESS}) {
    tcmsg wanted{};
    wanted.tcm_family = AF_UNSPEC;
    wanted.tcm_ifindex = static_cast<int>(ifindex);
    wanted.tcm_parent = TC_H_MAKE(TC_H_CLSACT, way);
    if (nl_send_simple(socket_, RTM_GETTFILTER, NLM_F_DUMP, &wanted, sizeof(wanted)) < 0 ||
        nl_recvmsgs(socket_, callbacks.get()) < 0)
      return std::nullopt;
  }
  return filters;
}

namespace {

u32 setting_of(Offload offload) noexcept {
  switch (offload) {
    case Offload::gro:
      return ETHTOOL_SGRO;
    case Offload::tso:
      return ETHTOOL_STSO;
    case Offload::tx_checksum:
      return ETHTOOL_STXCSUM;
    case Offload::scatter_gather:
      break;
  }
  return ETHTOOL_SSG;
}

}  // namespace

std::optional<bool> is_up(u32 ifindex) noexcept {
  const Fd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  if (!if_indextoname(ifindex, request.ifr_name) || ioctl(fd.get(), SIOCGIFFLAGS, &request) != 0)
    return std::nullopt;
  return (request.ifr_flags & IFF_UP) != 0;
}

void set_offload(const std::string& ifname, Offload offload, bool on) noexcept {
  const Fd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ethtool_value value{};
  value.cmd = setting_of(offload);
  value.data = on;
  ifreq request{};
  std::strncpy(request.ifr_name, ifname.c_str(), IFNAMSIZ - 1);
  request.ifr_data = reinterpret_cast<char*>(&value);
  ioctl(fd.get(), SIOCETHTOOL, &request);
}

// Only sysfs takes this setting before Linux 6.16, and a mounted sysfs shows the interfaces of the
// namespace it was mounted in: so one is made for the occasion, that nobody else sees.
void use_napi_threads(const std::string& ifname) noexcept {
  const Fd context(fsopen("sysfs", FSOPEN_CLOEXEC));
  if (!context || fsconfig(context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) return;
  const Fd root(fsmount(context.get(), FSMOUNT_CLOEXEC, 0));
  if (!root) return;
  const Fd file(
      openat(root.get(), fmt::format("class/net/{}/threaded", ifname).c_str(), O_WRONLY | O_CLOEXEC));
  if (file) [[maybe_unused]]
    const ssize_t written = write(file.get(), "1", 1);
}

}  // namespace xdpgpu::kernel
