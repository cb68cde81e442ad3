// SPDX-License-Identifier: MIT
//
// tests/unit/cli_rules.cpp: what `rules check` says of rules: which ones packets decide, which ones streams
// do, and what stands in the way of the others.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/unit/cli_test.hpp"

namespace xdpgpu::test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kRules =
    "alert udp any any -> any 53 (msg:\"whole\"; content:\"abc\"; sid:1;)\n"
    "alert http any any -> any any (msg:\"web\"; flow:established; http.start; content:\"/a\"; "
    "sid:2;)\n"
    "pass udp any any -> any any (msg:\"often\"; content:\"abc\"; threshold:type both, track by_src, count "
    "268435456, seconds 60; sid:3;)\n"
    "alert tcp any any -> any any (msg:\"stream\"; flow:established; content:\"abc\"; sid:4;)\n";

using CliRules = CliTest;

// The line's begin: of so many rules, none of which is looked for in streams.
std::string by_packets(int rules, int decided) {
  return fmt::format(
      "{} rules are enabled, {} of them can be decided: {} by packets alone, 0 in streams, 0 in "
      "both; 0 are disabled, 0 wrong\n",
      rules, decided, decided);
}

TEST_F(CliRules, ThatAreDecidedAreCountedAndTheOthersByKeyword) {
  const std::string rules = file("a.rules", kRules);
  const auto text = run({"rules", "check", rules});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_EQ(
      text.out,
      "4 rules are enabled, 2 of them can be decided: 1 by packets alone, 1 in streams, 0 in both; 0 are "
      "disabled, 0 wrong\n"
      "1 of those are looked for in TCP streams: \"streams\" of the stage has to say how many connections "
      "are followed\n"
      "Of 2 that are not decided, or not over TCP, addresses, ports and protocol tell the flows of 1 (50 %): "
      "\"on_unsupported\" of the stage can send them to another system; those of 1 are told by an "
      "application's "
      "protocol alone and stay\n"
      "Not yet, by what rules ask for: http (1), http.start (1), threshold (1)\n");
  const auto json = Json::parse(run({"rules", "check", rules, "-o", "json"}).out);
  EXPECT_EQ(json.at("enabled"), 4);
  EXPECT_EQ(json.at("decided"), 2);
  EXPECT_EQ(json.at("not_yet").at(0), (Json{{"keyword", "http"}, {"rules", 1}}));
  EXPECT_EQ(json.at("not_yet").size(), 3u);
  EXPECT_TRUE(json.at("rules").empty());
}

TEST_F(CliRules, ThatAskForConnectionsSaySo) {
  const std::string rules = file("a.rules",
                                 "alert udp any any -> any any (flow:established; content:\"a\"; sid:1;)\n"
                                 "alert udp any any -> any any (content:\"b\"; flowbits:set,x; sid:2;)\n"
                                 "alert udp any any -> any any (content:\"c\"; sid:3;)\n"
                                 "alert tcp any any -> any any (flow:established; content:\"d\"; sid:4;)\n"
                                 "alert tcp any any -> any any (content:\"e\"; flowbits:set,y; sid:5;)\n");
  const auto text = run({"rules", "check", "-v", rules});
  EXPECT_THAT(
      text.out,
      HasSubstr("\n3 of those ask for a packet's connection, or for bits on it: a stage conntrack has "
                "to be in front\n"));
  EXPECT_THAT(text.out, HasSubstr("; decided by packets alone behind conntrack, cost "));
  EXPECT_THAT(text.out, HasSubstr("; decided in streams, cost ")) << "which know it themselves";
  EXPECT_THAT(text.out, HasSubstr("; decided in streams behind conntrack, cost "));
  const auto json = Json::parse(run({"rules", "check", "-v", rules, "-o", "json"}).out);
  EXPECT_EQ(json.at("behind_conntrack"), 3);
  EXPECT_EQ(json.at("rules").at(1).at("behind_conntrack"), true);
  EXPECT_EQ(json.at("rules").at(2).at("behind_conntrack"), false);
  EXPECT_EQ(json.at("rules").at(3).at("behind_conntrack"), false);
  EXPECT_EQ(json.at("rules").at(4).at("behind_conntrack"), true);
}

