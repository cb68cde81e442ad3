// SPDX-License-Identifier: MIT
//
// tests/unit/cli_notes.cpp: what `policy check` says of policies that are legal and likely wrong.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>

#include "tests/unit/cli_test.hpp"

namespace xdpgpu::test {
namespace {

using testing::HasSubstr;

class CliNotes : public CliTest {
 protected:
  // By both outputs, which have to say the same; the check does not fail.
  std::vector<std::string> notes(const std::string& members) {
    const std::string policy = file("policy.json", "{\"version\": 1, " + members + "}");
    const auto text = run({"policy", "check", policy});
    const auto json = run({"policy", "check", policy, "-o", "json"});
    EXPECT_EQ(text.status, 0) << text.err;
    EXPECT_EQ(json.status, 0) << json.err;
    if (json.status != 0) return {};
    auto said = Json::parse(json.out).at("notes").get<std::vector<std::string>>();
    for (const auto& note : said)
      EXPECT_NE(text.out.find("note: " + note + "\n"), std::string::npos) << text.out;
    EXPECT_EQ(std::count(text.out.begin(), text.out.end(), '\n'), 1 + static_cast<long>(said.size()))
        << text.out;
    return said;
  }
  // The one note.
  std::string note(const std::string& members) {
    const auto said = notes(members);
    EXPECT_EQ(said.size(), 1u) << Json(said);
    return said.empty() ? "" : said.front();
  }
};

const std::string kManaged =
    R"("management": [{"src": "198.51.100.0/24", "proto": "tcp", "dst_port": 22}], )";
const std::string kPipeline = R"(, "pipelines": {"p": [{"stage": "acl", "rules": []}]})";

TEST_F(CliNotes, NothingIsSaidOfWhatIsMeant) {
  EXPECT_EQ(
      notes(kManaged + R"("default": "drop", "lists": {"a": ["192.0.2.0/24", "2001:db8::/32"]}, "rules": [
      {"match": {"src": "@a", "dst_port": 80}, "action": "pass"}, {"match": {"src": "@a"}, "action": "drop"},
      {"match": {"src": "192.0.0.0/8"}, "limit": {"pps": 10}}, {"match": {"src": "192.0.0.0/8"}, "action": "pass"}])")
          .size(),
      0u);
}

TEST_F(CliNotes, InterfacesThatAreNotHere) {
  const std::string policy = file("policy.json", R"({"version": 1})");
  const auto check = [&](std::vector<std::string> interfaces) {
    interfaces.insert(interfaces.begin(), {"policy", "check", policy, "-o", "json", "--interfaces"});
    const auto outcome = run(interfaces);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.status == 0 ? Json::parse(outcome.out).at("notes").get<std::vector<std::string>>()
                               : std::vector<std::string>{"failed"};
  };
  EXPECT_TRUE(check({"lo"}).empty());
  const auto one = check({"lo", "no-such-if"});
  ASSERT_EQ(one.size(), 1u) << Json(one);
  EXPECT_THAT(one[0], testing::StartsWith("there is no interface no-such-if in this network namespace"));
  const auto both = check({"no-such-if", "nor-this-one"});
  ASSERT_EQ(both.size(), 1u) << Json(both);
  EXPECT_THAT(both[0], testing::StartsWith("there are no interfaces no-such-if, nor-this-one in"));
}

// Of connections that are followed both sides are to come to the pipeline.
TEST_F(CliNotes, APipelineThatSeesOneSideOfConnections) {
  file("r.rules", "alert tcp any any -> any any (content:\"a\"; sid:1;)\n");
  const auto one = [&](const std::string& rules, const std::string& more = "\"streams\": 64") {
    std::vector<std::string> found;
    for (const auto& note : notes(fmt::format(R"("fragments": "track", "rules": [{}], "pipelines": {{"ids": [
             {{"stage": "signatures", "rules": ["r.rules"], {}}}]}})",
                                              rules, more)))
      if (note.find("pipeline \"ids\", which") != std::string::npos) found.push_back(note);
    return found;
  };
  const auto rule = [](const std::string& name, const std::string& match) {
    return fmt::format(R"({{"name": "{}", "match": {{{}}}, "action": {{"inspect": "ids"}}}})", name, match);
  };
  const std::string to_web = rule("to web", R"("proto": "tcp", "dst_port": 80, "dst": "192.0.2.0/24")");
  const std::string from_web = rule("from web", R"("proto": "tcp", "src_port": 80, "src": "192.0.2.0/24")");
  const auto said = one(to_web);
  ASSERT_EQ(said.size(), 1u) << Json(said);
  EXPECT_THAT(said[0],
              HasSubstr("one-sided: the rule \"to web\" leads to the pipeline \"ids\", which follows TCP "
                        "streams, and no rule leads the answers there"));
  EXPECT_TRUE(one(to_web + ", " + from_web).empty());
  EXPECT_TRUE(one(rule("all", R"("proto": ["tcp", "udp"])")).empty());
  const auto wider = one(to_web + ", " + rule("from 80 on", R"("src_port": "80-90")"));
  ASSERT_EQ(wider.size(), 1u) << Json(wider);
  EXPECT_THAT(wider[0], HasSubstr("the rule \"from 80 on\" leads"))
      << "it takes the answers of the other one along";
  EXPECT_EQ(one(to_web + ", " + rule("from others", R"("src_port": 81)")).size(), 1u);
  EXPECT_TRUE(one(rule("datagrams", R"("proto": "udp", "dst_port": 53)")).empty()) << "they have no streams";
  EXPECT_TRUE(one(to_web, "\"streams\": 0").empty()) << "none are followed";
  const auto sent = one(to_web, R"("on_unsupported": {"redirect": "lo"})");
  ASSERT_EQ(sent.size(), 1u) << Json(sent);
  EXPECT_THAT(sent[0], HasSubstr("which sends flows on to be inspected"));
  const auto flags = one(rule("begins", R"("proto": "tcp", "tcp_flags": "syn,!ack")"));
  ASSERT_EQ(flags.size(), 1u) << Json(flags);
  EXPECT_THAT(
      flags[0],
      HasSubstr("the rule \"begins\" leads to the pipeline \"ids\", which follows TCP streams, by TCP "
                "flags: the other packets"));
}

