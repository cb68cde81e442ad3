// SPDX-License-Identifier: MIT
//
// The real binary: wrong usage and bad input of every kind get one sentence and the right exit status,
// and what needs no privilege works without.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "tests/unit/cli_test.hpp"

namespace xdpgpu::test {
namespace {

class CliErrors : public CliTest {};

// What comes from elsewhere, as names and answers do, is shown and not obeyed.
TEST_F(CliErrors, NothingThatATerminalObeysIsPrinted) {
  const auto outcome = run({"policy", "check",
                            directory_ + "/\x1b]0;title\x07\x7f\xc2\x9b"
                                         "2J"});
  EXPECT_NE(outcome.status, 0);
  EXPECT_NE(outcome.err.find("\\x1b]0;title\\x07\\x7f\\x9b2J"), std::string::npos) << outcome.err;
  for (const char c : {'\x1b', '\x07', '\x7f'}) EXPECT_EQ(outcome.err.find(c), std::string::npos);
}

// Where it is JSON it stays that.
TEST_F(CliErrors, JsonIsJsonWhateverIsNamed) {
  const std::string path = directory_ + "/\x1b\x7f\xc2\x9b\xe2\x80\xae\xc3\xbc";
  const auto outcome = run({"policy", "check", path, "-o", "json"});
  EXPECT_NE(outcome.status, 0);
  EXPECT_TRUE(std::all_of(outcome.out.begin(), outcome.out.end(), [](char c) {
    return c == '\n' || (c >= ' ' && c <= '~');
  })) << outcome.out;
  const auto json = Json::parse(outcome.out, nullptr, false);
  ASSERT_FALSE(json.is_discarded()) << outcome.out;
  EXPECT_NE(json.at("error").at("message").get<std::string>().find("\x7f"), std::string::npos);
}

TEST_F(CliErrors, OneSentenceAndTheStatus) {
  const std::string good = file("good.json", R"({ "version": 1 })");
  const std::string bad = file("bad.json", "{ \"version\": 1,\n  \"defualt\": \"drop\" }");
  const std::string broken = file("broken.json", "{ \"version\": 1, ");
  const std::string text = file("text.pcap", "no capture");
  const std::string empty = file("empty.pcap", "");
  const std::string fifo = file("fifo", ""), dangling = file("dangling", "");
  for (const std::string& path : {fifo, dangling}) unlink(path.c_str());
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  ASSERT_EQ(symlink("nowhere", dangling.c_str()), 0);
  const std::string lists_fifo =
      file("lists.json", R"({"version":1,"lists":{"a":{"file":")" + fifo + "\"}}}");
  const std::string vlan = XDPGPU_SOURCE_DIR "/tests/data/pcap/vlan.pcap";
  struct Case {
    std::vector<std::string> arguments;
    int status;
    std::vector<std::string> says;
  };
  const Case cases[] = {
      {{"attahc", "eth0"}, 2, {"attahc", "attach"}},
      {{"--nope"}, 2, {"--nope"}},
      {{"attach"}, 2, {"interface", "--help"}},
      {{"attach", "eth0", "--nope"}, 2, {"--nope"}},
      {{"attach", "eth0", "--mode", "fast"}, 2, {"fast", "zero-copy"}},
      {{"attach", "eth0", "--queues", "0"}, 2, {"queues", "1"}},
      {{"attach", "eth0", "--queues", "many"}, 2, {"many"}},
      {{"attach", "eth0", "--pass-all", "--flow-entries", "1000"}, 2, {"1000", "power of two"}},
      {{"attach", "eth0", "eth0", "--pass-all"}, 2, {"eth0", "twice"}},
      {{"attach", "eth0", "--policy", bad}, 2, {":2:", "/defualt", "default"}},
      {{"attach", "eth0", "--policy", "/no/such/policy.json"}, 2, {"/no/such/policy.json"}},
      {{"attach", "eth0", "--policy", fifo}, 2, {fifo, "is a FIFO"}},
      {{"policy", "check", good, "--interfaces", "lo", "lo"}, 2, {"lo", "twice"}},
      {{"policy", "check", fifo}, 2, {fifo, "is a FIFO"}},
      {{"policy", "check", "/dev/zero"}, 2, {"/dev/zero", "is a device"}},
      {{"policy", "check", lists_fifo}, 2, {":1:", "/lists/a/file", fifo, "is a FIFO"}},
      {{"policy", "check", dangling}, 2, {dangling, "No such file"}},
      {{"policy", "apply", "no-such-if", lists_fifo}, 2, {"/lists/a/file", "is a FIFO"}},
      {{"attach", "no-such-if", "--pass-all"}, 1, {}},  // not root: says so; root: names the interface
      {{"detach"}, 2, {"interface", "--all"}},
      {{"detach", "eth0", "--all"}, 2, {"interface", "--all"}},
      {{"detach", "eth0", "--keep", "--unless-left"}, 2, {"--keep", "--unless-left"}},
      {{"detach", "no-such-if"}, 1, {}},
      {{"detach", "../../../../no/such/folder"}, 2, {"../../../../no/such/folder", "15"}},
      {{"detach", "sixteen-letters!"}, 2, {"sixteen-letters!", "15"}},
      {{"detach", "eth0 "}, 2, {"eth0 ", "15"}},
      {{"status", ""}, 2, {"interface", "15"}},
      {{"status", "."}, 2, {"\".\"", "15"}},
      {{"status", ".."}, 2, {"\"..\"", "15"}},
      {{"attach", "a/b"}, 2, {"a/b"}},
      {{"doctor", "a/b"}, 2, {"a/b"}},
      {{"bypass", "on", "a/b"}, 2, {"a/b"}},
      {{"policy", "apply", "a/b", good}, 2, {"a/b"}},
      {{"policy", "show", "a/b"}, 2, {"a/b"}},
      {{"policy", "confirm", "a/b"}, 2, {"a/b"}},
      {{"flows", "list", "a/b"}, 2, {"a/b"}},
      {{"flows", "flush", "a/b"}, 2, {"a/b"}},
      {{"status", "no-such-if"}, 1, {"no-such-if", "attach"}},
      {{"status", "no-such-if", "-o", "xml"}, 2, {"xml", "json", "text"}},
      {{"policy"}, 2, {"policy --help"}},
      {{"policy", "chekc"}, 2, {}},
      {{"policy", "check"}, 2, {"file"}},
      {{"policy", "check", bad}, 2, {"bad.json:2:", "/defualt", "default"}},
      {{"policy", "check", broken}, 2, {"broken.json:1:"}},
      {{"policy", "check", "/no/such/policy.json"}, 2, {"/no/such/policy.json", "check the file's path"}},
      {{"policy", "check", "/"}, 2, {"/"}},
      {{"policy", "apply", "no-such-if", bad}, 2, {"/defualt"}},
      {{"policy", "apply", "no-such-if", good}, 1, {"no-such-if"}},
      {{"policy", "apply", "no-such-if", good, "--confirm", "soon"}, 2, {"soon", "60s"}},
      {{"policy", "apply", "no-such-if", good, "--confirm", "999999h"}, 2, {"--confirm", "999999h", "24h"}},
      {{"policy", "apply", "no-such-if", good, "--confirm", "86401s"}, 2, {"--confirm", "24h"}},
      {{"policy", "show", "no-such-if"}, 1, {"no-such-if"}},
      {{"flows"}, 2, {"flows --help"}},
      {{"flows", "list", "no-such-if"}, 1, {"no-such-if"}},
      {{"flows", "list", "no-such-if", "--limit", "x"}, 2, {"x"}},
      {{"flows", "list", "no-such-if", "--limit", "-1"}, 2, {"limit"}},
      {{"flows", "list", "no-such-if", "--limit", "0"}, 2, {"limit"}},
      {{"flows", "flush", "no-such-if"}, 1, {"no-such-if"}},
      {{"bypass", "of", "no-such-if"}, 2, {"of", "off"}},
      {{"bypass", "on", "no-such-if"}, 1, {"no-such-if"}},
      {{"replay"}, 2, {"capture"}},
      {{"replay", "/no/such.pcap"}, 1, {"/no/such.pcap"}},
      {{"replay", text}, 1, {"text.pcap", "pcap"}},
      {{"replay", empty}, 1, {"empty"}},
      {{"replay", vlan, "--policy", bad}, 2, {"/defualt"}},
      {{"replay", vlan, "--device", "abacus"}, 2, {"abacus", "cpu"}},
      {{"replay", vlan, "--device", "cuda:x"}, 2, {"cuda:x", "devices"}},
      {{"replay", vlan, "--device", "vulkan:999"}, 1, {"vulkan:999", "cpu"}},
      {{"attach", "no-such-if", "--device", "abacus"}, 2, {"abacus", "cpu"}},
  };
  for (const auto& c : cases) {
    std::string command = "xdpgpu";
    for (const auto& argument : c.arguments) command += " " + argument;
    SCOPED_TRACE(command);
    const auto outcome = run(c.arguments);
    EXPECT_EQ(outcome.status, c.status) << outcome.out << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_TRUE(outcome.err.starts_with("xdpgpu: ")) << outcome.err;
    for (const auto& word : c.says)
      EXPECT_NE(outcome.err.find(word), std::string::npos) << word << ": " << outcome.err;
    // Likewise as an object.
    auto arguments = c.arguments;
    arguments.insert(arguments.end(), {"-o", "json"});
    const auto json = run(arguments);
    EXPECT_EQ(json.status, c.status) << json.out << json.err;
    ASSERT_TRUE(Json::accept(json.out)) << json.out << json.err;
    const Json said = Json::parse(json.out);
    ASSERT_TRUE(said.is_object() && said.contains("error")) << json.out;
    EXPECT_NE(said.at("error").value("message", ""), "") << json.out;
    EXPECT_EQ(said.value("event", ""), c.arguments[0] == "attach" ? "end" : "") << json.out;
  }
}

TEST_F(CliErrors, JsonSaysWhereAPolicyIsWrong) {
  const std::string bad = file("bad.json", "{ \"version\": 1,\n  \"defualt\": \"drop\" }");
  const std::string vlan = XDPGPU_SOURCE_DIR "/tests/data/pcap/vlan.pcap";
  for (const auto& command : std::vector<std::vector<std::string>>{{"policy", "check", bad},
                                                                   {"policy", "apply", "no-such-if", bad},
                                                                   {"attach", "no-such-if", "-p", bad},
                                                                   {"replay", vlan, "-p", bad}}) {
    auto arguments = command;
    arguments.insert(arguments.end(), {"-o", "json"});
    const auto outcome = run(arguments);
    EXPECT_EQ(outcome.status, 2) << outcome.err;
    ASSERT_TRUE(Json::accept(outcome.out)) << outcome.out;
    const Json error = Json::parse(outcome.out).value("error", Json::object());
    EXPECT_EQ(error.value("pointer", ""), "/defualt") << outcome.out;
    EXPECT_EQ(error.value("line", 0), 2) << outcome.out;
    EXPECT_EQ(error.value("file", ""), bad) << outcome.out;
    EXPECT_NE(error.value("message", "").find("default"), std::string::npos) << outcome.out;
  }
}

TEST_F(CliErrors, EveryProblemOfAPolicyIsSaid) {
  const std::string bad = file("bad.json", R"({ "version": 1, "defualt": "drop", "on_failure": "explode" })");
  const auto outcome = run({"policy", "check", bad});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.err.find("/defualt"), std::string::npos);
  EXPECT_NE(outcome.err.find("/on_failure"), std::string::npos);
  const auto json = run({"policy", "check", bad, "-o", "json"});
  EXPECT_EQ(json.status, 2);
  ASSERT_TRUE(Json::accept(json.out)) << json.out;
  EXPECT_EQ(Json::parse(json.out).at("diagnostics").size(), 2u);
}

