// SPDX-License-Identifier: MIT
//
// userspace/compiler/rules/pcre.hpp: regular expressions of rules, as PCRE2 takes them
// (https://www.pcre.org/current/doc/html/), with Suricata's letters behind the last slash.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "userspace/compiler/rules/text.hpp"

namespace xdpgpu::rules {

struct Regex {
  std::string pattern;
  u32 options = 0;            // PCRE2's, of its letters
  bool negated = false;       // from the ! in front of it
  bool relative = false;      // from the end of the match before
  bool irregular = false;     // back references, look-around, atomic groups: no automaton decides it
  bool matches_empty = true;  // it may match no byte
  std::string buffer{};       // by a letter; empty: the one that is named
  std::vector<std::string> captures{};  // variables that its groups are kept in, as "flow:name"
};

// text: "/pattern/letters", without its quotes. The error is a sentence: no letters of that kind, or what
// PCRE2 says.
Result<Regex> parse_regex(std::string_view text, bool negated);

}  // namespace xdpgpu::rules
