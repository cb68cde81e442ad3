// SPDX-License-Identifier: MIT
#include "userspace/compiler/rules/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>

namespace xdpgpu::rules {
namespace {

constexpr std::string_view kSpaces = " \t\r\n\v\f";

// A place where an option ends: a semicolon without a backslash in front of it.
std::size_t end_of_option(std::string_view text, std::size_t from) {
  for (std::size_t at = text.find(';', from); at != std::string_view::npos; at = text.find(';', at + 1))
    if (at == 0 || text[at - 1] != '\\') return at;
  return std::string_view::npos;
}

Result<std::vector<OptionText>> split_options(std::string_view text) {
  std::vector<OptionText> options;
  for (text = trimmed(text); !text.empty(); text = trimmed(text)) {
    const std::size_t end = end_of_option(text, 0);
    if (end == std::string_view::npos)
      return tl::unexpected(
          fmt::format("the option \"{}\" does not end with a semicolon", text.substr(0, 40)));
    const std::string_view one = text.substr(0, end);
    text.remove_prefix(end + 1);
    const std::size_t colon = one.find(':');
    OptionText option;
    option.name = trimmed(one.substr(0, colon));
    if (option.name.empty()) return tl::unexpected(std::string("an option has no name"));
    if (colon != std::string_view::npos) {
      option.value = trimmed(one.substr(colon + 1));
      if (option.value->empty())
        return tl::unexpected(fmt::format("\"{}\" has a colon and no value", option.name));
    }
    options.push_back(std::move(option));
  }
  return options;
}

std::vector<std::string> at_spaces(std::string_view text) {
  std::vector<std::string> parts;
  for (text = trimmed(text); !text.empty(); text = trimmed(text)) {
    const std::size_t end = std::min(text.find_first_of(kSpaces), text.size());
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return parts;
}

// Of what stands in a comment.
bool looks_like_a_rule(std::string_view text) {
  constexpr std::string_view kActions[] = {"alert ", "drop ", "pass ", "reject "};
  return std::any_of(std::begin(kActions), std::end(kActions),
                     [&](auto action) { return text.starts_with(action); }) &&
         text.find("sid:") != std::string_view::npos;
}

}  // namespace

std::string where(const Place& place) { return fmt::format("{}:{}", place.file, place.line); }

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string in_lower_case(std::string_view text) {
  std::string made(text);
  std::transform(made.begin(), made.end(), made.begin(), [](char c) { return lower(c); });
  return made;
}

bool is_variable(std::string_view text) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !text.empty() && is_letter(text[0]) && std::all_of(text.begin(), text.end(), [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '.' || c == '-';
  });
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kSpaces);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpaces) - first + 1);
}

std::vector<std::string_view> at_commas(std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= text.size(); i++) {
    if (i < text.size() && text[i] == '[') depth++;
    if (i < text.size() && text[i] == ']') depth--;
    if (i < text.size() && (text[i] != ',' || depth > 0)) continue;
    parts.push_back(trimmed(text.substr(begin, i - begin)));
    begin = i + 1;
  }
  return parts;
}

std::optional<u64> number(std::string_view text, u64 most) {
  u64 value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value > most) return {};
  return value;
}

std::optional<std::int64_t> signed_number(std::string_view text, std::int64_t least, std::int64_t most) {
  std::int64_t value = 0;
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) return {};
  return value;
}

std::vector<RuleText> rule_texts(std::string_view content, const std::string& file, bool disabled) {
  std::vector<RuleText> rules;
  RuleText rule;
  u32 line = 0;
  for (std::size_t at = 0; at < content.size();) {
    const std::size_t end = std::min(content.find('\n', at), content.size());
    std::string_view text = content.substr(at, end - at);
    at = end + 1;
    line++;
    const bool goes_on = !rule.text.empty();
    if (!goes_on) {
      text = trimmed(text);
      const bool comment = text.starts_with('#') || text.starts_with(';');
      if (comment) text = trimmed(text.substr(std::min(text.find_first_not_of("#; \t"), text.size())));
      if (text.empty() || (comment && !(disabled && looks_like_a_rule(text)))) continue;
      rule.place = {file, line};
      rule.enabled = !comment;
    }
    while (!text.empty() && kSpaces.find(text.back()) != std::string_view::npos) text.remove_suffix(1);
    const bool more = text.ends_with('\\');
    if (more) text.remove_suffix(1);
    rule.text += text;
    if (more && at < content.size()) continue;
    if (!trimmed(rule.text).empty()) rules.push_back(std::move(rule));
    rule = {};
  }
  return rules;
}

Result<RuleParts> split_rule(std::string_view text) {
  text = trimmed(text);
  if (text.size() > kLongestRule)
    return tl::unexpected(fmt::format("it has {} bytes, more than {}", text.size(), kLongestRule));
  const std::size_t open = text.find('(');
  if (open == std::string_view::npos || text.back() != ')')
    return tl::unexpected(std::string("its options do not stand between brackets"));
  auto header = at_spaces(text.substr(0, open));
  if (header.size() != 7)
    return tl::unexpected(
        fmt::format("in front of its options stand {} parts, not an action, a protocol, and a direction "
                    "between addresses and "
                    "ports",
                    header.size()));
  auto options = split_options(text.substr(open + 1, text.size() - open - 2));
  if (!options) return tl::unexpected(std::move(options.error()));
  return RuleParts{std::move(header), std::move(*options)};
}

}  // namespace xdpgpu::rules
