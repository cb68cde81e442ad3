// SPDX-License-Identifier: MIT
//
// gpu/stages/domains/settings.hpp: what `domains` can be told, and what it does.
#pragma once

#include <string>
#include <vector>

#include "gpu/stages/fields.hpp"

namespace xdpgpu::gpu {

// `domains`: the name that a DNS message asks for, or answers, against lists of names, each with an action.
// It looks at packets that have ports, one of them in `ports`; all others go on.
//
// Of UDP (protocol 17), the message (RFC 1035) is the L4 payload, as far as it is among the packet's first
// XG_DOMAINS_REACH bytes. If its question count (bytes 4 and 5) is 0, it has no name: `otherwise`. Else the
// name is that of its question: labels from byte 12 on, each behind its length, the last one in front of a
// zero; upper-case ASCII letters count as lower-case ones, all other bytes as they are. The message is
// malformed, `malformed`, if it has fewer than 12 bytes, or more than one question (RFC 9619), or its name's
// lengths are not 1 to 63, which compression would be, or make up more than 255 bytes with the zero, or if
// the question's four bytes behind the name are not there. Of any other protocol, the name is not looked for:
// `tcp`.
//
// Of a list whose action is `refuse`, a query is dropped with XG_RES_REFUSED; what is none is dropped. A
// query has operation 0 and is no answer (the five highest bits of byte 2 are 0); those inside of a tunnel,
// in a pipeline that looks there, are none.
//
// Of all the lists' entries that stand for the name the one with the most labels counts, of equal ones the
// first list's; the root has none. Lists are as they were compiled, with the entries that were added since
// and without those that were removed (gpu/name_changes.hpp). None does: `otherwise`. `next` ends the stage:
// the packet goes on to the next one. Verdict's rule: the list's position + 1; 0: `otherwise`; of n lists, n
// + 1: `malformed`, n + 2: `tcp`. At most 4,095 lists.
struct DomainList {
  std::string name;
  DomainNames names;
  Action action = Action::drop;
  u32 target = 0;    // port index, for redirect
  std::string to{};  // the interface's name, where a policy gives it
  bool operator==(const DomainList&) const = default;
};
// All actions, and `refuse`.
inline constexpr Named<Action> kDomainActionNames[] = {{Action::next, "next"},
                                                       {Action::drop, "drop"},
                                                       {Action::pass, "pass"},
                                                       {Action::tx, "tx"},
                                                       {Action::refuse, "refuse"}};
struct DomainsSettings {
  std::vector<PortRange> ports{{53, 53}};
  std::vector<DomainList> lists;
  Action otherwise = Action::next;  // these three: next, drop or pass
  Action malformed = Action::drop;
  Action tcp = Action::drop;
  bool operator==(const DomainsSettings&) const = default;
};
inline constexpr u32 kMaxDomainLists = 4095;  // what an entry has room for

template <class Table>
void fields_of(Table& table, SettingsLike<DomainList> auto& list) {
  table.list("list", list.name, list.names, "Name of one of the policy's lists of domains, with @ in front.",
             Say{.required = true});
  table.action(
      "action", list.action, list.to, list.target, kDomainActionNames,
      "What becomes of the packet; 'refuse' drops it, and tells who asks that there is no such domain "
      "(NXDOMAIN).",
      Say{.required = true});
}

template <class Table>
void fields_of(Table& table, SettingsLike<DomainsSettings> auto& s) {
  table.about(
      "The name in a DNS message over UDP, in queries and in their answers, against the policy's lists of "
      "domains. Of all entries that stand for the name the one with the most labels counts, whichever list "
      "has "
      "it; of equal ones the one in the list that stands first. Packets to and from other ports go on to the "
      "next stage.");
  table.ports(
      "ports", s.ports,
      "The ports of DNS servers. A packet is looked at if it goes to one or comes from one. Default: 53.",
      Say{});
  table.array("lists", s.lists, 1, kMaxDomainLists, "a list of the stage domains",
              "The lists, each once, and what becomes of messages about their names.", Say{.required = true});
  table.word("default", s.otherwise, kOtherwiseNames,
             "What becomes of a message whose name no list has, or that has no question; 'next' leaves it to "
             "the next stage.",
             Say{});
  table.word(
      "malformed", s.malformed, kOtherwiseNames,
      "What becomes of UDP packets to and from these ports whose question cannot be read: not DNS, cut "
      "off, in a fragment, compressed, or more than one. With anything but 'drop' a name can be asked "
      "for in such a form.",
      Say{});
  table.word("tcp", s.tcp, kOtherwiseNames,
             "What becomes of TCP packets to and from these ports, in which no name is looked for. With "
             "anything but 'drop' every name can be asked for over TCP.",
             Say{});
}

}  // namespace xdpgpu::gpu
