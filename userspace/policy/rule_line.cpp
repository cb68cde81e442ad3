// SPDX-License-Identifier: MIT
#include "userspace/policy/rule_line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "userspace/policy/values.hpp"

namespace xdpgpu::policy {
namespace {

constexpr std::string_view kBlank = " \t\r\f\v";
constexpr std::array<std::string_view, 7> kActions{"alert",     "drop",      "reject",    "pass",
                                                   "rejectsrc", "rejectdst", "rejectboth"};

// Takes the text's first word off; blanks within brackets do not end it.
std::string_view take_word(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(kBlank), text.size()));
  u64 length = 0;
  for (int depth = 0; length < text.size(); ++length) {
    const char c = text[length];
    if (c == '[') ++depth;
    if (c == ']') --depth;
    if (depth <= 0 && kBlank.find(c) != std::string_view::npos) break;
  }
  const std::string_view word = text.substr(0, length);
  text.remove_prefix(length);
  return word;
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(kBlank);
  return first == std::string_view::npos ? std::string_view{}
                                         : text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

// "192.0.2.1", "[192.0.2.0/24, 2001:db8::/32]", "any", "$HOME_NET".
std::optional<std::string> read_addresses(std::string_view word, std::vector<Prefix>& into) {
  if (word == "any" || word.starts_with('$')) return std::nullopt;
  const bool several = word.starts_with('[') && word.ends_with(']');
  if (several) word = word.substr(1, word.size() - 2);
  while (true) {
    const auto comma = several ? word.find(',') : std::string_view::npos;
    const std::string_view one = trimmed(word.substr(0, comma));
    if (auto prefix = try_prefix(one))
      into.push_back(*prefix);
    else if (one.starts_with('!') || one.starts_with('$') || one.starts_with('['))
      return fmt::format("\"{}\" in a rule: of negated, nested and variable addresses no list can be made",
                         one.substr(0, 60));
    else
      return read_prefix(one.substr(0, 60)).error();
    if (comma == std::string_view::npos) return std::nullopt;
    word.remove_prefix(comma + 1);
  }
}

}  // namespace

bool is_rule_line(std::string_view line) {
  const std::string_view action = take_word(line);
  return !line.empty() && std::find(kActions.begin(), kActions.end(), action) != kActions.end();
}

std::optional<std::string> read_rule_line(std::string_view line, std::vector<Prefix>& into) {
  line = line.substr(0, line.find('('));
  take_word(line);  // action
  take_word(line);  // protocol
  const std::string_view source = take_word(line);
  take_word(line);  // port
  const std::string_view arrow = take_word(line);
  const std::string_view destination = take_word(line);
  const std::string_view port = take_word(line);
  if ((arrow != "->" && arrow != "<>") || port.empty())
    return "is no rule like \"alert ip [192.0.2.0/24,198.51.100.7] any -> $HOME_NET any (...)\"";
  const auto before = into.size();
  if (auto wrong = read_addresses(source, into)) return wrong;
  if (auto wrong = read_addresses(destination, into)) return wrong;
  if (into.size() == before) return "the rule names no addresses; leave it out of the list";
  return std::nullopt;
}

}  // namespace xdpgpu::policy
