// SPDX-License-Identifier: MIT
#include "userspace/host/exposure.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/route.h>
#include <netinet/in.h>
#include <signal.h>
#include <utmpx.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <tuple>
#include <utility>

namespace xdpgpu::host {
namespace {

constexpr unsigned kUnconnected = 7, kListening = 10;  // as /proc/net has TCP's states
constexpr u16 kDhcpClient = 68, kDhcpClient6 = 546;

std::optional<unsigned> hex(std::string_view text) {
  unsigned value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

// Words of a file's lines, its first line left out if it is a heading.
std::vector<std::vector<std::string>> lines_of(const char* path, bool heading) {
  std::vector<std::vector<std::string>> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (std::exchange(heading, false)) continue;
    std::istringstream words(line);
    auto& split = lines.emplace_back();
    for (std::string word; words >> word;) split.push_back(std::move(word));
  }
  return lines;
}

bool is_up(const std::string& flags) {
  const auto value = hex(flags);
  return value && (*value & RTF_UP) && !(*value & RTF_REJECT);
}

std::set<std::string> uplinks() {
  std::set<std::string> names;
  for (const auto& route : lines_of("/proc/net/route", true))
    if (route.size() > 7 && route[1] == "00000000" && route[7] == "00000000" && is_up(route[3]))
      names.insert(route[0]);
  for (const auto& route : lines_of("/proc/net/ipv6_route", false))
    if (route.size() > 9 && route[0].find_first_not_of('0') == std::string::npos && route[1] == "00" &&
        is_up(route[8]) && route[9] != "lo")
      names.insert(route[9]);
  return names;
}

// An address, in the network's order.
struct Address {
  int family = AF_INET;
  std::array<u8, 16> bytes{};
  std::size_t length() const { return family == AF_INET ? 4 : 16; }
  bool operator<(const Address& other) const {
    return std::tie(family, bytes) < std::tie(other.family, other.bytes);
  }
};

std::string text_of(const Address& address) {
  char text[INET6_ADDRSTRLEN] = {};
  inet_ntop(address.family, address.bytes.data(), text, sizeof(text));
  return text;
}

bool is_loopback(const Address& address) {
  return address.family == AF_INET
             ? address.bytes[0] == 127
             : IN6_IS_ADDR_LOOPBACK(reinterpret_cast<const in6_addr*>(address.bytes.data()));
}
bool is_link_local(const Address& address) {
  return address.family == AF_INET
             ? address.bytes[0] == 169 && address.bytes[1] == 254
             : IN6_IS_ADDR_LINKLOCAL(reinterpret_cast<const in6_addr*>(address.bytes.data()));
}

std::optional<Address> address_of(const sockaddr* from) {
  if (!from || (from->sa_family != AF_INET && from->sa_family != AF_INET6)) return std::nullopt;
  Address address{from->sa_family, {}};
  const void* at = from->sa_family == AF_INET
                       ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(from)->sin_addr)
                       : &reinterpret_cast<const sockaddr_in6*>(from)->sin6_addr;
  std::memcpy(address.bytes.data(), at, address.length());
  return address;
}

// An IPv4 address that stands inside of an IPv6 one, by itself.
Address unmapped(const Address& address) {
  if (address.family == AF_INET ||
      !IN6_IS_ADDR_V4MAPPED(reinterpret_cast<const in6_addr*>(address.bytes.data())))
    return address;
  Address inside{AF_INET, {}};
  std::copy(address.bytes.begin() + 12, address.bytes.end(), inside.bytes.begin());
  return inside;
}

// The network that an interface's address is in; nothing where that is the address alone.
std::optional<std::string> network_of(const ifaddrs& entry) {
  auto address = address_of(entry.ifa_addr);
  const auto mask = address_of(entry.ifa_netmask);
  if (!address || !mask || is_link_local(*address)) return std::nullopt;
  unsigned bits = 0;
  for (std::size_t i = 0; i < address->length(); i++) {
    address->bytes[i] &= mask->bytes[i];
    bits += static_cast<unsigned>(std::popcount(mask->bytes[i]));
  }
  if (bits == 0 || bits == 8 * address->length()) return std::nullopt;
  return fmt::format("{}/{}", text_of(*address), bits);
}

// "0100007F:0016": words as this processor prints them, and a port.
std::optional<std::pair<Address, u16>> endpoint(const std::string& text) {
  const auto colon = text.find(':');
  if (colon != 8 && colon != 32) return std::nullopt;
  Address address{colon == 8 ? AF_INET : AF_INET6, {}};
  for (std::size_t i = 0; i < colon / 8; i++) {
    const auto word = hex(std::string_view(text).substr(8 * i, 8));
    if (!word) return std::nullopt;
    std::memcpy(address.bytes.data() + 4 * i, &*word, 4);
  }
  const auto port = hex(std::string_view(text).substr(colon + 1));
  if (!port || *port > 65535) return std::nullopt;
  return std::pair(unmapped(address), static_cast<u16>(*port));
}

// From `least` on and below `end`.
std::vector<u16> ports_listened_at(const char* path4, const char* path6, unsigned state, unsigned least,
                                   unsigned end) {
  std::set<u16> ports;
  for (const char* path : {path4, path6})
    for (const auto& socket : lines_of(path, true)) {
      const auto own = socket.size() > 3 && hex(socket[3]) == state ? endpoint(socket[1]) : std::nullopt;
      if (own && !is_loopback(own->first) && own->second >= least && own->second < end)
        ports.insert(own->second);
    }
  return {ports.begin(), ports.end()};
}

}  // namespace

