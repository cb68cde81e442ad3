// SPDX-License-Identifier: MIT
//
// userspace/compiler/rules/header.hpp: what stands in front of a rule's options: for which packets it is, as
// groups of addresses and ports with what is left out of them, and variables for either.
#pragma once

#include <array>
#include <map>

#include "userspace/compiler/rules/text.hpp"

namespace xdpgpu::rules {

// "$HOME_NET" and the like: a text each, as it stands in a rule.
using Variables = std::map<std::string, std::string, std::less<>>;
// What Suricata's own configuration has.
Variables usual_variables();
// Several values as one.
std::string group_of(const std::vector<std::string>& values);

struct Address {
  u8 family = 4;  // 4 or 6
  std::array<u8, 16> bytes{};
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 sees a 0 in there.
  auto operator<=>(const Address&) const = default;
};
struct AddressRange {
  Address first, last;  // of one family
  // NOLINTNEXTLINE(modernize-use-nullptr)
  auto operator<=>(const AddressRange&) const = default;
};
struct Addresses {
  // Of both families; what is left out counts. Of a family of which some are left out and none named: all
  // others.
  bool any = false;
  std::vector<AddressRange> in, out;
};
struct PortRange {
  u16 first = 0, last = 65535;
  // NOLINTNEXTLINE(modernize-use-nullptr)
  auto operator<=>(const PortRange&) const = default;
};
struct Ports {
  bool any = false;
  bool unasked = false;  // "any" and no more: packets without ports, too
  std::vector<PortRange> in, out;
};

Result<Addresses> parse_addresses(std::string_view text, const Variables& variables);
Result<Ports> parse_ports(std::string_view text, const Variables& variables);

enum class Action : u8 { alert, pass, drop, reject, reject_dst, reject_both, config };
Result<Action> parse_action(std::string_view text);
std::string_view name_of(Action action);

struct Header {
  Action action = Action::alert;
  std::string protocol;  // as Suricata names it: "tcp", "http", "tcp-pkt", ...
  Addresses src, dst;
  Ports src_ports, dst_ports;
  bool both_ways = false;
};
Result<Header> parse_header(const std::vector<std::string>& parts, const Variables& variables);

// What a protocol is looked for in.
enum class Layer : u8 { any, ip, tcp, tcp_packet, tcp_stream, udp, icmp, other, application };
std::optional<Layer> layer_of(std::string_view protocol);

}  // namespace xdpgpu::rules
