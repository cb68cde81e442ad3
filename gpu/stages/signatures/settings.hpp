// SPDX-License-Identifier: MIT
//
// gpu/stages/signatures/settings.hpp: what `signatures` can be told, and what it does.
#pragma once

#include <span>

#include "gpu/rule_source.hpp"
#include "gpu/stages/fields.hpp"
#include "gpu/stages/signatures/layout.h"

namespace xdpgpu::gpu {

// `signatures`: rules of intrusion detection systems, on each packet by itself and, with `streams`, on what
// TCP connections say. gpu/signatures.hpp says for which packets a rule holds, and with which one it fires
// that is asked of streams.
//
// Rules stand in the order in which they count: those that pass a packet, those that drop it, and reject it,
// which drops, too; those that alert anywhere behind what passes, as a host may have more to say of them
// (check(), gpu::RuleHead::late). Of all that hold for a packet the
// first one says what becomes of it: a rule that passes lets it go on and has nothing told; one that drops
// drops it; one that alerts lets it go on. With a rule that drops or alerts the packet's result has
// XG_RES_ALERTS, and its xg_alerts the first seven that hold, by their positions; XG_ALERTS_MORE, if there
// are more.
//
// The work on a packet is bounded. Of the rules' fast patterns at most kMostPatterns may stand in its
// payload and in the names of its DNS message, each counted once; those of names are looked for in each name
// with a dot in front. And of all rules that have to be inspected, which are those whose header and
// conditions hold for the packet, and whose fast pattern stands in it, or is of a content that may not be
// there, all steps together may cost `work`: a step costs 1, each time that it is begun; a content costs,
// each time that it is looked for, 1, and 1 for each 16 places of its window that are looked at, up to the
// one where it is, of that which has the rule's fast pattern from where this one's first place lets it stand;
// and where it is longer than four bytes, at each place that has the first four, 1 for each
// 16 bytes of it or part of them. A regular expression reads a byte at a time until it is decided: each byte
// is 1 and 1 for each 32 positions of its automaton or part of them, as is, if another byte follows, each
// position that has the byte and is followed by others than itself and the next one (signatures::branches());
// and each 8 of all these cost 1. A set that a name is looked up in costs 1, and 1 for each 16 bytes of the
// name or part of them; of several sets those up to the first that the name should not be in, or should. A
// packet that takes more is not told of: `limit`.
//
// So it is of a DNS message that takes more than kMostDnsSteps to read: each label, each pointer and each end
// of a name that is come by is one, and each 16 bytes that are compared for a pointer that may be one to
// itself. It is read where a rule asks of DNS messages; an answer's records only where one asks of an
// answer's operation (reads_answers()). Where a rule asks of names a query that is read may have
// kMostDnsNames names, and kMostDnsNameBytes bytes of them, counted with a dot for each: one with more is
// `limit`, too.
//
// Streams. A connection is TCP packets of the same two addresses and ports, whole IP packets in good order
// with a TCP header. It is known from a SYN on, with `midstream` from any packet with a payload on, as long
// as the table has it: `idle_ms` behind its last packet, kClosedMs behind a RST or both sides' FIN. Who sent
// the SYN, or was sent a SYN with ACK, is its client; without one the side with the higher port, of equals
// the higher address. To whom a rule's packets go (ConnectionIs) is said by that; it is established for a
// packet with ACK and without SYN.
//
// A side's stream begins behind its SYN, with `midstream` and without one at its first payload; what a packet
// with RST has is none of it, nor what comes with a SYN of another number than the stream's. `depth` bytes of
// it are inspected; the packets behind those go on. Of each byte the first one counts that came, in whatever
// packet. A packet that brings bytes anew which are kept, and others than came first, is dropped, and not
// one of its bytes counts: kept are T(e)'s, and what has come early. What is brought anew in front of T(e)
// is let go on where the other side has acknowledged it. Else its digest is compared, from where it begins,
// or from behind what is acknowledged, up to its end or to what is new in the packet, if both are marks. A
// stream's byte 0 is one, and each place up to which it was whole with a packet, and where that packet's
// bytes ended; of these the kMostMarks last ones. If they are not, it is a gap: nobody knows whether it is
// the same.
//
// What comes early, up to three blocks behind T(e)'s first byte, is kept and goes on at once; it is inspected
// with the packet by which the stream comes to be whole up to it. Of more than that, or of more than
// kMostGaps pieces with gaps between them, the packet is a gap: not one of its bytes counts. So are packets
// with a payload of no connection and of a side that has not begun. `on_gap` says what becomes of gaps.
//
// Where gaps are not dropped, and the other side acknowledges bytes that have not come here, up to the end of
// those that were seen to be sent (at most 1 GiB ahead), the stream begins anew behind what it acknowledges:
// nobody will bring these bytes any more. Then it is cut: no rule holds in it whose steps count from the
// start (from_start()), nor any across the gap; what had come early is forgotten; `depth` counts anew.
//
// With `inspect.http` requests by HTTP are read where a rule asks for one or for an answer, and with
// `inspect.answers` answers where one asks for these. Their parts have a room of three windows each. In it
// stand the head's lines without their ends, those that go on with those in front of them; and of what is
// asked for: the URI, of as many bytes as raw_uri has; host, one byte and as many as the URI's authority or
// the Host header's value has; each header's value that several lines have, that of Host also where host is
// asked for; header; and header_names. A head for which that is too little is `limit`. Each that is read
// costs kHttpWork. A body is looked at where it stands in the stream's text, or in two windows more, where it
// is in chunks. What a head costs that is asked for is counted once, and once more for each rule that is
// found by its body, with each packet whose B(e) has its pattern.
//
// A rule that drops has all of the connection's packets dropped from then on; one that passes has nothing
// more asked of them, no rules for packets either. Of the fast patterns of rules for streams at most
// kMostPatterns may stand in T(e), and in each part of a request; work is counted for each packet: both of
// the text up to the packet's last byte and, where the rule holds, of that up to the byte in front of its
// first one, and where it has negated steps of texts half as much longer each time until it is known with
// which byte it holds, and of that. A packet that takes more is `limit`, as are, while T(e) begins where it
// does, those of a side with more fast patterns in it.
//
// Verdict's rule: the position + 1 of the rule that drops; of n rules, n + 1: `limit`; n + 2: bytes came anew
// and were others; n + 3: a gap; n + 4: a rule has dropped its connection; n + 5: an answer's body is
// encoded.
inline constexpr u32 kMaxSignatures = 65'535;

inline constexpr u32 kMostWork = 2048;
// Of a request by HTTP that is read, beside what its rules take.
inline constexpr u32 kHttpWork = 32;

// Fast patterns that may be compared at one place of a packet. Each is known by the rarest of its windows of
// up to four bytes, and found by a hash of it.
inline constexpr u32 kMostAlike = 64;

// Of a DNS message. A name that RFC 1035 knows has 253 bytes at most, and a server answers one question.
inline constexpr u32 kMostDnsSteps = 2048, kMostDnsNames = 4, kMostDnsNameBytes = 320;

// Whether it is for answers whose records have to be whole.
inline bool reads_answers(const signatures::Signature& rule) {
  return rule.dns && rule.dns->answers && !rule.dns->operations.empty() && rule.dns->names.empty();
}

inline constexpr u32 kClosedMs = 10'000;
inline constexpr u32 kMostGaps = 4;
inline constexpr u32 kMostMarks = 64;
inline constexpr u32 kLeastWindow = 256, kMostWindow = 16'384, kMostDepth = 1u << 30;

struct SignaturesSettings {
  FileRules rules;
  u32 work = kMostWork;
  Action limit = Action::drop;  // next, drop or pass
  u32 streams = 0;  // connections that there is room for, as TableSettings::entries; 0: none are followed
  struct Inspect {
    u32 depth = 1u << 20;    // bytes of each side
    u32 window = 4096;       // bytes of a block: a multiple of 64
    bool midstream = false;  // connections whose beginning was not seen
    bool http = true;        // what clients ask by HTTP is read
    bool answers = true;     // and what servers answer
    u32 idle_ms = 3'600'000;
    bool operator==(const Inspect&) const = default;
  } inspect;
  Action on_gap = Action::next;      // next, drop or pass
  Action on_encoded = Action::next;  // likewise
  TableSettings::Evict evict = TableSettings::Evict::lru;
  // next or redirect: whether the host sends on to an interface, ahead of the pipeline, the flows that
  // rules.undecided are for. No device is asked for it.
  Action on_unsupported = Action::next;
  std::string unsupported_to{};  // the interface's name
  u32 unsupported_port = 0;
  bool operator==(const SignaturesSettings&) const = default;