TEST_F(CliRules, WithExpressionsForTheHostSaySo) {
  const std::string rules =
      file("a.rules",
           "alert udp any any -> any any (content:\"abc\"; pcre:\"/(d)\\1/R\"; content:\"e\"; distance:1; "
           "sid:1;)\n"
           "alert udp any any -> any any (content:\"abc\"; pcre:\"/dd/R\"; sid:2;)\n"
           "pass udp any any -> any any (content:\"abc\"; pcre:\"/(d)\\1/R\"; sid:3;)\n");
  const auto text = run({"rules", "check", "-v", rules});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("; decided by packets alone, its expression by the host, cost "));
  EXPECT_THAT(text.out, HasSubstr("; decided by packets alone, cost "));
  EXPECT_THAT(text.out, HasSubstr(by_packets(3, 3) + "2 of those have an expression that no device decides: "
                                                     "the host matches it\n"));
  const auto json = Json::parse(run({"rules", "check", "-v", rules, "-o", "json"}).out);
  EXPECT_EQ(json.at("by_host"), 2);
  EXPECT_EQ(json.at("rules").at(0).at("by_host"), true);
  EXPECT_EQ(json.at("rules").at(1).at("by_host"), false);
  // Two steps of the device's, and all three again.
  EXPECT_NEAR(json.at("rules").at(0).at("cost").get<double>(),
              json.at("rules").at(1).at("cost").get<double>() * 5 / 2, 1e-9);
}

// Of Suricata's own kind: of packets, of streams, and of both.
TEST_F(CliRules, SayWhetherPacketsDecideThemOrStreams) {
  const std::string rules = file("a.rules",
                                 "alert tcp any any -> any any (content:\"abc\"; dsize:>9; sid:1;)\n"
                                 "alert tcp any any -> any any (content:\"abc\"; sid:2;)\n"
                                 "alert tcp any any -> any any (content:\"abc\"; offset:9; sid:3;)\n"
                                 "alert tcp any any -> any any (content:\"abc\"; endswith; sid:4;)\n");
  const std::string looked_for = "are looked for in TCP streams";
  const auto check = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"rules", "check", "-v"});
    Outcome text = run(more);
    EXPECT_EQ(text.status, 0) << text.err;
    more.insert(more.end(), {"-o", "json"});
    return std::pair(text.out, Json::parse(run(more).out));
  };
  const auto are_decided = [](const std::string& text, const Json& json) {
    EXPECT_THAT(text, HasSubstr("4 rules are enabled, 3 of them can be decided: 1 by packets alone, 1 in "
                                "streams, 1 in both; 0 are disabled, 0 wrong\n"));
    EXPECT_THAT(text, HasSubstr("; decided by packets alone, cost 5.9e-05\n"));
    EXPECT_THAT(text, HasSubstr("; decided in streams, cost 0.00037\n"));
    EXPECT_THAT(text, HasSubstr("; decided by packets and in streams, cost 0.00042\n"));
    EXPECT_EQ(json.at("decided"), 3);
    for (const char* const by : {"by_packets", "by_streams", "by_both"}) EXPECT_EQ(json.at(by), 1) << by;
    EXPECT_EQ(json.at("follows_streams"), true);
    EXPECT_EQ(json.at("lacking_streams"), 0);
    const Json& all = json.at("rules");
    EXPECT_EQ(all.at(0).at("where"), "packet");
    EXPECT_EQ(all.at(1).at("where"), "stream");
    EXPECT_EQ(all.at(2).at("where"), "both");
    EXPECT_FALSE(all.at(3).contains("where"));
    EXPECT_FALSE(all.at(3).contains("cost"));
  };
  const auto policy = [&](const std::string& more) {
    return file("policy.json", R"({"version": 1, "pipelines": {"p": [{"stage": "signatures", "rules":
        ["a.rules"])" + more + "}]}}");
  };
  {
    SCOPED_TRACE("without a policy");
    const auto [text, json] = check({rules});
    are_decided(text, json);
    EXPECT_THAT(text, HasSubstr("\n2 of those " + looked_for + ": \"streams\" of the stage has to say how "));
  }
  {
    SCOPED_TRACE("that follows streams");
    const auto [text, json] = check({"--policy", policy(R"(, "streams": 16)")});
    are_decided(text, json);
    EXPECT_THAT(text, Not(HasSubstr(looked_for)));
  }
  for (const char* const none : {"", R"(, "streams": 0)"}) {
    SCOPED_TRACE("that follows none");
    const auto [text, json] = check({"--policy", policy(none)});
    EXPECT_THAT(text,
                HasSubstr(by_packets(4, 1) + "2 of the others " + looked_for +
                          ", of which the policy follows none: \"streams\" of the stage says how many "
                          "connections are followed\n"
                          "Of 3 that are not decided, or not over TCP, addresses, ports and protocol tell "
                          "the flows of 3 (100 %): \"on_unsupported\" of the stage can send them to "
                          "another system\n"
                          "Not yet, by what rules ask for: content (3)\n"));
    EXPECT_THAT(text,
                HasSubstr("; not yet: content (it is looked for in a stream: \"streams\" of the stage "
                          "says how many connections are followed); addresses, ports and protocol tell its "
                          "flows\n"));
    EXPECT_EQ(json.at("decided"), 1);
    EXPECT_EQ(json.at("by_packets"), 1);
    EXPECT_EQ(json.at("by_streams"), 0);
    EXPECT_EQ(json.at("by_both"), 0);
    EXPECT_EQ(json.at("follows_streams"), false);
    EXPECT_EQ(json.at("lacking_streams"), 2);
    EXPECT_FALSE(json.at("rules").at(1).contains("where"));
  }
}

