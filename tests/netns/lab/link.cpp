// SPDX-License-Identifier: MIT
#include "tests/netns/lab/link.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netlink/netlink.h>
#include <netlink/route/addr.h>
#include <netlink/route/link.h>
#include <netlink/route/link/bridge.h>
#include <netlink/route/link/veth.h>
#include <netlink/route/neighbour.h>
#include <netlink/route/route.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <memory>
#include <thread>

namespace xdpgpu::lab {
namespace {

// A netlink route socket of the calling thread's namespace.
class Netlink {
 public:
  Netlink() : socket_(nl_socket_alloc()) {
    if (const int error = nl_connect(socket_.get(), NETLINK_ROUTE); error < 0)
      throw Error(fmt::format("cannot open a netlink socket: {}", nl_geterror(error)));
  }
  nl_sock* get() const { return socket_.get(); }

 private:
  struct Free {
    void operator()(nl_sock* socket) const { nl_socket_free(socket); }
  };
  std::unique_ptr<nl_sock, Free> socket_;
};

template <class T, void (*Put)(T*)>
struct Putter {
  void operator()(T* object) const { Put(object); }
};
using Link = std::unique_ptr<rtnl_link, Putter<rtnl_link, rtnl_link_put>>;
using Address = std::unique_ptr<nl_addr, Putter<nl_addr, nl_addr_put>>;
using IfAddress = std::unique_ptr<rtnl_addr, Putter<rtnl_addr, rtnl_addr_put>>;
using Neighbour = std::unique_ptr<rtnl_neigh, Putter<rtnl_neigh, rtnl_neigh_put>>;

void check(int error, const std::string& what) {
  if (error < 0) throw Error(fmt::format("cannot {}: {}", what, nl_geterror(error)));
}

Address parse_address(const std::string& text) {
  nl_addr* address = nullptr;
  check(nl_addr_parse(text.c_str(), AF_UNSPEC, &address), fmt::format("read the address {}", text));
  return Address(address);
}

Link query(const Netlink& netlink, unsigned ifindex) {
  rtnl_link* link = nullptr;
  check(rtnl_link_get_kernel(netlink.get(), static_cast<int>(ifindex), nullptr, &link),
        fmt::format("query the interface with index {}", ifindex));
  return Link(link);
}

Mac next_mac() {
  static std::atomic<unsigned> counter{0};
  const unsigned n = ++counter;
  return {0x02, 0x78, 0x67, 0x00, static_cast<std::uint8_t>(n >> 8), static_cast<std::uint8_t>(n)};
}

Address mac_address(const Mac& mac) { return Address(nl_addr_build(AF_LLC, mac.data(), mac.size())); }

// ---- ethtool ---------------------------------------------------------------------------------------

int ethtool(const std::string& ifname, void* command) {
  const Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  ifname.copy(request.ifr_name, IFNAMSIZ - 1);
  request.ifr_data = static_cast<char*>(command);
  return ioctl(socket.get(), SIOCETHTOOL, &request);
}

std::vector<std::string> feature_names(const std::string& ifname) {
  std::vector<std::uint8_t> query(sizeof(ethtool_sset_info) + sizeof(std::uint32_t));
  auto* info = reinterpret_cast<ethtool_sset_info*>(query.data());
  info->cmd = ETHTOOL_GSSET_INFO;
  info->sset_mask = 1ULL << ETH_SS_FEATURES;
  if (ethtool(ifname, info) < 0) return {};
  const std::uint32_t count = info->data[0];
  std::vector<std::uint8_t> memory(sizeof(ethtool_gstrings) + std::size_t{count} * ETH_GSTRING_LEN);
  auto* strings = reinterpret_cast<ethtool_gstrings*>(memory.data());
  strings->cmd = ETHTOOL_GSTRINGS;
  strings->string_set = ETH_SS_FEATURES;
  strings->len = count;
  if (ethtool(ifname, strings) < 0) return {};
  std::vector<std::string> names;
  for (std::uint32_t i = 0; i < count; ++i) {
    const char* name = reinterpret_cast<const char*>(strings->data) + std::size_t{i} * ETH_GSTRING_LEN;
    names.emplace_back(name, strnlen(name, ETH_GSTRING_LEN));
  }
  return names;
}

// Where an offload stands in the kernel's bit set of `blocks` 32-bit words.
struct Feature {
  std::size_t blocks = 0, word = 0;
  std::uint32_t bit = 0;
};

Feature find_feature(const std::string& ifname, const std::string& name) {
  const auto names = feature_names(ifname);
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == name) return {(names.size() + 31) / 32, i / 32, 1U << (i % 32)};
  throw Error(fmt::format("the kernel knows no offload {} (asked of {})", name, ifname));
}

bool feature_active(const std::string& ifname, const Feature& feature) {
  std::vector<std::uint8_t> memory(sizeof(ethtool_gfeatures) +
                                   feature.blocks * sizeof(ethtool_get_features_block));
  auto* get = reinterpret_cast<ethtool_gfeatures*>(memory.data());
  get->cmd = ETHTOOL_GFEATURES;
  get->size = static_cast<std::uint32_t>(feature.blocks);
  if (ethtool(ifname, get) < 0)
    throw Error(fmt::format("cannot read the offloads of {}: {}", ifname, std::strerror(errno)));
  return (get->features[feature.word].active & feature.bit) != 0;
}

}  // namespace

