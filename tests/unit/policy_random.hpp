// SPDX-License-Identifier: MIT
//
// tests/unit/policy_random.hpp: random policies whose rules overlap a lot, and packets that sit on the
// edges of their conditions.
#pragma once

#include <algorithm>
#include <random>
#include <string>

#include "maps/flow.h"
#include "userspace/policy/classify.hpp"
#include "userspace/policy/policy.hpp"

namespace xdpgpu::policy::test {

// The prefix of `length` bits around an address.
inline Prefix network_of(u8 family, const u8* address, u32 length) {
  Prefix prefix{family, static_cast<u8>(length), {}};
  for (u32 bit = 0; bit < length; ++bit)
    prefix.address[bit / 8] =
        static_cast<u8>(prefix.address[bit / 8] | (address[bit / 8] & (0x80u >> (bit % 8))));
  return prefix;
}

class RandomPolicy {
 public:
  explicit RandomPolicy(u64 seed) : random_(seed) {}

  u64 below(u64 n) { return std::uniform_int_distribution<u64>(0, n - 1)(random_); }
  bool chance(u32 percent) { return below(100) < percent; }

  // Few leading bytes, so that prefixes nest and addresses hit them.
  void address(u8 family, u8* bytes) {
    static constexpr u8 kFew[] = {0, 1, 10, 127, 128, 254, 255};
    u32 count = family == 4 ? 4 : 16;
    for (u32 i = 0; i < count; ++i)
      bytes[i] = chance(70) ? kFew[below(std::size(kFew))] : static_cast<u8>(below(256));
    if (chance(50)) bytes[0] = 10;
    if (family == 6 && chance(60)) std::fill(bytes + 1, bytes + 8, u8{0});
  }
  Prefix prefix() {
    Prefix prefix;
    prefix.family = chance(50) ? 4 : 6;
    u32 most = prefix.family == 4 ? 32 : 128;
    address(prefix.family, prefix.address);
    prefix.length = static_cast<u8>(chance(10)   ? 0
                                    : chance(30) ? most
                                    : chance(30) ? most / 2
                                                 : below(most + 1));
    return network_of(prefix.family, prefix.address, prefix.length);
  }
  PortRange ports() {
    u16 first = static_cast<u16>(chance(20) ? 0 : chance(20) ? 65535 : below(65536));
    u16 last = static_cast<u16>(chance(40)   ? first
                                : chance(10) ? 65535
                                             : std::min<u64>(65535, first + below(5000)));
    return {first, last};
  }
  u8 protocol() {
    static constexpr u8 kUsual[] = {1, 6, 17, 58, 132};
    return chance(80) ? kUsual[below(5)] : static_cast<u8>(below(256));
  }
  VlanRange vlans() {
    const auto id = static_cast<u16>(chance(30) ? 0 : chance(20) ? XG_VLAN_PRIORITY : 1 + below(20));
    if (id == 0 || id == XG_VLAN_PRIORITY || chance(50)) return {id, id};
    return {id, static_cast<u16>(chance(20) ? 4094 : id + below(20))};
  }
  Match match(const Policy& policy, bool management) {
    Match match;
    auto addresses = [&](auto& prefixes, auto& lists) {
      for (u64 n = 1 + below(3); n > 0; --n) {
        if (!policy.lists.empty() && chance(30))
          lists.push_back(std::next(policy.lists.begin(), below(policy.lists.size()))->first);
        else
          prefixes.push_back(prefix());
      }
    };
    if (chance(50)) addresses(match.src, match.src_lists);
    if (chance(50)) addresses(match.dst, match.dst_lists);
    for (u64 n = chance(40) ? 1 + below(2) : 0; n > 0; --n) match.protocols.push_back(protocol());
    for (u64 n = chance(30) ? 1 + below(3) : 0; n > 0; --n) match.src_ports.push_back(ports());
    for (u64 n = chance(40) ? 1 + below(3) : 0; n > 0; --n) match.dst_ports.push_back(ports());
    for (u64 n = chance(20) ? 1 + below(2) : 0; n > 0; --n) match.vlans.push_back(vlans());
    if (chance(10)) match.family = chance(50) ? 4 : 6;
    if (management) return match;
    if (chance(15)) {
      match.tcp_flags_mask = static_cast<u8>(1 + below(255));
      match.tcp_flags_value = static_cast<u8>(below(256) & *match.tcp_flags_mask);
    }
    for (u64 n = chance(8) ? 1 + below(2) : 0; n > 0; --n)
      match.control.push_back(static_cast<u32>(below(6)));
    return match;
  }
  Policy policy(u32 rules, u32 lists, u32 list_length, u32 management) {
    Policy policy;
    for (u32 i = 0; i < lists; ++i) {
      auto& list = policy.lists["list" + std::to_string(i)];
      for (u64 n = below(list_length + 1); n > 0; --n) list.prefixes.push_back(prefix());
    }
    for (u32 i = 0; i < management; ++i) policy.management.push_back({match(policy, true), {}});
    for (u32 i = 0; i < rules; ++i) {
      Rule rule;
      rule.name = "rule " + std::to_string(i + 1);
      rule.match = match(policy, false);
      rule.action = chance(50) ? Rule::Action::pass : Rule::Action::drop;
      policy.rules.push_back(std::move(rule));
    }
    return policy;
  }