TEST_F(CliRules, ThatPassStreamsAreNotDecidedWhereTheyAreSuppressedForSome) {
  const std::string rules = file("a.rules", "pass tcp any any -> any any (content:\"abc\"; sid:1;)\n");
  const std::string lines = file("t", "suppress gen_id 1, sig_id 1, track by_src, ip 192.0.2.1\n");
  EXPECT_EQ(Json::parse(run({"rules", "check", rules, "-o", "json"}).out).at("by_streams"), 1);
  EXPECT_THAT(run({"rules", "check", "-v", rules, "--threshold", lines}).out,
              HasSubstr("; not yet: suppress (a host says whether it passes a packet, and no stream); "));
}

TEST_F(CliRules, OneByOneSayWhy) {
  const std::string rules = file("a.rules", kRules);
  const auto text = run({"rules", "check", "-v", rules});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(
      text.out,
      HasSubstr(
          "whole; looks at payload; found by \"abc\" in payload; decided by packets alone, cost 5.9e-05\n"));
  EXPECT_THAT(text.out,
              HasSubstr("stream; looks at payload; found by \"abc\" in payload; decided in streams, cost "));
  EXPECT_THAT(text.out, HasSubstr("; not yet: http (it is about what an application says), http.start ("));
  const auto json = Json::parse(run({"rules", "check", "--verbose", rules, "-o", "json"}).out).at("rules");
  EXPECT_EQ(json.at(0).at("decided"), true);
  EXPECT_TRUE(json.at(0).at("not_yet").empty());
  EXPECT_NEAR(json.at(0).at("cost").get<double>(), 998.0 / (256 * 256 * 256), 1e-9);
  EXPECT_FALSE(json.at(1).contains("cost"));
  EXPECT_EQ(json.at(1).at("decided"), false);
  EXPECT_EQ(json.at(1).at("not_yet").at(1).at("keyword"), "http.start");
  EXPECT_EQ(json.at(2).at("not_yet").at(0),
            (Json{{"keyword", "threshold"}, {"why", "it counts further than 268435455"}}));
}

TEST_F(CliRules, ThatAreAllDecidedHaveNothingInTheWay) {
  const auto text =
      run({"rules", "check", file("a.rules", "alert icmp any any -> any any (itype:8; sid:1;)\n")});
  EXPECT_EQ(text.out, by_packets(1, 1));
}

TEST_F(CliRules, ForDnsSayThatTcpIsLeftOut) {
  const std::string rules = file("a.rules",
                                 "alert dns any any -> any any (dns.query; content:\"a.example\"; sid:1;)\n"
                                 "alert udp any any -> any any (dns.query; content:\"a.example\"; sid:2;)\n");
  const auto text = run({"rules", "check", "-v", rules});
  EXPECT_THAT(text.out, HasSubstr("; decided by packets alone, over UDP but not over TCP, cost "));
  EXPECT_THAT(text.out, HasSubstr("; decided by packets alone, cost "));
  EXPECT_THAT(text.out,
              HasSubstr(by_packets(2, 2) + "1 of those are for DNS over TCP, too, which is not decided\n"));
  const auto json = Json::parse(run({"rules", "check", "-v", rules, "-o", "json"}).out);
  EXPECT_EQ(json.at("over_tcp_too"), 1);
  EXPECT_EQ(json.at("rules").at(0).at("over_tcp_too"), true);
  EXPECT_EQ(json.at("rules").at(1).at("over_tcp_too"), false);
}

