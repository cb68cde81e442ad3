// SPDX-License-Identifier: MIT
//
// tests/netns/options_test.cpp: every command, and every option that its --help names, on real interfaces, in
// text and as JSON.
//
// An option that is added needs a line here: what --help names and nothing used is a failure that names it.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <filesystem>
#include <set>
#include <sstream>

#include "tests/netns/on_the_wire.hpp"
#include "tests/stages/program_object.hpp"

namespace xdpgpu::lab {
namespace {

using namespace std::chrono_literals;
using Words = std::vector<std::string>;

constexpr const char* kFirst = R"({"version": 1, "description": "first", "default": "pass",
  "rules": [{"match": {"proto": "udp"}, "action": {"inspect": "web"}}],
  "pipelines": {"web": [{"stage": "acl", "rules": [], "default": "pass", "cache": true}]}})";
constexpr const char* kSecond = R"({"version": 1, "description": "second", "default": "pass"})";

// "policy check --interfaces": a command's words, and an option of it; without one, the command itself.
std::string entry(const std::string& command, const std::string& option = {}) {
  return option.empty() ? command : fmt::format("{} {}", command, option);
}

// The names in one part of a help text, which stand at its lines' beginnings: "Options", "Subcommands".
Words named_in(const std::string& help, const std::string& part) {
  Words names;
  std::istringstream lines(help);
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("  ")) inside = line == part + ":";
    if (!inside || !line.starts_with("  ") || line.size() < 3 || line[2] == ' ') continue;
    std::string name = line.substr(2, line.find_first_of(" \n", 2) - 2);
    if (const auto long_one = name.find("--"); long_one != std::string::npos) name = name.substr(long_one);
    names.push_back(std::move(name));
  }
  return names;
}

bool is_json(const std::string& text) {
  if (Json::accept(text)) return true;
  std::istringstream lines(text);
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count)
    if (!Json::accept(line)) return false;
  return count != 0;
}

class Options : public OnOneWire {
 protected:
  // All that the commands' help names, as entry() writes it.
  std::set<std::string> named(const Words& command = {}) {
    Words words = command;
    words.emplace_back("--help");
    const Outcome help = product(*host_, words);
    EXPECT_EQ(help.status, 0) << help.err;
    std::set<std::string> all;
    for (const auto& option : named_in(help.out, "Options"))
      all.insert(entry(fmt::format("{}", fmt::join(command, " ")), option));
    const Words deeper = named_in(help.out, "Subcommands");
    if (deeper.empty() && !command.empty()) all.insert(fmt::format("{}", fmt::join(command, " ")));
    for (const auto& name : deeper) {
      Words below = command;
      below.push_back(name);
      const auto found = named(below);
      all.insert(found.begin(), found.end());
    }
    return all;
  }

  // A command in text, where it stands, and as JSON, where it has that, from another namespace if it can be
  // told which one is meant. `behind` undoes it, where it can be done once only.
  struct Run {
    Words command;
    Words arguments{};
    Words behind{};
    int status = 0;
  };
  void run(const Run& what) {
    SCOPED_TRACE(fmt::format("xdpgpu {} {}", fmt::join(what.command, " "), fmt::join(what.arguments, " ")));
    const std::string name = fmt::format("{}", fmt::join(what.command, " "));
    const auto has = [&](const char* option) { return help_.contains(entry(name, option)); };
    used_.insert(name);
    for (const auto& word : what.arguments)
      if (word.starts_with("--")) used_.insert(entry(name, word));
    Words words = what.command;
    words.insert(words.end(), what.arguments.begin(), what.arguments.end());
    expect(product(*host_, words), what.status);
    undo(what);
    if (!has("--output")) return;
    words.insert(words.end(), {"--output", "json"});
    used_.insert(entry(name, "--output"));
    const bool elsewhere = has("--netns");
    if (elsewhere) {
      words.insert(words.end(), {"--netns", netns_});
      used_.insert(entry(name, "--netns"));
    }
    const Outcome json = product(elsewhere ? *left_ : *host_, words);
    expect(json, what.status);
    EXPECT_TRUE(is_json(json.out)) << json.out << json.err;
    undo(what);
  }
  static void expect(const Outcome& outcome, int status) {
    EXPECT_EQ(outcome.status, status) << outcome.out << outcome.err;
    EXPECT_FALSE(outcome.out.empty() && outcome.err.empty()) << "it says what it did";
  }
  void undo(const Run& what) {
    if (what.behind.empty()) return;
    const Outcome outcome = product(*host_, what.behind);
    EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  }

  // It serves until it is told to end.
  void serve() {
    const TemporaryFile config("{}");
    ASSERT_EQ(chmod(config.path().c_str(), 0600), 0);
    const Words options{"--listen",           "10.9.0.1:0", "--web-config", config.path(),
                        "--without-password", "--group",    "root"};
    for (const auto& word : options)
      if (word.starts_with("--")) used_.insert(entry("metrics", word));
    Words words{product_path(), "metrics"};
    words.insert(words.end(), options.begin(), options.end());
    Process serving(*host_, words);
    EXPECT_TRUE(serving.wait_for(
        [](const std::string& out) { return out.starts_with("metrics are at 10.9.0.1:"); }, 10s))
        << serving.out() << serving.err();
    serving.signal(SIGTERM);
    EXPECT_EQ(serving.wait(10s), 0) << serving.err();
  }

