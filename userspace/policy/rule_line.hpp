// SPDX-License-Identifier: MIT
//
// userspace/policy/rule_line.hpp: rules of intrusion detection systems as lists of addresses, the way block
// lists are handed out for Snort and Suricata:
//
//   alert ip [192.0.2.0/24,198.51.100.7] any -> $HOME_NET any (msg:"...";)
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "userspace/policy/policy.hpp"

namespace xdpgpu::policy {

// Whether the line begins as such a rule does: with its action.
bool is_rule_line(std::string_view line);

// Appends the addresses in the rule's header, of source and destination; "any" and variables stand for none.
// Protocol, ports and options count for nothing. Returns what is wrong with it: a header that is cut short,
// an address that is none, one that is negated, none at all. Then `into` holds some of them.
std::optional<std::string> read_rule_line(std::string_view line, std::vector<Prefix>& into);

}  // namespace xdpgpu::policy
