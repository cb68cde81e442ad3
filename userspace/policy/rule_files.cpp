// SPDX-License-Identifier: MIT
#include "userspace/policy/rule_files.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "userspace/compiler/rules/cost.hpp"
#include "userspace/compiler/rules/load.hpp"
#include "userspace/compiler/rules/lower.hpp"
#include "userspace/compiler/rules/thresholds.hpp"
#include "userspace/compiler/rules/told_by_header.hpp"

namespace xdpgpu::policy {
namespace {

namespace sig = gpu::signatures;

// Reads what a source says, and reports what is wrong in it.
class Maker {
 public:
  Maker(Report& report, const Place& stage, rules::Streams streams, const std::string& to,
        const rules::ReadFile& read)
      : report_(report), stage_(stage), streams_(streams), to_(to), read_(read) {}

  void make(gpu::FileRules& to) {
    const gpu::RuleSource& source = to.source;
    rules::Variables variables = rules::usual_variables();
    for (const auto& [name, values] : source.variables) variables[name] = rules::group_of(values);
    for (const auto& [name, values] : source.variables) check(name, variables);
    rules::Classes classes;
    rules::Selection selection;
    parse(source.classification, rules::parse_classes, classes);
    parse(source.disable, rules::parse_matchers, selection.disable);
    parse(source.enable, rules::parse_matchers, selection.enable);
    parse(source.modify, rules::parse_modifications, selection.modify);
    parse(source.drop, rules::parse_matchers, selection.drop);
    std::vector<rules::Limit> limits;
    const auto parse_limits = [&](const rules::RuleFile& file) {
      return rules::parse_limits(file, variables);
    };
    parse(source.threshold, parse_limits, limits);
    if (failed_) return;
    std::vector<rules::RuleFile> files;
    for (const gpu::RuleFile& file : source.files) files.push_back({file.name, *file.text});
    auto loaded = rules::load_rules(files, variables, classes, selection, read_);
    for (const auto& wrong : loaded.wrong)
      report_.in_list(wrong.place.file, stage_, wrong.place.line, 1, wrong.why);
    if (!loaded.wrong.empty()) return;
    rules::give_thresholds(limits, loaded.rules);
    to.suppressed = std::make_shared<const std::vector<gpu::Suppression>>(rules::suppressions_of(limits));
    lower(loaded.rules, classes, to);
    if (const u64 filters = rules::rate_filters(limits))
      to.notes.push_back(fmt::format(
          "{} of the lines in {} are rate_filter, which this release does not follow: what their rules do "
          "stays the same, however often they match",
          filters, source.threshold.name));
  }

 private:
  void check(const std::string& name, const rules::Variables& variables) {
    const std::string text = "$" + name;
    const auto addresses = rules::parse_addresses(text, variables);
    if (addresses || rules::parse_ports(text, variables)) return;
    report_.at(stage_,
               fmt::format("the variable {} is neither addresses nor ports: {}", name, addresses.error()));
    failed_ = true;
  }
  void parse(const gpu::RuleFile& file, const auto& parse, auto& to) {
    if (file.name.empty()) return;
    auto parsed = parse(rules::RuleFile{file.name, *file.text});
    if (parsed) {
      to = *std::move(parsed);
      return;
    }
    report_.at(stage_, parsed.error());
    failed_ = true;
  }

