// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "userspace/policy/caching.hpp"
#include "userspace/policy/compute.hpp"
#include "userspace/policy/domain_file.hpp"
#include "userspace/policy/hash.hpp"
#include "userspace/policy/kernel_programs.hpp"
#include "userspace/policy/list_file.hpp"
#include "userspace/policy/log.hpp"
#include "userspace/policy/match.hpp"
#include "userspace/policy/mirroring.hpp"
#include "userspace/policy/pipelines.hpp"
#include "userspace/policy/rates.hpp"
#include "userspace/policy/reader.hpp"
#include "userspace/policy/rule_files.hpp"
#include "userspace/policy/stage_names.hpp"
#include "userspace/policy/table_stages.hpp"
#include "userspace/policy/values.hpp"

namespace xdpgpu::policy {
namespace {

constexpr u64 kMaxNameBytes = 128;
constexpr u64 kMaxSchemaBytes = 4096;
constexpr u64 kMinBurstNs = 1'000;
constexpr u64 kMaxBurstNs = 1'000'000'000;
constexpr u64 kMaxLinkGbps = 1600;
constexpr u64 kMinSpinNs = 1'000;
constexpr u64 kMaxSpinNs = 1'000'000'000;
constexpr u64 kMinHeartbeatNs = 10'000'000;
constexpr u64 kMaxHeartbeatNs = 10'000'000'000;

class PolicyReader {
 public:
  PolicyReader(Report& report, const FileReader& files, u64 longest_file, Hash& hash)
      : report_(report), files_(files), longest_file_(longest_file), hash_(hash) {}

  Policy read(const Place& root) {
    Fields fields(report_, root, keys::kPolicy, "a policy");
    if (auto schema = fields.get("$schema")) read_string(report_, *schema, kMaxSchemaBytes);
    if (auto version = fields.require("version")) this->version(*version);
    policy_.description = read_description(report_, root);
    decision(fields, "default", words::kDo, policy_.default_action);
    uninspected(fields, "on_failure", policy_.on_failure);
    uninspected(fields, "on_overload", policy_.on_overload);
    policy_.fragments = policy_.default_action;
    fragments(fields);
    decision(fields, "malformed", words::kMalformed, policy_.malformed);
    if (auto lists = fields.get("lists")) this->lists(*lists);
    KnownLists known(policy_.lists);
    known_lists_ = &known;
    if (auto pipelines = fields.get("pipelines"))
      policy_.pipelines = read_pipelines(
          report_, *pipelines, known, [this](const Place& place) { return named_file(place); },
          [this](const Place& place) { return map_file(place); },
          [this](const Place& place) { return rule_files(place); },
          [this](const std::string& path) { return named_by_rules(path); },
          [this](const Place& place, const std::string& path, const programs::Choice& which) {
            return program(place, path, which);
          });
    if (auto entries = fields.get("management")) management(*entries);
    if (auto rates = fields.get("rates")) read_rates(report_, *rates, policy_.rates);
    if (auto rules = fields.get("rules")) this->rules(*rules);
    if (auto place = fields.get("fragments")) fragments_in_kernel(*place);
    if (auto io = fields.get("io")) this->io(*io);
    if (auto compute = fields.get("compute"))
      policy_.compute = read_compute(report_, *compute, policy_.pipelines);
    if (auto log = fields.get("log")) policy_.log = read_log(report_, *log);
    count_prefixes(root);
    return std::move(policy_);
  }