Exposure look_at_exposure() {
  Exposure found;
  const auto names = uplinks();
  found.uplinks.assign(names.begin(), names.end());
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) == 0) {
    const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owned(list, freeifaddrs);
    std::set<std::string> networks;
    for (const ifaddrs* entry = list; entry; entry = entry->ifa_next)
      if (names.count(entry->ifa_name) != 0)
        if (auto network = network_of(*entry)) networks.insert(*std::move(network));
    found.networks.assign(networks.begin(), networks.end());
  }
  constexpr unsigned kEnd = 65536;
  found.tcp_ports = ports_listened_at("/proc/net/tcp", "/proc/net/tcp6", kListening, 0, kEnd);
  unsigned any = 32768;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> any;
  found.udp_ports = ports_listened_at("/proc/net/udp", "/proc/net/udp6", kUnconnected, 0, any);
  found.udp_unsure = ports_listened_at("/proc/net/udp", "/proc/net/udp6", kUnconnected, any, kEnd);
  std::erase_if(found.udp_ports, [](u16 port) { return port == kDhcpClient || port == kDhcpClient6; });
  for (const char* path : {"/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv6/conf/all/forwarding"}) {
    int on = 0;
    std::ifstream(path) >> on;
    found.forwards |= on != 0;
  }
  return found;
}

std::vector<std::string> logged_in_from() {
  std::set<Address> hosts;
  setutxent();
  while (const utmpx* entry = getutxent()) {
    if (entry->ut_type != USER_PROCESS || (kill(entry->ut_pid, 0) != 0 && errno == ESRCH)) continue;
    const auto* words = entry->ut_addr_v6;
    Address host{words[1] == 0 && words[2] == 0 && words[3] == 0 ? AF_INET : AF_INET6, {}};
    std::memcpy(host.bytes.data(), words, host.length());
    host = unmapped(host);
    if (host.bytes != Address{}.bytes && !is_loopback(host) && !is_link_local(host)) hosts.insert(host);
  }
  endutxent();
  std::vector<std::string> texts;
  texts.reserve(hosts.size());
  for (const auto& host : hosts) texts.push_back(text_of(host));
  return texts;
}

}  // namespace xdpgpu::host
