// SPDX-License-Identifier: MIT
//
// userspace/compiler/rules/pcre.hpp: regular expressions of rules, as PCRE2 takes them
// (https://www.pcre.org/current/doc/html/), with Suricata's letters behind the last slash.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "userspace/compiler/rules/text.hpp"

struct pcre2_real_code_8;

namespace xdpgpu::rules {

// Bytes of memory that one may take once it is compiled, and levels of brackets that it may have: a rule's
// writer may be anybody.
inline constexpr std::size_t kLargestRegex = 1u << 20;
inline constexpr u32 kDeepestRegex = 100;

struct Regex {
  std::string pattern;
  u32 options = 0;         // PCRE2's, of its letters
  bool negated = false;    // from the ! in front of it
  bool relative = false;   // from the end of the match before
  bool irregular = false;  // back references, look-around, atomic groups: no automaton decides it
  std::string buffer{};    // by a letter; empty: the one that is named
  std::vector<std::string> captures{};  // variables that its groups are kept in, as "flow:name"
};

// As PCRE2 compiles it, within the limits above. The error is what it says.
using RegexCode = std::shared_ptr<pcre2_real_code_8>;
Result<RegexCode> compile_regex(std::string_view pattern, u32 options);

// text: "/pattern/letters", without its quotes. The error is a sentence: no letters of that kind, or what
// PCRE2 says.
Result<Regex> parse_regex(std::string_view text, bool negated);

}  // namespace xdpgpu::rules