 private:
  void version(const Place& place) {
    const auto* number = place.node->as<u64>();
    if (number == nullptr || *number != 1)
      report_.at(place, "this program reads version 1; write \"version\": 1");
  }
  void decision(const Fields& fields, std::string_view key, Words words, Do& into) {
    if (auto place = fields.get(key))
      if (auto word = read_word(report_, *place, words)) into = static_cast<Do>(*word);
  }
  void fragments(const Fields& fields) {
    constexpr u32 kReassemble = 4;
    if (const auto place = fields.get("fragments"))
      if (const auto word = read_word(report_, *place, words::kFragments)) {
        policy_.reassembles = *word == kReassemble;
        policy_.fragments = policy_.reassembles ? Do::track : static_cast<Do>(*word);
      }
    if (const auto place = fields.get("overlapping_fragments"))
      if (const auto word = read_word(report_, *place, words::kOverlapping))
        policy_.overlapping_fragments = static_cast<Overlapping>(*word);
  }
  void fragments_in_kernel(const Place& place) {
    const auto in_kernel = std::find_if(policy_.pipelines.begin(), policy_.pipelines.end(), runs_in_kernel);
    if (policy_.fragments != Do::track || in_kernel == policy_.pipelines.end()) return;
    report_.at(place,
               fmt::format("the program of pipeline \"{}\" runs in the kernel, where nobody learns what it "
                           "answers, so that a datagram's later fragments cannot share its first one's fate; "
                           "write \"drop\", \"pass\" or \"inspect\"",
                           in_kernel->name));
  }
  // What becomes of packets that nobody can look at.
  void uninspected(const Fields& fields, std::string_view key, Do& into) {
    const auto place = fields.get(key);
    if (!place) return;
    if (place->node->as<std::string>() != nullptr) return decision(fields, key, words::kDo, into);
    if (place->node->as<Object>() == nullptr)
      return report_.at(*place, fmt::format("must be \"pass\", \"drop\" or {{\"known\": \"keep\", \"new\": "
                                            "\"drop\"}}, is {}",
                                            place->node->type_name()));
    const std::string what = fmt::format("\"{}\"", key);
    Fields members(report_, *place, keys::kKnown, what);
    if (auto known = members.require("known")) read_word(report_, *known, words::kKnown);
    auto fresh = members.require("new");
    if (!fresh) return;
    if (auto word = read_word(report_, *fresh, words::kDo))
      into = *word == 0 ? Do::known_pass : Do::known_drop;
  }