std::string to_string(const Mac& mac) {
  return fmt::format("{:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}", mac[0], mac[1], mac[2], mac[3], mac[4],
                     mac[5]);
}

Interface::Interface(const Namespace& ns, std::string ifname) : ns_(&ns), ifname_(std::move(ifname)) {
  ifindex_ = ns.run([this] { return if_nametoindex(ifname_.c_str()); });
  if (ifindex_ == 0) throw Error(fmt::format("no interface {} in the namespace {}", ifname_, ns.name()));
}

Mac Interface::mac() const {
  return ns_->run([this] {
    const Netlink netlink;
    const Link link = query(netlink, ifindex_);
    Mac mac{};
    std::memcpy(mac.data(), nl_addr_get_binary_addr(rtnl_link_get_addr(link.get())), mac.size());
    return mac;
  });
}

namespace {
void change(const Interface& interface, const std::function<void(rtnl_link*)>& edit, const char* what) {
  interface.ns().run([&] {
    const Netlink netlink;
    const Link old = query(netlink, interface.ifindex());
    const Link wanted(rtnl_link_alloc());
    edit(wanted.get());
    check(rtnl_link_change(netlink.get(), old.get(), wanted.get(), 0),
          fmt::format("{} {}", what, interface.ifname()));
  });
}
}  // namespace

void Interface::up() const {
  change(
      *this, [](rtnl_link* link) { rtnl_link_set_flags(link, IFF_UP); }, "bring up");
}
void Interface::down() const {
  change(
      *this, [](rtnl_link* link) { rtnl_link_unset_flags(link, IFF_UP); }, "take down");
}
void Interface::remove() const {
  ns_->run([this] {
    const Netlink netlink;
    if (rtnl_link_delete(netlink.get(), query(netlink, ifindex_).get()) < 0)
      throw Error(fmt::format("cannot delete {}", ifname_));
  });
}
void Interface::set_mac(const Mac& mac) const {
  const Address address = mac_address(mac);
  change(
      *this, [&](rtnl_link* link) { rtnl_link_set_addr(link, address.get()); }, "set the MAC address of");
}
void Interface::set_mtu(unsigned mtu) const {
  change(
      *this, [&](rtnl_link* link) { rtnl_link_set_mtu(link, mtu); }, "set the MTU of");
}

void Interface::set_channels(unsigned receive, unsigned transmit) const {
  ns_->run([&] {
    ethtool_channels channels{};
    channels.cmd = ETHTOOL_SCHANNELS;
    channels.rx_count = receive;
    channels.tx_count = transmit;
    if (ethtool(ifname_, &channels) < 0)
      throw Error(fmt::format("cannot give {} {} receive and {} transmit queues: {}", ifname_, receive,
                              transmit, std::strerror(errno)));
  });
}
Interface Interface::renamed(const std::string& ifname) const {
  change(
      *this, [&](rtnl_link* link) { rtnl_link_set_name(link, ifname.c_str()); }, "rename");
  return Interface(*ns_, ifname);
}
Interface Interface::moved_to(const Namespace& ns) const {
  change(
      *this, [&](rtnl_link* link) { rtnl_link_set_ns_fd(link, ns.fd()); }, "move");
  return Interface(ns, ifname_);
}

void Interface::add_address(const std::string& cidr) const {
  ns_->run([&] {
    const Netlink netlink;
    const Address address = parse_address(cidr);
    const IfAddress entry(rtnl_addr_alloc());
    rtnl_addr_set_ifindex(entry.get(), static_cast<int>(ifindex_));
    check(rtnl_addr_set_local(entry.get(), address.get()), fmt::format("use the address {}", cidr));
    check(rtnl_addr_add(netlink.get(), entry.get(), 0), fmt::format("give {} the address {}", ifname_, cidr));
  });
}

