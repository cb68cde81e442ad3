// SPDX-License-Identifier: MIT
#include "userspace/compiler/rules/told_by_header.hpp"

#include <algorithm>

#include "userspace/compiler/rules/lower_header.hpp"

namespace xdpgpu::rules {
namespace {

constexpr u8 kTcp = 6, kUdp = 17;

// Below an application's protocol; of one that has both, or may: both.
std::bitset<256> carriers_of(std::string_view protocol) {
  constexpr std::string_view kOverUdp[] = {"quic", "tftp", "snmp",  "ntp",
                                           "dhcp", "ike",  "ikev2", "bittorrent-dht"};
  constexpr std::string_view kOverBoth[] = {"dns", "sip", "enip", "krb5", "nfs", "dnp3"};
  const auto is_one_of = [&](const auto& names) {
    return std::find(std::begin(names), std::end(names), protocol) != std::end(names);
  };
  std::bitset<256> made;
  made.set(kUdp, is_one_of(kOverUdp) || is_one_of(kOverBoth));
  made.set(kTcp, !is_one_of(kOverUdp));
  return made;
}

}  // namespace

bool is_left(const Lowered& lowered) { return !lowered.signature || lowered.over_tcp_too; }

std::optional<gpu::signatures::Header> told_by_header(const Rule& rule, const Lowered& lowered) {
  const Header& header = rule.header;
  if (!is_left(lowered) || header.protocol == "pkthdr" || header.action == Action::config) return {};
  const bool by_application = layer_of(header.protocol) == Layer::application;
  // All but some ports tell as little as all.
  if (by_application && header.src_ports.any && header.dst_ports.any) return {};
  auto made = lower_header(header);
  if (by_application) made.protocols = carriers_of(header.protocol);
  for (const Condition& condition : rule.conditions)
    if (const auto* const asked = std::get_if<IpProtocol>(&condition.value))
      for (std::size_t i = 0; i < made.protocols.size(); i++)
        if ((asked->numbers.least <= i && i <= asked->numbers.most) == asked->numbers.negated)
          made.protocols.reset(i);
  // Of DNS over UDP all is decided.
  if (lowered.over_tcp_too) made.protocols &= std::bitset<256>().set(kTcp);
  if (made.protocols.none()) return {};
  made.both_ways = true;
  return made;
}

}  // namespace xdpgpu::rules
