// SPDX-License-Identifier: MIT
//
// userspace/compiler/rules/selection.hpp: which of the rules in files count, and how, by what an operator
// says beside them: suricata-update's files (https://suricata-update.readthedocs.io/en/latest/update.html),
// and threshold.config.
#pragma once

#include <functional>
#include <memory>

#include "userspace/compiler/rules/rule.hpp"

namespace xdpgpu::rules {

struct RuleFile {
  std::string name, content;
};

// A regular expression that is looked for in rules' texts. Copies share it.
class TextRegex {
 public:
  // The error is what PCRE2 says.
  static Result<TextRegex> make(std::string_view pattern);
  // The error says that finding it takes too long.
  Result<bool> is_in(std::string_view text) const;
  // With each place where it is replaced; \1 in `by` is its first group. The error says that it takes too
  // long.
  Result<std::string> replaced(std::string_view text, std::string_view by) const;

 private:
  struct Code;
  std::shared_ptr<const Code> code_;
};

// What names rules: "2019401", "1:2019401", "re:heartbleed", "group:emerging-dos.rules",
// "filename:*/emerging-*.rules", "metadata:tag phishing".
class Matcher {
 public:
  static Result<Matcher> parse(std::string_view text);
  // Of a rule as it is written. The error says that it takes too long to tell.
  Result<bool> matches(const RuleText& rule) const;

 private:
  std::function<Result<bool>(const RuleText&)> matches_;
};

struct Modification {
  Matcher matcher;
  TextRegex from;
  std::string to;
};

// From suricata-update's disable.conf, enable.conf, modify.conf and drop.conf; they count in this order.
struct Selection {
  std::vector<Matcher> disable, enable, drop;
  std::vector<Modification> modify;
};
// A line each; the error names the line.
Result<std::vector<Matcher>> parse_matchers(const RuleFile& file);
Result<std::vector<Modification>> parse_modifications(const RuleFile& file);

// The rule as the selection has it: disabled, enabled, changed. The error is a sentence.
Result<RuleText> selected(RuleText rule, const Selection& selection);

// A line of threshold.config, which is about rules from outside of them. gid and sid 0: of all.
struct Limit {
  Place place;
  u32 gid = 0, sid = 0;
  enum class What : u8 { threshold, suppress, rate_filter } what = What::threshold;
  Threshold threshold{};                                             // of threshold and rate_filter
  Action new_action = Action::drop;                                  // of rate_filter
  u32 timeout = 0;                                                   // seconds
  gpu::Suppression::Whose whose = gpu::Suppression::Whose::anybody;  // of suppress
  Addresses addresses{};
};
Result<std::vector<Limit>> parse_limits(const RuleFile& file, const Variables& variables);

}  // namespace xdpgpu::rules