  void lists(const Place& place) {
    const auto* members = place.node->as<Object>();
    if (members == nullptr)
      return report_.at(
          place, fmt::format("\"lists\" must be an object of lists by name, is {}", place.node->type_name()));
    if (members->size() > kMaxLists)
      return report_.at(
          place, fmt::format("a policy has room for {} lists, here are {}", kMaxLists, members->size()));
    u64 prefixes = 0;
    for (const auto& member : *members) {
      Place at{&member.value, &place, member.key};
      if (!is_identifier(member.key))
        report_.at(at, fmt::format("a list's name is 1 to 64 letters, digits, '_', '-' and '.', not \"{}\"",
                                   member.key.substr(0, 80)));
      prefixes += (policy_.lists[member.key] = list(at)).prefixes.size();
      if (prefixes > kMaxPrefixes || report_.exhausted()) return;  // count_prefixes refuses
    }
  }
  List list(const Place& place) {
    List list;
    if (place.node->as<Array>() != nullptr) {
      list_entries(place, list);
      return list;
    }
    if (place.node->as<Object>() == nullptr) {
      report_.at(place, fmt::format("a list must be an array of prefixes, {{\"prefixes\": [...]}} or "
                                    "{{\"file\": PATH}}, is {}",
                                    place.node->type_name()));
      return list;
    }
    Fields fields(report_, place, keys::kList, "a list");
    list.description = read_description(report_, place);
    if (auto type = fields.get("type"))
      if (read_word(report_, *type, words::kListTypes)) list.type = List::Type::domain;
    if (list.type == List::Type::domain) {
      domains(place, fields, list);
      return list;
    }
    for (const char* key : {"names", "subdomains"})
      if (auto at = fields.get(key))
        report_.at(*at, "only lists of domains have this: write \"type\": \"domain\"");
    const auto prefixes = fields.get("prefixes");
    if (prefixes) list_entries(*prefixes, list);
    const auto file = prefixes ? fields.get("file") : fields.require("file");
    if (!file) return list;
    if (prefixes) {
      report_.at(*file, "a list has either \"prefixes\" or a \"file\": write two lists, a match takes both");
      return list;
    }
    auto named = named_file(*file);
    if (!named) return list;
    list.file = named->path;
    if (named->text) read_list_file(report_, *named->text, named->path, *file, list.prefixes);
    return list;
  }
  void domains(const Place& place, const Fields& fields, List& list) {
    if (auto at = fields.get("prefixes")) report_.at(*at, "a list of domains has \"names\" or a \"file\"");
    if (auto at = fields.get("subdomains"))
      if (auto read = read_bool(report_, *at)) list.subdomains = *read;
    const auto names = fields.get("names"), file = fields.get("file");
    if (names && file) return report_.at(*file, "a list has either \"names\" or a \"file\": write two lists");
    if (!names && !file)
      return report_.at(place, "a list of domains needs \"names\", an array of them, or a \"file\"");
    DomainReader reader(report_, list.subdomains, kMaxNames - names_);
    if (names) {
      each_element(report_, *names, [&](const Place& one) { reader.read(one); });
      if (auto at = fields.get("subdomains"))
        report_.at(*at,
                   "this is for files: of names that stand here, write \".example.com\" for example.com and "
                   "all beneath it");
    } else {
      auto named = named_file(*file);
      if (!named) return;
      list.file = named->path;
      list.left_out = !named->text;
      if (named->text) reader.read_file(*named->text, named->path, *file);
    }
    list.names = reader.take();
    names_ += list.names.count;
  }
  std::optional<NamedFile> named_file(const Place& place) {
    auto path = read_string(report_, place, 4096);
    if (!path) return std::nullopt;
    return named_file(place, *std::move(path), longest_file_);
  }
  // Whatever the longest file may be: whoever puts the policy together makes the program's memory of it, and
  // takes nobody's word for that (compiler::assemble()).
  std::optional<NamedFile> map_file(const Place& place) {
    auto path = read_string(report_, place, 4096);
    if (!path) return std::nullopt;
    return named_file(place, *std::move(path), ~u64{0});
  }
  // seen: is given what is in the file.
  std::optional<NamedFile> named_file(
      const Place& place, std::string path, u64 longest,
      const std::function<void(const std::string& name, const std::string& content)>& seen = {}) {
    auto content = files_(path);
    if (!content) {
      report_.at(place, content.error());
      return std::nullopt;
    }
    if (*content == nullptr) return NamedFile{std::move(path), nullptr};
    if ((*content)->size() > files_left_) {
      report_.at(place, too_much_with(path, kMaxFilesBytes));
      return std::nullopt;
    }
    files_left_ -= (*content)->size();
    hash_.add(path);
    hash_.add(**content);
    if (seen) seen(path, **content);
    if ((*content)->size() > longest) return NamedFile{std::move(path), nullptr};
    return NamedFile{std::move(path), *std::move(content)};
  }
  // Whatever the longest file may be: which stage it makes hangs on what is in it.
  std::optional<FileText> program(const Place& place, const std::string& path,
                                  const programs::Choice& which) {
    auto content = files_.program(path, which);
    if (!content) {
      report_.at(place, content.error());
      return std::nullopt;
    }
    if (*content == nullptr) return FileText();
    if ((*content)->size() > files_left_) {
      report_.at(place, too_much_with(path, kMaxFilesBytes));
      return std::nullopt;
    }
    files_left_ -= (*content)->size();
    hash_.add(program_key(path, which));
    hash_.add(**content);
    return *std::move(content);
  }
  // A file of rules may name others, in rules that do not count, too. All of them count for the hash; what is
  // missing, or wrong, is for the rules that count to say.
  void add_named_by(const Place& place, const std::string& rules, const std::string& content) {
    for (const std::string& path : rules::dataset_paths(content, rules)) {
      const auto [known, is_new] = named_by_rules_.try_emplace(path, FileText());
      if (is_new) known->second = files_(path);
      hash_.add(path);
      const auto& found = known->second;
      if (!found || *found == nullptr) continue;
      hash_.add(**found);
      if ((*found)->size() > files_left_) return report_.at(place, too_much_with(path, kMaxFilesBytes));
      if (is_new) files_left_ -= (*found)->size();
    }
  }
  FileReader::Text named_by_rules(const std::string& path) const {
    const auto known = named_by_rules_.find(path);
    return known == named_by_rules_.end() ? files_(path) : known->second;
  }
  // Rules are made into signatures whole: where longer files are not read, none is.
  std::vector<NamedFile> rule_files(const Place& place) {
    std::vector<NamedFile> files;
    const auto path = read_string(report_, place, 4096);
    if (!path) return files;
    std::vector<std::string> names{*path};
    if (is_pattern(*path)) {
      auto list = files_.list(*path);
      if (!list) {
        report_.at(place, list.error());
        return files;
      }
      names = *std::move(list);
    }
    for (std::string& name : names) {
      auto file = named_file(
          place, std::move(name), longest_file_,
          [&](const std::string& rules, const std::string& content) { add_named_by(place, rules, content); });
      if (!file) break;
      if (longest_file_ != ~u64{0}) file->text = nullptr;
      files.push_back(*std::move(file));
    }
    return files;
  }
  void list_entries(const Place& place, List& list) {
    if (const auto* items = place.node->as<Array>()) list.prefixes.reserve(items->size());
    each_element(report_, place, [&](const Place& one) { list_entry(one, list); });
  }
  void list_entry(const Place& place, List& list) {
    const auto* text = place.node->as<std::string>();
    if (text == nullptr)
      return report_.at(place, fmt::format("must be a prefix as a string, is {}", place.node->type_name()));
    if (auto prefix = try_prefix(*text))
      list.prefixes.push_back(*prefix);
    else
      report_.at(place, read_prefix(*text).error());
  }

