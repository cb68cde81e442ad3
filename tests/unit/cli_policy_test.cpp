// SPDX-License-Identifier: MIT
//
// tests/unit/cli_policy_test.cpp: `policy test`: what is as expected, what is not, and what is no test.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "tests/unit/cli_test.hpp"

namespace xdpgpu::test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kPolicy = R"({
  "version": 1, "default": "drop", "fragments": "track",
  "rules": [
    { "name": "slow", "match": { "proto": "udp", "dst_port": 7 }, "limit": { "per": "src", "pps": 10, "burst": 2 } },
    { "name": "echo", "match": { "proto": "udp", "dst_port": 7 }, "action": "pass" },
    { "match": { "proto": "tcp", "dst_port": [80, 81, 82] }, "action": { "inspect": "web" } },
    { "name": "watched", "match": { "proto": "tcp", "dst_port": 90 }, "action": { "mirror": "watch" } },
    { "name": "tagged", "match": { "vlan": 7, "proto": "icmp" }, "action": "pass" } ],
  "pipelines": {
    "web": [ { "stage": "acl", "rules": [ { "name": "no 81", "match": { "dst_port": 81 }, "action": "drop" },
                                          { "name": "away", "match": { "dst_port": 82 }, "action": { "redirect": "eth9" } } ] },
             { "stage": "rate_limit", "per": "src", "pps": 1000, "burst": 3 } ],
    "watch": [ { "stage": "acl", "rules": [] } ] }
})";

class CliPolicyTest : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    file("policy.json", kPolicy);
  }
  Outcome test(const std::string& cases, const std::vector<std::string>& more = {}) {
    return test_text(R"({"version": 1, "policy": "policy.json", "cases": [)" + cases + "]}", more);
  }
  Outcome test_text(const std::string& text, const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments{"policy", "test", file("test.json", text)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  }
};

TEST_F(CliPolicyTest, TheExamplesDoWhatTheirTestsSay) {
  std::vector<std::string> arguments{"policy", "test"};
  for (const auto& entry : std::filesystem::directory_iterator(XDPGPU_SOURCE_DIR "/config/examples/tests"))
    arguments.push_back(entry.path());
  ASSERT_GE(arguments.size(), 5u);
  for (const char* how : {"", "--no-kernel"}) {
    auto these = arguments;
    if (*how != 0) these.emplace_back(how);
    const auto done = run(these);
    EXPECT_EQ(done.status, 0) << done.out << done.err;
    EXPECT_THAT(done.out, HasSubstr("all as expected"));
  }
}

TEST_F(CliPolicyTest, SaysWhichPacketWasNotAsExpectedAndWhy) {
  const std::string cases = R"(
    {"name": "good", "packets": ["udp 192.0.2.1:1000 > 10.0.0.1:7"], "expect": {"verdict": "pass", "rule": "echo", "reason": "pass_rule"}},
    {"name": "bad", "packets": [{"packet": "udp 192.0.2.1:1000 > 10.0.0.1:7", "repeat": 4}], "expect": "pass"},
    {"name": "stage", "packets": ["tcp 192.0.2.1:1000 > 10.0.0.1:81 syn"], "expect": {"rule": "rule 3", "pipeline": "web", "stage": 2}},
    {"name": "no stage", "packets": ["tcp 192.0.2.1:1000 > 10.0.0.1:80 syn"], "expect": {"stage": "acl"}},
    {"name": "mirrored", "packets": ["tcp 192.0.2.1:1000 > 10.0.0.1:90 syn"], "expect": {"mirrored_to": []}},
    {"name": "counted", "packets": ["icmp 192.0.2.1 > 10.0.0.1", "vlan 7 icmp 192.0.2.1 > 10.0.0.1"], "counts": {"pass": 1, "drop": 2}})";
  const auto failed = test(cases);
  EXPECT_EQ(failed.status, 1) << failed.err;
  EXPECT_EQ(failed.err, "");
  for (const char* said :
       {"  ok      good (1 packet)\n", "  FAILED  bad (4 packets)\n",
        "packet 3 (udp 192.0.2.1:1000 > 10.0.0.1:7, time 3 of 4): expected pass; came drop (dropped: over "
        "the limit of "
        "rule \"slow\")",
        "expected rule \"rule 3\", pipeline \"web\", stage \"2\"; came drop, stage \"1\" (inspected by rule "
        "\"rule 3\" "
        "in pipeline web: stage 1 (acl) rule 1 (no 81))",
        "expected stage \"acl\"; came pass, no stage (",
        "expected mirrored to []; came drop, mirrored to [watch] (",
        "expected 2 packets with verdict drop, came 1\n", "6 cases, 10 packets: 5 failed\n"})
    EXPECT_THAT(failed.out, HasSubstr(said));

  const auto json = test(cases, {"-o", "json"});
  EXPECT_EQ(json.status, 1);
  const auto report = Json::parse(json.out);
  EXPECT_EQ(report.at("ok"), false);
  EXPECT_EQ(report.at("cases"), 6);
  EXPECT_EQ(report.at("failed"), 5);
  const auto& bad = report.at("files").at(0).at("cases").at(1);
  EXPECT_EQ(bad.at("pointer"), "/cases/1");
  EXPECT_EQ(bad.at("verdicts"), Json({{"pass", 2}, {"drop", 2}}));
  EXPECT_EQ(bad.at("failures").at(0).at("packet"), 3);
  EXPECT_EQ(bad.at("failures").at(0).at("expected"), "pass");
}

