// SPDX-License-Identifier: MIT
#define PCRE2_CODE_UNIT_WIDTH 8
#include "userspace/compiler/rules/selection.hpp"

#include <fmt/format.h>
#include <fnmatch.h>
#include <pcre2.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <limits>

#include "userspace/compiler/rules/pcre.hpp"
#include "userspace/expressions/expressions.hpp"

namespace xdpgpu::rules {
namespace {

tl::unexpected<std::string> wrong(std::string text) { return tl::unexpected(std::move(text)); }

constexpr u64 kU32 = std::numeric_limits<u32>::max();
// Steps that looking for an expression in one rule may take.
constexpr u32 kMostSteps = 1'000'000;

// The lines of a file of the operator's that say something.
template <class Visit>
Result<void> each_line(const RuleFile& file, Visit visit) {
  for (const auto& [text, place, enabled] : rule_texts(file.content, file.name))
    if (auto visited = visit(trimmed(text), place); !visited)
      return wrong(fmt::format("{}: {}", where(place), visited.error()));
  return {};
}

// An option's value in a rule's text; empty: it has none.
std::string option_of(const RuleText& rule, std::string_view name) {
  const auto parts = split_rule(rule.text);
  if (!parts) return {};
  for (const auto& option : parts->options)
    if (option.name == name) return option.value.value_or("");
  return {};
}

// Says nothing where it matches.
bool is_silent(const RuleText& rule) {
  const auto parts = split_rule(rule.text);
  return parts && std::any_of(parts->options.begin(), parts->options.end(), [](const OptionText& one) {
           return one.name == "noalert" || (one.name == "flowbits" && one.value == "noalert");
         });
}

}  // namespace

struct TextRegex::Code {
  expressions::Code code;
  std::unique_ptr<pcre2_match_context, void (*)(pcre2_match_context*)> limits;
};

Result<TextRegex> TextRegex::make(std::string_view pattern) {
  auto code = expressions::compile(pattern, 0);
  if (!code) return wrong(std::move(code.error()));
  Code made{*std::move(code), {pcre2_match_context_create(nullptr), pcre2_match_context_free}};
  if (made.limits == nullptr) return wrong("there is not enough memory for a regular expression");
  pcre2_set_match_limit(made.limits.get(), kMostSteps);
  TextRegex regex;
  regex.code_ = std::make_shared<const Code>(std::move(made));
  return regex;
}

Result<bool> TextRegex::is_in(std::string_view text) const {
  const std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> found(
      pcre2_match_data_create(1, nullptr), pcre2_match_data_free);
  const int outcome = found == nullptr
                          ? PCRE2_ERROR_NOMEMORY
                          : pcre2_match(code_->code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()),
                                        text.size(), 0, 0, found.get(), code_->limits.get());
  if (outcome < 0 && outcome != PCRE2_ERROR_NOMATCH)
    return wrong("an expression that selects rules takes too long to be looked for in it");
  return outcome >= 0;
}

Result<std::string> TextRegex::replaced(std::string_view text, std::string_view by) const {
  // As PCRE2 writes groups.
  std::string with;
  for (std::size_t i = 0; i < by.size(); i++) {
    const char next = i + 1 < by.size() ? by[i + 1] : '\0';
    if (by[i] == '\\' && next >= '0' && next <= '9') {
      with += fmt::format("${{{}}}", next);
      i++;
    } else if (by[i] == '$') {
      with += "$$";
    } else {
      with += by[i];
    }
  }
  std::string made(kLongestRule + 1, '\0');
  PCRE2_SIZE size = made.size();
  const int count = pcre2_substitute(code_->code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()),
                                     text.size(), 0, PCRE2_SUBSTITUTE_GLOBAL, nullptr, code_->limits.get(),
                                     reinterpret_cast<PCRE2_SPTR>(with.data()), with.size(),
                                     reinterpret_cast<PCRE2_UCHAR*>(made.data()), &size);
  if (count < 0)
    return wrong("it cannot be changed: it takes too long, has no such group, or would be too long");
  made.resize(size);
  return made;
}