  // An address just inside, on or beside the edge of one of the match's prefixes.
  void address_near(const Policy& policy, const std::vector<Prefix>& prefixes,
                    const std::vector<std::string>& lists, u8 family, u8* bytes) {
    std::vector<const std::vector<Prefix>*> sets{&prefixes};
    for (const auto& name : lists) sets.push_back(&policy.lists.at(name).prefixes);
    const auto& set = *sets[below(sets.size())];
    address(family, bytes);
    if (set.empty()) return;
    const Prefix& near = set[below(set.size())];
    if (near.family != family) return;
    u32 count = family == 4 ? 4 : 16;
    bool ones = chance(50);
    for (u32 bit = 0; bit < count * 8; ++bit) {
      u8 mask = static_cast<u8>(0x80u >> (bit % 8));
      bool set_bit = bit < near.length ? (near.address[bit / 8] & mask) != 0 : ones;
      bytes[bit / 8] = static_cast<u8>(set_bit ? bytes[bit / 8] | mask : bytes[bit / 8] & ~mask);
    }
    if (chance(30)) {  // the neighbour outside: last + 1 or first - 1
      for (u32 i = count; i-- > 0;) {
        bytes[i] = static_cast<u8>(ones ? bytes[i] + 1 : bytes[i] - 1);
        if (bytes[i] != (ones ? 0 : 255)) break;
      }
    }
  }
  PacketFacts packet(const Policy& policy, u32 control_named) {
    const Match none;
    const Match& near = policy.rules.empty() ? none : policy.rules[below(policy.rules.size())].match;
    PacketFacts packet;
    packet.family = static_cast<u8>(chance(4) ? 0 : chance(50) ? 4 : 6);
    bool fragment = chance(5);
    u8 protocol = !near.protocols.empty() && chance(80) ? near.protocols[0] : this->protocol();
    u32 control = XG_CONTROL_NONE;
    if (packet.family == 0) {
      protocol = 0;
      static constexpr u32 kNotIp[] = {XG_CONTROL_ARP, XG_CONTROL_LACP, XG_CONTROL_LLDP, XG_CONTROL_STP};
      if (chance(70)) control = kNotIp[below(4)];
    } else {
      address_near(policy, near.src, near.src_lists, packet.family, packet.src);
      address_near(policy, near.dst, near.dst_lists, packet.family, packet.dst);
      if (packet.family == 6 && protocol == 58 && chance(30)) control = XG_CONTROL_ND;
      if (protocol == 17 && chance(20)) control = XG_CONTROL_DHCP;
    }
    packet.l4 = l4_of(packet.family, protocol, fragment, static_cast<u8>(below(256)), control, control_named);
    if (!fragment && (protocol == 6 || protocol == 17 || protocol == 132)) {
      packet.src_port = port_near(near.src_ports);
      packet.dst_port = port_near(near.dst_ports);
    }
    const u32 edge = near.vlans.empty() ? 0 : chance(50) ? near.vlans[0].first : near.vlans[0].last;
    packet.vlan = chance(60) ? XG_VLAN_NONE : edge != 0 ? edge : static_cast<u32>(1 + below(20));
    return packet;
  }

 private:
  u32 port_near(const std::vector<PortRange>& ranges) {
    if (ranges.empty() || chance(20)) return static_cast<u32>(below(65536));
    const auto& range = ranges[below(ranges.size())];
    u32 edge = chance(50) ? range.first : range.last;
    u32 step = static_cast<u32>(below(3));
    return std::min<u32>(65535, edge + step == 0 ? 0 : edge + step - 1);
  }
  std::mt19937_64 random_;
};

}  // namespace xdpgpu::policy::test