TEST_F(CliNotes, ARuleThatIsNeverMet) {
  EXPECT_EQ(
      note(R"("fragments": "track", "rules": [{"name": "all", "action": "pass"},
                              {"name": "telnet", "match": {"proto": "tcp", "dst_port": 23}, "action": "drop"}])"),
      "the rule \"telnet\" is never met: \"all\" ahead of it takes every packet that it matches; move it in "
      "front of it, or take it out");
  EXPECT_THAT(
      note(R"("rules": [{"name": "net", "match": {"src": "192.0.0.0/8", "vlan": "100-199"}, "action": "drop"},
      {"name": "a", "match": {"src": ["192.0.2.1", "192.0.3.0/24"], "vlan": [100, "150-160"]}, "action": "pass"},
      {"name": "b", "match": {"src": "192.0.2.2", "vlan": 199}, "limit": {"pps": 1}},
      {"name": "met", "match": {"src": "192.0.2.2", "vlan": 200}, "action": "pass"}])"),
      HasSubstr("the rules \"a\" and \"b\" are never met: \"net\""));
  EXPECT_THAT(note(R"("fragments": "track", "rules": [{"action": {"inspect": "p"}}], "pipelines": {"p": [
      {"stage": "acl", "rules": [{"name": "tcp", "match": {"proto": "tcp"}, "action": "next"},
      {"name": "syn", "match": {"tcp_flags": "syn,!ack"}, "action": "drop"}]}]})"),
              HasSubstr("the rule \"syn\" of pipeline \"p\", stage 1 is never met: \"tcp\""));
}

// They only look, or only take a part.
TEST_F(CliNotes, ARuleThatIsMet) {
  for (
      const std::string rules :
      {R"({"limit": {"pps": 5}}, {"match": {"proto": "tcp"}, "action": "drop"})",
       R"({"action": {"mirror": "p"}}, {"match": {"proto": "tcp"}, "action": {"inspect": "p"}})",
       R"({"match": {"src": "@empty"}, "action": "drop"}, {"match": {"src": "@empty"}, "action": "pass"})",
       R"({"match": {"family": "ipv4"}, "action": "drop"}, {"match": {"src": "::/0"}, "action": "pass"})",
       R"({"match": {"dst_port": "1-1023"}, "action": "drop"}, {"match": {"dst_port": "1000-2000"}, "action": "pass"})",
       R"({"match": {"tcp_flags": "syn,!ack"}, "action": "drop"}, {"match": {"tcp_flags": "syn"}, "action": "pass"})",
       R"({"action": "pass"}, {"match": {"control": "stp"}, "action": "drop"})"}) {
    const bool pipeline = rules.find("\"p\"") != std::string::npos;
    const auto said = notes(R"("lists": {"empty": []}, "fragments": "track", "rules": [)" + rules + "]" +
                            (pipeline ? kPipeline : ""));
    ASSERT_EQ(said.size(), 1u) << rules << Json(said);
    EXPECT_THAT(said[0], HasSubstr("\"empty\" is empty"));
  }
}

