// SPDX-License-Identifier: MIT
//
// gpu/stages/decapsulate/settings.hpp: what `decapsulate` can be told, and what it does.
#pragma once

#include <string>
#include <vector>

#include "gpu/stages/fields.hpp"
#include "maps/encapsulation.h"

namespace xdpgpu::gpu {

// `decapsulate`: the far end of a tunnel. A packet whose outer headers lead to one of `addresses` and are of
// a kind that `type` names leaves them behind, all that stands between its Ethernet header and tags and the
// packet that it carries, and is passed to the host's stack or sent on as that packet is, with its EtherType.
// IP in IP: protocol 4 or 41, directly behind the outer IP header and its options or extension headers. GUE:
// UDP to `port`, variant 1, where the inner IP header follows the UDP header at once (maps/encapsulation.h).
// Neither an outer UDP checksum nor an inner one is looked at. MAC addresses stay, and so does the inner TTL,
// which whoever forwards the packet takes down (RFC 2003, 3.1). Where the outer header says that the path was
// congested (CE), so does the inner one afterwards (RFC 6040, 4.2).
//
// Dropped are, of these, packets with malformed outer headers, those that carry no IP packet of the family
// that protocol or version name, or not all of it, or a jumbogram (kMalformed); and those that are marked CE
// outside and inside are of a sender who does not know of that (kCongested).
//
// All others go on to the next stage: other destinations, protocols and ports, and fragments of outer
// packets, which only the host can put together.
//
// What is inside is looked at by no stage: behind this one stands the host's stack, and whoever may send to
// one of the addresses may send it anything, from any address. Stages in front of it, and the policy's rules,
// see the outer headers.
//
// Verdict's rule: 0, or one of decapsulate_rule; the result's detail: the address' position.
struct DecapsulateSettings {
  enum class Type { ipip, gue, any } type = Type::any;
  u16 port = XG_GUE_PORT;         // with GUE: the UDP destination, host order, not 0
  std::vector<Prefix> addresses;  // 1..16, of one host each
  Action action = Action::pass;   // or tx, redirect
  u32 target = 0;                 // port index of redirect
  std::string to{};               // the interface's name, where a policy gives it
  bool operator==(const DecapsulateSettings&) const = default;
};
inline constexpr u32 kMaxDecapsulateAddresses = 16;
inline constexpr Named<Action> kPassNames[] = {{Action::pass, "pass"}, {Action::tx, "tx"}};
inline constexpr Named<DecapsulateSettings::Type> kDecapsulateNames[] = {
    {DecapsulateSettings::Type::ipip, "ipip"},
    {DecapsulateSettings::Type::gue, "gue"},
    {DecapsulateSettings::Type::any, "any"}};
namespace decapsulate_rule {
inline constexpr u32 kMalformed = 1;
inline constexpr u32 kCongested = 2;
}  // namespace decapsulate_rule

template <class Table>
void fields_of(Table& table, SettingsLike<DecapsulateSettings> auto& s) {
  table.about(
      "The far end of a tunnel: packets whose outer headers lead to one of the addresses leave them behind. "
      "What is "
      "inside is looked at by no stage, whoever sent it: let a rule hand on those alone that come from the "
      "tunnel's "
      "other ends.");
  table.word("type", s.type, kDecapsulateNames,
             "What is taken off: 'ipip': IP in IP; 'gue': Generic UDP Encapsulation, variant 1; 'any': both.",
             Say{});
  table.integer("port", s.port, 1, 65535, "Of 'gue': the UDP port that packets are sent to.",
                Say{.fits = s.type != DecapsulateSettings::Type::ipip,
                    .unless = "only gue has a port: take this out, or make the \"type\" \"gue\""});
  table.prefixes("addresses", s.addresses, "Where outer headers lead to: this host's addresses, 16 at most.",
                 Say{.required = true});
  table.action(
      "action", s.action, s.to, s.target, kPassNames,
      "What becomes of the packet that was inside: 'pass' (unless said), 'tx' or {\"redirect\": INTERFACE}.",
      Say{.derived = true});
}

}  // namespace xdpgpu::gpu
