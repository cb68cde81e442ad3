// SPDX-License-Identifier: MIT
//
// gpu/stages/signatures/settings.hpp: what `signatures` can be told, and what it does.
#pragma once

#include "gpu/rule_source.hpp"
#include "gpu/stages/fields.hpp"

namespace xdpgpu::gpu {

// `signatures`: rules of intrusion detection systems, on each packet by itself. gpu/signatures.hpp says for
// which packets a rule holds.
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
// Verdict's rule: the position + 1 of the rule that drops; of n rules, n + 1: `limit`.
inline constexpr u32 kMaxSignatures = 65'535;

inline constexpr u32 kMostWork = 2048;

// Fast patterns that may be compared at one place of a packet. Each is known by the rarest of its windows of
// up to four bytes, and found by a hash of it.
inline constexpr u32 kMostAlike = 64;

// Of a DNS message. A name that RFC 1035 knows has 253 bytes at most, and a server answers one question.
inline constexpr u32 kMostDnsSteps = 2048, kMostDnsNames = 4, kMostDnsNameBytes = 320;

// Whether it is for answers whose records have to be whole.
inline bool reads_answers(const signatures::Signature& rule) {
  return rule.dns && rule.dns->answers && !rule.dns->operations.empty() && rule.dns->names.empty();
}

struct SignaturesSettings {
  FileRules rules;
  u32 work = kMostWork;
  Action limit = Action::drop;  // next, drop or pass
  bool operator==(const SignaturesSettings&) const = default;
};

template <class Table>
void fields_of(Table& table, SettingsLike<SignaturesSettings> auto& s) {
  table.about(
      "Rules of intrusion detection systems, in Suricata's language, on each packet by itself. A rule that "
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
      "stand, or whose DNS message has more names, or longer ones, than devices read. With anything but "
      "'drop' a packet that is made for it is not looked at.",
      Say{});
}

}  // namespace xdpgpu::gpu