TEST_F(CliNotes, NobodyManagesTheHost) {
  EXPECT_EQ(
      note(R"("default": "drop")"),
      "\"default\" is \"drop\" and there is no \"management\": whoever manages the host by such an interface "
      "may be locked out; name the addresses and the port that it is managed by");
  EXPECT_THAT(note(R"("rules": [{"name": "nothing", "action": "drop"}])"),
              HasSubstr("the rule \"nothing\" drops everything and there is no \"management\""));
}

TEST_F(CliNotes, EqualBackends) {
  const auto balanced = [&](const std::string& backends, const std::string& outer = "") {
    return notes(R"("fragments": "track", "rules": [{"action": {"inspect": "p"}}], "pipelines": {"p": [
        {"stage": "load_balance", )" +
                 outer + R"("backends": [)" + backends + "]}]}");
  };
  const auto said =
      balanced(R"({"name": "a", "mac": "02:00:00:00:00:01"}, {"name": "b", "mac": "02:00:00:00:00:02"},
      {"name": "c", "mac": "02:00:00:00:00:01", "weight": 3})");
  ASSERT_EQ(said.size(), 1u);
  EXPECT_THAT(said[0], HasSubstr("the backends \"a\" and \"c\" of pipeline \"p\", stage 1 are equal"));
  // Behind one router, or by another interface.
  EXPECT_TRUE(balanced(R"({"mac": "02:00:00:00:00:01", "address": "192.0.2.1"},
      {"mac": "02:00:00:00:00:01", "address": "192.0.2.2"},
      {"mac": "02:00:00:00:00:01", "address": "192.0.2.2", "to": "eth1"})",
                       R"("encapsulation": {"type": "ipip", "source": {"ipv4": "10.0.0.5"}}, )")
                  .empty());
}

TEST_F(CliNotes, ListsThatHoldNothingOrEverything) {
  file("none.txt", "# fetched, and empty\n\n");
  file("all.txt", "192.0.2.0/24\n0.0.0.0/0\n::/0\n");
  EXPECT_THAT(note(R"("lists": {"a": []})"),
              HasSubstr("the list \"a\" is empty: rules that ask for it match nothing"));
  EXPECT_THAT(note(R"("lists": {"a": {"file": "none.txt"}})"),
              HasSubstr("the list \"a\" is empty, as no address or prefix stands in none.txt"));
  EXPECT_THAT(note(R"("lists": {"a": {"type": "domain", "names": []}})"),
              HasSubstr("the list \"a\" is empty: no name is in it"));
  EXPECT_THAT(note(R"("lists": {"a": {"type": "domain", "file": "none.txt"}})"),
              HasSubstr("the list \"a\" is empty, as no name stands in none.txt"));
  const auto said = notes(R"("lists": {"a": {"file": "all.txt"}, "b": ["::/0"]})");
  ASSERT_EQ(said.size(), 3u);
  EXPECT_THAT(said[0], HasSubstr("the list \"a\" (all.txt) holds 0.0.0.0/0, which is every IPv4 address"));
  EXPECT_THAT(said[1], HasSubstr("the list \"a\" (all.txt) holds ::/0"));
  EXPECT_THAT(said[2], HasSubstr("the list \"b\" holds ::/0, which is every IPv6 address"));
  EXPECT_THAT(note(R"("fragments": "inspect", "rules": [{"action": {"inspect": "p"}}], "pipelines": {"p": [
      {"stage": "forward", "next_hops": {"a": {"mac": "02:00:00:00:00:01"}}, "routes": [{"file": "none.txt"}]}]})"),
              HasSubstr("no route stands in none.txt of pipeline \"p\", stage 1"));
}

TEST_F(CliNotes, APipelineThatNobodyUses) {
  EXPECT_THAT(note(R"("rules": [])" + kPipeline), HasSubstr("no rule inspects with the pipeline \"p\""));
  EXPECT_TRUE(
      notes(R"("rules": [{"match": {"proto": "udp"}, "action": {"mirror": "p"}}])" + kPipeline).empty());
}