TEST_F(CliErrors, HelpIsForEverybody) {
  const auto all = run({"--help"});
  EXPECT_EQ(all.status, 0);
  EXPECT_EQ(all.err, "");
  const std::vector<std::vector<std::string>> commands{{"attach"},
                                                       {"detach"},
                                                       {"status"},
                                                       {"bypass"},
                                                       {"replay"},
                                                       {"doctor"},
                                                       {"devices"},
                                                       {"features"},
                                                       {"policy", "init"},
                                                       {"policy", "check"},
                                                       {"policy", "apply"},
                                                       {"policy", "show"},
                                                       {"policy", "confirm"},
                                                       {"flows", "list"},
                                                       {"flows", "flush"}};
  for (auto command : commands) {
    EXPECT_NE(all.out.find("\n  " + command[0] + " "), std::string::npos) << command[0];
    command.emplace_back("--help");
    const auto one = run(command);
    EXPECT_EQ(one.status, 0) << command[0];
    EXPECT_NE(one.out.find("--output"), std::string::npos) << command[0] << " has no -o";
    EXPECT_EQ(one.out.find("?."), std::string::npos) << command[0];
  }
  EXPECT_EQ(run({"--version"}).status, 0);
  EXPECT_EQ(run({}).status, 2);
}

TEST_F(CliErrors, JsonWhereverItIsAskedFor) {
  const std::string good = file("good.json", R"({ "version": 1, "default": "drop" })");
  for (const auto& command : std::vector<std::vector<std::string>>{
           {"devices"}, {"features"}, {"doctor"}, {"status"}, {"policy", "check", good}}) {
    auto arguments = command;
    arguments.insert(arguments.end(), {"-o", "json"});
    const auto outcome = run(arguments);
    EXPECT_TRUE(outcome.status == 0 || outcome.status == 1) << command[0] << outcome.err;
    EXPECT_TRUE(Json::accept(outcome.out)) << command[0] << ": " << outcome.out << outcome.err;
  }
  const std::string vlan = XDPGPU_SOURCE_DIR "/tests/data/pcap/vlan.pcap";
  const auto replay = run({"replay", vlan, "-p", good, "--device", "cpu", "--no-kernel", "-o", "json"});
  EXPECT_EQ(replay.status, 0) << replay.err;
  std::vector<Json> lines;
  std::size_t begin = 0;
  for (std::size_t end; (end = replay.out.find('\n', begin)) != std::string::npos; begin = end + 1) {
    ASSERT_TRUE(Json::accept(replay.out.substr(begin, end - begin)));
    lines.push_back(Json::parse(replay.out.substr(begin, end - begin)));
  }
  ASSERT_EQ(lines.size(), 3u) << "two packets and the summary";
  EXPECT_EQ(lines[0].at("verdict"), "drop");
  EXPECT_EQ(lines[2].at("event"), "summary");
  EXPECT_EQ(lines[2].at("verdicts").at("drop"), 2);
}