TEST_F(CliRules, AreCheckedWithWhatAPolicySaysBesideThem) {
  const std::string rules =
      file("ids.rules",
           "alert udp any any -> $OURS any (msg:\"a\"; content:\"x\"; classtype:c; sid:1;)\n"
           "alert udp any any -> any $P (msg:\"b\"; content:\"y\"; sid:2;)\n");
  const std::string others = file("others", "alert udp $OURS any -> any any (content:\"z\"; sid:3;)\n");
  file("classes", "config classification: c,A class,1\n");
  file("off", "2\n");
  const std::string policy = file("policy.json", R"({"version": 1, "pipelines": {"p": [{"stage": "signatures",
      "rules": ["*.rules"], "vars": {"OURS": ["10.0.0.0/8", "!10.1.0.0/16"], "P": [80, 81]},
      "classification": "classes", "disable": "off"}]}})");
  EXPECT_EQ(run({"rules", "check", rules}).status, 2) << "no variables";
  const auto both = run({"rules", "check", rules, "--policy", policy, "-v", "-o", "json"});
  EXPECT_EQ(both.status, 0) << both.err;
  const auto json = Json::parse(both.out);
  EXPECT_EQ(json.at("enabled"), 1);
  EXPECT_EQ(json.at("disabled"), 1);
  EXPECT_EQ(json.at("rules").at(0).at("priority"), 1);
  EXPECT_EQ(Json::parse(run({"rules", "check", "--policy", policy, "-o", "json"}).out).at("enabled"), 1)
      << "its own files";
  EXPECT_EQ(run({"rules", "check", others, "--policy", policy}).status, 0);
  const auto given = run(
      {"rules", "check", "--policy", policy, "--var", "P=any", "--disable", file("none", ""), "-o", "json"});
  EXPECT_EQ(Json::parse(given.out).at("enabled"), 2) << "what is given counts";
  const auto nothing = run({"rules", "check"});
  EXPECT_EQ(nothing.status, 2);
  EXPECT_NE(nothing.err.find("--policy"), std::string::npos) << nothing.err;
  const std::string plain = file("plain.json", R"({"version": 1})");
  EXPECT_NE(run({"rules", "check", "--policy", plain}).err.find("no stage that decides by rules"),
            std::string::npos);
}

// What the policy's own rules do not lead to the pipeline, no rule of a file finds.
TEST_F(CliRules, OfASideThatDoesNotComeCannotFire) {
  file("a.rules",
       "alert tcp any any -> any any (msg:\"any\"; content:\"a\"; sid:1;)\n"
       "alert tcp any any -> any any (msg:\"asks\"; flow:to_server; content:\"b\"; sid:2;)\n"
       "alert tcp any any -> any any (msg:\"answers\"; flow:to_client,established; content:\"c\"; sid:3;)\n"
       "alert udp any any -> any any (msg:\"datagram\"; flow:to_client; content:\"d\"; sid:4;)\n");
  const auto check = [&](const std::string& match) {
    const std::string policy =
        file("policy.json", R"({"version": 1, "rules": [{"match": {)" + match +
                                R"(}, "action": {"inspect": "p"}}], "pipelines": {"p": [
        {"stage": "signatures", "rules": ["a.rules"], "streams": 64}]}})");
    const auto text = run({"rules", "check", "--policy", policy, "-v"});
    EXPECT_EQ(text.status, 0) << text.err;
    auto json = Json::parse(run({"rules", "check", "--policy", policy, "-v", "-o", "json"}).out);
    EXPECT_EQ(text.out.find("One-sided: ") != std::string::npos, json.at("cannot_fire") != 0) << text.out;
    return std::pair{text.out, std::move(json)};
  };
  const auto [text, json] = check(R"("dst_port": 80)");
  EXPECT_THAT(text,
              HasSubstr("One-sided: 1 of those that can be decided cannot fire, as the policy leads to the "
                        "pipeline nothing that servers say\n"));
  EXPECT_THAT(text, HasSubstr("cannot fire: the policy leads no packets of that side to the pipeline"));
  EXPECT_EQ(json.at("missing"), "server");
  for (const Json& rule : json.at("rules")) EXPECT_EQ(rule.at("cannot_fire"), rule.at("sid") == 3) << rule;
  EXPECT_EQ(check(R"("src_port": 80)").second.at("missing"), "client");
  EXPECT_EQ(check(R"("proto": "tcp")").second.at("missing"), "");
  EXPECT_EQ(check(R"("dst_port": 80, "src_port": 80)").second.at("missing"), "");
}