  // Of so many nobody would look at each.
  bool too_many(const Place& place, u64 most, const char* what) {
    const auto* items = place.node->as<Array>();
    if (items == nullptr || items->size() <= most) return false;
    report_.at(place,
               fmt::format("a policy has room for {} {}; here are {}: let lists take the place of some", most,
                           what, items->size()));
    return true;
  }

  void management(const Place& place) {
    if (too_many(place, XG_MAX_RULES / 2, "management entries")) return;
    each_element(report_, place, [&](const Place& one) {
      Match match = read_match(report_, one, keys::kManagement, "a management entry", *known_lists_);
      const auto* members = one.node->as<Object>();
      const auto is_text = [](const Member& member) { return member.key == "description"; };
      if (members != nullptr && std::all_of(members->begin(), members->end(), is_text))
        report_.at(
            one,
            "names nothing, so all traffic would pass before any rule; say which traffic manages the host");
      policy_.management.push_back({std::move(match), read_description(report_, one)});
    });
  }

  void rules(const Place& place) {
    if (too_many(place, XG_MAX_RULES, "rules")) return;
    std::unordered_map<std::string, u64> numbers;
    each_element(report_, place, [&](const Place& one) {
      Rule rule = this->rule(one);
      if (rule.name.empty()) rule.name = fmt::format("rule {}", policy_.rules.size() + 1);
      auto [first, fresh] = numbers.emplace(rule.name, policy_.rules.size());
      if (!fresh)
        report_.at(
            one,
            fmt::format("the name \"{}\" is taken by /rules/{}; counters and logs tell rules apart by name",
                        rule.name, first->second));
      policy_.rules.push_back(std::move(rule));
      check_caching(one);
    });
    auto count = [&](Rule::Action action) {
      return std::count_if(policy_.rules.begin(), policy_.rules.end(),
                           [&](const Rule& rule) { return rule.action == action; });
    };
    if (auto mirrors = count(Rule::Action::mirror); mirrors > XG_MAX_MIRROR_RULES)
      report_.at(place, fmt::format("a policy has room for {} rules that mirror, as a packet may meet them "
                                    "all; here are {}",
                                    XG_MAX_MIRROR_RULES, mirrors));
    if (auto limits = count(Rule::Action::limit); limits > XG_MAX_LIMIT_RULES)
      report_.at(
          place,
          fmt::format("a policy has room for {} limits, as a packet may have to pass them all; here are {}",
                      XG_MAX_LIMIT_RULES, limits));
    u64 compiled = policy_.rules.size() + 2 * policy_.management.size();
    if (compiled > XG_MAX_RULES)
      report_.at(
          place,
          fmt::format("a policy has room for {} rules; here are {}, and {} management entries that count "
                      "twice (once a direction)",
                      XG_MAX_RULES, policy_.rules.size(), policy_.management.size()));
  }

