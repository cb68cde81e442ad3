// SPDX-License-Identifier: MIT
#include "userspace/compiler/rules/lower_header.hpp"

#include <algorithm>

namespace xdpgpu::rules {
namespace {

namespace sig = gpu::signatures;

// The next one up or down; the last one has none.
bool step(sig::Address& address, std::size_t bytes, bool up) {
  for (std::size_t i = bytes; i-- > 0;) {
    address[i] = static_cast<u8>(up ? address[i] + 1 : address[i] - 1);
    if (address[i] != (up ? 0x00 : 0xff)) return true;
  }
  return false;
}
bool step(u16& port, std::size_t, bool up) {
  port = static_cast<u16>(up ? port + 1 : port - 1);
  return port != (up ? 0x0000 : 0xffff);
}

// In order, without `out`; what overlaps or touches is one.
template <class T>
sig::Ranges<T> normalized(sig::Ranges<T> in, sig::Ranges<T> out, std::size_t bytes) {
  const auto by_first = [](const auto& one, const auto& other) { return one.first < other.first; };
  std::sort(in.begin(), in.end(), by_first);
  std::sort(out.begin(), out.end(), by_first);
  sig::Ranges<T> joined, made;
  for (const auto& range : in) {
    T behind = joined.empty() ? T{} : joined.back().last;
    const bool touches = !joined.empty() && (!step(behind, bytes, true) || range.first <= behind);
    if (touches)
      joined.back().last = std::max(joined.back().last, range.last);
    else
      joined.push_back(range);
  }
  for (auto range : joined) {
    bool left = true;
    for (const auto& without : out) {
      if (without.last < range.first || range.last < without.first) continue;
      if (range.first < without.first) {
        T last = without.first;
        step(last, bytes, false);
        made.push_back({range.first, last});
      }
      range.first = without.last;
      left = step(range.first, bytes, true) && range.first <= range.last;
      if (!left) break;
    }
    if (left) made.push_back(range);
  }
  return made;
}

sig::Ranges<sig::Address> lower_family(const Addresses& addresses, u8 family) {
  const std::size_t bytes = family == 4 ? 4 : 16;
  const auto of_family = [&](const std::vector<AddressRange>& ranges) {
    sig::Ranges<sig::Address> made;
    for (const auto& range : ranges)
      if (range.first.family == family) made.push_back({range.first.bytes, range.last.bytes});
    return made;
  };
  auto in = of_family(addresses.in), out = of_family(addresses.out);
  if (addresses.any || (in.empty() && !out.empty())) {
    sig::Address last{};
    std::fill_n(last.begin(), bytes, u8{0xff});
    in.push_back({{}, last});
  }
  return normalized(std::move(in), std::move(out), bytes);
}

std::optional<sig::Ranges<u16>> lower_ports(const Ports& ports) {
  if (ports.unasked) return {};
  const auto of = [](const std::vector<PortRange>& ranges) {
    sig::Ranges<u16> made;
    for (const auto& range : ranges) made.push_back({range.first, range.last});
    return made;
  };
  auto in = of(ports.in);
  if (ports.any) in.push_back({0, 65535});
  return normalized(std::move(in), of(ports.out), 2);
}

std::bitset<256> protocols_of(std::string_view name) {
  std::bitset<256> made;
  if (name.starts_with("tcp")) return made.set(6);
  if (name == "udp" || name == "dns") return made.set(17);
  if (name == "sctp") return made.set(132);
  if (name == "icmp") return made.set(1).set(58);
  if (name == "icmpv4") return made.set(1);
  if (name == "icmpv6") return made.set(58);
  return made.set();
}

}  // namespace

sig::Addresses lower_addresses(const Addresses& addresses) {
  return {lower_family(addresses, 4), lower_family(addresses, 6)};
}

sig::Addresses united(std::span<const sig::Addresses> some) {
  sig::Addresses made;
  for (const auto& [v4, v6] : some) {
    made.v4.insert(made.v4.end(), v4.begin(), v4.end());
    made.v6.insert(made.v6.end(), v6.begin(), v6.end());
  }
  return {normalized(std::move(made.v4), {}, 4), normalized(std::move(made.v6), {}, 16)};
}

sig::Header lower_header(const Header& header) {
  sig::Header made;
  made.protocols = protocols_of(header.protocol);
  made.v4 = header.protocol != "ip6" && header.protocol != "ipv6";
  made.v6 = header.protocol != "ip4" && header.protocol != "ipv4";
  made.src = lower_addresses(header.src);
  made.dst = lower_addresses(header.dst);
  made.src_ports = lower_ports(header.src_ports);
  made.dst_ports = lower_ports(header.dst_ports);
  made.both_ways = header.both_ways;
  return made;
}

}  // namespace xdpgpu::rules