  // What a device goes by when it writes: the words of its table's body that linking leaves alone, and
  // whether they are what these settings make of them (gpu/stages/signatures/layout.h).
  static constexpr u32 kFixedWords = XG_STREAMS_OWN;
  bool is_of(std::span<const u32> body) const {
    return body.size() >= XG_STREAMS_WORDS && body[XG_STREAMS_WINDOW] == (inspect.window | reads());
  }
  // What of HTTP is read: XG_STREAMS_READS_*.
  u32 reads() const {
    return !inspect.http ? 0 : XG_STREAMS_READS_HTTP | (inspect.answers ? XG_STREAMS_READS_ANSWERS : 0);
  }
  // Words that a connection has behind the sets.
  u32 record_words() const { return streams == 0 ? 0 : XG_STREAM_RECORD(inspect.window, reads()); }
};

template <class Table>
void fields_of(Table& table, SettingsLike<SignaturesSettings::Inspect> auto& s) {
  table.bytes(
      "depth", s.depth, kLeastWindow, kMostDepth,
      "How much of what each side says is inspected, from its first byte on. What is behind it goes on.",
      Say{});
  table.bytes(
      "window", s.window, kLeastWindow, kMostWindow,
      "So many bytes, a multiple of 64, are a block. A rule sees the block that the last byte is of, as "
      "far as it has come, and the one in front of it.",
      Say{});
  table.flag("midstream", s.midstream,
             "true: connections are also taken up in the middle, by the first packet that is seen of them.",
             Say{});
  table.flag(
      "http", s.http,
      "true: what clients ask by HTTP/1 is read, for rules that are about that. Takes five more windows "
      "of each connection.",
      Say{});
  table.flag("answers", s.answers,
             "true: what servers answer is read, too, where 'http' is true. Takes five more windows of each "
             "connection.",
             Say{});
  table.time("idle", s.idle_ms, 1, kMaxTimeoutMs, "How long a connection is remembered without a packet.",
             Say{});
}

template <class Table>
void fields_of(Table& table, SettingsLike<SignaturesSettings> auto& s) {
  table.about(
      "Rules of intrusion detection systems, in Suricata's language, on each packet by itself and, with "
      "'streams', on what TCP connections say. A rule that "
      "alerts lets the packet go on to the next stage and is told of in the log; one that drops or rejects "
      "drops it, and is told of, too, and one that rejects answers it: TCP by a reset, all else by ICMP; one "
      "that passes lets it go on, and nothing is told. What this release "
      "does not decide is named: `xdpgpu rules check`.");
  table.rules("rules", s.rules.source,
              "Rule files, relative to the policy file; *, ? and [...] in the last part of a path stand for "
              "what they stand for in a shell.",
              Say{.required = true});
  table.rule_variables(
      "vars", s.rules.source.variables,
      "Variables of addresses and of ports, by name without the $: each one value or an array of them, in "
      "Suricata's words, such as \"10.0.0.0/8\", \"!$HOME_NET\", 80 and \"1024:\". Others are as in "
      "Suricata's own configuration.",
      Say{.shown = !s.rules.source.variables.empty()});
  const auto file = [&](std::string_view key, auto& to, std::string_view about) {
    table.rule_file(key, to, about, Say{.shown = !to.name.empty()});
  };
  file("classification", s.rules.source.classification,
       "classification.config, which has rules' categories and priorities by their classtype.");
  file("disable", s.rules.source.disable, "suricata-update's disable.conf: rules that do not count.");
  file("enable", s.rules.source.enable,
       "suricata-update's enable.conf: rules that count though they are commented out.");
  file("modify", s.rules.source.modify, "suricata-update's modify.conf: what is replaced in rules' texts.");
  file("drop", s.rules.source.drop, "suricata-update's drop.conf: rules that drop instead of alerting.");
  file("threshold", s.rules.source.threshold,
       "threshold.config: how often rules alert, or drop, and for whom they do not alert.");
  table.integer(
      "work", s.work, 256, kMostWork,
      "How much work a packet may take: a step of a rule is 1, each 16 places at which a content is "
      "looked for are 1, and so are 4 bytes that a short regular expression reads. Software Vulkan takes 512 "
      "at most.",
      Say{});
  table.word(
      "limit", s.limit, kOtherwiseNames,
      "What becomes of a packet that takes more work, in which more than 48 of the rules' fast patterns "
      "stand, or whose DNS message has more names, or longer ones, than devices read; and of one with which "
      "a ClientHello or a request by HTTP is longer than what is kept. With anything but 'drop' a packet "
      "that is made for it is not looked at.",
      Say{});
  table.integer(
      "streams", s.streams, 0, kMaxTableEntries,
      "TCP connections that are followed, for rules that are asked of streams: memory of the device for "
      "all of them is taken when the policy is put in force, six windows and 2.7 KiB each, and with "
      "'http' five windows and 2.2 KiB more, and as much again with 'answers'. 0: none.",
      Say{});
  table.record("inspect", s.inspect, "\"inspect\"", "How much of a stream is inspected, and of which ones.",
               Say{});
  table.word(
      "on_gap", s.on_gap, kOtherwiseNames,
      "What becomes of a TCP packet with a payload that cannot be inspected as a stream's: of a connection "
      "that is not known, too far ahead of what is missing, or brought anew when it is not kept any more. "
      "With anything but 'drop' it goes on uninspected, and once its receiver acknowledges it, inspection "
      "goes on behind it.",
      Say{});
  table.word(
      "on_encoded", s.on_encoded, kOtherwiseNames,
      "What becomes of the packet that ends the head of an answer by HTTP whose body is encoded "
      "(Content-Encoding: gzip and others), where rules ask for bodies: they are not decoded, and looked at "
      "as they are. 'drop' drops the connection.",
      Say{});
  table.word(
      "evict", s.evict, kEvictNames,
      "Which connection is forgotten where a new one finds no room; 'refuse': none, and the new one is not "
      "inspected.",
      Say{});
  table.action(
      "on_unsupported", s.on_unsupported, s.unsupported_to, s.unsupported_port,
      std::span<const Named<Action>>(kActionNames, 1),
      "What becomes of flows that rules are for which are not decided here, as addresses, ports and protocol "
      "tell: with 'redirect' the kernel sends them out of that attached interface, to a Suricata there, from "
      "their first packet on, and the pipeline does not see them; what comes in there is not sent back. Not "
      "those for which there are rules by an "
      "application's protocol on any port: `xdpgpu rules check` says how many these are.",
      Say{});
}

}  // namespace xdpgpu::gpu