  // Of the rule that was read last.
  void check_caching(const Place& place) {
    const u32 last = static_cast<u32>(policy_.rules.size() - 1);
    const Rule& rule = policy_.rules[last];
    const auto pipeline =
        std::find_if(policy_.pipelines.begin(), policy_.pipelines.end(), [&](const Pipeline& one) {
          return rule.action == Rule::Action::inspect && one.name == rule.pipeline;
        });
    if (pipeline == policy_.pipelines.end() || !caches(*pipeline)) return;
    const auto watcher = watcher_ahead_of_cache(policy_, last);
    if (!watcher) return;
    const bool limits = policy_.rules[*watcher].action == Rule::Action::limit;
    report_.at(place,
               fmt::format("pipeline \"{}\" caches verdicts, but the {} \"{}\" ahead of this rule must {} "
                           "every packet of the same flows; leave out \"cache\", or narrow one of the two "
                           "matches",
                           rule.pipeline, limits ? "limit" : "mirror", policy_.rules[*watcher].name,
                           limits ? "count" : "see"));
  }

  Rule rule(const Place& place) {
    Rule rule;
    Fields fields(report_, place, keys::kRule, "a rule");
    if (!fields.is_object()) return rule;
    if (auto name = fields.get("name"))
      if (auto text = read_string(report_, *name, kMaxNameBytes)) rule.name = *text;
    rule.description = read_description(report_, place);
    if (auto match = fields.get("match"))
      rule.match = read_match(report_, *match, keys::kMatch, "\"match\"", *known_lists_);
    auto action = fields.get("action");
    auto limit = fields.get("limit");
    if (action && limit)
      report_.at(
          *limit,
          "a rule has either \"action\" or \"limit\": a limit drops the excess, and what conforms goes on "
          "to the next rule; write two rules");
    else if (action)
      this->action(*action, rule);
    else if (limit)
      this->limit(*limit, rule);
    else
      report_.at(place,
                 "a rule needs \"action\" (\"pass\", \"drop\", {\"inspect\": PIPELINE} or {\"mirror\": "
                 "PIPELINE}) or \"limit\"");
    if (auto priority = fields.get("priority")) this->priority(*priority, rule);
    return rule;
  }
  void priority(const Place& place, Rule& rule) {
    if (auto value = read_integer(report_, place, kLeastPriority, kMostPriority))
      rule.priority = static_cast<u32>(*value);
    if (rule.action != Rule::Action::inspect)
      report_.at(
          place,
          "only a rule that inspects has a priority: the others are decided in the kernel, where nothing "
          "is shed; leave it out");
  }
  void action(const Place& place, Rule& rule) {
    constexpr const char* kForms = "\"pass\", \"drop\", {\"inspect\": PIPELINE} or {\"mirror\": PIPELINE}";
    if (const auto* text = place.node->as<std::string>()) {
      auto word = find_word(words::kAction, *text);
      if (!word)
        return report_.at(place, fmt::format("\"{}\" is no action; it must be {}{}", text->substr(0, 80),
                                             kForms, nearest_note(*text)));
      rule.action = *word == 0 ? Rule::Action::pass : Rule::Action::drop;
      return;
    }
    const auto* members = place.node->as<Object>();
    if (members == nullptr)
      return report_.at(place, fmt::format("an action must be {}, is {}", kForms, place.node->type_name()));
    Fields fields(report_, place, keys::kAction, "an action");
    auto inspect = fields.get("inspect");
    auto mirror = fields.get("mirror");
    if (inspect && mirror)
      return report_.at(place,
                        "is both; \"mirror\" shows the packet to a pipeline and goes on to the next rule, so "
                        "write two rules, the mirror first");
    if (!inspect && !mirror) {
      if (members->empty()) report_.at(place, fmt::format("an action must be {}", kForms));
      return;
    }
    const Place& named = mirror ? *mirror : *inspect;
    auto name = read_string(report_, named, 4096);
    if (!name) return;
    rule.action = mirror ? Rule::Action::mirror : Rule::Action::inspect;
    rule.pipeline = *name;
    if (auto at = this->pipeline(named); at && mirror) mirrored_pipeline(named, *at);
  }
  // The place of the pipeline that `place` names.
  std::optional<u64> pipeline(const Place& place) {
    const auto& name = *place.node->as<std::string>();
    std::vector<std::string_view> names;
    for (const auto& one : policy_.pipelines) names.push_back(one.name);
    if (auto at = find_word(names, name)) return *at;
    report_.at(
        place,
        names.empty()
            ? fmt::format("there is no pipeline \"{}\": the policy has no \"pipelines\"", name.substr(0, 80))
            : fmt::format("there is no pipeline \"{}\"{}", name.substr(0, 80), suggestion(names, name)));
    return std::nullopt;
  }
  void mirrored_pipeline(const Place& place, u64 at) {
    const Pipeline& pipeline = policy_.pipelines[at];
    if (at >= kMirrorPipelines)
      report_.at(place,
                 fmt::format("only a policy's first {} pipelines can be mirrored to, and \"{}\" stands "
                             "at place {}; move it to the front",
                             kMirrorPipelines, pipeline.name, at + 1));
    if (runs_in_kernel(pipeline))
      return report_.at(place,
                        fmt::format("the program of pipeline \"{}\" runs in the kernel, where its answer is "
                                    "the packet's end, but a mirrored packet goes on; inspect with this one",
                                    pipeline.name));
    if (auto table = exact_table_in(pipeline))
      return report_.at(place,
                        fmt::format("pipeline \"{}\" remembers what it sees ({}), but of mirrored packets "
                                    "some may be missed; inspect with this one",
                                    pipeline.name, *table));
    if (auto inspector = inspector_in(pipeline))
      report_.at(place, fmt::format("pipeline \"{}\" looks through whole packets ({}), but of a mirrored one "
                                    "it has the first bytes alone; inspect with this one",
                                    pipeline.name, *inspector));
    if (auto sender = sender_in(pipeline))
      report_.at(
          place,
          fmt::format(
              "pipeline \"{}\" would send packets out again or change them ({}), but a mirrored packet has "
              "gone on already; mirror to one that only drops and passes, or inspect with "
              "this one",
              pipeline.name, *sender));
    if (auto flags = flags_asked_in(pipeline); flags && caches(pipeline))
      report_.at(
          place,
          fmt::format("pipeline \"{}\" decides by TCP flags ({}) and caches, so what one packet's flags "
                      "decide would count for the flow's others; let the mirror's own match ask for "
                      "\"tcp_flags\", or leave out \"cache\"",
                      pipeline.name, *flags));
  }
  static std::string nearest_note(std::string_view word) {
    auto near = nearest(words::kAction, word);
    return near.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", near);
  }
  void limit(const Place& place, Rule& rule) {
    rule.action = Rule::Action::limit;
    Fields fields(report_, place, keys::kLimit, "\"limit\"");
    if (auto per = fields.get("per"))
      if (auto word = read_word(report_, *per, words::kLimitPer)) rule.limit.per = *word;
    const Rate rate = read_rate(report_, fields);
    rule.limit.pps = rate.pps;
    rule.limit.burst = rate.burst;
  }

