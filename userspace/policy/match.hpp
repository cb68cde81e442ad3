// SPDX-License-Identifier: MIT
//
// userspace/policy/match.hpp: a rule's condition, from JSON.
#pragma once

#include "userspace/policy/reader.hpp"
#include "userspace/policy/values.hpp"

namespace xdpgpu::policy {

// The policy's lists, and which address families each holds (kHasV4 | kHasV6), or that it is one of domains.
inline constexpr u32 kHasV4 = 1, kHasV6 = 2, kHasNames = 4;
struct KnownLists {
  explicit KnownLists(const std::map<std::string, List>& lists);
  std::map<std::string, u32, std::less<>> families;
};

// Reads "@name"; empty where there is no such list of that type, which is reported.
std::string read_list_name(Report& report, const Place& place, const KnownLists& lists, List::Type type);

// The values of conditions, one or an array of them; only prefixes that stand there, no lists.
void read_prefixes(Report& report, const Place& place, std::vector<Prefix>& into);
void read_protocols(Report& report, const Place& place, std::vector<u8>& into);
void read_port_ranges(Report& report, const Place& place, std::vector<PortRange>& into);
void read_vlan_ranges(Report& report, const Place& place, std::vector<VlanRange>& into);
std::optional<TcpFlags> read_flags(Report& report, const Place& place);

// Reads an object of `known` keys (a subset of keys::kMatch). lists: what "@name" may name. Conditions that
// no packet can meet are problems.
Match read_match(Report& report, const Place& place, Words known, std::string_view what,
                 const KnownLists& lists);

}  // namespace xdpgpu::policy
