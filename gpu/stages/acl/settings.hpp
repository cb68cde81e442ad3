// SPDX-License-Identifier: MIT
//
// gpu/stages/acl/settings.hpp: what `acl` can be told, and what it does.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gpu/stages/fields.hpp"

namespace xdpgpu::gpu {

// `acl`: ordered rules, first match wins. Empty lists match everything; a rule that names addresses or
// protocols matches only packets that have addresses (of that family), one that names ports only packets
// that have ports and are no fragment. TCP flags has a packet that has addresses, XG_PKT_TCP set, protocol 6,
// and is no fragment, if the 20 bytes of its header are in the frame, and in the IP packet; a VLAN one with
// XG_PKT_VLAN set, that of its outer tag: the bytes behind the MAC addresses, if 18 bytes are in the frame.
// `next` ends the stage: the packet goes on to the next one. Verdict's rule: the rule's position + 1; 0:
// `otherwise`. At most 16,384 rules.
struct AclRule : Conditions {
  std::string name;
  using Action = gpu::Action;
  Action action = Action::next;
  u32 target = 0;    // port index, for redirect
  std::string to{};  // the interface's name, where a policy gives it
  bool operator==(const AclRule&) const = default;
};
struct AclSettings {
  std::vector<AclRule> rules;
  Action otherwise = Action::next;  // no rule matched: next, drop or pass
  bool cache = false;               // publish the verdict to the kernel
  u32 cache_ttl_ms = 0;             // 0: while the generation lives
  bool operator==(const AclSettings&) const = default;
};
inline constexpr u32 kAclMaxRules = 16384;

template <class Table>
void fields_of(Table& table, SettingsLike<AclRule> auto& rule) {
  table.text("name", rule.name, "How it is called in reports. Default: rule N.", Say{.derived = true});
  table.group("match", "the match of a stage's rule",
              "What a packet must meet: every key that is here, and of each key any of its values.", Say{},
              [&](auto& match) {
                match.prefixes("src", rule.src, "Source address.", Say{});
                match.prefixes("dst", rule.dst, "Destination address.", Say{});
                match.protocols("proto", rule.protocols, "", Say{});
                match.ports("src_port", rule.src_ports, "Source port.", Say{});
                match.ports("dst_port", rule.dst_ports, "Destination port.", Say{});
                match.tcp_flags("tcp_flags", rule.tcp_flags, "", Say{});
                match.vlans("vlan", rule.vlans, "", Say{});
              });
  table.action("action", rule.action, rule.to, rule.target, kActionNames, "", Say{.required = true});
}

template <class Table>
void fields_of(Table& table, SettingsLike<AclSettings> auto& s) {
  table.about(
      "Ordered rules on addresses, protocol, ports, TCP flags and VLAN; the first that matches decides.");
  table.array("rules", s.rules, 0, kAclMaxRules, "a rule of the stage acl",
              "The rules, in their order. For long lists of addresses use the stage reputation.",
              Say{.required = true});
  table.word(
      "default", s.otherwise, kOtherwiseNames,
      "What becomes of a packet that no rule of this stage matches; 'next' leaves it to the next stage.",
      Say{});
  table.cache(s.cache, s.cache_ttl_ms, "", Say{});
}

}  // namespace xdpgpu::gpu