TEST_F(CliPolicyTest, EachCaseBeginsAnewAndKeepsWhatItHasSeen) {
  // A limit of the kernel's, and a bucket of a stage's.
  const std::string udp = "udp 192.0.2.1:1000 > 10.0.0.1:7", tcp = "tcp 192.0.2.1:1000 > 10.0.0.1:80 syn";
  const std::string cases = R"({"name": "N", "packets": [
      {"packet": ")" + udp + R"(", "repeat": 2, "expect": "pass"},
      {"packet": ")" + udp + R"(", "expect": {"verdict": "drop", "reason": "drop_limit", "rule": "slow"}},
      {"packet": ")" + udp + R"(", "after": "100ms", "expect": "pass"},
      {"packet": ")" + udp + R"(", "repeat": 5, "every": "100ms", "after": "1s", "expect": "pass"},
      {"packet": ")" + tcp + R"(", "repeat": 3, "expect": "pass"},
      {"packet": ")" + tcp + R"(", "repeat": 500, "expect": {"verdict": "drop", "stage": "rate_limit"}},
      {"packet": ")" + tcp + R"(", "after": "1ms", "expect": "pass"}]})";
  auto again = cases;
  again.replace(again.find("\"N\""), 3, "\"M\"");
  auto both = cases;
  both += ",";
  both += again;
  const auto done = test(both);
  EXPECT_EQ(done.status, 0) << done.out << done.err;
}

TEST_F(CliPolicyTest, FragmentsAndFramesComeAsTheyAreNamed) {
  const auto done = test(R"(
    {"name": "in order", "packets": [{"packet": "udp 192.0.2.1:1000 > 10.0.0.1:7 length 100", "mtu": 68}], "expect": "pass", "counts": {"pass": 3}},
    {"name": "a first one alone", "packets": [{"packet": "udp 192.0.2.1:1000 > 10.0.0.1:7 length 100", "mtu": 68, "fragments": [1]}], "counts": {"pass": 1}},
    {"name": "no first one", "packets": [{"packet": "udp 192.0.2.1:1000 > 10.0.0.1:7 length 100", "mtu": 68, "fragments": [3, 2]}], "expect": "drop", "counts": {"drop": 2}},
    {"name": "a frame", "packets": [{"hex": "02:00:00:00:00:02 02:00:00:00:00:01 0800 4500001c00000000401100000a0000010a000002 03e8000700080000"}],
     "expect": {"verdict": "pass", "rule": "echo"}},
    {"name": "a payload", "packets": [{"packet": "tcp 192.0.2.1:1000 > 10.0.0.1:80", "payload": "GET / HTTP/1.1\r\n\r\n"},
                                      {"packet": "tcp 192.0.2.1:1000 > 10.0.0.1:80", "payload_hex": "00ff"}], "expect": {"verdict": "pass", "pipeline": "web"}},
    {"name": "sent on", "interface": "eth0", "packets": ["tcp 192.0.2.1:1000 > 10.0.0.1:82"], "expect": {"verdict": "redirect", "target": "eth9"}})");
  EXPECT_EQ(done.status, 0) << done.out << done.err;
}