Result<Matcher> Matcher::parse(std::string_view text) {
  Matcher made;
  if (text.starts_with("re:")) {
    auto regex = TextRegex::make(trimmed(text.substr(3)));
    if (!regex) return wrong(std::move(regex.error()));
    made.matches_ = [regex = *regex](const RuleText& rule) { return regex.is_in(rule.text); };
    return made;
  }
  for (const std::string_view kind : {"group:", "filename:"})
    if (text.starts_with(kind)) {
      const std::string pattern(trimmed(text.substr(kind.size())));
      if (pattern.empty()) return wrong(fmt::format("\"{}\" names no file", text));
      const bool alone = kind == "group:";
      made.matches_ = [pattern, alone](const RuleText& rule) -> Result<bool> {
        const std::filesystem::path path(rule.place.file);
        const std::string name = alone ? path.filename().string() : path.string();
        return fnmatch(pattern.c_str(), name.c_str(), 0) == 0 || (alone && path.stem() == pattern);
      };
      return made;
    }
  if (text.starts_with("metadata:")) {
    const std::string wanted(trimmed(text.substr(9)));
    if (wanted.empty()) return wrong(fmt::format("\"{}\" names no metadata", text));
    made.matches_ = [wanted](const RuleText& rule) -> Result<bool> {
      const std::string metadata = option_of(rule, "metadata");
      const auto all = at_commas(metadata);
      return std::find(all.begin(), all.end(), wanted) != all.end();
    };
    return made;
  }
  const auto colon = text.find(':');
  const auto gid =
      colon == std::string_view::npos ? std::optional<u64>(1) : number(trimmed(text.substr(0, colon)), kU32);
  const auto sid = number(trimmed(colon == std::string_view::npos ? text : text.substr(colon + 1)), kU32);
  if (!gid || !sid)
    return wrong(fmt::format("\"{}\" is no sid, gid:sid, re:, group:, filename: or metadata:", text));
  made.matches_ = [gid = *gid, sid = *sid](const RuleText& rule) -> Result<bool> {
    const auto own = number(option_of(rule, "gid"), kU32);
    return own.value_or(1) == gid && number(option_of(rule, "sid"), kU32) == sid;
  };
  return made;
}

Result<bool> Matcher::matches(const RuleText& rule) const { return matches_(rule); }

Result<std::vector<Matcher>> parse_matchers(const RuleFile& file) {
  std::vector<Matcher> matchers;
  auto read = each_line(file, [&](std::string_view text, const Place&) -> Result<void> {
    auto matcher = Matcher::parse(trimmed(text.substr(0, text.find(" #"))));
    if (!matcher) return wrong(std::move(matcher.error()));
    matchers.push_back(*std::move(matcher));
    return {};
  });
  if (!read) return wrong(std::move(read.error()));
  return matchers;
}

Result<std::vector<Modification>> parse_modifications(const RuleFile& file) {
  std::vector<Modification> all;
  auto read = each_line(file, [&](std::string_view text, const Place&) -> Result<void> {
    // MATCHER "FROM" "TO", in which \" is a quote.
    std::vector<std::string> quoted;
    const std::size_t first = text.find(" \"");
    for (std::size_t at = first == std::string_view::npos ? text.size() : first + 1; at < text.size();) {
      if (text[at] == ' ') {
        at++;
        continue;
      }
      if (text[at] != '"') return wrong(fmt::format("\"{}\" is not a matcher and two texts in quotes", text));
      std::string one;
      for (at++; at < text.size() && text[at] != '"'; at++) {
        if (text[at] == '\\' && at + 1 < text.size() && text[at + 1] == '"') at++;
        one += text[at];
      }
      if (at++ >= text.size()) return wrong(fmt::format("\"{}\" has a quote that is not closed", text));
      quoted.push_back(std::move(one));
    }
    if (quoted.size() != 2)
      return wrong(fmt::format("\"{}\" is not a matcher and two texts in quotes", text));
    auto matcher = Matcher::parse(trimmed(text.substr(0, first)));
    if (!matcher) return wrong(std::move(matcher.error()));
    auto from = TextRegex::make(quoted[0]);
    if (!from) return wrong(std::move(from.error()));
    all.push_back({*std::move(matcher), *std::move(from), std::move(quoted[1])});
    return {};
  });
  if (!read) return wrong(std::move(read.error()));
  return all;
}

Result<RuleText> selected(RuleText rule, const Selection& selection) {
  const auto any = [&](const std::vector<Matcher>& matchers) -> Result<bool> {
    for (const Matcher& one : matchers)
      if (auto found = one.matches(rule); !found || *found) return found;
    return false;
  };
  for (const auto& [matchers, enabled] :
       {std::pair(&selection.disable, false), std::pair(&selection.enable, true)}) {
    const auto named = any(*matchers);
    if (!named) return wrong(named.error());
    if (*named) rule.enabled = enabled;
  }
  if (!rule.enabled) return rule;
  for (const auto& one : selection.modify) {
    const auto named = one.matcher.matches(rule);
    if (!named) return wrong(named.error());
    if (!*named) continue;
    auto changed = one.from.replaced(rule.text, one.to);
    if (!changed) return wrong(std::move(changed.error()));
    rule.text = *std::move(changed);
  }
  constexpr std::string_view kAlert = "alert";
  if (!trimmed(rule.text).starts_with(kAlert)) return rule;
  const auto drops = any(selection.drop);
  if (!drops) return wrong(drops.error());
  // What is only remembered is not to be dropped for.
  if (*drops && !is_silent(rule)) rule.text.replace(rule.text.find(kAlert), kAlert.size(), "drop");
  return rule;
}

