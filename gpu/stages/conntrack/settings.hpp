// SPDX-License-Identifier: MIT
//
// gpu/stages/conntrack/settings.hpp: what `conntrack` can be told, and what it does.
#pragma once

#include "gpu/stages/fields.hpp"

namespace xdpgpu::gpu {

// `conntrack`: tells packets of connections from others; what is neither new nor invalid nor untracked goes
// on. Not tracked are what is not IP, fragments, and ICMP but for echo and errors. VLAN ids are part of a
// connection: what comes in with others is none of it. IPv6 addresses that stand for IPv4 ones are invalid.
//
// TCP goes by its flags: a SYN makes a connection; the other side's SYN and ACK, which acknowledges it, then
// an ACK open it; a FIN of each side or a RST end it, and a SYN then makes a new one. A RST ends it that has
// the number which its side's next byte would have, or which the other side waits for, or that refuses a SYN;
// another one changes nothing. And unless `loose` by its windows (Rooij, 2001, with window scaling): what is
// outside of them is invalid and changes nothing. Not held to them are connections that were taken up in the
// middle, those of whose packets the host's part was missed, those with a window scale that cannot be read,
// and what the host sends. Who shows what the host sends may be behind: what it may have sent, or offered
// room for, counts as if it were shown, a window more; and what comes in from its peer outside of the windows
// is invalid only if it is a SYN or a RST, else it goes on and changes nothing. New: SYN of a connection,
// until the other side has answered. Invalid: flags that no packet has (two of SYN, FIN and RST, or none of
// SYN, RST and ACK), a packet that its connection's state does not allow, and, unless `loose`, one of no
// connection that is not a SYN. UDP, and any other protocol, by addresses and ports; ICMP echo by its
// identifier: new until the other side has answered. ICMP errors are of the connection that they quote; if
// there is none, they are invalid (`loose`: not tracked). Malformed packets are invalid.
//
// loose: only one direction may be seen. Then connections are also taken up in the middle (as new), and
// from the answer to what was not seen.
//
// Where a new connection has no place in the table, its packets count as invalid. Verdict's rule: the class
// of the packet, kConntrackNew, kConntrackInvalid or kConntrackUntracked.
//
// egress: the pipeline is shown what the host sends (XG_PKT_EGRESS). Such packets meet the stages `conntrack`
// alone, which note them as any packet of the other direction, and always as `loose`: what the host says of
// its connections is so. And only that is: a direction that the host was shown to send in is changed by no
// packet that comes in and is passed to the host's stack, which would show it when it sends it on.
//
// What changes connections. Not a packet that is dropped: by the stage itself, or, where it may begin a
// connection, by a stage behind that asks no table. With `egress`, a connection that was begun by a packet
// for the host's stack is unconfirmed until the host was shown to send a packet of it; until then nothing
// answers it: what comes from its other side counts as if there were none, and may begin it anew. (The stages
// in front of a stage with a table, `rate_limit` say, do not know what that one will do; where none behind
// sends packets on, what comes through is for the host's stack.) Else, where a table behind may have dropped
// what began it, it is unconfirmed until its originator goes on after an answer; answers are let in, since
// what is too much for a rate would have been let in at a lower one. Unconfirmed connections give way before
// all others, with Evict::refuse, too. All of this is known when the table is asked, packet by packet, so it
// does not matter how the stream is cut into batches.
// They are decided by no stage: XG_PASS, stage 0, rule 0, and nothing else set. (That
// holds for packets with the mark in any pipeline.)
struct ConntrackSettings {
  static constexpr u32 kRecordWords = 16;  // that an entry has behind the sets
  bool loose = false;
  bool egress = true;
  Action on_new = Action::next;        // next, pass or drop
  Action on_invalid = Action::drop;    // likewise
  Action on_untracked = Action::next;  // likewise
  // Milliseconds without a packet after which a connection is forgotten, 1..2^32-1.
  struct Timeouts {
    u32 syn_sent = 120'000;
    u32 syn_received = 60'000;
    u32 established = 3'600'000;
    u32 fin_wait = 120'000;
    u32 time_wait = 120'000;
    u32 closed = 10'000;
    u32 udp = 30'000;
    u32 udp_replied = 120'000;
    u32 icmp = 30'000;    // replied or not
    u32 other = 600'000;  // likewise
    bool operator==(const Timeouts&) const = default;
  } timeouts;
  TableSettings table{.entries = 1'048'576};
  bool operator==(const ConntrackSettings&) const = default;
};
inline constexpr u32 kConntrackNew = 1;
inline constexpr u32 kConntrackInvalid = 4;
inline constexpr u32 kConntrackUntracked = 6;

template <class Table>
void fields_of(Table& table, SettingsLike<ConntrackSettings::Timeouts> auto& s) {
  const auto time = [&](std::string_view key, auto& ms, std::string_view sentence) {
    table.time(key, ms, 1, kMaxTimeoutMs, sentence, Say{});
  };
  time("syn_sent", s.syn_sent, "After a SYN.");
  time("syn_received", s.syn_received, "After the SYN and ACK that answers it.");
  time("established", s.established, "Open.");
  time("fin_wait", s.fin_wait, "After one side's FIN.");
  time("time_wait", s.time_wait, "After both sides' FIN, from then on.");
  time("closed", s.closed, "After a RST, from then on.");
  time("udp", s.udp, "UDP of which one direction was seen.");
  time("udp_replied", s.udp_replied, "UDP of which both were.");
  time("icmp", s.icmp, "ICMP echo.");
  time("other", s.other, "Any other protocol.");
}

template <class Table>
void fields_of(Table& table, SettingsLike<ConntrackSettings> auto& s) {
  table.about(
      "Tells packets of connections from others. TCP by its flags and, unless 'loose', its windows, UDP and "
      "others by "
      "addresses and ports, ICMP echo by its identifier, ICMP errors by the packet that they quote. What is "
      "neither "
      "new nor invalid goes on to the next stage.");
  table.word("on_new", s.on_new, kOtherwiseNames,
             "What becomes of packets that begin a connection, until the other side has answered.", Say{});
  table.word(
      "on_invalid", s.on_invalid, kOtherwiseNames,
      "What becomes of packets that no connection has: impossible flags, what the connection's state or its "
      "windows do not allow, malformed ones, and those of new connections for which there is no room.",
      Say{});
  table.word(
      "on_untracked", s.on_untracked, kOtherwiseNames,
      "What becomes of packets that are of no connection: ICMP of all types but echo and errors, what is not "
      "IP, fragments. Unless it is said, 'drop' where 'on_new' is and else 'next'.",
      Say{.derived = true});
  table.flag(
      "egress", s.egress,
      "Whether the pipeline is shown the headers of what the host sends out of attached interfaces, its own "
      "packets and those it forwards, by a tc program. They are noted, never dropped. While some stage wants "
      "that, each packet that the host sends costs a copy of its headers and a look at them.",
      Say{});
  table.flag(
      "loose", s.loose,
      "true: one direction of a connection may do; connections are also taken up in the middle. false: TCP "
      "begins with a SYN, and an answer answers something. Unless it is said, false with 'egress' and true "
      "without. false without 'egress' is for routers through whose attached interfaces both directions come "
      "in.",
      Say{.derived = true});
  table.record("timeouts", s.timeouts, "\"timeouts\"",
               "How long a connection is remembered without a packet, by its state.", Say{});
  table_fields(
      table, s.table, kMaxTableEntries,
      "Connections that there is room for, 136 bytes of the device's memory each.",
      "Which connection is forgotten where a new one finds no room: first those that nothing has confirmed, "
      "then by this; with 'refuse' no confirmed one is, and the new one's packets are invalid.");
}

}  // namespace xdpgpu::gpu
