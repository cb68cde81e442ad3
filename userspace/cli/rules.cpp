// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>
#include <variant>

#include "userspace/cli/command.hpp"
#include "userspace/compiler/compiled_policy.hpp"
#include "userspace/compiler/refusal.hpp"
#include "userspace/compiler/rules/cost.hpp"
#include "userspace/compiler/rules/load.hpp"
#include "userspace/compiler/rules/lower.hpp"
#include "userspace/compiler/rules/thresholds.hpp"
#include "userspace/compiler/rules/told_by_header.hpp"
#include "userspace/control/describe.hpp"
#include "userspace/control/program_reader.hpp"
#include "userspace/control/request/rules_top.hpp"
#include "userspace/policy/one_sided.hpp"
#include "userspace/policy/policy.hpp"
#include "userspace/policy/rule_files.hpp"

namespace xdpgpu::cli {
namespace {

struct Arguments {
  std::vector<std::string> files, variables;
  std::string policy, classification, references, disable, enable, modify, drop, threshold;
  bool verbose = false;
};

struct NotYetReport {
  std::string keyword, why;
  static void fields(auto& self, auto& field) {
    field("keyword", self.keyword);
    field("why", self.why);
  }
};
struct DatasetReport {
  std::string name, file;
  u64 strings = 0;
  static void fields(auto& self, auto& field) {
    field("name", self.name);
    field("file", self.file);
    field("strings", self.strings);
  }
};
struct RuleReport {
  std::string file;
  u32 line = 0, gid = 1, sid = 0, rev = 0, priority = 0;
  std::string action, protocol, msg, type;
  std::vector<std::string> buffers;
  std::string fast_pattern_buffer, fast_pattern;
  std::vector<std::string> references;  // addresses, with --references
  std::optional<double> cost{};         // of one that is decided
  bool decided = false;                 // by packets, or in streams
  std::optional<std::string> where{};   // of one that is: "packet", "stream" or "both"
  bool over_tcp_too = false;            // it is for DNS over TCP, too, where it is not
  bool uploads_too = false;             // it is for files that clients send, too, which are not looked at
  bool behind_conntrack = false;        // where a stage `conntrack` stands in front
  bool by_host = false;                 // a host matches an expression of it
  bool told_by_header = false;          // it is not decided, and "on_unsupported" can send its flows on
  bool cannot_fire = false;             // it is decided, and of its side nothing comes to the pipeline
  std::vector<NotYetReport> not_yet;    // what stands in the way
  std::vector<DatasetReport> datasets;  // that it asks for
  static void fields(auto& self, auto& field) {
    field("file", self.file);
    field("line", self.line);
    field("gid", self.gid);
    field("sid", self.sid);
    field("rev", self.rev);
    field("priority", self.priority);
    field("action", self.action);
    field("protocol", self.protocol);
    field("msg", self.msg);
    field("type", self.type);
    field("buffers", self.buffers);
    field("fast_pattern_buffer", self.fast_pattern_buffer);
    field("fast_pattern", self.fast_pattern);
    field("references", self.references);
    field("cost", self.cost);
    field("decided", self.decided);
    field("where", self.where);
    field("over_tcp_too", self.over_tcp_too);
    field("uploads_too", self.uploads_too);
    field("behind_conntrack", self.behind_conntrack);
    field("by_host", self.by_host);
    field("told_by_header", self.told_by_header);
    field("cannot_fire", self.cannot_fire);
    field("not_yet", self.not_yet);
    field("datasets", self.datasets);
  }
};
// How many rules ask for it, each of which is not decided.
struct KeywordReport {
  std::string keyword;
  u64 rules = 0;
  static void fields(auto& self, auto& field) {
    field("keyword", self.keyword);
    field("rules", self.rules);
  }
};
struct CheckReport {
  u64 enabled = 0, disabled = 0, decided = 0, limits = 0;
  u64 by_packets = 0, by_streams = 0, by_both = 0;  // of those that are decided
  bool follows_streams = true;                      // as the policy says, or is assumed
  bool assumes_streams = false;                     // there is no policy
  u64 lacking_streams = 0;                          // those that would be decided if it did
  u64 over_tcp_too = 0, uploads_too = 0, behind_conntrack = 0, by_host = 0;  // of those that are decided
  u64 left = 0, told_by_header = 0;  // not decided, or not over TCP; and of these, what headers tell
  std::string sent_to;               // where the policy sends the flows of these; "": nowhere
  u64 cannot_fire = 0;               // decided, and of their side nothing comes to the pipeline
  std::string missing;               // which side that is: "server", "client" or ""
  compiler::Problems wrong, notes;
  std::optional<compiler::Problem> error{};  // the first of what is wrong
  std::vector<KeywordReport> not_yet;        // by what asks most for it
  std::vector<RuleReport> rules;             // with -v
  static void fields(auto& self, auto& field) {
    field("enabled", self.enabled);
    field("disabled", self.disabled);
    field("limits", self.limits);
    field("decided", self.decided);
    field("by_packets", self.by_packets);
    field("by_streams", self.by_streams);
    field("by_both", self.by_both);
    field("follows_streams", self.follows_streams);
    field("lacking_streams", self.lacking_streams);
    field("over_tcp_too", self.over_tcp_too);
    field("uploads_too", self.uploads_too);
    field("behind_conntrack", self.behind_conntrack);
    field("by_host", self.by_host);
    field("left", self.left);
    field("told_by_header", self.told_by_header);
    field("sent_to", self.sent_to);
    field("cannot_fire", self.cannot_fire);
    field("missing", self.missing);
    field("not_yet", self.not_yet);
    field("error", self.error);
    field("wrong", self.wrong);
    field("notes", self.notes);
    field("rules", self.rules);
  }
};

std::string name_of(gpu::signatures::Where where) {
  switch (where) {
    case gpu::signatures::Where::packet:
      return "packet";
    case gpu::signatures::Where::stream:
      return "stream";
    case gpu::signatures::Where::both:
      return "both";
  }
  return "";
}

RuleReport report_of(const rules::Rule& rule, const rules::Lowered& lowered) {
  RuleReport report{.file = rule.place.file,
                    .line = rule.place.line,
                    .gid = rule.gid,
                    .sid = rule.sid,
                    .rev = rule.rev,
                    .priority = *rule.priority,
                    .action = std::string(rules::name_of(rule.header.action)),
                    .protocol = rule.header.protocol,
                    .msg = rule.msg,
                    .type = std::string(rules::name_of(rule.type)),
                    .buffers = {},
                    .fast_pattern_buffer = {},
                    .fast_pattern = {},
                    .references = {},
                    .decided = lowered.signature.has_value(),
                    .over_tcp_too = lowered.over_tcp_too,
                    .uploads_too = lowered.uploads_too,
                    .behind_conntrack = lowered.of_connections,
                    .by_host = lowered.rest != nullptr,
                    .not_yet = {},
                    .datasets = {}};
  rules::each_dataset(rule, [&](const rules::Dataset& one) {
    report.datasets.push_back({one.name, one.file, one.strings ? one.strings->ends.size() : 0});
  });
  if (lowered.signature) {
    report.cost = rules::cost_of(*lowered.signature, lowered.rest.get());
    report.where = name_of(lowered.signature->where);
  }
  for (const auto& [keyword, why] : lowered.not_yet) report.not_yet.push_back({keyword, why});
  for (const auto& buffer : rule.buffers) report.buffers.push_back(buffer.name);
  if (rule.fast_pattern) {
    const auto& buffer = rule.buffers[rule.fast_pattern->buffer];
    report.fast_pattern_buffer = buffer.name;
    report.fast_pattern =
        rules::pattern_text(std::get<rules::Content>(buffer.matches[rule.fast_pattern->match]).bytes);
  }
  return report;
}

// What decides it, and at what cost; or each keyword that stands in the way.
std::string decided_text(const RuleReport& rule) {
  if (rule.cost)
    return fmt::format("; decided {}{}{}{}{}, cost {:.2g}",
                       *rule.where == "packet"   ? "by packets alone"
                       : *rule.where == "stream" ? "in streams"
                                                 : "by packets and in streams",
                       rule.behind_conntrack ? " behind conntrack" : "",
                       rule.by_host ? ", its expression by the host" : "",
                       rule.over_tcp_too ? ", over UDP but not over TCP" : "",
                       rule.uploads_too ? ", in answers but not in what clients send" : "", *rule.cost) +
           (rule.cannot_fire ? "; cannot fire: the policy leads no packets of that side to the pipeline"
                             : "");
  std::string text = "; not yet:";
  for (const auto& [keyword, why] : rule.not_yet)
    text += fmt::format("{} {} ({})", text.back() == ':' ? "" : ",", keyword, why);
  return text + (rule.told_by_header ? "; addresses, ports and protocol tell its flows"
                                     : "; no addresses, ports or protocol tell its flows");
}

std::string datasets_text(const RuleReport& rule) {
  std::string text;
  for (const auto& [name, file, strings] : rule.datasets)
    text +=
        fmt::format("; asks for the dataset {}{}", name,
                    file.empty() ? "" : fmt::format(" ({}, {})", file, control::counted(strings, "string")));
  return text;
}

// What hangs on a stage that follows streams.
std::string streams_text(const CheckReport& report) {
  if (!report.follows_streams && report.lacking_streams != 0)
    return fmt::format(
        "{} of the others are looked for in TCP streams, of which the policy follows none: \"streams\" of "
        "the stage says how many connections are followed\n",
        report.lacking_streams);
  const u64 streams = report.by_streams + report.by_both;
  if (!report.assumes_streams || streams == 0) return "";
  return fmt::format(
      "{} of those are looked for in TCP streams: \"streams\" of the stage has to say how many connections "
      "are followed\n",
      streams);
}

// What becomes of flows of the others.
std::string left_text(const CheckReport& report) {
  if (report.left == 0) return "";
  const u64 others = report.left - report.told_by_header;
  return fmt::format(
      "Of {} that are not decided, or not over TCP, addresses, ports and protocol tell the flows of {} "
      "({:.0f} "
      "%): {}{}\n",
      report.left, report.told_by_header,
      100.0 * static_cast<double>(report.told_by_header) / static_cast<double>(report.left),
      report.sent_to.empty() ? "\"on_unsupported\" of the stage can send them to another system"
                             : fmt::format("they go to {}", report.sent_to),
      others == 0
          ? ""
          : fmt::format("; those of {} are told by an application's protocol alone and stay", others));
}

std::string text_of(const CheckReport& report) {
  std::string text;
  for (const auto& rule : report.rules)
    text += fmt::format(
        "{}:{} sid {} rev {} {} {} ({}): {}; {}{}{}\n", rule.file, rule.line, rule.sid, rule.rev, rule.action,
        rule.protocol, rule.type, rule.msg,
        rule.buffers.empty() ? "headers alone" : fmt::format("looks at {}", fmt::join(rule.buffers, ", ")),
        rule.fast_pattern.empty()
            ? ""
            : fmt::format("; found by \"{}\" in {}", rule.fast_pattern, rule.fast_pattern_buffer),
        datasets_text(rule) + decided_text(rule) +
            (rule.references.empty() ? "" : fmt::format("; see {}", fmt::join(rule.references, ", "))));
  for (const auto& one : report.notes)
    text += fmt::format("{}:{}: note: {}\n", *one.file, *one.line, one.message);
  for (const auto& one : report.wrong)
    text += fmt::format("{}:{}: wrong: {}\n", *one.file, *one.line, one.message);
  text += fmt::format(
      "{} rules are enabled, {} of them can be decided: {} by packets alone, {} in streams, {} in both; {} "
      "are "
      "disabled, {} wrong\n",
      report.enabled, report.decided, report.by_packets, report.by_streams, report.by_both, report.disabled,
      report.wrong.size());
  text += streams_text(report);
  if (report.over_tcp_too != 0)
    text += fmt::format("{} of those are for DNS over TCP, too, which is not decided\n", report.over_tcp_too);
  if (report.uploads_too != 0)
    text += fmt::format("{} of those are for files that clients send by HTTP, too, which are not looked at\n",
                        report.uploads_too);
  if (report.behind_conntrack != 0)
    text += fmt::format(
        "{} of those ask for a packet's connection, or for bits on it: a stage conntrack has to be in "
        "front\n",
        report.behind_conntrack);
  if (report.by_host != 0)
    text += fmt::format("{} of those have an expression that no device decides: the host matches it\n",
                        report.by_host);
  if (report.cannot_fire != 0)
    text += fmt::format(
        "One-sided: {} of those that can be decided cannot fire, as the policy leads to the pipeline nothing "
        "that {}s "
        "say\n",
        report.cannot_fire, report.missing);
  text += left_text(report);
  if (!report.not_yet.empty()) text += "Not yet, by what rules ask for:";
  for (const auto& one : report.not_yet)
    text += fmt::format("{} {} ({})", text.back() == ':' ? "" : ",", one.keyword, one.rules);
  if (!report.not_yet.empty()) text += "\n";
  return text;
}

struct PolicyRules {
  gpu::RuleSource source;
  rules::Streams streams = rules::Streams::with_answers;
  std::string to{};  // where flows of rules that are not decided go
  policy::Sides sides{};
};

// What the policy says beside its rules, of its stages that decide by rules the first one's; or a sentence.
// files: all that the policy came with.
tl::expected<PolicyRules, std::string> source_of(const std::string& path, policy::FileContents& files) {
  auto source = compiler::read_policy(path, control::object_reader());
  if (!source) return tl::unexpected(source.error().sentence);
  // Rules are what is to be checked: they are read, and no signatures are made of them.
  constexpr u64 kLongest = policy::kMaxFileBytes;
  const auto policy = policy::parse(source->text, path, policy::read_files_in(source->files), kLongest);
  if (!policy) return tl::unexpected(policy.error().front().sentence());
  for (const auto& pipeline : policy->pipelines)
    for (const auto& stage : pipeline.stages)
      if (const auto* rules = gpu::file_rules(stage)) {
        PolicyRules found{rules->source};
        found.streams = std::visit([](const auto& one) { return policy::streams_of(one); }, stage);
        if (const std::string* const to = gpu::sends_undecided(stage)) found.to = *to;
        found.sides = policy::sides_of(*policy, pipeline);
        for (auto& file : found.source.files)
          file.text = std::make_shared<const std::string>(source->files.at(file.name));
        files = std::move(source->files);
        return found;
      }
  return tl::unexpected(fmt::format("{} has no stage that decides by rules", path));
}

// Rules of TCP, by what they ask of the flow.
bool is_of_a_side_that_is_missing(const rules::Rule& rule, const policy::Sides& sides) {
  const bool tcp = rule.header.protocol.starts_with("tcp") || rule.header.protocol == "tls";
  return tcp && ((rule.flow.to_client && !sides.to_client) || (rule.flow.to_server && !sides.to_server));
}

int check(const Arguments& arguments, Format format) {
  rules::Variables variables = rules::usual_variables();
  PolicyRules from_policy;
  const gpu::RuleSource& source = from_policy.source;
  policy::FileContents came_with_policy;
  if (!arguments.policy.empty()) {
    auto found = source_of(arguments.policy, came_with_policy);
    if (!found) return fail(found.error(), kUsage);
    from_policy = *std::move(found);
    for (const auto& [name, values] : source.variables) variables[name] = rules::group_of(values);
  } else if (arguments.files.empty()) {
    return fail("name rule files, or a policy that has some: xdpgpu rules check FILE..., or --policy FILE",
                kUsage);
  }
  for (const auto& one : arguments.variables) {
    const auto equals = one.find('=');
    if (equals == 0 || equals == std::string::npos)
      return fail(fmt::format("--var {} is not NAME=VALUE, as HOME_NET=[10.0.0.0/8]", one), kUsage);
    variables[one.substr(0, equals)] = one.substr(equals + 1);
  }
  const auto read = policy::read_files_from(".");
  int status = kDone;
  // What a file of the operator's says, if one is named.
  const auto taken = [&](const std::string& name, const auto& parse, auto& to, gpu::RuleFile file = {}) {
    if (status != kDone || (name.empty() && file.name.empty())) return;
    if (!name.empty()) {
      const auto content = read(name);
      if (!content) {
        status = fail(content.error());
        return;
      }
      file = {name, *content};
    }
    auto parsed = parse(rules::RuleFile{file.name, *file.text});
    if (parsed)
      to = *std::move(parsed);
    else
      status = fail(parsed.error(), kUsage);
  };
  rules::Classes classes;
  rules::References references;
  rules::Selection selection;
  std::vector<rules::Limit> limits;
  taken(arguments.classification, rules::parse_classes, classes, source.classification);
  taken(arguments.references, rules::parse_references, references);
  taken(arguments.disable, rules::parse_matchers, selection.disable, source.disable);
  taken(arguments.enable, rules::parse_matchers, selection.enable, source.enable);
  taken(arguments.drop, rules::parse_matchers, selection.drop, source.drop);
  taken(arguments.modify, rules::parse_modifications, selection.modify, source.modify);
  taken(
      arguments.threshold, [&](const rules::RuleFile& file) { return rules::parse_limits(file, variables); },
      limits, source.threshold);
  if (status != kDone) return status;
  std::vector<rules::RuleFile> files;
  for (const auto& name : arguments.files) {
    const auto content = read(name);
    if (!content) return fail(content.error());
    files.push_back(rules::RuleFile{name, **content});
  }
  const auto named_by_rules = files.empty() ? policy::read_files_in(came_with_policy) : read;
  if (files.empty())
    for (const auto& file : source.files) files.push_back(rules::RuleFile{file.name, *file.text});
  auto loaded = rules::load_rules(files, variables, classes, selection, named_by_rules);
  CheckReport report{.enabled = loaded.rules.size(),
                     .disabled = loaded.disabled,
                     .limits = limits.size(),
                     .follows_streams = from_policy.streams != rules::Streams::none,
                     .assumes_streams = arguments.policy.empty(),
                     .sent_to = from_policy.to,
                     .missing = !from_policy.sides.to_client   ? "server"
                                : !from_policy.sides.to_server ? "client"
                                                               : "",
                     .wrong = {},
                     .notes = {},
                     .not_yet = {},
                     .rules = {}};
  const auto problem = [](const rules::WrongRule& one) {
    return compiler::Problem{.message = one.why, .file = one.place.file, .line = one.place.line};
  };
  for (const auto& one : loaded.wrong) report.wrong.push_back(problem(one));
  if (!report.wrong.empty()) report.error = report.wrong.front();
  rules::give_thresholds(limits, loaded.rules);
  rules::NotYetCounts not_yet;
  const auto all = rules::lower(loaded.rules, from_policy.streams, rules::suppressions_of(limits));
  for (std::size_t i = 0; i < loaded.rules.size(); i++) {
    const auto& rule = loaded.rules[i];
    const auto& lowered = all[i];
    if (lowered.signature) {
      using gpu::signatures::Where;
      const Where where = lowered.signature->where;
      report.decided++;
      (where == Where::packet   ? report.by_packets
       : where == Where::stream ? report.by_streams
                                : report.by_both)++;
    }
    report.lacking_streams += lowered.lacks_streams;
    report.over_tcp_too += lowered.over_tcp_too;
    report.uploads_too += lowered.uploads_too;
    report.behind_conntrack += lowered.of_connections;
    report.by_host += lowered.rest != nullptr;
    report.left += rules::is_left(lowered);
    const bool told = rules::told_by_header(rule, lowered).has_value();
    report.told_by_header += told;
    not_yet.add(lowered);
    const bool cannot_fire = lowered.signature && is_of_a_side_that_is_missing(rule, from_policy.sides);
    report.cannot_fire += cannot_fire;
    auto addresses = arguments.references.empty() ? std::vector<std::string>()
                                                  : rules::addresses_of(rule, references, loaded.notes);
    if (!arguments.verbose) continue;
    report.rules.push_back(report_of(rule, lowered));
    report.rules.back().told_by_header = told;
    report.rules.back().cannot_fire = cannot_fire;
    report.rules.back().references = std::move(addresses);
  }
  for (const auto& one : loaded.notes) report.notes.push_back(problem(one));
  std::stable_sort(report.notes.begin(), report.notes.end(), [](const auto& one, const auto& other) {
    return std::tie(*one.file, *one.line) < std::tie(*other.file, *other.line);
  });
  for (auto& [keyword, count] : not_yet.sorted()) report.not_yet.push_back({std::move(keyword), count});
  if (format == Format::json)
    print_record(report);
  else
    print(text_of(report));
  if (!report.error) return kDone;
  say(fmt::format(
      "{}:{}: {}{}", *report.error->file, *report.error->line, report.error->message,
      report.wrong.size() > 1 ? fmt::format(" (and {} more are wrong)", report.wrong.size() - 1) : ""));
  return kUsage;
}

// ---- top -----------------------------------------------------------------------------------------------

struct Top {
  std::string ifname, by = std::string(control::kRuleOrders[0]);
  u64 limit = 20;
};

int top(const Top& arguments, Format format) {
  int status = kFailed;
  const auto answer =
      ask<control::RulesTop>(arguments.ifname, status, {.by = arguments.by, .limit = arguments.limit});
  if (!answer) return status;
  if (format == Format::json) {
    print_record(*answer);
    return kDone;
  }
  if (answer->rules == 0) {
    print("the policy in force has no rules of files\n");
    return kDone;
  }
  print(fmt::format("{} of {} held for packets since the attach\n", answer->holding,
                    control::counted(answer->rules, "rule")));
  if (answer->top.empty()) return kDone;
  print("   packets     cost  rule  (of a pipeline) what it is about\n");
  for (const auto& one : answer->top)
    print(fmt::format("{:>10} {:>8.2g}  {}:{}  ({}) {}\n", one.matched, one.cost, one.gid, one.sid,
                      one.pipeline, one.signature));
  if (answer->left_out > 0)
    print(fmt::format("{} more are left out; list more with --limit N\n", answer->left_out));
  return kDone;
}

void add_top(CLI::App& rules, Chosen& chosen) {
  auto* const command = rules.add_subcommand("top", "Which rules hold for packets, and which are dear");
  describe(
      *command,
      "Of the policy in force: its rules with the packets for which each held since the attach, whether or "
      "not it was told of in a log, and what inspecting it costs (steps for a random packet of its header; "
      "in streams, of all the text that it sees then). Of "
      "a packet that a rule passes none is counted, of another one the first seven that hold.\n"
      "Rules that two policies have count on when one takes the other's place.");
  const auto arguments = std::make_shared<Top>();
  add_attached_interface(*command, arguments->ifname)->required();
  const std::vector<std::string> orders(std::begin(control::kRuleOrders), std::end(control::kRuleOrders));
  command
      ->add_option(
          "--by", arguments->by,
          "matches: those that held, the most often first (default); cost: all of them, the dearest first")
      ->check(CLI::IsMember(orders).description(""))
      ->type_name(either(orders));
  command->add_option("--limit", arguments->limit, "Print at most so many; default 20, at most 1000")
      ->check(CLI::Range(u64{1}, control::kMostRulesListed).description(""))
      ->type_name("N");
  add_netns(*command, chosen);
  const auto format = add_output(*command);
  when_chosen(*command, chosen, [arguments, format] { return top(*arguments, *format); });
}

void add(CLI::App& app, Chosen& chosen) {
  auto* const rules =
      app.add_subcommand("rules", "Rules of intrusion detection systems, in Suricata's language");
  rules->require_subcommand(1);
  auto* const command = rules->add_subcommand("check", "Reads rule files, and says what is wrong in them");
  describe(
      *command,
      "Rules are those of Suricata 7. Each is taken, or named with its file, line and what is wrong "
      "with it.\n"
      "It says how many of them can be decided, by packets alone and in TCP streams, and what the "
      "others ask for. The stage signatures of a policy decides by those that can be; by those that are "
      "looked for in streams where its \"streams\" says how many connections are followed, which is "
      "assumed without --policy. Of the others it says of how many addresses, ports and protocol tell the "
      "flows, which the stage's \"on_unsupported\" sends to another system; and with --policy, where that "
      "leads one side of connections alone to the stage, which rules cannot fire. Exit status 2 if one is "
      "wrong.");
  const auto arguments = std::make_shared<Arguments>();
  command
      ->add_option("files", arguments->files,
                   "rule files; with --policy those of the policy, if none is named")
      ->type_name(kFile);
  command
      ->add_option("--policy", arguments->policy,
                   "a policy, whose stage signatures has the variables and the files that the other options "
                   "name; they count instead where they are given. Whether it follows streams counts, too")
      ->type_name(kFile);
  command
      ->add_option("--var", arguments->variables,
                   "NAME=VALUE: a variable of addresses or ports, as HOME_NET=[10.0.0.0/8,2001:db8::/32]; "
                   "others are as in "
                   "Suricata's own configuration")
      ->allow_extra_args(false)
      ->type_name("NAME=VALUE");
  command
      ->add_option("--classification", arguments->classification,
                   "classification.config, which has priorities by classtype")
      ->type_name(kFile);
  const auto file = [&](const char* name, std::string& to, const char* about) {
    command->add_option(name, to, about)->type_name(kFile);
  };
  file("--references", arguments->references,
       "reference.config, by which rules' references are addresses (with --verbose)");
  file("--disable", arguments->disable, "suricata-update's disable.conf: rules that do not count");
  file("--enable", arguments->enable, "its enable.conf: rules that count though they are commented out");
  file("--modify", arguments->modify, "its modify.conf: what is replaced in rules' texts");
  file("--drop", arguments->drop, "its drop.conf: rules that drop instead of alerting");
  file("--threshold", arguments->threshold, "threshold.config: how often rules alert, and for whom not");
  command->add_flag(
      "-v,--verbose", arguments->verbose,
      "each rule with what it looks at, by what it is found first, and whether it is decided by "
      "packets, in streams or both, or why it is not decided");
  const auto format = add_output(*command);
  when_chosen(*command, chosen, [arguments, format] { return check(*arguments, *format); });
  add_top(*rules, chosen);
}

Registered registered(75, add);

}  // namespace

}  // namespace xdpgpu::cli
