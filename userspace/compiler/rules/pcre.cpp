// SPDX-License-Identifier: MIT
#define PCRE2_CODE_UNIT_WIDTH 8
#include "userspace/compiler/rules/pcre.hpp"

#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>
#include <iterator>

#include "userspace/expressions/expressions.hpp"

namespace xdpgpu::rules {
namespace {

tl::unexpected<std::string> wrong(std::string text) { return tl::unexpected(std::move(text)); }

struct Option {
  char letter;
  u32 option;
};
constexpr Option kOptions[] = {{'i', PCRE2_CASELESS}, {'m', PCRE2_MULTILINE}, {'s', PCRE2_DOTALL},
                               {'x', PCRE2_EXTENDED}, {'A', PCRE2_ANCHORED},  {'E', PCRE2_DOLLAR_ENDONLY},
                               {'G', PCRE2_UNGREEDY}};
struct In {
  char letter;
  std::string_view buffer;
};
constexpr In kBuffers[] = {{'U', "http_uri"},      {'I', "http_raw_uri"},    {'P', "http_client_body"},
                           {'Q', "file_data"},     {'H', "http_header"},     {'D', "http_raw_header"},
                           {'M', "http_method"},   {'C', "http_cookie"},     {'S', "http_stat_code"},
                           {'Y', "http_stat_msg"}, {'V', "http_user_agent"}, {'W', "http_host"},
                           {'Z', "http_raw_host"}};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Whether it asks for what a finite automaton cannot tell, as far as its text shows.
bool is_irregular(std::string_view pattern) {
  bool in_class = false;
  for (std::size_t i = 0; i < pattern.size(); i++) {
    const char c = pattern[i], next = i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (c == '\\') {
      if (!in_class &&
          ((next >= '1' && next <= '9') || next == 'k' || next == 'g' || next == 'K' || next == 'G'))
        return true;
      i++;
    } else if (in_class) {
      in_class = c != ']';
    } else if (c == '[') {
      in_class = true;
      if (next == '^') i++;
      if (i + 1 < pattern.size() && pattern[i + 1] == ']') i++;  // the first one is a member
    } else if (c == '(' && next == '?') {
      const std::string_view rest = pattern.substr(i + 2);
      for (const char* const kind : {"=", "!", "<=", "<!", ">", "(", "R", "&", "|", "P=", "P>"})
        if (rest.starts_with(kind)) return true;
      if (!rest.empty() && (is_digit(rest[0]) || rest[0] == '+')) return true;
      if (rest.size() > 1 && rest[0] == '-' && is_digit(rest[1])) return true;
    } else if ((c == '*' || c == '+' || c == '?' || c == '}') && next == '+') {
      return true;
    }
  }
  return false;
}

}  // namespace

Result<Regex> parse_regex(std::string_view text, bool negated) {
  const auto end = text.rfind('/');
  if (!text.starts_with('/') || end == 0)
    return wrong(fmt::format("pcre {} does not stand between slashes", text));
  Regex made;
  made.pattern = text.substr(1, end - 1);
  made.negated = negated;
  std::string_view letters = text.substr(end + 1);
  if (const auto comma = letters.find(','); comma != std::string_view::npos) {
    for (const auto name : at_commas(letters.substr(comma + 1))) {
      if (!name.starts_with("flow:") && !name.starts_with("pkt:"))
        return wrong(fmt::format("pcre keeps nothing in \"{}\"", name));
      made.captures.emplace_back(name);
    }
    letters = letters.substr(0, comma);
  }
  for (const char letter : trimmed(letters)) {
    const auto* const option = std::find_if(std::begin(kOptions), std::end(kOptions),
                                            [&](const Option& one) { return one.letter == letter; });
    const auto* const in = std::find_if(std::begin(kBuffers), std::end(kBuffers),
                                        [&](const In& one) { return one.letter == letter; });
    if (option != std::end(kOptions))
      made.options |= option->option;
    else if (in != std::end(kBuffers) && made.buffer.empty())
      made.buffer = in->buffer;
    else if (letter == 'R')
      made.relative = true;
    else if (letter != 'B' && letter != 'O')
      return wrong(fmt::format("pcre has no letter '{}', or one too many", letter));
  }
  const auto compiled = expressions::compile(made.pattern, made.options);
  if (!compiled) return wrong(compiled.error());
  u32 matches_empty = 1;
  if (pcre2_pattern_info(compiled->get(), PCRE2_INFO_MATCHEMPTY, &matches_empty) == 0)
    made.matches_empty = matches_empty != 0;
  made.irregular = is_irregular(made.pattern);
  return made;
}

}  // namespace xdpgpu::rules