  void io(const Place& place) {
    Fields fields(report_, place, keys::kIo, "\"io\"");
    auto& io = policy_.io;
    if (auto mode = fields.get("mode"))
      if (auto word = read_word(report_, *mode, words::kIoMode)) io.mode = words::kIoMode[*word];
    if (auto size = fields.get("ring_size"))
      if (auto value = read_integer(report_, *size, 64, 32768)) {
        if ((*value & (*value - 1)) != 0)
          report_.at(*size, fmt::format("must be a power of two (64, 128, ... 32768), is {}", *value));
        io.ring_size = static_cast<u32>(*value);
      }
    const auto frames = fields.get("frames_per_queue");
    if (frames)
      if (auto value = read_integer(report_, *frames, 128, kMaxFramesPerQueue))
        io.frames_per_queue = static_cast<u32>(*value);
    const auto burst = fields.get("burst");
    if (burst) duration(*burst, "2ms", kMinBurstNs, kMaxBurstNs, io.burst_ns);
    if (burst && frames)
      report_.at(
          *burst,
          "\"burst\" and \"frames_per_queue\" both say how many frames a queue has; leave one of them out");
    if (auto link = fields.get("link_gbps")) {
      if (auto value = read_integer(report_, *link, 1, kMaxLinkGbps)) io.link_gbps = static_cast<u32>(*value);
      if (!burst)
        report_.at(*link, "the link's speed only matters for \"burst\"; add that or leave this out");
    }
    if (auto heartbeat = fields.get("heartbeat"))
      duration(*heartbeat, "90ms", kMinHeartbeatNs, kMaxHeartbeatNs, io.heartbeat_ns);
    if (auto spin = fields.get("spin")) duration(*spin, "20us", kMinSpinNs, kMaxSpinNs, io.spin_ns);
    if (auto pages = fields.get("huge_pages"))
      if (auto value = read_bool(report_, *pages)) io.huge_pages = *value;
    if (auto poll = fields.get("busy_poll")) busy_poll(*poll);
    if (auto us = fields.get("busy_poll_us"))
      if (auto value = read_integer(report_, *us, 1, 1'000'000)) io.busy_poll_us = static_cast<u32>(*value);
    if (auto budget = fields.get("busy_poll_budget"))
      if (auto value = read_integer(report_, *budget, 1, 65535))
        io.busy_poll_budget = static_cast<u32>(*value);
    if (auto slots = fields.get("mirror_slots"))
      if (auto value = read_integer(report_, *slots, 64, 32768)) {
        if ((*value & (*value - 1)) != 0)
          report_.at(*slots, fmt::format("must be a power of two (64, 128, ... 32768), is {}", *value));
        io.mirror_slots = static_cast<u32>(*value);
      }
    if (auto bytes = fields.get("mirror_bytes"))
      if (auto value = read_integer(report_, *bytes, 64, 256)) io.mirror_bytes = static_cast<u32>(*value);
  }
  void duration(const Place& place, const char* example, u64 least_ns, u64 most_ns, u64& to) {
    const auto ns = read_time(report_, place, example);
    if (!ns) return;
    if (*ns < least_ns || *ns > most_ns)
      report_.at(place, fmt::format("must be from {} to {}, is {}", write_duration(least_ns),
                                    write_duration(most_ns), *place.node->as<std::string>()));
    else
      to = *ns;
  }
  void busy_poll(const Place& place) {
    const auto* text = place.node->as<std::string>();
    const auto* on = place.node->as<bool>();
    if (on != nullptr)
      policy_.io.busy_poll = *on ? Io::BusyPoll::on : Io::BusyPoll::off;
    else if (text == nullptr || *text != "auto")
      report_.at(place, "must be \"auto\", true or false");
  }