TEST_F(CliRules, SayWhichDatasetsTheyAskFor) {
  file("bad.lst", "YmFkLmV4YW1wbGU=\nYQ==\n");
  const std::string rules =
      file("a.rules",
           "alert udp any any -> any any (dns.query; dataset:isset,bad,type string,load bad.lst; sid:1;)\n"
           "alert udp any any -> any any (dns.query; dataset:set,seen,type string; sid:2;)\n");
  const auto text = run({"rules", "check", "-v", rules});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("looks at dns_query; asks for the dataset bad ("));
  EXPECT_THAT(text.out, HasSubstr("bad.lst, 2 strings); decided by packets alone, cost 1\n"));
  EXPECT_THAT(text.out,
              HasSubstr("; asks for the dataset seen; not yet: dataset (it changes the set: strings "
                        "are not learnt); "));
  const auto json = Json::parse(run({"rules", "check", "-v", rules, "-o", "json"}).out).at("rules");
  EXPECT_EQ(json.at(0).at("datasets").at(0).at("name"), "bad");
  EXPECT_EQ(json.at(0).at("datasets").at(0).at("strings"), 2);
  EXPECT_EQ(json.at(1).at("datasets").at(0).at("file"), "");
  const std::string policy = file("policy.json", R"({"version": 1, "pipelines": {"p": [{"stage": "signatures",
      "rules": ["a.rules"]}]}})");
  EXPECT_THAT(run({"rules", "check", "-v", "--policy", policy}).out, HasSubstr("(bad.lst, 2 strings)"));
  file("bad.lst", "YQ==\n?\n");
  const auto wrong = run({"rules", "check", rules});
  EXPECT_EQ(wrong.status, 2);
  EXPECT_THAT(wrong.err, HasSubstr("bad.lst:2: that is no base64"));
  EXPECT_THAT(run({"policy", "check", policy}).err, HasSubstr("bad.lst:2: that is no base64"));
  std::filesystem::remove(std::filesystem::path(rules).parent_path() / "bad.lst");
  EXPECT_THAT(run({"rules", "check", rules}).err, HasSubstr("dataset bad: cannot open "));
  EXPECT_THAT(run({"policy", "check", policy}).err,
              HasSubstr("a.rules:1:1: /pipelines/p/0: dataset bad: cannot open "));
}

TEST_F(CliRules, HaveReferencesThatAreAddresses) {
  const std::string references =
      file("reference.config", "# where\nconfig reference: cve  http://cve.example/?name=\n");
  const std::string rules =
      file("a.rules",
           "alert udp any any -> any any (dsize:1; reference:CVE,2020-1; reference:url,a.example; sid:1;)\n");
  const auto text = run({"rules", "check", "-v", "--references", references, rules});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("; see http://cve.example/?name=2020-1\n"));
  EXPECT_THAT(text.out, HasSubstr("a.rules:1: note: no reference.config has the system \"url\"\n"));
  const auto json =
      Json::parse(run({"rules", "check", "-v", "--references", references, rules, "-o", "json"}).out);
  EXPECT_EQ(json.at("rules").at(0).at("references"), Json({"http://cve.example/?name=2020-1"}));
  // Without the file nothing is said of them.
  EXPECT_THAT(run({"rules", "check", rules}).out, Not(HasSubstr("note")));
  const auto wrong =
      run({"rules", "check", "--references", file("wrong.config", "config reference: cve\n"), rules});
  EXPECT_EQ(wrong.status, 2);
  EXPECT_THAT(wrong.err, HasSubstr("wrong.config:1: \"config reference: cve\" is not"));
}

}  // namespace
}  // namespace xdpgpu::test