TEST_F(CliPolicyTest, CapturesAreTakenWholeOrInPart) {
  const std::string capture = XDPGPU_SOURCE_DIR "/tests/data/pcap/vlan.pcap";
  const auto of = [&](const std::string& what) {
    return test(R"({"name": "c", "capture": {"file": ")" + capture + "\"" + what);
  };
  auto whole = of(R"(}, "counts": {"drop": 2}})");
  EXPECT_EQ(whole.status, 0) << whole.out << whole.err;
  auto part = of(R"(, "first": 2, "last": 2}, "expect": "pass"})");
  EXPECT_EQ(part.status, 1) << part.err;
  EXPECT_THAT(part.out, HasSubstr("packet 2 ("));
  EXPECT_THAT(part.out, HasSubstr("(1 packet)"));
  auto behind = of(R"(, "last": 3}, "expect": "drop"})");
  EXPECT_EQ(behind.status, 1);
  EXPECT_THAT(behind.out, HasSubstr("the capture has 2 packets alone, and packet 3 is named"));

  const auto bytes = contents(capture);
  file("cut.pcap", bytes.substr(0, bytes.size() - 3));
  const auto damaged = test(R"({"name": "c", "capture": "cut.pcap", "counts": {"drop": 1}})");
  EXPECT_EQ(damaged.status, 1) << damaged.err;
  EXPECT_THAT(damaged.out, HasSubstr("FAILED"));
  EXPECT_THAT(damaged.out, HasSubstr("cut.pcap"));
}

