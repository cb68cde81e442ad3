// SPDX-License-Identifier: MIT
#include "userspace/compiler/rules/header.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <iterator>

namespace xdpgpu::rules {
namespace {

// A variable within a variable within ... , or brackets within brackets.
constexpr unsigned kDeepest = 16;

struct Named {
  std::string_view name;
  Layer layer;
};
constexpr Named kProtocols[] = {{"ip", Layer::any},
                                {"ip4", Layer::ip},
                                {"ipv4", Layer::ip},
                                {"ip6", Layer::ip},
                                {"ipv6", Layer::ip},
                                {"pkthdr", Layer::any},
                                {"tcp", Layer::tcp},
                                {"tcp-pkt", Layer::tcp_packet},
                                {"tcp-stream", Layer::tcp_stream},
                                {"udp", Layer::udp},
                                {"icmp", Layer::icmp},
                                {"icmpv4", Layer::icmp},
                                {"icmpv6", Layer::icmp},
                                {"sctp", Layer::other},
                                {"http", Layer::application},
                                {"http1", Layer::application},
                                {"http2", Layer::application},
                                {"ftp", Layer::application},
                                {"ftp-data", Layer::application},
                                {"smtp", Layer::application},
                                {"tls", Layer::application},
                                {"ssl", Layer::application},
                                {"ssh", Layer::application},
                                {"imap", Layer::application},
                                {"smb", Layer::application},
                                {"dcerpc", Layer::application},
                                {"dns", Layer::application},
                                {"modbus", Layer::application},
                                {"enip", Layer::application},
                                {"dnp3", Layer::application},
                                {"nfs", Layer::application},
                                {"ntp", Layer::application},
                                {"tftp", Layer::application},
                                {"ike", Layer::application},
                                {"ikev2", Layer::application},
                                {"krb5", Layer::application},
                                {"quic", Layer::application},
                                {"dhcp", Layer::application},
                                {"snmp", Layer::application},
                                {"sip", Layer::application},
                                {"rfb", Layer::application},
                                {"mqtt", Layer::application},
                                {"pgsql", Layer::application},
                                {"telnet", Layer::application},
                                {"rdp", Layer::application},
                                {"bittorrent-dht", Layer::application}};

tl::unexpected<std::string> wrong(std::string text) { return tl::unexpected(std::move(text)); }

std::optional<Address> address(std::string_view text) {
  const std::string copy(text);
  Address made;
  if (inet_pton(AF_INET, copy.c_str(), made.bytes.data()) == 1) return made;
  made.family = 6;
  if (inet_pton(AF_INET6, copy.c_str(), made.bytes.data()) == 1) return made;
  return {};
}

// A mask as a length: "255.255.0.0", too.
std::optional<unsigned> length_of(std::string_view text, u8 family) {
  const unsigned most = family == 4 ? 32 : 128;
  if (const auto length = number(text, most)) return static_cast<unsigned>(*length);
  const auto mask = address(text);
  if (!mask || mask->family != 4 || family != 4) return {};
  u32 bits = 0;
  std::memcpy(&bits, mask->bytes.data(), sizeof(bits));
  bits = ntohl(bits);
  const unsigned ones = static_cast<unsigned>(__builtin_popcount(bits));
  if (bits != (ones == 0 ? 0 : ~u32{0} << (32 - ones))) return {};
  return ones;
}

std::optional<AddressRange> range(std::string_view text) {
  if (const auto dash = text.find('-'); dash != std::string_view::npos) {
    const auto first = address(trimmed(text.substr(0, dash))), last = address(trimmed(text.substr(dash + 1)));
    if (!first || !last || first->family != last->family || *last < *first) return {};
    return AddressRange{*first, *last};
  }
  const auto slash = text.find('/');
  const auto base = address(text.substr(0, slash));
  if (!base) return {};
  const unsigned bits = base->family == 4 ? 32 : 128;
  unsigned length = bits;
  if (slash != std::string_view::npos) {
    const auto found = length_of(text.substr(slash + 1), base->family);
    if (!found) return {};
    length = *found;
  }
  AddressRange made{*base, *base};
  for (unsigned bit = length; bit < bits; bit++) {
    const u8 one = static_cast<u8>(0x80u >> bit % 8);
    made.first.bytes[bit / 8] = static_cast<u8>(made.first.bytes[bit / 8] & ~one);
    made.last.bytes[bit / 8] = static_cast<u8>(made.last.bytes[bit / 8] | one);
  }
  return made;
}

std::optional<PortRange> ports(std::string_view text) {
  const auto colon = text.find(':');
  if (colon == std::string_view::npos) {
    const auto one = number(text, 65535);
    if (!one) return {};
    return PortRange{static_cast<u16>(*one), static_cast<u16>(*one)};
  }
  const std::string_view from = trimmed(text.substr(0, colon)), to = trimmed(text.substr(colon + 1));
  const auto first = from.empty() ? std::optional<u64>(0) : number(from, 65535);
  const auto last = to.empty() ? std::optional<u64>(65535) : number(to, 65535);
  if (!first || !last || *last < *first || (from.empty() && to.empty())) return {};
  return PortRange{static_cast<u16>(*first), static_cast<u16>(*last)};
}

// What a group's text names, item by item, each with whether it is left out.
template <class Item>
class Group {
 public:
  using Parse = std::optional<Item> (*)(std::string_view);
  Group(const Variables& variables, Parse parse, const char* what)
      : variables_(variables), parse_(parse), what_(what) {}