  void lower(const std::vector<rules::Rule>& rules, const rules::Classes& classes, gpu::FileRules& to) const {
    struct Made {
      sig::Signature signature;
      gpu::RuleHead head;
      std::array<u32, 3> by_bits;
    };
    std::vector<Made> made;
    rules::NotYetCounts not_yet;
    Undecided undecided;
    auto all = rules::lower(rules, streams_, *to.suppressed);
    const bool some_change_bits = std::any_of(all.begin(), all.end(), changes_bits);
    const rules::SuppressedForSome suppressed(*to.suppressed);
    for (std::size_t i = 0; i < rules.size(); i++) {
      const rules::Rule& rule = rules[i];
      rules::Lowered& lowered = all[i];
      if (to_.empty() || !undecided.send(rule, lowered)) {
        not_yet.add(lowered);
        undecided.count(rule, lowered);
      }
      if (!lowered.signature) continue;
      // As for Suricata: packets that pass set bits all the same, and what is suppressed passes nothing.
      if (lowered.action == sig::Action::pass && !lowered.late && !rules::passes_streams(lowered) &&
          (some_change_bits || suppressed.contains(rule))) {
        lowered.late = true;
        lowered.signature->action = sig::Action::alert;
      }
      const sig::Signature& signature = *lowered.signature;
      const auto category = classes.find(rule.classtype);
      gpu::RuleHead head{signature.gid,
                         signature.sid,
                         signature.rev,
                         signature.priority,
                         rule.msg,
                         category == classes.end() ? rule.classtype : category->second.description,
                         rule.threshold.value_or(rules::Threshold{}),
                         rules::cost_of(signature, lowered.rest.get()),
                         lowered.bits,
                         lowered.noalert,
                         lowered.action,
                         lowered.late,
                         lowered.rest};
      const auto by_bits = order_by_bits(rule);
      made.push_back({std::move(*lowered.signature), std::move(head), by_bits});
    }
    const auto less = [](const Made& one, const Made& other) {
      const auto behind = [](const Made& rule) {
        return std::tuple(rule.signature.priority, rule.signature.gid, rule.signature.sid);
      };
      // Those that are late are alerts to a device. Such as pass count in front of all that drop, so that
      // what does not pass is known with the rest; others in front of those that only alert.
      const auto turn = [](const Made& rule) {
        const u32 whole = turn_of(rule.head.action);
        return rule.head.action == sig::Action::pass ? std::pair(whole, u32{rule.head.late})
                                                     : std::pair(turn_of(rule.signature.action), whole);
      };
      return std::tuple(turn(one), other.by_bits, behind(one)) <
             std::tuple(turn(other), one.by_bits, behind(other));
    };
    std::sort(made.begin(), made.end(), less);
    std::vector<sig::Signature> signatures;
    std::vector<gpu::RuleHead> heads;
    for (auto& [signature, head, by_bits] : made) {
      signatures.push_back(std::move(signature));
      heads.push_back(std::move(head));
    }
    to.notes = notes_of(rules.size(), not_yet, undecided);
    to.source.sets = sets_of(signatures);
    to.signatures = std::make_shared<const std::vector<sig::Signature>>(std::move(signatures));
    to.heads = std::make_shared<const std::vector<gpu::RuleHead>>(std::move(heads));
    to.undecided = std::make_shared<const std::vector<sig::Header>>(std::move(undecided.headers));
  }

  static bool changes_bits(const rules::Lowered& lowered) {
    return lowered.signature && std::any_of(lowered.bits.begin(), lowered.bits.end(),
                                            [](const gpu::RuleBits& one) { return !one.asks(); });
  }

  // Rules of which something is not decided.
  struct Undecided {
    // That stay so: all, and by what is to be said of them.
    u64 all = 0, passing = 0, over_tcp_too = 0, uploads_too = 0, lacking_streams = 0;
    // Those whose flows are sent on.
    std::vector<sig::Header> headers;  // each once
    std::vector<u32> on_any_port;      // sids

    void count(const rules::Rule& rule, const rules::Lowered& lowered) {
      over_tcp_too += lowered.over_tcp_too;
      uploads_too += lowered.uploads_too;
      lacking_streams += lowered.lacks_streams;
      if (lowered.signature) return;
      all++;
      passing += rule.header.action == rules::Action::pass;
    }
    // False: no header tells its flows.
    bool send(const rules::Rule& rule, const rules::Lowered& lowered) {
      auto header = rules::told_by_header(rule, lowered);
      if (!header) return false;
      if (!header->src_ports && !header->dst_ports) on_any_port.push_back(rule.sid);
      if (std::find(headers.begin(), headers.end(), *header) == headers.end())
        headers.push_back(*std::move(header));
      return true;
    }
  };
  // What an operator would else take for decided.
  std::vector<std::string> notes_of(u64 rules, const rules::NotYetCounts& not_yet,
                                    const Undecided& undecided) const {
    constexpr std::size_t kNamed = 5;
    std::vector<std::string> notes;
    if (undecided.all != 0) {
      std::string asked;
      auto keywords = not_yet.sorted();
      keywords.resize(std::min(keywords.size(), kNamed));
      for (const auto& [keyword, count] : keywords)
        asked += fmt::format("{}{} ({})", asked.empty() ? "" : ", ", keyword, count);
      notes.push_back(
          fmt::format("{} of {} rules are not decided{}, which lets go on what they would stop; most often "
                      "they ask for {}: xdpgpu rules check -v says it of each",
                      undecided.all, rules,
                      to_.empty() ? "" : fmt::format(", nor are their flows sent to {}", to_), asked));
    }
    if (undecided.lacking_streams != 0)
      notes.push_back(fmt::format(
          "{} of the rules that are not decided are looked for in TCP streams, of which none is followed: "
          "\"streams\" says how many are",
          undecided.lacking_streams));
    if (undecided.passing != 0)
      notes.push_back(fmt::format(
          "{} of the rules that are not decided are rules that pass: what they would let go on, other rules "
          "may drop",
          undecided.passing));
    if (undecided.over_tcp_too != 0)
      notes.push_back(
          fmt::format("{} of the rules are for DNS over TCP, too, which is not decided: it goes on",
                      undecided.over_tcp_too));
    if (undecided.uploads_too != 0)
      notes.push_back(
          fmt::format("{} of the rules are for files that clients send by HTTP, too, which are not looked at",
                      undecided.uploads_too));
    if (!undecided.on_any_port.empty()) notes.push_back(note_of_any_port(undecided.on_any_port));
    return notes;
  }
  std::string note_of_any_port(std::span<const u32> sids) const {
    constexpr std::size_t kNamed = 5;
    return fmt::format(
        "{} of the rules whose flows are sent to {} are for any port, so that all of their protocol "
        "between their addresses goes there: sid {}{}; disable them if that is too much",
        sids.size(), to_, fmt::join(sids.first(std::min(kNamed, sids.size())), ", "),
        sids.size() > kNamed ? fmt::format(" and {} more", sids.size() - kNamed) : "");
  }

