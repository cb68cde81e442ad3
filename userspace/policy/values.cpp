// SPDX-License-Identifier: MIT
#include "userspace/policy/values.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "maps/flow.h"
#include "userspace/policy/prefix_scan.hpp"
#include "userspace/policy/vocabulary.hpp"

namespace xdpgpu::policy {
namespace {

template <class T>
std::optional<T> whole_number(std::string_view text) {
  T value{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Clears the host bits; true if any was set.
bool clear_host_bits(Prefix& prefix) {
  u32 bytes = prefix.family == 4 ? 4 : 16;
  bool any = false;
  for (u32 i = prefix.length / 8; i < bytes; ++i) {
    u32 keep = i == prefix.length / 8 ? prefix.length % 8 : 0;
    u8 mask = static_cast<u8>(0xff00u >> keep);
    any |= (prefix.address[i] & ~mask & 0xff) != 0;
    prefix.address[i] &= mask;
  }
  return any;
}

struct Unit {
  std::string_view name;
  u64 ns;
};
constexpr std::array<Unit, 6> kUnits{{{"h", 3'600'000'000'000},
                                      {"m", 60'000'000'000},
                                      {"s", 1'000'000'000},
                                      {"ms", 1'000'000},
                                      {"us", 1'000},
                                      {"ns", 1}}};

struct SizeUnit {
  std::string_view name, other;
  u32 shift;
};
constexpr std::array<SizeUnit, 4> kSizeUnits{
    {{"GB", "GiB", 30}, {"MB", "MiB", 20}, {"KB", "KiB", 10}, {"", "", 0}}};

enum class Address { ok, malformed, bad_length, host_bits };

Address parse_prefix(std::string_view text, Prefix& prefix) {
  char buffer[INET6_ADDRSTRLEN];
  auto slash = text.find('/');
  std::string_view address = text.substr(0, slash);
  if (address.empty() || address.size() >= sizeof buffer) return Address::malformed;
  std::memcpy(buffer, address.data(), address.size());
  buffer[address.size()] = '\0';
  prefix.family = address.find(':') == std::string_view::npos ? 4 : 6;
  if (std::memchr(buffer, 0, address.size()) != nullptr ||
      inet_pton(prefix.family == 4 ? AF_INET : AF_INET6, buffer, prefix.address) != 1)
    return Address::malformed;
  u8 most = prefix.family == 4 ? 32 : 128;
  prefix.length = most;
  if (slash != std::string_view::npos) {
    auto length = whole_number<u8>(text.substr(slash + 1));
    if (!length || *length > most) return Address::bad_length;
    prefix.length = *length;
  }
  return clear_host_bits(prefix) ? Address::host_bits : Address::ok;
}

}  // namespace

std::optional<Prefix> try_prefix(std::string_view text) {
  Prefix prefix;
  const char* const end = text.data() + text.size();
  if (scan_prefix(text.data(), end, prefix) == end && !text.empty()) return prefix;
  prefix = {};
  if (parse_prefix(text, prefix) != Address::ok) return std::nullopt;
  return prefix;
}

Value<Prefix> read_prefix(std::string_view text) {
  Prefix prefix;
  switch (parse_prefix(text, prefix)) {
    case Address::ok:
      return prefix;
    case Address::bad_length:
      return tl::unexpected(fmt::format("\"{}\": the prefix length must be a number from 0 to {}", text,
                                        prefix.family == 4 ? 32 : 128));
    case Address::host_bits:
      return tl::unexpected(
          fmt::format("\"{}\" has bits set behind its prefix length; write {} for the network, or {} "
                      "for the one address",
                      text, write_prefix(prefix), text.substr(0, text.find('/'))));
    case Address::malformed:
      break;
  }
  return tl::unexpected(
      fmt::format("\"{}\" is no address or prefix; write it like 192.0.2.1, 10.0.0.0/8 or 2001:db8::/32",
                  text.substr(0, 80)));
}

std::string write_prefix(const Prefix& prefix) {
  char buffer[INET6_ADDRSTRLEN];
  inet_ntop(prefix.family == 4 ? AF_INET : AF_INET6, prefix.address, buffer, sizeof buffer);
  return prefix.length == (prefix.family == 4 ? 32 : 128) ? std::string(buffer)
                                                          : fmt::format("{}/{}", buffer, prefix.length);
}

Value<PortRange> read_ports(std::string_view text) {
  auto dash = text.find('-');
  auto first = whole_number<u16>(text.substr(0, dash));
  auto last = dash == std::string_view::npos ? first : whole_number<u16>(text.substr(dash + 1));
  if (!first || !last)
    return tl::unexpected(
        fmt::format("\"{}\" is no port or range of ports; write 80 or \"8000-8099\", from 0 to 65535",
                    text.substr(0, 80)));
  if (*first > *last)
    return tl::unexpected(
        fmt::format("the range \"{}\" runs backwards; write \"{}-{}\"", text, *last, *first));
  return PortRange{*first, *last};
}

Value<VlanRange> read_vlans(std::string_view text) {
  if (const auto word = find_word(words::kVlan, text)) {
    const u16 id = *word == 0 ? 0 : XG_VLAN_PRIORITY;
    return VlanRange{id, id};
  }
  const auto dash = text.find('-');
  const auto first = whole_number<u16>(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : whole_number<u16>(text.substr(dash + 1));
  if (!first || !last) {
    const auto near = nearest(words::kVlan, text);
    return tl::unexpected(fmt::format(
        "\"{}\" is no VLAN or range of VLANs; write 100, \"100-199\", \"none\" for untagged packets or "
        "\"priority\" for a tag with id 0{}",
        text.substr(0, 80), near.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", near)));
  }
  if (*first > *last)
    return tl::unexpected(
        fmt::format("the range \"{}\" runs backwards; write \"{}-{}\"", text, *last, *first));
  if (*first < kLeastVlan) return tl::unexpected(std::string(kNoVlan));
  if (*last > kMostVlan)
    return tl::unexpected(
        fmt::format("VLANs are numbered from {} to {}, and \"{}\" goes beyond", kLeastVlan, kMostVlan, text));
  return VlanRange{*first, *last};
}

Value<u64> read_duration(std::string_view text) {
  auto letters = text.find_first_not_of("0123456789");
  auto count = whole_number<u64>(text.substr(0, letters));
  std::string_view unit = letters == std::string_view::npos ? std::string_view{} : text.substr(letters);
  const auto* found = std::find_if(kUnits.begin(), kUnits.end(),
                                   [&](const Unit& candidate) { return candidate.name == unit; });
  if (!count || found == kUnits.end() || *count > ~0ull / found->ns)
    return tl::unexpected(
        fmt::format("\"{}\" is no duration; write a whole number and a unit, like 50us, 100ms, 60s, 5m or 1h",
                    text.substr(0, 80)));
  return *count * found->ns;
}

std::string write_duration(u64 ns) {
  if (ns == 0) return "0s";
  for (const auto& unit : kUnits)
    if (ns % unit.ns == 0) return fmt::format("{}{}", ns / unit.ns, unit.name);
  return {};
}

Value<u64> read_bytes(std::string_view text) {
  const auto letters = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto count = whole_number<u64>(text.substr(0, letters));
  const std::string_view unit = text.substr(letters);
  const auto* found = std::find_if(kSizeUnits.begin(), kSizeUnits.end(), [&](const SizeUnit& candidate) {
    return candidate.name == unit || candidate.other == unit;
  });
  if (!count || found == kSizeUnits.end() || *count > ~0ull >> found->shift)
    return tl::unexpected(
        fmt::format("\"{}\" is no number of bytes; write a whole number, alone or with a unit, like 4096, "
                    "64KB, 1MB or 1GB",
                    text.substr(0, 80)));
  return *count << found->shift;
}

std::string write_bytes(u64 bytes) {
  for (const auto& unit : kSizeUnits)
    if (bytes != 0 && (bytes >> unit.shift << unit.shift) == bytes)
      return fmt::format("{}{}", bytes >> unit.shift, unit.name);
  return "0";
}

Value<std::array<u8, 6>> read_mac(std::string_view text) {
  std::array<u8, 6> mac{};
  bool good = text.size() == 17;
  for (u32 i = 0; good && i < 6; ++i) {
    auto [end, error] = std::from_chars(text.data() + i * 3, text.data() + i * 3 + 2, mac[i], 16);
    good = error == std::errc{} && end == text.data() + i * 3 + 2 && (i == 5 || text[i * 3 + 2] == ':');
  }
  if (!good)
    return tl::unexpected(
        fmt::format("\"{}\" is no MAC address; write it like 52:54:00:12:34:56", text.substr(0, 80)));
  if ((mac[0] & 1) != 0)
    return tl::unexpected(fmt::format("{} is a multicast address; one host's address is needed", text));
  if (mac == std::array<u8, 6>{}) return tl::unexpected(std::string("all zeros is no host's MAC address"));
  return mac;
}

std::string write_mac(const std::array<u8, 6>& mac) { return fmt::format("{:02x}", fmt::join(mac, ":")); }

std::optional<u8> find_protocol(std::string_view name) {
  const auto* at =
      std::find_if(kProtocols.begin(), kProtocols.end(), [&](const auto& one) { return one.name == name; });
  return at == kProtocols.end() ? std::nullopt : std::optional(at->number);
}

Value<u8> read_protocol(std::string_view text) {
  if (const auto number = find_protocol(text)) return *number;
  std::array<std::string_view, kProtocols.size()> names;
  for (u32 i = 0; i < names.size(); ++i) names[i] = kProtocols[i].name;
  return tl::unexpected(fmt::format("unknown protocol \"{}\"{}; any other is written as its number, like 112",
                                    text.substr(0, 80), suggestion(names, text)));
}

std::string_view protocol_name(u8 number) {
  const auto* at =
      std::find_if(kProtocols.begin(), kProtocols.end(), [&](auto& p) { return p.number == number; });
  return at == kProtocols.end() ? std::string_view{} : at->name;
}

Value<TcpFlags> read_tcp_flags(std::string_view text) {
  TcpFlags flags;
  for (std::string_view rest = text;;) {
    auto comma = rest.find(',');
    std::string_view name = rest.substr(0, comma);
    while (name.starts_with(' ')) name.remove_prefix(1);
    while (name.ends_with(' ')) name.remove_suffix(1);
    bool absent = name.starts_with('!');
    if (absent) name.remove_prefix(1);
    auto bit = find_word(words::kTcpFlags, name);
    if (!bit)
      return tl::unexpected(fmt::format("unknown TCP flag \"{}\"{}; write them like \"syn,!ack\"",
                                        name.substr(0, 80), suggestion(words::kTcpFlags, name)));
    u8 one = static_cast<u8>(1u << *bit);
    if ((flags.mask & one) != 0)
      return tl::unexpected(fmt::format("the TCP flag \"{}\" is named twice", name));
    flags.mask |= one;
    if (!absent) flags.value |= one;
    if (comma == std::string_view::npos) return flags;
    rest.remove_prefix(comma + 1);
  }
}

std::string write_tcp_flags(TcpFlags flags) {
  std::string text;
  for (u32 bit = 0; bit < words::kTcpFlags.size(); ++bit)
    if (((flags.mask >> bit) & 1) != 0)
      text += fmt::format("{}{}{}", text.empty() ? "" : ",", ((flags.value >> bit) & 1) != 0 ? "" : "!",
                          words::kTcpFlags[bit]);
  return text;
}

bool is_interface_name(std::string_view name) {
  return !name.empty() && name.size() < 16 && name != "." && name != ".." &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return c > ' ' && c < 0x7f && c != '/' && c != ':'; });
}

gpu::Prefix device_prefix(const Prefix& prefix) {
  gpu::Prefix made;
  made.family = prefix.family;
  made.length = prefix.length;
  std::copy(std::begin(prefix.address), std::end(prefix.address), made.address.begin());
  return made;
}

Prefix policy_prefix(const gpu::Prefix& prefix) {
  Prefix made;
  made.family = prefix.family;
  made.length = prefix.length;
  std::copy(prefix.address.begin(), prefix.address.end(), std::begin(made.address));
  return made;
}

}  // namespace xdpgpu::policy