  Result<void> add(std::string_view text, unsigned depth = 0) {
    text = trimmed(text);
    if (depth > kDeepest)
      return wrong(
          fmt::format("{} are nested more than {} deep, or a variable names itself", what_, kDeepest));
    if (text.empty()) return wrong(fmt::format("among {} one is missing", what_));
    if (text[0] == '!') {
      Group rest(variables_, parse_, what_);
      if (auto added = rest.add(text.substr(1), depth + 1); !added) return added;
      if (rest.in.empty() && rest.left_out.empty())
        return wrong(fmt::format("\"{}\" leaves no {}", text, what_));
      if (!rest.left_out.empty() && (rest.any || !rest.in.empty()))
        return wrong(
            fmt::format("\"{}\" leaves out what itself leaves something out: write it as one group", text));
      left_out.insert(left_out.end(), rest.in.begin(), rest.in.end());
      in.insert(in.end(), rest.left_out.begin(), rest.left_out.end());
      return {};
    }
    if (text[0] == '[') {
      if (text.back() != ']') return wrong(fmt::format("\"{}\" does not end with its bracket", text));
      for (const auto part : at_commas(text.substr(1, text.size() - 2)))
        if (auto added = add(part, depth + 1); !added) return added;
      return {};
    }
    if (text[0] == '$') {
      const auto found = variables_.find(text.substr(1));
      if (found == variables_.end())
        return wrong(fmt::format("the variable {} is not set: give it in \"vars\"", text));
      return add(found->second, depth + 1);
    }
    if (text == "any") {
      any = true;
      return {};
    }
    const auto item = parse_(text);
    if (!item) return wrong(fmt::format("\"{}\" is none of {}", text, what_));
    in.push_back(*item);
    return {};
  }

  bool any = false;
  std::vector<Item> in, left_out;