void Interface::add_neighbour(const std::string& address, const Mac& mac) const {
  ns_->run([&] {
    const Netlink netlink;
    const Address destination = parse_address(address.substr(0, address.find('/')));
    const Address lladdr = mac_address(mac);
    const Neighbour entry(rtnl_neigh_alloc());
    rtnl_neigh_set_ifindex(entry.get(), static_cast<int>(ifindex_));
    rtnl_neigh_set_dst(entry.get(), destination.get());
    rtnl_neigh_set_lladdr(entry.get(), lladdr.get());
    rtnl_neigh_set_state(entry.get(), NUD_PERMANENT);
    check(rtnl_neigh_add(netlink.get(), entry.get(), NLM_F_CREATE | NLM_F_REPLACE),
          fmt::format("add the neighbour {} on {}", address, ifname_));
  });
}

void Interface::add_route(const std::string& prefix, const std::string& gateway) const {
  ns_->run([&] {
    const Netlink netlink;
    const Address destination = parse_address(prefix);
    const Address via = parse_address(gateway);
    std::unique_ptr<rtnl_route, Putter<rtnl_route, rtnl_route_put>> route(rtnl_route_alloc());
    rtnl_route_set_dst(route.get(), destination.get());
    rtnl_nexthop* hop = rtnl_route_nh_alloc();  // the route takes it over
    rtnl_route_nh_set_gateway(hop, via.get());
    rtnl_route_nh_set_ifindex(hop, static_cast<int>(ifindex_));
    rtnl_route_add_nexthop(route.get(), hop);
    check(rtnl_route_add(netlink.get(), route.get(), 0),
          fmt::format("add the route {} via {}", prefix, gateway));
  });
}

void Interface::feature(const std::string& name, bool on) const {
  ns_->run([&] {
    const Feature feature = find_feature(ifname_, name);
    std::vector<std::uint8_t> memory(sizeof(ethtool_sfeatures) +
                                     feature.blocks * sizeof(ethtool_set_features_block));
    auto* set = reinterpret_cast<ethtool_sfeatures*>(memory.data());
    set->cmd = ETHTOOL_SFEATURES;
    set->size = static_cast<std::uint32_t>(feature.blocks);
    set->features[feature.word].valid = feature.bit;
    set->features[feature.word].requested = on ? feature.bit : 0;
    const int result = ethtool(ifname_, set);
    if (result < 0 || feature_active(ifname_, feature) != on)
      throw Error(fmt::format("{} does not switch {} {}: {}", ifname_, name, on ? "on" : "off",
                              result < 0 ? std::strerror(errno) : "the driver keeps it"));
  });
}

bool Interface::feature(const std::string& name) const {
  return ns_->run([&] { return feature_active(ifname_, find_feature(ifname_, name)); });
}

bool Interface::running() const {
  return ns_->run([this] {
    const Netlink netlink;
    const unsigned flags = rtnl_link_get_flags(query(netlink, ifindex_).get());
    return (flags & IFF_UP) != 0 && (flags & IFF_RUNNING) != 0;
  });
}

unsigned Interface::carrier_changes() const {
  return ns_->run([this] {
    const Netlink netlink;
    std::uint32_t changes = 0;
    check(rtnl_link_get_carrier_changes(query(netlink, ifindex_).get(), &changes),
          fmt::format("count the carrier's changes of {}", ifname_));
    return changes;
  });
}

Interface::Counters Interface::counters() const {
  return ns_->run([this] {
    const Netlink netlink;
    const Link link = query(netlink, ifindex_);
    return Counters{rtnl_link_get_stat(link.get(), RTNL_LINK_RX_PACKETS),
                    rtnl_link_get_stat(link.get(), RTNL_LINK_TX_PACKETS),
                    rtnl_link_get_stat(link.get(), RTNL_LINK_RX_DROPPED),
                    rtnl_link_get_stat(link.get(), RTNL_LINK_TX_DROPPED)};
  });
}

namespace {
Interface make_pair(const Namespace& a_ns, const std::string& a_ifname, const Namespace& b_ns,
                    const std::string& b_ifname, const VethOptions& options) {
  a_ns.run([&] {
    const Netlink netlink;
    const Link link(rtnl_link_veth_alloc());
    if (!link) throw Error("cannot describe a veth pair: out of memory");
    const Link peer_reference(rtnl_link_veth_get_peer(link.get()));
    rtnl_link* const peer = peer_reference.get();
    rtnl_link_set_name(link.get(), a_ifname.c_str());
    rtnl_link_set_name(peer, b_ifname.c_str());
    rtnl_link_set_ns_fd(peer, b_ns.fd());
    for (rtnl_link* end : {link.get(), peer}) {
      rtnl_link_set_num_tx_queues(end, options.queues);
      rtnl_link_set_num_rx_queues(end, options.queues);
      rtnl_link_set_mtu(end, options.mtu);
      const Address mac = mac_address(next_mac());
      rtnl_link_set_addr(end, mac.get());
    }
    check(rtnl_link_add(netlink.get(), link.get(), NLM_F_CREATE | NLM_F_EXCL),
          fmt::format("make the veth pair {} and {}", a_ifname, b_ifname));
  });
  return Interface(a_ns, a_ifname);
}
}  // namespace