  void count_prefixes(const Place& root) {
    u64 count = 0;
    for (const auto& [name, list] : policy_.lists) count += list.prefixes.size();
    for (const auto& rule : policy_.rules) count += rule.match.src.size() + rule.match.dst.size();
    for (const auto& match : policy_.management) count += 2 * (match.src.size() + match.dst.size());
    for (const auto& pipeline : policy_.pipelines)
      for (const auto& stage : pipeline.stages) count += routes_of(stage);
    if (names_ >= kMaxNames)
      report_.at(root, fmt::format("the lists hold more names than the {} there is room for", kMaxNames - 1));
    if (count > kMaxPrefixes)
      report_.at(root,
                 fmt::format("the lists, rules and routes hold more prefixes than the {} there is room for",
                             kMaxPrefixes));
  }

  Report& report_;
  const FileReader& files_;
  const u64 longest_file_;
  Hash& hash_;
  Policy policy_;
  const KnownLists* known_lists_ = nullptr;
  u64 files_left_ = kMaxFilesBytes;
  std::map<std::string, FileReader::Text> named_by_rules_;
  u64 names_ = 0;  // of all lists of domains
};

}  // namespace

Result<Policy> parse(std::string_view text, std::string_view file_name, const FileReader& files,
                     u64 longest_file) {
  Report report(text, std::string(file_name));
  auto document = read_document(text);
  if (!document) {
    for (auto& error : document.error()) report.at_offset(error.pointer, error.offset, error.message);
    return tl::unexpected(report.take());
  }
  Hash hash;
  hash.add(text);
  Policy policy = PolicyReader(report, files, longest_file, hash).read(Place{&*document});
  policy.hash = hash.value();
  if (!report.empty()) return tl::unexpected(report.take());
  return policy;
}

}  // namespace xdpgpu::policy
