// SPDX-License-Identifier: MIT
//
// userspace/policy/rule_files.hpp: rule files that a policy names, and the signatures that are made of them.
#pragma once

#include "gpu/rule_source.hpp"
#include "userspace/compiler/rules/datasets.hpp"
#include "userspace/compiler/rules/lower.hpp"
#include "userspace/policy/reader.hpp"

namespace xdpgpu::policy {

inline constexpr u32 kMaxRulePaths = 256;   // in one "rules"
inline constexpr u32 kMaxRuleFiles = 4096;  // of a stage
inline constexpr u32 kMaxRuleVariables = 1024;
inline constexpr u32 kMaxVariableValues = 4096;
inline constexpr u64 kMaxVariableBytes = 1024;  // of a value

// Whether a path stands for the files that are like it: there is *, ? or [ in its last part.
bool is_pattern(std::string_view path);

// An object of variables, each a value or an array of them: texts and numbers.
std::vector<gpu::RuleVariable> read_rule_variables(Report& report, const Place& place);

// Makes signatures of the source, in the order in which they count: those that pass, that drop, that reject,
// that alert; of these by priority, and then by gid and sid. What is wrong in files is reported, by file and
// line; `stage` is where they are named. to: the interface that flows of rules that are not decided go to;
// "": none. read: files that rules name. Nothing is made where the files' texts were not asked for.
void make_signatures(Report& report, const Place& stage, rules::Streams streams, const std::string& to,
                     gpu::FileRules& rules, const rules::ReadFile& read);
// Whether the stage follows any.
template <class Settings>
rules::Streams streams_of(const Settings& stage) {
  if constexpr (requires { stage.streams; })
    if (stage.streams != 0)
      return !stage.inspect.http     ? rules::Streams::without_http
             : stage.inspect.answers ? rules::Streams::with_answers
                                     : rules::Streams::with_requests;
  return rules::Streams::none;
}
// Where it sends flows of rules that it does not decide; "": nowhere.
template <class Settings>
std::string unsupported_to(const Settings& stage) {
  if constexpr (requires { stage.unsupported_to; }) return stage.unsupported_to;
  return {};
}

}  // namespace xdpgpu::policy
