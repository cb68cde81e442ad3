// SPDX-License-Identifier: MIT
//
// tests/stages/outside/signatures/settings.hpp: what `signatures` can be told, and what it does.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gpu/signatures.hpp"
#include "gpu/stages/fields.hpp"

namespace xdpgpu::gpu {

// `signatures`: rules of intrusion detection systems, on each packet by itself. gpu/signatures.hpp says for
// which packets a rule holds.
//
// Rules stand in the order in which they count: those that pass a packet, those that drop it (`reject` drops,
// too: nothing is sent), those that alert (check()). Of all that hold for a packet the first one says what
// becomes of it: a rule that passes lets it go on and has nothing told; one that drops drops it; one that
// alerts lets it go on. With a rule that drops or alerts the packet's result has XG_RES_ALERTS, and its
// xg_alerts the first seven that hold, by their positions; XG_ALERTS_MORE, if there are more.
//
// The work on a packet is bounded. Of the rules' fast patterns at most kMostPatterns may stand in its
// payload, each counted once. And of all rules that have to be inspected, which are those whose header and
// conditions hold for the packet, and whose fast pattern stands in it, or is of a content that may not be
// there, all steps together may cost `work`: a step costs 1, each time that it is begun; a content costs,
// each time that it is looked for, 1, and 1 for each 16 places of its window that are looked at, up to the
// one where it is; and where it is longer than four bytes, at each place that has the first four, 1 for each
// 16 bytes of it or part of them. A packet that takes more is not told of: `limit`.
//
// Verdict's rule: the position + 1 of the rule that drops; of n rules, n + 1: `limit`.
inline constexpr u32 kMaxSignatures = 65'535;

// Software Vulkan (llvmpipe) ends all loops of an invocation after 65,536 turns, and one of work takes up
// to 16.
inline constexpr u32 kMostWork = 2048;

struct SignaturesSettings {
  std::shared_ptr<const std::vector<signatures::Signature>> rules{};  // nullptr: none
  u32 work = kMostWork;
  Action limit = Action::drop;  // next, drop or pass
  bool operator==(const SignaturesSettings& other) const {
    return work == other.work && limit == other.limit &&
           (rules == other.rules || (rules && other.rules && *rules == *other.rules));
  }
  const std::vector<signatures::Signature>& all() const {
    static const std::vector<signatures::Signature> none;
    return rules ? *rules : none;
  }
};

template <class Table>
void fields_of(Table& table, SettingsLike<SignaturesSettings> auto& s) {
  table.about("Rules of intrusion detection systems, in Suricata's language, on each packet by itself.");
  table.integer(
      "work", s.work, 256, kMostWork,
      "How much work a packet may take: a step of a rule is 1, and each 16 places at which a content "
      "is looked for are 1.",
      Say{});
  table.word("limit", s.limit, kOtherwiseNames,
             "What becomes of a packet that takes more work, or in which more than 48 of the rules' fast "
             "patterns stand. With anything but 'drop' a packet that is made for it is not looked at.",
             Say{});
}

}  // namespace xdpgpu::gpu