// Each in one sentence with its place, and nothing is run.
TEST_F(CliPolicyTest, WrongFilesAreRefusedWithTheirPlace) {
  file("empty.pcap", "");
  const std::string pipe = directory_ + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  files_.push_back(pipe);
  const std::string good = R"("tcp 192.0.2.1:1 > 10.0.0.1:2")";
  struct Wrong {
    std::string text, pointer, said;
  };
  const auto in_case = [](const std::string& what) {
    return R"({"version": 1, "policy": "policy.json", "cases": [{"name": "a", )" + what + "}]}";
  };
  const auto expecting = [&](const std::string& what) {
    return in_case("\"packets\": [" + good + "], \"expect\": " + what);
  };
  const auto packet = [&](const std::string& what) {
    return in_case("\"expect\": \"pass\", \"packets\": [" + what + "]");
  };
  const std::vector<Wrong> wrongs{
      {"", "", ""},
      {"[]", "", "must be an object"},
      {"{\"version\": 1, \"version\": 1}", "/version", ""},
      {R"({"policy": "policy.json", "cases": []})", "", "needs the key \"version\""},
      {R"({"version": 2, "policy": "policy.json", "cases": []})", "/version", "from 1 to 1"},
      {R"({"version": 1, "policy": "none.json", "cases": [{"name": "a"}]})", "/policy",
       "none.json: No such file"},
      {R"({"version": 1, "policy": "policy.json", "cases": []})", "/cases", ""},
      {R"({"version": 1, "policy": "policy.json", "case": []})", "/case", "did you mean \"cases\""},
      {in_case("\"expect\": \"pass\""), "/cases/0", "either \"packets\" or a \"capture\""},
      {in_case("\"packets\": [" + good + "], \"capture\": \"empty.pcap\""), "/cases/0", "either"},
      {in_case("\"packets\": [" + good + "]"), "/cases/0", "nothing is expected"},
      {in_case("\"packets\": [], \"expect\": \"pass\""), "/cases/0/packets", "no packet"},
      {expecting("\"passs\""), "/cases/0/expect", "did you mean \"pass\""},
      {expecting("{}"), "/cases/0/expect", "expects nothing"},
      {expecting(R"({"rule": "ehco"})"), "/cases/0/expect/rule", "did you mean \"echo\""},
      {expecting(R"({"pipeline": "x"})"), "/cases/0/expect/pipeline", "no pipeline \"x\""},
      {expecting(R"({"stage": "ddos"})"), "/cases/0/expect/stage", "no stage \"ddos\""},
      {expecting(R"({"target": "eth1"})"), "/cases/0/expect/target", "no interface \"eth1\""},
      {expecting(R"({"reason": "drop_rules"})"), "/cases/0/expect/reason", "did you mean \"drop_rule\""},
      {expecting(R"({"verdict": "pass", "why": 1})"), "/cases/0/expect/why", "unknown key"},
      {packet("\"tcp 192.0.2.1 > 10.0.0.1:2\""), "/cases/0/packets/0", "needs a port"},
      {packet("\"tcp 192.0.2.1:1 > [::1]:2\""), "/cases/0/packets/0", "two kinds"},
      {packet("\"icmp 192.0.2.1:1 > 10.0.0.1\""), "/cases/0/packets/0", "has a port"},
      {packet("\"udp 192.0.2.1:1 > 10.0.0.1:2 syn\""), "/cases/0/packets/0", "\"syn\""},
      {packet("\"quic 192.0.2.1:1 > 10.0.0.1:2\""), "/cases/0/packets/0", "begins with its protocol"},
      {packet("\"udp 192.0.2.1:1 > 10.0.0.1:2 length 70000\""), "/cases/0/packets/0", "0 to 65535"},
      {packet("\"udp 192.0.2.1:1 > 10.0.0.1:2 length 65535\""), "/cases/0/packets/0", "longer"},
      {packet(R"({"hex": "0g"})"), "/cases/0/packets/0/hex", "hexadecimal"},
      {packet(R"({"hex": "00"})"), "/cases/0/packets/0/hex", "14 to"},
      {packet(R"({"packet": )" + good + R"(, "hex": "00"})"), "/cases/0/packets/0", "either in words"},
      {packet(R"({"packet": )" + good + R"(, "repeat": 0})"), "/cases/0/packets/0/repeat", "from 1"},
      {packet(R"({"packet": )" + good + R"(, "every": "1 day"})"), "/cases/0/packets/0/every", ""},
      {packet(R"({"packet": )" + good + R"(, "repeat": 1000000}, )" + good), "/cases/0/packets",
       "at most 1000000"},
      {packet(R"({"packet": "udp 1.1.1.1:1 > 2.2.2.2:2 length 99", "mtu": 68, "fragments": [4]})"),
       "/cases/0/packets/0/fragments/0", "from 1 to 3"},
      {in_case(R"("capture": "no.pcap", "expect": "pass")"), "/cases/0/capture", "No such file"},
      {in_case(R"("capture": "empty.pcap", "expect": "pass")"), "/cases/0/capture", "empty.pcap"},
      {in_case(R"("capture": "pipe", "expect": "pass")"), "/cases/0/capture", "no regular file"},
      {in_case(R"("capture": {"file": "empty.pcap", "first": 2, "last": 1}, "expect": "pass")"),
       "/cases/0/capture/last", "from 2"},
  };
  for (const auto& [text, pointer, said] : wrongs) {
    const auto refused = test_text(text);
    EXPECT_EQ(refused.status, 2) << text << refused.out;
    EXPECT_EQ(refused.out, "") << text;
    EXPECT_THAT(refused.err, HasSubstr("test.json")) << text;
    EXPECT_THAT(refused.err, HasSubstr(said)) << text;
    if (!pointer.empty()) {
      EXPECT_THAT(refused.err, HasSubstr(": " + pointer + ": ")) << text;
    }
  }
  // What is wrong with the policy has its place there.
  file("policy.json", R"({"version": 1, "rules": 7})");
  const auto refused = test_text(expecting("\"pass\""), {"-o", "json"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_EQ(Json::parse(refused.out).at("error").at("pointer"), "/rules");
  EXPECT_THAT(refused.err, HasSubstr("policy.json:1:"));
}

TEST_F(CliPolicyTest, OneWrongFileAmongSeveralRunsNone) {
  const std::string good = file(
      "good.json",
      R"({"version": 1, "policy": "policy.json", "cases": [{"name": "a", "packets": ["icmp 192.0.2.1 > 10.0.0.1"], "expect": "drop"}]})");
  const std::string wrong = file("wrong.json", "{}");
  const auto refused = run({"policy", "test", good, wrong});
  EXPECT_EQ(refused.status, 2);
  EXPECT_EQ(refused.out, "");
  EXPECT_EQ(run({"policy", "test", good, good}).status, 0);
  EXPECT_EQ(run({"policy", "test"}).status, 2);
  EXPECT_EQ(run({"policy", "test", good, "--seed", "-1"}).status, 2);
  EXPECT_EQ(run({"policy", "test", good, "--device", "cuda:99"}).status, 1);
}

}  // namespace
}  // namespace xdpgpu::test