// Of a stream is known whose it is, but bits on a connection are nowhere.
TEST_F(CliNotes, RulesThatNobodyTellsOfConnections) {
  file("a.rules",
       "alert udp any any -> any any (flow:to_server; content:\"a\"; sid:1;)\n"
       "alert tcp any any -> any any (flow:to_server; content:\"a\"; sid:2;)\n"
       "alert tcp any any -> any any (flow:to_server; content:\"a\"; flowbits:set,x; sid:3;)\n"
       "alert tcp any any -> any any (content:\"a\"; flowbits:isset,x; sid:4;)\n"
       "alert tcp any any -> any any (content:\"a\"; xbits:set,y,track ip_src; sid:5;)\n"
       "alert tcp any any -> any any (flow:to_server; content:\"a\"; depth:9; sid:6;)\n");
  const auto of = [&](const std::string& in_front, int streams) {
    return notes(R"("fragments": "track", "rules": [{"action": {"inspect": "p"}}], "pipelines": {"p": [)" +
                 in_front + R"({"stage": "signatures", "rules": ["a.rules"], "streams": )" +
                 std::to_string(streams) + "}]}");
  };
  const auto asking = [](int rules) {
    return HasSubstr("signatures of pipeline \"p\", stage 1: " + std::to_string(rules) +
                     " of its rules ask for a packet's connection, or for bits on it, and there is none: "
                     "put a stage conntrack in front of it");
  };
  EXPECT_THAT(of("", 16), testing::Contains(asking(4))) << "1, 3, 4 and, of packets, 6";
  EXPECT_THAT(of("", 0), testing::Contains(asking(1))) << "the others are not decided";
  EXPECT_THAT(of(R"({"stage": "conntrack", "egress": false}, )", 16),
              testing::Not(testing::Contains(HasSubstr("put a stage conntrack"))));
}

TEST_F(CliNotes, HugePagesThatAreNotReserved) {
  std::ifstream meminfo("/proc/meminfo");
  long free = 0;
  for (std::string word; meminfo >> word;)
    if (word == "HugePages_Free:") meminfo >> free;
  if (free >= 1024) GTEST_SKIP() << "this host has " << free << " free huge pages";
  const std::string many = R"("io": {"frames_per_queue": 1048576, "huge_pages": )";
  EXPECT_THAT(note(many + "true}"), HasSubstr("1024 huge pages of 2 MiB, and " + std::to_string(free)));
  EXPECT_TRUE(notes(many + "false}").empty());
}

TEST_F(CliNotes, OfManyTheFirst) {
  std::string lists;
  for (int i = 0; i < 50; i++) lists += (i > 0 ? ", \"" : "\"") + std::to_string(i) + "\": []";
  const auto said = notes("\"lists\": {" + lists + "}");
  ASSERT_EQ(said.size(), 21u);
  EXPECT_EQ(said.back(), "and 30 more such notes");
}

// The first of 4096 takes no other's packets, and none of the others does: the longest search there is.
TEST_F(CliNotes, AreFoundInTime) {
  std::string rules;
  for (int i = 0; i < 4096; i++) {
    rules += i > 0 ? ", " : "";
    rules += R"({"match": {"dst_port": [)";
    for (int port = 0; port < 100; port++)
      rules += (port > 0 ? "," : "") + std::to_string(1 + (i * 7 + port * 13) % 65000);
    rules += R"(]}, "action": "pass"})";
  }
  // Its processor's: on a busy host it waits for longer than it works.
  const auto seconds = [] {
    rusage used{};
    getrusage(RUSAGE_CHILDREN, &used);
    return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
  };
  const double before = seconds();
  const auto outcome =
      run({"policy", "check", file("many.json", R"({"version": 1, "rules": [)" + rules + "]}")});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_LT(seconds() - before, 20);
}

TEST_F(CliNotes, TheExamplesGiveNone) {
  int examples = 0;
  for (const auto& entry : std::filesystem::directory_iterator(XDPGPU_SOURCE_DIR "/config/examples/")) {
    if (entry.path().extension() != ".json") continue;
    examples++;
    const auto outcome = run({"policy", "check", entry.path(), "-o", "json"});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(Json::parse(outcome.out).at("notes"), Json::array()) << entry.path();
  }
  EXPECT_GE(examples, 10);
}

}  // namespace
}  // namespace xdpgpu::test