Result<std::vector<Limit>> parse_limits(const RuleFile& file, const Variables& variables) {
  std::vector<Limit> limits;
  auto read = each_line(file, [&](std::string_view text, const Place& place) -> Result<void> {
    using What = Limit::What;
    using Track = Threshold::Track;
    using Whose = gpu::Suppression::Whose;
    constexpr std::pair<std::string_view, What> kWhat[] = {{"threshold", What::threshold},
                                                           {"event_filter", What::threshold},
                                                           {"suppress", What::suppress},
                                                           {"rate_filter", What::rate_filter}};
    constexpr std::pair<std::string_view, Track> kTracks[] = {{"by_src", Track::by_src},
                                                              {"by_dst", Track::by_dst},
                                                              {"by_both", Track::by_both},
                                                              {"by_rule", Track::by_rule}};
    constexpr std::pair<std::string_view, Whose> kWhose[] = {
        {"by_src", Whose::source}, {"by_dst", Whose::destination}, {"by_either", Whose::either}};
    constexpr std::pair<std::string_view, Threshold::Type> kTypes[] = {
        {"limit", Threshold::Type::limit},
        {"threshold", Threshold::Type::threshold},
        {"both", Threshold::Type::both}};
    const auto choose = [](const auto& choices, std::string_view name, auto& to) {
      const auto found = std::find_if(std::begin(choices), std::end(choices),
                                      [&](const auto& one) { return one.first == name; });
      if (found == std::end(choices)) return false;
      to = found->second;
      return true;
    };
    Limit limit;
    limit.place = place;
    const auto space = text.find(' ');
    if (space == std::string_view::npos || !choose(kWhat, text.substr(0, space), limit.what))
      return wrong(fmt::format("\"{}\" begins with none of threshold, suppress and rate_filter", text));
    std::string has;
    for (const auto part : at_commas(text.substr(space))) {
      const auto gap = part.find(' ');
      const auto name = part.substr(0, gap),
                 value = gap == std::string_view::npos ? std::string_view() : trimmed(part.substr(gap));
      const auto count = [&](u32& to) {
        const auto found = number(value, kU32);
        to = static_cast<u32>(found.value_or(0));
        return found.has_value();
      };
      bool good = false;
      if (name == "gen_id")
        good = count(limit.gid);
      else if (name == "sig_id")
        good = count(limit.sid);
      else if (name == "type")
        good = choose(kTypes, value, limit.threshold.type);
      else if (name == "track") {
        good = limit.what == What::suppress ? choose(kWhose, value, limit.whose)
                                            : choose(kTracks, value, limit.threshold.track);
      } else if (name == "count")
        good = count(limit.threshold.count) && limit.threshold.count != 0;
      else if (name == "seconds")
        good = count(limit.threshold.seconds) && limit.threshold.seconds != 0;
      else if (name == "timeout")
        good = count(limit.timeout);
      else if (name == "new_action") {
        auto action = parse_action(value);
        good = action.has_value() || value == "log" || value == "sdrop";
        if (action) limit.new_action = *action;
      } else if (name == "ip") {
        if (value.find('!') != std::string_view::npos)
          return wrong(
              fmt::format("\"{}\" leaves addresses out by \"!\": Suricata takes that from variables "
                          "alone",
                          part));
        auto addresses = parse_addresses(value, variables);
        if (!addresses) return wrong(std::move(addresses.error()));
        limit.addresses = *std::move(addresses);
        good = true;
      }
      if (!good) return wrong(fmt::format("\"{}\" says nothing that is known here", part));
      has += fmt::format("{} ", name);
    }
    const auto needs = [&](std::initializer_list<std::string_view> names) -> Result<void> {
      for (const auto name : names)
        if (has.find(fmt::format("{} ", name)) == std::string::npos)
          return wrong(fmt::format("it has no {}", name));
      return {};
    };
    auto whole = needs({"gen_id", "sig_id"});
    if (whole && limit.what == What::threshold) whole = needs({"type", "track", "count", "seconds"});
    if (whole && limit.what == What::rate_filter)
      whole = needs({"track", "count", "seconds", "new_action", "timeout"});
    if (whole && limit.what == What::suppress && has.find("track ") != std::string::npos)
      whole = needs({"ip"});
    if (!whole) return whole;
    if (limit.gid == 0 && limit.sid != 0) return wrong("its sig_id has no gen_id: it is of no rule");
    limits.push_back(std::move(limit));
    return {};
  });
  if (!read) return wrong(std::move(read.error()));
  return limits;
}

}  // namespace xdpgpu::rules