 private:
  const Variables& variables_;
  Parse parse_;
  const char* what_;
};

}  // namespace

std::string group_of(const std::vector<std::string>& values) {
  return values.size() == 1 ? values[0] : fmt::format("[{}]", fmt::join(values, ","));
}

Variables usual_variables() {
  return {{"HOME_NET", "[192.168.0.0/16,10.0.0.0/8,172.16.0.0/12]"},
          {"EXTERNAL_NET", "!$HOME_NET"},
          {"HTTP_SERVERS", "$HOME_NET"},
          {"SMTP_SERVERS", "$HOME_NET"},
          {"SQL_SERVERS", "$HOME_NET"},
          {"DNS_SERVERS", "$HOME_NET"},
          {"TELNET_SERVERS", "$HOME_NET"},
          {"AIM_SERVERS", "$EXTERNAL_NET"},
          {"DC_SERVERS", "$HOME_NET"},
          {"DNP3_SERVER", "$HOME_NET"},
          {"DNP3_CLIENT", "$HOME_NET"},
          {"MODBUS_CLIENT", "$HOME_NET"},
          {"MODBUS_SERVER", "$HOME_NET"},
          {"ENIP_CLIENT", "$HOME_NET"},
          {"ENIP_SERVER", "$HOME_NET"},
          {"HTTP_PORTS", "80"},
          {"SHELLCODE_PORTS", "!80"},
          {"ORACLE_PORTS", "1521"},
          {"SSH_PORTS", "22"},
          {"DNP3_PORTS", "20000"},
          {"MODBUS_PORTS", "502"},
          {"FILE_DATA_PORTS", "[$HTTP_PORTS,110,143]"},
          {"FTP_PORTS", "21"},
          {"GENEVE_PORTS", "6081"},
          {"VXLAN_PORTS", "4789"},
          {"TEREDO_PORTS", "3544"}};
}

Result<Addresses> parse_addresses(std::string_view text, const Variables& variables) {
  Group<AddressRange> group(variables, range, "addresses");
  if (auto added = group.add(text); !added) return tl::unexpected(std::move(added.error()));
  for (const auto& out : group.left_out) {
    const auto covers = [&](const AddressRange& in) {
      return out.first.family == in.first.family && out.first <= in.first && in.last <= out.last;
    };
    if (!group.in.empty() && std::all_of(group.in.begin(), group.in.end(), covers))
      return wrong(fmt::format("\"{}\" leaves no addresses", text));
  }
  return Addresses{group.any, std::move(group.in), std::move(group.left_out)};
}

Result<Ports> parse_ports(std::string_view text, const Variables& variables) {
  Group<PortRange> group(variables, ports, "ports");
  if (auto added = group.add(text); !added) return tl::unexpected(std::move(added.error()));
  // Nothing but what is left out: all else.
  return Ports{group.any || group.in.empty(), text == "any", std::move(group.in), std::move(group.left_out)};
}

namespace {

constexpr std::pair<std::string_view, Action> kActions[] = {{"alert", Action::alert},
                                                            {"pass", Action::pass},
                                                            {"drop", Action::drop},
                                                            {"reject", Action::reject},
                                                            {"rejectsrc", Action::reject},
                                                            {"rejectdst", Action::reject_dst},
                                                            {"rejectboth", Action::reject_both},
                                                            {"config", Action::config}};

}  // namespace

Result<Action> parse_action(std::string_view text) {
  const std::string small = in_lower_case(text);
  for (const auto& [name, action] : kActions)
    if (name == small) return action;
  return wrong(fmt::format("\"{}\" is no action: write alert, pass, drop or reject", text));
}

std::string_view name_of(Action action) {
  return std::find_if(std::begin(kActions), std::end(kActions),
                      [&](const auto& one) { return one.second == action; })
      ->first;
}

std::optional<Layer> layer_of(std::string_view protocol) {
  const auto* const found = std::find_if(std::begin(kProtocols), std::end(kProtocols),
                                         [&](const Named& one) { return one.name == protocol; });
  if (found == std::end(kProtocols)) return {};
  return found->layer;
}

Result<Header> parse_header(const std::vector<std::string>& parts, const Variables& variables) {
  Header header;
  auto action = parse_action(parts[0]);
  if (!action) return wrong(std::move(action.error()));
  header.action = *action;
  header.protocol = parts[1];
  std::transform(header.protocol.begin(), header.protocol.end(), header.protocol.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  if (!layer_of(header.protocol)) return wrong(fmt::format("\"{}\" is no protocol that is known", parts[1]));
  if (parts[4] != "->" && parts[4] != "<>")
    return wrong(fmt::format("\"{}\" is no direction: write -> or <>", parts[4]));
  header.both_ways = parts[4] == "<>";
  const auto take = [](auto parsed, auto& to) -> Result<void> {
    if (!parsed) return wrong(std::move(parsed.error()));
    to = *std::move(parsed);
    return {};
  };
  auto taken = take(parse_addresses(parts[2], variables), header.src);
  if (taken) taken = take(parse_ports(parts[3], variables), header.src_ports);
  if (taken) taken = take(parse_addresses(parts[5], variables), header.dst);
  if (taken) taken = take(parse_ports(parts[6], variables), header.dst_ports);
  if (!taken) return wrong(std::move(taken.error()));
  return header;
}

}  // namespace xdpgpu::rules
