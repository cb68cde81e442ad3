// SPDX-License-Identifier: MIT
//
// userspace/compiler/rules/text.hpp: rule files as text, in the language of Suricata 7
// (https://docs.suricata.io/en/suricata-7.0.10/rules/): lines, and what stands between a rule's brackets.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "maps/types.h"

namespace xdpgpu::rules {

template <class T>
using Result = tl::expected<T, std::string>;

// Bytes of a rule, as Suricata takes them.
inline constexpr std::size_t kLongestRule = 8191;

struct Place {
  std::string file;
  u32 line = 0;  // from 1; the first one of a rule that goes on in the next
};

// "FILE:LINE".
std::string where(const Place& place);

// One rule's text. Lines that end with a backslash are one with the next.
struct RuleText {
  std::string text;
  Place place;
  bool enabled = true;
};

// The lines of a file: not those that are empty, nor comments. disabled: with rules that are commented out.
std::vector<RuleText> rule_texts(std::string_view content, const std::string& file, bool disabled = false);

// "name:value;" or "name;".
struct OptionText {
  std::string name;
  std::optional<std::string> value;  // without spaces around it; quotes and backslashes as they are written
};

// The parts of a rule in front of its brackets, and its options.
struct RuleParts {
  std::vector<std::string> header;  // action, protocol, addresses, ports, direction, addresses, ports
  std::vector<OptionText> options;
};
Result<RuleParts> split_rule(std::string_view text);

std::string_view trimmed(std::string_view text);
char lower(char c);
std::string in_lower_case(std::string_view text);
// What byte_extract and byte_math may call what they make.
bool is_variable(std::string_view text);
// At commas that are outside of square brackets; each part trimmed.
std::vector<std::string_view> at_commas(std::string_view text);
// A decimal number that is all of the text.
std::optional<u64> number(std::string_view text, u64 most = ~u64{0});
std::optional<std::int64_t> signed_number(std::string_view text, std::int64_t least, std::int64_t most);

}  // namespace xdpgpu::rules
