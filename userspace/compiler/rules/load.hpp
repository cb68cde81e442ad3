// SPDX-License-Identifier: MIT
//
// userspace/compiler/rules/load.hpp: rule files, whole: each rule in them is taken, or named with the reason
// why not.
#pragma once

#include "userspace/compiler/rules/selection.hpp"

namespace xdpgpu::rules {

// What classification.config says of a class of rules.
struct Class {
  std::string description;
  u8 priority = 3;
};
using Classes = std::map<std::string, Class, std::less<>>;
// "config classification: name,description,priority" a line. The error names the line.
Result<Classes> parse_classes(const RuleFile& file);

// Of reference.config: what stands in front of a reference of a system to make it an address. Systems in
// lower case.
using References = std::map<std::string, std::string, std::less<>>;
// "config reference: system prefix" a line. The error names the line.
Result<References> parse_references(const RuleFile& file);

struct WrongRule {
  Place place;
  std::string why;  // a sentence
};

struct Loaded {
  std::vector<Rule> rules;  // those that are enabled, by gid and sid
  u64 disabled = 0;
  std::vector<WrongRule> wrong;  // by file and line
  std::vector<WrongRule> notes;  // rules that are taken, and may not be what was meant
};

// Of two rules of one gid and sid the later revision counts; of one revision, too, the first one, and the
// other is wrong. A rule's priority is its own, else its class's, else 3. read: reads files that rules name,
// by their paths beside the rules' own; nothing: none is read.
Loaded load_rules(const std::vector<RuleFile>& files, const Variables& variables, const Classes& classes,
                  const Selection& selection = {}, const ReadFile& read = {});

// What a rule asks for of sets of strings. visit(dataset).
template <class OneRule, class Visit>
void each_dataset(OneRule& rule, const Visit& visit) {
  for (auto& buffer : rule.buffers)
    for (auto& match : buffer.matches)
      if (auto* const condition = std::get_if<Condition>(&match))
        if (auto* const dataset = std::get_if<Dataset>(&condition->value)) visit(*dataset);
}

// A rule's references as addresses. One of a system that is not known is named in a note.
std::vector<std::string> addresses_of(const Rule& rule, const References& references,
                                      std::vector<WrongRule>& notes);

}  // namespace xdpgpu::rules