Veth::Veth(const Namespace& a_ns, const std::string& a_ifname, const Namespace& b_ns,
           const std::string& b_ifname, const VethOptions& options)
    : a_(make_pair(a_ns, a_ifname, b_ns, b_ifname, options)), b_(b_ns, b_ifname) {
  // One packet waits for each neighbour whose address is asked for. The kernel makes its own answers (echo
  // replies, ICMP errors, RSTs) from a CPU's memory for them, which all namespaces share: a flood's hundreds
  // that wait for neighbours that there are not would leave nobody else, on this host, an answer. Hosts
  // without IPv6 have no such setting of it.
  for (const Interface* end : {&a_, &b_})
    for (const char* family : {"ipv4", "ipv6"})
      end->ns().run([&] {
        std::ofstream(fmt::format("/proc/sys/net/{}/neigh/{}/unres_qlen_bytes", family, end->ifname()))
            << "0";
      });
  a_.feature("rx-gro", true);
  b_.feature("rx-gro", true);
}

Veth::~Veth() {
  try {
    a_.ns().run([this] {
      const Netlink netlink;
      rtnl_link_delete(netlink.get(), query(netlink, a_.ifindex()).get());
    });
  } catch (const Error&) {
    // Already gone with one of the namespaces.
  }
}

void Veth::address(const std::string& a_cidr, const std::string& b_cidr) const {
  a_.add_address(a_cidr);
  b_.add_address(b_cidr);
  a_.add_neighbour(b_cidr, b_.mac());
  b_.add_neighbour(a_cidr, a_.mac());
}

// Whether IPv6, where the interface has it, has told of its multicast groups: it does so twice at least (RFC
// 3810).
static bool has_announced(const Interface& interface) {
  return interface.ns().run([&] {
    std::ifstream disabled(fmt::format("/proc/sys/net/ipv6/conf/{}/disable_ipv6", interface.ifname()));
    if (int value = 1; !(disabled >> value) || value != 0) return true;
    std::ifstream counts("/proc/thread-self/net/dev_snmp6/" + interface.ifname());
    std::uint64_t count = 0;
    for (std::string name; counts >> name >> count;)
      if (name == "Icmp6OutMLDv2Reports") return count >= 2;
    return true;
  });
}

void Veth::up() const {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::seconds(3);
  a_.up();
  b_.up();
  while (!a_.running() || !b_.running()) {
    if (Clock::now() > deadline)
      throw Error(fmt::format("{} and {} got no carrier within three seconds", a_.ifname(), b_.ifname()));
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  // IPv6 announces its multicast groups for a moment (some 30 ms with the namespace's settings), on a busy
  // host later.
  constexpr auto kQuiet = std::chrono::milliseconds(60);
  const auto seen = [this] { return a_.counters().rx_packets + b_.counters().rx_packets; };
  auto last = seen();
  for (auto since = Clock::now(); Clock::now() < std::min(since + kQuiet, deadline);) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (const auto now = seen(); now != last || !has_announced(a_) || !has_announced(b_)) {
      last = now;
      since = Clock::now();
    }
  }
}

void Veth::checksums_in_software() const {
  a_.feature("tx-checksum-ip-generic", false);
  b_.feature("tx-checksum-ip-generic", false);
}

Bridge::Bridge(const Namespace& ns, const std::string& ifname, const Interface& port)
    : ns_(&ns), ifname_(ifname) {
  ns.run([&] {
    const Netlink netlink;
    const Link bridge(rtnl_link_bridge_alloc());
    rtnl_link_set_name(bridge.get(), ifname.c_str());
    check(rtnl_link_add(netlink.get(), bridge.get(), NLM_F_CREATE | NLM_F_EXCL),
          fmt::format("make the bridge {}", ifname));
    const Link made = query(netlink, if_nametoindex(ifname.c_str()));
    const Link slave = query(netlink, port.ifindex());
    check(rtnl_link_enslave(netlink.get(), made.get(), slave.get()),
          fmt::format("put {} into the bridge {}", port.ifname(), ifname));
  });
}

Bridge::~Bridge() {
  try {
    ns_->run([this] {
      const Netlink netlink;
      rtnl_link_delete(netlink.get(), query(netlink, if_nametoindex(ifname_.c_str())).get());
    });
  } catch (const Error&) {
    // Already gone with its namespace.
  }
}

}  // namespace xdpgpu::lab