  const std::string& name() const { return host_port().ifname(); }

  std::string netns_;
  std::set<std::string> help_, used_;
};

TEST_F(Options, EachIsTakenByItsCommand) {
  const Process stays(*host_, {"/usr/bin/env", "sleep", "300"});
  netns_ = std::to_string(stays.pid());
  help_ = named();
  const TemporaryFile first(kFirst), second(kSecond);
  const std::string capture = source_tree() / "tests/data/pcap/vlan.pcap";

  // Of the host, and of what is not attached.
  const Outcome version = product(*host_, {"--version"});
  EXPECT_EQ(version.status, 0) << version.err;
  used_.insert(entry("", "--version"));
  run({.command = {"devices"}});
  run({.command = {"features"}});
  const std::string features = product(*host_, {"features"}).out;
  for (const char* const feature : {"af_xdp", "landlock", "nvjitlink", "nvrtc"})
    EXPECT_NE(features.find(feature), std::string::npos) << features;
  run({.command = {"doctor"}, .arguments = {name()}});
  const TemporaryFile classes("config classification: scan,Somebody looks around,2\n");
  const TemporaryFile rules(
      "alert tcp $HOME_NET any -> any 80 (msg:\"one\"; http.uri; content:\"/a\"; classtype:scan; sid:1;)\n");
  const TemporaryFile references("config reference: cve http://cve.example/?name=\n");
  const TemporaryFile selection("1:7\n"), modification("1:1 \"one\" \"two\"\n"),
      limits("suppress gen_id 1, sig_id 1, track by_src, ip $HOME_NET\n");
  run({.command = {"rules", "check"},
       .arguments = {"--var", "HOME_NET=[192.0.2.0/24,2001:db8::/32]", "--classification", classes.path(),
                     "--references", references.path(), "--disable", selection.path(), "--enable",
                     selection.path(), "--drop", selection.path(), "--modify", modification.path(),
                     "--threshold", limits.path(), "--verbose", rules.path()}});
  const TemporaryFile wrong("alert tcp any any -> $NOWHERE any (msg:\"one\"; sid:1;)\n");
  run({.command = {"rules", "check"}, .arguments = {wrong.path()}, .status = 2});
  const auto beside = [](const TemporaryFile& file) {
    return std::filesystem::path(file.path()).filename().string();
  };
  const TemporaryFile with_rules(fmt::format(
      R"({{"version": 1, "default": "pass",
  "rules": [{{"match": {{"proto": "tcp"}}, "action": {{"inspect": "ids"}}}}],
  "pipelines": {{"ids": [{{"stage": "signatures", "rules": ["{}"], "classification": "{}",
    "vars": {{"HOME_NET": ["192.0.2.0/24"]}}}}]}}}})",
      beside(rules), beside(classes)));
  run({.command = {"rules", "check"}, .arguments = {"--policy", with_rules.path()}});
  const TemporaryFile object(tests::udp_ports_object(), ".o");
  run({.command = {"program", "check"},
       .arguments = {"--section", "xdp", "--verbose", "--device", "cpu", "--packets", capture,
                     object.path()}});
  run({.command = {"program", "check"}, .arguments = {rules.path()}, .status = 1});
  run({.command = {"policy", "init"},
       .arguments = {"-", "--management", "192.0.2.0/24", "--management-port", "2222"}});
  run({.command = {"policy", "check"}, .arguments = {first.path(), "--interfaces", name()}});
  // It is looked for where the policy is meant to be.
  for (const bool there : {true, false}) {
    Words words{"policy", "check", first.path(), "--interfaces", name()};
    if (there) words.insert(words.end(), {"--netns", netns_});
    const Outcome checked = product(*left_, words);
    EXPECT_EQ(checked.status, 0) << checked.err;
    EXPECT_EQ(checked.out.find("there is no interface " + name()) == std::string::npos, there) << checked.out;
  }
  const TemporaryFile test(fmt::format(
      R"({{"version": 1, "policy": "{}", "cases": [{{"name": "one", "expect": {{"verdict": "pass", "pipeline": "web"}},
        "packets": ["udp 192.0.2.1:1 > 192.0.2.2:2"]}}]}})",
      first.path()));
  run({.command = {"policy", "test"},
       .arguments = {test.path(), "--device", "cpu", "--seed", "7", "--no-kernel"}});
  run({.command = {"policy", "diff"}, .arguments = {first.path(), second.path()}, .status = 1});
  run({.command = {"replay"},
       .arguments = {capture, "--policy", first.path(), "--device", "cpu", "--seed", "7", "--no-kernel",
                     "--verbose"}});

  // Attach, in the background, each way by which it ends at once.
  const Words detach{"detach", name()};
  run({.command = {"attach"},
       .arguments = {name(), "--policy", first.path(), "--mode", "copy", "--device", "cpu", "--queues", "1",
                     "--flow-entries", "1024", "--audit", "--control-group", "root", "--replace", "--quiet",
                     "--daemon"},
       .behind = detach});
  run({.command = {"attach"},
       .arguments = {name(), "--pass-all", "--mode", "copy", "--device", "cpu", "--quiet", "--daemon"},
       .behind = detach});

  // Of what is attached.
  const auto attach = [&] {
    const Outcome outcome = product(*host_, {"attach", name(), "--policy", first.path(), "--mode", "copy",
                                             "--device", "cpu", "--quiet", "--daemon"});
    ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  };
  attach();
  run({.command = {"status"}, .arguments = {name()}});
  run({.command = {"policy", "show"}, .arguments = {name()}});
  run({.command = {"policy", "diff"}, .arguments = {first.path(), "--in-force", name()}});
  run({.command = {"policy", "apply"},
       .arguments = {name(), second.path(), "--confirm", "60s"},
       .behind = {"policy", "confirm", name()}});
  run({.command = {"policy", "apply"}, .arguments = {name(), first.path(), "--audit"}});
  run({.command = {"status"}, .arguments = {name()}, .status = 4});
  const Outcome applied = product(*host_, {"policy", "apply", name(), first.path(), "--confirm", "60s"});
  EXPECT_EQ(applied.status, 0) << applied.err;
  run({.command = {"policy", "confirm"},
       .arguments = {name()},
       .behind = {"policy", "apply", name(), first.path(), "--confirm", "60s"}});
  run({.command = {"flows", "list"}, .arguments = {name(), "--limit", "5"}});
  run({.command = {"flows", "flush"}, .arguments = {name()}});
  run({.command = {"bypass"}, .arguments = {"on", name(), "--for", "5m"}});
  run({.command = {"status"}, .arguments = {name()}, .status = 5});
  run({.command = {"bypass"}, .arguments = {"off", name()}});
  run({.command = {"log", "reopen"}, .arguments = {name()}});
  run({.command = {"rules", "top"}, .arguments = {name(), "--by", "cost", "--limit", "5"}});
  const TemporaryFile names(R"({"version": 1, "default": "pass",
  "lists": {"ads": {"type": "domain", "names": ["ads.example"]}},
  "rules": [{"match": {"proto": "udp"}, "action": {"inspect": "dns"}}],
  "pipelines": {"dns": [{"stage": "domains", "lists": [{"list": "@ads", "action": "drop"}]}]}})");
  run({.command = {"policy", "apply"}, .arguments = {name(), names.path()}});
  run({.command = {"list", "add"},
       .arguments = {name(), "ads", "a.example", "*.b.example"},
       .behind = {"list", "remove", name(), "ads", "a.example"}});
  run({.command = {"list", "remove"}, .arguments = {name(), "ads", "*.b.example"}});
  run({.command = {"list", "add"}, .arguments = {name(), "adz", "a.example"}, .status = 1});
  run({.command = {"list", "add"}, .arguments = {name(), "ads", "a..example"}, .status = 2});
  run({.command = {"list", "show"}, .arguments = {name(), "ads", "--limit", "5"}});
  run({.command = {"top"},
       .arguments = {name(), "--plain", "--count", "1", "--rows", "5", "--interval", "1s", "--view", "flows",
                     "--sort", "flow", "--filter", "udp"}});
  run({.command = {"metrics"}, .arguments = {"--series", "5"}});
  serve();
  used_.insert({"detach", "detach --keep"});
  for (const Words& more : {Words{}, Words{"--output", "json", "--netns", netns_}, Words{"--keep"}}) {
    Words words = detach;
    words.insert(words.end(), more.begin(), more.end());
    for (const auto& word : more)
      if (word.starts_with("--")) used_.insert(entry("detach", word));
    const Outcome outcome = product(more.size() > 1 ? *left_ : *host_, words);
    EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    if (more.size() > 1) {
      EXPECT_TRUE(is_json(outcome.out)) << outcome.out;
    }
    if (more != Words{"--keep"}) attach();
  }
  // What --keep has left is another attach's to go on from, or is taken away.
  run({.command = {"detach"}, .arguments = {name(), "--unless-left"}});
  EXPECT_EQ(product(*host_, {"status", name()}).status, 1) << "it is still left";
  run({.command = {"detach"}, .arguments = {"--all"}});

  for (const auto& one : help_) {
    if (one.ends_with("--help")) continue;
    EXPECT_TRUE(used_.contains(one)) << "nothing used: xdpgpu " << one;
  }
  EXPECT_GT(help_.size(), 60U) << "the help was understood: " << fmt::format("{}", fmt::join(help_, ", "));
}

}  // namespace
}  // namespace xdpgpu::lab