  // That the signatures ask for, each once.
  static std::vector<sig::SharedStrings> sets_of(const std::vector<sig::Signature>& signatures) {
    std::vector<sig::SharedStrings> sets;
    const auto is_known = [&](const sig::SharedStrings& one) {
      return std::any_of(sets.begin(), sets.end(), [&](const auto& other) { return other.set == one.set; });
    };
    for (const sig::Signature& signature : signatures)
      for (const sig::NameIs& name : sig::names_of(signature))
        for (const sig::InSet& in : name.sets)
          if (!is_known(in.strings)) sets.push_back(in.strings);
    return sets;
  }

  Report& report_;
  const Place& stage_;
  const rules::Streams streams_;
  const std::string& to_;
  const rules::ReadFile& read_;
  bool failed_ = false;
};

bool is_variable_name(std::string_view name) {
  const auto is_letter = [](char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_'; };
  return !name.empty() && name.size() <= 64 && is_letter(name[0]) &&
         std::all_of(name.begin(), name.end(),
                     [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

std::optional<std::string> read_value(Report& report, const Place& place) {
  if (const auto* number = place.node->as<u64>(); number != nullptr && *number <= 65535)
    return fmt::to_string(*number);
  if (place.node->as<std::string>() == nullptr) {
    report.at(place, fmt::format("must be a text, such as \"10.0.0.0/8\", or a port, is {}",
                                 place.node->type_name()));
    return std::nullopt;
  }
  return read_string(report, place, kMaxVariableBytes);
}

}  // namespace

bool is_pattern(std::string_view path) {
  const auto slash = path.rfind('/');
  return path.substr(slash == std::string_view::npos ? 0 : slash + 1).find_first_of("*?[") !=
         std::string_view::npos;
}

std::vector<gpu::RuleVariable> read_rule_variables(Report& report, const Place& place) {
  std::vector<gpu::RuleVariable> variables;
  const auto* members = place.node->as<Object>();
  if (members == nullptr) {
    report.at(place, fmt::format("must be an object of variables by name, is {}", place.node->type_name()));
    return variables;
  }
  if (members->size() > kMaxRuleVariables) {
    report.at(place,
              fmt::format("there is room for {} variables, here are {}", kMaxRuleVariables, members->size()));
    return variables;
  }
  for (const Member& member : *members) {
    const Place at{&member.value, &place, member.key};
    if (!is_variable_name(member.key))
      report.at(at, fmt::format("a variable's name is 1 to 64 letters, digits and '_', and no digit first, "
                                "not \"{}\"",
                                member.key.substr(0, 80)));
    gpu::RuleVariable& variable = variables.emplace_back();
    variable.name = member.key;
    const auto* items = member.value.as<Array>();
    if (items != nullptr && items->size() > kMaxVariableValues) {
      report.at(at, fmt::format("a variable has room for {} values, here are {}", kMaxVariableValues,
                                items->size()));
      continue;
    }
    one_or_more(report, at, [&](const Place& one) {
      if (auto value = read_value(report, one)) variable.values.push_back(std::move(*value));
    });
  }
  return variables;
}

void make_signatures(Report& report, const Place& stage, rules::Streams streams, const std::string& to,
                     gpu::FileRules& rules, const rules::ReadFile& read) {
  const gpu::RuleSource& source = rules.source;
  const auto is_there = [](const gpu::RuleFile& file) { return file.name.empty() || file.text; };
  if (source.files.empty() || !std::all_of(source.files.begin(), source.files.end(), is_there) ||
      !is_there(source.classification) || !is_there(source.disable) || !is_there(source.enable) ||
      !is_there(source.modify) || !is_there(source.drop) || !is_there(source.threshold))
    return;
  Maker(report, stage, streams, to, read).make(rules);
}

}  // namespace xdpgpu::policy