TEST_F(CliErrors, ADamagedCaptureIsReadAsFarAsItGoes) {
  std::string bytes = contents(XDPGPU_SOURCE_DIR "/tests/data/pcap/vlan.pcap");
  bytes.resize(bytes.size() - 5);
  const auto outcome = run({"replay", file("cut.pcap", bytes), "--device", "cpu", "--no-kernel"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.out.find("1 packet:"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.err.find("cut"), std::string::npos) << outcome.err;
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
}

TEST_F(CliErrors, OutputThatIsNotTakenIsAFailure) {
  for (const auto& command : std::vector<std::vector<std::string>>{{"devices", "-o", "json"}, {"--help"}}) {
    const auto outcome = run(command, "/dev/full");
    EXPECT_EQ(outcome.status, 1) << command[0];
    EXPECT_NE(outcome.err.find("cannot write"), std::string::npos) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
}

TEST_F(CliErrors, AMissingInterfaceBlocksAndHidesNoOther) {
  const auto outcome = run({"doctor", "no-such-if", "lo", "-o", "json"});
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  ASSERT_TRUE(Json::accept(outcome.out)) << outcome.out;
  const Json report = Json::parse(outcome.out);
  EXPECT_FALSE(report.at("ready").get<bool>());
  EXPECT_FALSE(report.at("interfaces").at("lo").empty());
  const Json& missing = report.at("interfaces").at("no-such-if").at(0);
  EXPECT_EQ(missing.at("severity"), "blocks");
  EXPECT_NE(missing.at("cause").get<std::string>().find("no-such-if"), std::string::npos) << missing;
  EXPECT_NE(missing.at("cure"), "");
}

TEST_F(CliErrors, CheckNotesATableBehindConntrackThatDrops) {
  const auto policy = [&](const std::string& name, const std::string& stages) {
    return file(name, R"({"version": 1, "pipelines": {"p": [)" + stages +
                          R"(]}, "rules": [{"action": {"inspect": "p"}}]})");
  };
  const std::string track = R"({"stage": "conntrack", "egress": false, "loose": false})";
  const std::string limit = R"({"stage": "rate_limit", "per": "src", "pps": 1000})";
  const std::string note =
      "stage 1 (conntrack), takes up connections whose first packets stage 2 (rate_limit)";

  const auto wrong = policy("wrong.json", track + ", " + limit);
  const auto text = run({"policy", "check", wrong});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_NE(text.out.find(note), std::string::npos) << text.out;
  const auto json = run({"policy", "check", wrong, "-o", "json"});
  ASSERT_TRUE(Json::accept(json.out)) << json.out;
  EXPECT_NE(Json::parse(json.out).at("notes").dump().find(note), std::string::npos) << json.out;
  const auto cured = run({"policy", "check", policy("cured.json", limit + ", " + track)});
  EXPECT_EQ(cured.status, 0) << cured.err;
  EXPECT_EQ(cured.out.find("takes up"), std::string::npos) << cured.out;
}

TEST_F(CliErrors, OneIsNotSeveral) {
  const auto one = run({"policy", "check", file("one.json", R"({"version": 1, "fragments": "drop",
      "pipelines": {"p": [{"stage": "l2fwd"}]}, "lists": {"a": ["192.0.2.1"]},
      "rules": [{"match": {"src": "@a"}, "action": {"inspect": "p"}}]})")});
  EXPECT_EQ(one.status, 0) << one.err;
  EXPECT_NE(one.out.find(" is right: 1 rule, 1 list with 1 prefix, 1 pipeline; "), std::string::npos)
      << one.out;
  const auto none = run({"policy", "check", file("none.json", R"({"version": 1})")});
  EXPECT_NE(none.out.find(" is right: 0 rules, 0 lists with 0 prefixes, 0 pipelines; "), std::string::npos)
      << none.out;
}

}  // namespace
}  // namespace xdpgpu::test
