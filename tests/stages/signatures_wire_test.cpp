// SPDX-License-Identifier: MIT
//
// `signatures` on the wire: rule files that decide packets between hosts, and are told of in the log; what is
// said of files that are wrong; files that are edited and applied while traffic flows.
#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/netns/logged.hpp"

namespace xdpgpu::lab {
namespace {

constexpr std::uint16_t kPort = 7000;

class SignaturesOnTheWire : public LoggedOnTheWire {
 protected:
  void SetUp() override {
    LoggedOnTheWire::SetUp();
    std::filesystem::create_directory(path("rules"));
  }

  // more: of the stage; log: more of the log.
  void write_policy(const std::string& more = "", const std::string& log = "") const {
    write("policy.json", policy(fmt::format(
                             R"("io": {{"heartbeat": "5s"}},
            "rules": [{{"match": {{"proto": "udp", "dst_port": {}}}, "action": {{"inspect": "ids"}}}}],
            "pipelines": {{"ids": [{}{{"stage": "signatures", "rules": ["rules/*.rules"]{}}}]}},
            "log": {{"outputs": [{{"file": "{}"}}], "events": ["alert", "drop"]{}}})",
                             port_, in_front_, more, path("eve.json"), log)));
  }
  void attach_here() {
    attach_by_file();
    server_.emplace(*host_, "10.9.0.1", port_);
  }
  Outcome apply() const {
    return product(*host_, {"policy", "apply", host_port().ifname(), path("policy.json")});
  }
  Outcome check() const { return product(*host_, {"policy", "check", path("policy.json")}); }

  // "pass": the server on the host has it.
  std::string fate(const std::string& payload) { return fate(payload, next_port_++); }
  std::string fate(const std::string& payload, std::uint16_t from) {
    const std::uint64_t before = attached_->pins().worker("dropped");
    Sender(left_port()).send(build(from_left(from, port_, payload)));
    const auto end = std::chrono::steady_clock::now() + 10s;
    while (std::chrono::steady_clock::now() < end) {
      if (server_->receive(20ms) == payload) return "pass";
      if (attached_->pins().worker("dropped") > before) return "drop";
    }
    return "nowhere";
  }

  // The rules of which is told, in the order in which they are.
  std::vector<std::uint64_t> sids() const {
    std::vector<std::uint64_t> all;
    for (const Json& line : told("alert")) all.push_back(line.at("alert").at("signature_id"));
    return all;
  }
  bool has_alerts(std::size_t count) const {
    return eventually([&] { return told("alert").size() >= count; }, 10s);
  }

  std::uint16_t port_ = kPort;  // the server's
  std::string in_front_;        // stages of the pipeline
  std::optional<UdpSocket> server_;
  std::uint16_t next_port_ = 20000;
};
INSTANTIATE_TEST_SUITE_P(Netns, SignaturesOnTheWire, kNativeAndGeneric, config_name);

TEST_P(SignaturesOnTheWire, RulesOfFilesDecideAndAreToldOf) {
  write("rules/a.rules",
        "# of ours\n"
        "alert udp $THEM any -> $US $SERVICE (msg:\"an attack, really\"; content:\"attack\"; "
        "classtype:bad-thing; sid:1; rev:3;)\n"
        "alert udp any any -> $THEM any (msg:\"the other way\"; content:\"attack\"; sid:2;)\n"
        "pass udp any any -> any any (msg:\"fine\"; content:\"fine\"; sid:3;)\n");
  write("rules/b.rules",
        "drop udp any any -> any any (msg:\"a worm\"; content:\"WORM\"; nocase; sid:4; gid:7;)\n"
        "reject udp any any -> any any (msg:\"a snake\"; content:\"snake\"; priority:1; sid:5;)\n"
        "#alert udp any any -> any any (content:\"hello\"; sid:6;)\n");
  write("rules/not.txt", "this is no rule file\n");
  write("classification.config", "config classification: bad-thing,A bad thing,2\n");
  write_policy(fmt::format(
      R"(, "vars": {{"US": "10.9.0.1", "THEM": ["10.9.0.0/24", "!$US"], "SERVICE": [{}, "9000:"]}},
                              "classification": "classification.config")",
      kPort));
  attach_here();
  EXPECT_EQ(fate("hello"), "pass");
  EXPECT_EQ(fate("an attack"), "pass");
  ASSERT_TRUE(has_alerts(1));
  EXPECT_EQ(fate("a worm that attacks"), "drop");
  ASSERT_TRUE(has_alerts(3));
  EXPECT_EQ(fate("a fine worm that attacks"), "pass");
  EXPECT_EQ(fate("snake"), "drop");
  ASSERT_TRUE(has_alerts(4));
  EXPECT_EQ(sids(), (std::vector<std::uint64_t>{1, 4, 1, 5}));
  const auto alerts = told("alert");
  EXPECT_EQ(alerts[0].at("alert"), Json({{"action", "allowed"},
                                         {"gid", 1},
                                         {"signature_id", 1},
                                         {"rev", 3},
                                         {"signature", "an attack, really"},
                                         {"category", "A bad thing"},
                                         {"severity", 2}}));
  EXPECT_EQ(alerts[0].at("src_ip"), "10.9.0.2");
  EXPECT_EQ(alerts[0].at("dest_port"), kPort);
  EXPECT_EQ(alerts[1].at("alert").at("action"), "blocked");
  EXPECT_EQ(alerts[1].at("alert").at("gid"), 7);
  EXPECT_EQ(alerts[1].at("alert").at("severity"), 3);
  EXPECT_EQ(alerts[3].at("alert").at("severity"), 1);
  ASSERT_TRUE(eventually([&] { return told("drop").size() == 2; }, 10s));
  EXPECT_EQ(told("drop")[0].at("xdpgpu").at("decided_by"), "stage 1 (signatures) rule 7:4");
  EXPECT_EQ(attached_->status().at("log").at("alert").at("told"), 3u) << "packets with alerts";
  expect_conserved(attached_->pins());
}

std::string dns_query(std::string_view name) {
  std::string message("\0\7\1\0\0\1\0\0\0\0\0\0", 12);
  for (std::size_t at = 0, end = 0; at < name.size(); at = end + 1) {
    end = std::min(name.find('.', at), name.size());
    message += static_cast<char>(end - at);
    message += name.substr(at, end - at);
  }
  return message + std::string("\0\0\1\0\1", 5);
}

TEST_P(SignaturesOnTheWire, RulesForDnsDecideByTheNamesThatAreAskedFor) {
  port_ = 53;
  write("rules/a.rules",
        "drop dns any any -> any any (msg:\"a bad domain\"; dns.query; dotprefix; content:\".bad.example\"; "
        "nocase; endswith; sid:1;)\n"
        "alert dns any any -> any 53 (msg:\"a name\"; dns.query; content:\"odd.example\"; bsize:11; "
        "sid:2;)\n");
  write_policy();
  attach_here();
  for (const auto& [name, what] : {std::pair("bad.example", "drop"),
                                   {"www.Bad.example", "drop"},
                                   {"notbad.example", "pass"},
                                   {"bad.example.org", "pass"},
                                   {"odd.example", "pass"},
                                   {"an.odd.example", "pass"}})
    EXPECT_EQ(fate(dns_query(name)), what) << name;
  EXPECT_EQ(fate("no message, but with bad.example and odd.example"), "pass");
  ASSERT_TRUE(has_alerts(3));
  EXPECT_EQ(sids(), (std::vector<std::uint64_t>{1, 1, 2}));
  EXPECT_EQ(told("alert")[0].at("alert").at("action"), "blocked");
  ASSERT_TRUE(eventually([&] { return told("drop").size() == 2; }, 10s));
  // More of it than is read is not let through.
  std::string many = dns_query("a.example");
  many[5] = 5;
  for (int i = 0; i < 4; i++) many += many.substr(12, 15);
  EXPECT_EQ(fate(many), "drop");
  ASSERT_TRUE(eventually([&] { return told("drop").size() == 3; }, 10s));
  EXPECT_EQ(told("drop")[2].at("xdpgpu").at("decided_by"), "stage 1 (signatures) limit");
  expect_conserved(attached_->pins());
}

TEST_P(SignaturesOnTheWire, EditedFilesCountFromTheirApplicationOnAndWrongOnesDoNot) {
  write("rules/a.rules", "drop udp any any -> any any (content:\"one\"; sid:1;)\n");
  write_policy();
  attach_here();
  EXPECT_EQ(fate("one"), "drop");
  EXPECT_EQ(fate("two"), "pass");
  write("rules/b.rules", "drop udp any any -> any any (content:\"two\"; sid:2;)\n");
  EXPECT_EQ(fate("two"), "pass");
  ASSERT_EQ(apply().status, 0);
  EXPECT_EQ(fate("two"), "drop");
  write("rules/a.rules", "\ndrop udp any any -> any any (content:\"three\"; sid:1)\n");
  const auto wrong = apply();
  EXPECT_EQ(wrong.status, 2) << wrong.err;
  EXPECT_NE(wrong.err.find("rules/a.rules:2:"), std::string::npos) << wrong.err;
  EXPECT_EQ(fate("one"), "drop") << "all is as it was";
  EXPECT_EQ(fate("three"), "pass");
  std::filesystem::remove(path("rules/b.rules"));
  write("rules/a.rules", "drop udp any any -> any any (content:\"three\"; sid:1;)\n");
  ASSERT_EQ(apply().status, 0);
  for (const auto& [payload, what] : {std::pair("one", "pass"), {"two", "pass"}, {"three", "drop"}})
    EXPECT_EQ(fate(payload), what) << payload;
  std::filesystem::remove(path("rules/a.rules"));
  const auto none = apply();
  EXPECT_EQ(none.status, 2) << none.err;
  EXPECT_NE(none.err.find("no file is like *.rules"), std::string::npos) << none.err;
  EXPECT_EQ(fate("three"), "drop");
  expect_conserved(attached_->pins());
}

TEST_P(SignaturesOnTheWire, RulesForDnsLookNamesUpInFilesBesideThem) {
  port_ = 53;
  std::filesystem::create_directory(path("rules/lists"));
  write("rules/lists/bad.lst", "YmFkLmV4YW1wbGU=\n");  // bad.example
  write(
      "rules/a.rules",
      "drop dns any any -> any any (dns.query; dataset:isset,bad,type string,load lists/bad.lst; sid:1;)\n");
  write_policy();
  attach_here();
  EXPECT_EQ(fate(dns_query("bad.example")), "drop");
  EXPECT_EQ(fate(dns_query("Bad.example")), "pass") << "byte by byte";
  EXPECT_EQ(fate(dns_query("worse.example")), "pass");
  ASSERT_TRUE(has_alerts(1));
  write("rules/lists/bad.lst", "YmFkLmV4YW1wbGU=\nd29yc2UuZXhhbXBsZQ==\n");
  ASSERT_EQ(apply().status, 0);
  EXPECT_EQ(fate(dns_query("worse.example")), "drop");
  write("rules/lists/bad.lst", "YmFkLmV4YW1wbGU=\nworse.example\n");
  const auto wrong = apply();
  EXPECT_EQ(wrong.status, 2) << wrong.err;
  EXPECT_NE(wrong.err.find("rules/a.rules:1:"), std::string::npos) << wrong.err;
  EXPECT_NE(wrong.err.find("rules/lists/bad.lst:2: that is no base64"), std::string::npos) << wrong.err;
  std::filesystem::remove(path("rules/lists/bad.lst"));
  const auto missing = apply();
  EXPECT_EQ(missing.status, 2) << missing.err;
  EXPECT_NE(missing.err.find("rules/a.rules:1:"), std::string::npos) << missing.err;
  EXPECT_NE(missing.err.find("rules/lists/bad.lst: No such file"), std::string::npos) << missing.err;
  EXPECT_EQ(fate(dns_query("worse.example")), "drop") << "all is as it was";
  expect_conserved(attached_->pins());
}

TEST_P(SignaturesOnTheWire, ANoisyRuleLeavesRoomForTheOthers) {
  write("rules/a.rules",
        "alert udp any any -> any any (content:\"noise\"; sid:1;)\n"
        "alert udp any any -> any any (content:\"signal\"; sid:2;)\n");
  write_policy("", R"(, "rate": 20, "alert_rate": 4)");
  attach_here();
  Sender sender(left_port());
  for (int i = 0; i < 200; i++) sender.send(build(from_left(next_port_++, kPort, "noise")));
  EXPECT_EQ(fate("signal"), "pass");
  // Queues have rings of their own: it need not be the last that is told.
  ASSERT_TRUE(eventually([&] { return std::ranges::count(sids(), 2u) == 1; }, 10s));
  EXPECT_LT(sids().size(), 100u);
  const Json counts = attached_->status().at("log").at("alert");
  EXPECT_EQ(counts.at("told").get<std::uint64_t>() + counts.at("over_rate").get<std::uint64_t>(), 201u);
}

TEST_P(SignaturesOnTheWire, RulesSayThemselvesHowOftenTheyAlert) {
  write("rules/a.rules",
        "alert udp any any -> any any (content:\"a\"; threshold:type limit, track by_src, count 2, seconds "
        "3600; sid:1;)\n"
        "alert udp any any -> any any (content:\"a\"; threshold:type threshold, track by_rule, count 4, "
        "seconds 3600; sid:2;)\n"
        "alert udp any any -> any any (content:\"a\"; sid:3;)\n"
        "alert udp any any -> any any (content:\"a\"; detection_filter:track by_dst, count 6, seconds 3600; "
        "sid:4;)\n"
        "drop udp any any -> any any (content:\"b\"; threshold:type limit, track by_src, count 1, seconds "
        "3600; sid:5;)\n"
        "alert udp any any -> any any (content:\"a\"; sid:6;)\n");
  write("threshold.config",
        "suppress gen_id 1, sig_id 3, track by_src, ip 10.9.0.0/30\n"
        "threshold gen_id 1, sig_id 6, type both, track by_both, count 3, seconds 3600\n");
  write_policy(R"(, "threshold": "threshold.config")", R"(, "alert_rate": 1000)");
  attach_here();
  for (int i = 0; i < 7; i++) EXPECT_EQ(fate("a"), "pass");
  EXPECT_EQ(fate("b"), "drop");
  EXPECT_EQ(fate("b"), "drop") << "it alerts once, and drops each";
  ASSERT_TRUE(has_alerts(6));
  // Queues have rings of their own, so that one packet's may be told in front of another's.
  auto first = sids();
  std::ranges::sort(first);
  EXPECT_EQ(first, (std::vector<std::uint64_t>{1, 1, 2, 4, 5, 6}));
  const auto limited = [&] { return attached_->status().at("log").at("alert").at("limited"); };
  EXPECT_EQ(limited(), 7u * 5 - 5 + 1);
  // What was counted goes on to count when a policy is applied; what its files say is said anew.
  write("threshold.config", "");
  ASSERT_EQ(apply().status, 0);
  EXPECT_EQ(fate("a"), "pass");
  ASSERT_TRUE(has_alerts(10));
  auto last = sids();
  last.erase(last.begin(), last.begin() + 6);
  EXPECT_EQ(last, (std::vector<std::uint64_t>{2, 3, 4, 6})) << "of 2 the eighth, of 4 the eighth";
  write("threshold.config", "suppress gen_id 1, sig_id one\n");
  const auto wrong = apply();
  EXPECT_EQ(wrong.status, 2) << wrong.err;
  EXPECT_NE(wrong.err.find("threshold.config:1"), std::string::npos) << wrong.err;
  expect_conserved(attached_->pins());
}

// Bits and counts say what is dropped, on the packet itself; what is audited goes on.
TEST_P(SignaturesOnTheWire, RulesDropByWhatWorkersKnow) {
  in_front_ = R"({"stage": "conntrack"}, )";
  write("rules/a.rules",
        "alert udp any any -> any any (content:\"login\"; flowbits:set,in; noalert; sid:1;)\n"
        "drop udp any any -> any any (content:\"get\"; flowbits:isset,in; sid:2;)\n"
        "drop udp any any -> any any (content:\"often\"; detection_filter:track by_src, count 2, seconds "
        "600; sid:3;)\n"
        "drop udp any any -> any any (content:\"third\"; threshold:type threshold, track by_src, count 3, "
        "seconds 600; noalert; sid:4;)\n");
  write_policy();
  attach_here();
  constexpr std::uint16_t kFirst = 30001, kSecond = 30002;
  EXPECT_EQ(fate("get", kFirst), "pass");
  EXPECT_EQ(fate("login", kFirst), "pass");
  EXPECT_EQ(fate("get", kFirst), "drop");
  EXPECT_EQ(fate("get", kSecond), "pass") << "of another connection";
  for (const char* const expected : {"pass", "pass", "drop", "drop"})
    EXPECT_EQ(fate("often", kSecond), expected);
  for (const char* const expected : {"pass", "pass", "drop", "pass"})
    EXPECT_EQ(fate("third", kSecond), expected);
  ASSERT_TRUE(has_alerts(3));
  EXPECT_EQ(sids(), (std::vector<std::uint64_t>{2, 3, 3}));
  // Nobody needs a log for it.
  Json quiet = Json::parse(std::ifstream(path("policy.json")));
  quiet.erase("log");
  write("policy.json", quiet.dump());
  ASSERT_EQ(apply().status, 0);
  EXPECT_EQ(fate("get", kFirst), "drop");
  EXPECT_EQ(fate("often", kSecond), "drop");
  expect_conserved(attached_->pins());
}

// A rule that passes stands in front of those that drop: where it does not hold after all, they do.
TEST_P(SignaturesOnTheWire, RulesPassByWhatWorkersKnow) {
  in_front_ = R"({"stage": "conntrack"}, )";
  write(
      "rules/a.rules",
      "alert udp any any -> any any (content:\"login\"; flowbits:set,in; noalert; sid:1;)\n"
      "pass udp any any -> any any (content:\"get\"; flowbits:isset,in; sid:2;)\n"
      "drop udp any any -> any any (content:\"get\"; sid:3;)\n"
      "pass udp any any -> any any (content:\"often\"; threshold:type limit, track by_src, count 2, seconds "
      "600; sid:4;)\n"
      "drop udp any any -> any any (content:\"often\"; sid:5;)\n"
      "pass udp any any -> any any (content:\"user=\"; pcre:\"/user=(\\w+)&again=\\1!/\"; sid:6;)\n"
      "drop udp any any -> any any (content:\"user=\"; sid:7;)\n"
      "pass udp any any -> any any (content:\"fine\"; sid:8;)\n"
      "drop udp any any -> any any (content:\"fi\"; sid:9;)\n");
  write("threshold.config", "suppress gen_id 1, sig_id 8, track by_dst, ip 10.9.0.1\n");
  write_policy();
  attach_here();
  constexpr std::uint16_t kFirst = 30001, kSecond = 30002;
  EXPECT_EQ(fate("get", kFirst), "drop");
  EXPECT_EQ(fate("login", kFirst), "pass");
  EXPECT_EQ(fate("get", kFirst), "pass");
  EXPECT_EQ(fate("get", kSecond), "drop") << "of another connection";
  for (const char* const expected : {"pass", "pass", "drop", "drop"})
    EXPECT_EQ(fate("often", kSecond), expected);
  EXPECT_EQ(fate("user=ab&again=ab!", kFirst), "pass");
  EXPECT_EQ(fate("user=ab&again=ac!", kFirst), "drop");
  EXPECT_EQ(fate("fine", kFirst), "pass");
  ASSERT_TRUE(has_alerts(5));
  EXPECT_EQ(sids(), (std::vector<std::uint64_t>{3, 3, 5, 5, 7}));
  // What is suppressed for an address passes nothing of it; and nobody needs a log for any of it.
  write_policy(R"(, "threshold": "threshold.config")");
  Json quiet = Json::parse(std::ifstream(path("policy.json")));
  quiet.erase("log");
  write("policy.json", quiet.dump());
  ASSERT_EQ(apply().status, 0);
  EXPECT_EQ(fate("fine", kFirst), "drop");
  EXPECT_EQ(fate("get", kFirst), "pass");
  EXPECT_EQ(fate("often", kSecond), "drop");
  EXPECT_EQ(fate("user=ab&again=ab!", kFirst), "pass");
  EXPECT_EQ(fate("user=ab&again=ac!", kFirst), "drop");
  expect_conserved(attached_->pins());
}

// No device knows back-references: a host thread is asked, and the flow's other packets wait behind the one
// in question.
TEST_P(SignaturesOnTheWire, RulesAskTheHostForWhatNoDeviceDecides) {
  write("rules/a.rules",
        "drop udp any any -> any any (content:\"user=\"; pcre:\"/user=(\\w+)&again=\\1!/\"; sid:1;)\n"
        "alert udp any any -> any any (content:\"key\"; pcre:\"/k(e)y=\\1+/\"; content:\"end\"; distance:0; "
        "sid:2;)\n");
  write_policy();
  attach_here();
  EXPECT_EQ(fate("user=ab&again=ab!", 30001), "drop");
  EXPECT_EQ(fate("user=ab&again=ac!", 30001), "pass");
  EXPECT_EQ(fate("key=eee end", 30001), "pass");
  EXPECT_EQ(fate("end key=eee", 30001), "pass");
  ASSERT_TRUE(has_alerts(2));
  EXPECT_EQ(sids(), (std::vector<std::uint64_t>{1, 2}));
  Sender sender(left_port());
  // A flow has room for 64 that wait, and this host may be a busy one: fewer are under way.
  constexpr int kTogether = 40;
  for (int first = 0; first < 5 * kTogether; first += kTogether) {
    std::vector<std::string> sent;
    for (int i = first; i < first + kTogether; i++) {
      sent.push_back(fmt::format("{}{}", i % 3 == 0 ? "user=ab&again=ac! " : "", i));
      sender.send(build(from_left(30001, port_, sent.back())));
    }
    for (const std::string& one : sent) ASSERT_EQ(server_->receive(5s), one);
  }
  EXPECT_EQ(attached_->status().at("log").at("rules_unasked"), 0);
  expect_conserved(attached_->pins());
}

// A client asks twice, and is answered between; another one only once.
TEST_P(SignaturesOnTheWire, RulesAskForConnectionsAndForBitsThatOthersSet) {
  in_front_ = R"({"stage": "conntrack"}, )";
  write("rules/a.rules",
        "alert udp any any -> any any (flow:to_server,not_established; content:\"get\"; sid:1;)\n"
        "alert udp any any -> any any (flow:established; content:\"get\"; sid:2;)\n"
        "alert udp any any -> any any (flow:to_client; dsize:>0; sid:3;)\n"
        "alert udp any any -> any any (content:\"login\"; flowbits:set,in; flowbits:noalert; sid:4;)\n"
        "alert udp any any -> any any (content:\"get\"; flowbits:isset,in; sid:5;)\n"
        "alert udp any any -> any any (content:\"scan\"; xbits:set,scans,track ip_src,expire 600; noalert; "
        "sid:6;)\n"
        "alert udp any any -> any any (content:\"last\"; xbits:isset,scans,track ip_src; sid:7;)\n"
        "drop udp any any -> any any (content:\"drop\"; flow:established,to_server; sid:8;)\n");
  write_policy();
  attach_here();
  constexpr std::uint16_t kFirst = 30001, kSecond = 30002;
  EXPECT_EQ(fate("drop", kFirst), "pass") << "there is no answer yet";
  EXPECT_EQ(fate("login", kFirst), "pass");
  server_->send_to("10.9.0.2", kFirst, "welcome");
  ASSERT_TRUE(eventually([&] { return fate("drop", kFirst) == "drop"; }, 10s))
      << "what the host sends is shown";
  ASSERT_TRUE(has_alerts(1));
  const auto before = sids();
  EXPECT_EQ(before, (std::vector<std::uint64_t>{8}));
  EXPECT_EQ(fate("get", kFirst), "pass");
  ASSERT_TRUE(has_alerts(before.size() + 2));
  EXPECT_EQ(fate("get", kSecond), "pass");
  ASSERT_TRUE(has_alerts(before.size() + 3));
  EXPECT_EQ(fate("last", kSecond), "pass");
  EXPECT_EQ(fate("scan", kFirst), "pass");
  EXPECT_EQ(fate("last", kSecond), "pass");
  ASSERT_TRUE(has_alerts(before.size() + 4));
  auto after = sids();
  after.erase(after.begin(), after.begin() + static_cast<std::ptrdiff_t>(before.size()));
  std::ranges::sort(after);
  EXPECT_EQ(after, (std::vector<std::uint64_t>{1, 2, 5, 7}));
  // Bits stay when a policy is applied, and so do connections.
  write("rules/b.rules", "alert udp any any -> any any (content:\"get\"; sid:9;)\n");
  ASSERT_EQ(apply().status, 0);
  EXPECT_EQ(fate("get", kFirst), "pass");
  ASSERT_TRUE(has_alerts(before.size() + 7));
  after = sids();
  after.erase(after.begin(), after.begin() + static_cast<std::ptrdiff_t>(before.size()) + 4);
  std::ranges::sort(after);
  EXPECT_EQ(after, (std::vector<std::uint64_t>{2, 5, 9}));
  EXPECT_EQ(attached_->status().at("log").at("rule_bits_forgotten"), 0);
  // Without a stage that knows connections such rules hold for nothing, and that is said.
  in_front_.clear();
  write_policy();
  const auto checked = check();
  EXPECT_EQ(checked.status, 0) << checked.err;
  EXPECT_NE((checked.out + checked.err)
                .find("6 of its rules ask for a packet's connection, or for bits on it, and there is none"),
            std::string::npos)
      << checked.out << checked.err;
  ASSERT_EQ(apply().status, 0);
  const auto told_before = sids().size();
  EXPECT_EQ(fate("get", kFirst), "pass");
  ASSERT_TRUE(has_alerts(told_before + 1));
  EXPECT_EQ(sids().back(), 9u);
  expect_conserved(attached_->pins());
}

TEST_P(SignaturesOnTheWire, RulesThatHoldAreCountedWithoutALog) {
  write(
      "rules/a.rules",
      "drop udp any any -> any any (msg:\"a worm\"; content:\"worm\"; sid:1; rev:4;)\n"
      "alert udp any any -> any any (msg:\"odd\"; content:\"o\"; content:\"d\"; distance:0; sid:2;)\n"
      "alert udp any any -> any any (msg:\"often\"; content:\"o\"; threshold:type limit, track by_src, count "
      "1, seconds 60; sid:3;)\n"
      "alert udp any any -> any any (msg:\"never\"; content:\"never\"; sid:4;)\n"
      "pass udp any any -> any any (content:\"fine\"; sid:5;)\n");
  write("policy.json", policy(fmt::format(R"("io": {{"heartbeat": "5s"}},
            "rules": [{{"match": {{"proto": "udp", "dst_port": {}}}, "action": {{"inspect": "ids"}}}}],
            "pipelines": {{"ids": [{{"stage": "signatures", "rules": ["rules/*.rules"]}}]}})",
                                          port_)));
  attach_here();
  const auto top = [&](std::vector<std::string> more) {
    std::vector<std::string> words{"rules", "top", host_port().ifname(), "-o", "json"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = product(*host_, words);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return Json::parse(outcome.out);
  };
  const auto of = [](const Json& all, const char* what) {
    std::vector<std::uint64_t> made;
    for (const Json& one : all.at("top")) made.push_back(one.at(what));
    return made;
  };
  using Numbers = std::vector<std::uint64_t>;
  EXPECT_EQ(top({}).at("holding"), 0);
  for (const auto& [payload, what] :
       {std::pair("worm", "drop"), {"o", "pass"}, {"odd", "pass"}, {"o", "pass"}, {"fine odd", "pass"}})
    EXPECT_EQ(fate(payload), what) << payload;
  Json all = top({});
  EXPECT_EQ(all.at("rules"), 5);
  EXPECT_EQ(all.at("holding"), 3);
  // A worm has an o in it; what a rule passes is not counted.
  EXPECT_EQ(of(all, "signature_id"), (Numbers{3, 2, 1})) << "of the same count the dearer one first";
  EXPECT_EQ(of(all, "matched"), (Numbers{4, 1, 1}));
  EXPECT_EQ(all.at("top").at(2).at("signature"), "a worm");
  EXPECT_EQ(all.at("top").at(2).at("rev"), 4);
  all = top({"--by", "cost", "--limit", "2"});
  EXPECT_EQ(of(all, "signature_id"), (Numbers{2, 3})) << "found by one byte";
  EXPECT_EQ(all.at("left_out"), 3);
  // What both policies have counts on.
  write("rules/a.rules",
        "alert udp any any -> any any (msg:\"new\"; content:\"n\"; sid:6;)\n"
        "alert udp any any -> any any (msg:\"often\"; content:\"o\"; sid:3; rev:2;)\n");
  ASSERT_EQ(apply().status, 0);
  EXPECT_EQ(fate("no"), "pass");
  all = top({});
  EXPECT_EQ(of(all, "signature_id"), (Numbers{3, 6}));
  EXPECT_EQ(of(all, "matched"), (Numbers{5, 1}));
  const Outcome text = product(*host_, {"rules", "top", host_port().ifname()});
  EXPECT_NE(text.out.find("2 of 2 rules held for packets"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("1:3  (ids) often"), std::string::npos) << text.out;
  expect_conserved(attached_->pins());
}

// By who sends it: each place at which a stands is one to look for b behind.
TEST_P(SignaturesOnTheWire, APacketThatIsMadeToTakeLongIsNotLetThroughUnseen) {
  write("rules/a.rules",
        "alert udp any any -> any any (content:\"evil\"; content:\"a\"; content:\"b\"; distance:3; within:2; "
        "sid:1;)\n"
        "drop udp any any -> any any (content:\"worm\"; sid:2;)\n");
  write_policy(R"(, "work": 256)");
  attach_here();
  EXPECT_EQ(fate("evil" + std::string(1300, 'a') + "worm"), "drop");
  ASSERT_TRUE(eventually([&] { return !told("drop").empty(); }, 10s));
  EXPECT_EQ(told("drop")[0].at("xdpgpu").at("decided_by"), "stage 1 (signatures) limit");
  EXPECT_EQ(told("alert").size(), 0u);
  EXPECT_EQ(fate("evil, and a few of them: aaaa"), "pass");
  write_policy(R"(, "work": 256, "limit": "next")");
  ASSERT_EQ(apply().status, 0);
  EXPECT_EQ(fate("evil" + std::string(1300, 'a') + "worm"), "pass") << "the operator's own choice";
}

// What is not decided is said wherever a policy is looked at.
TEST_P(SignaturesOnTheWire, RulesThatAreNotDecidedAreNamed) {
  write("rules/a.rules",
        "alert udp any any -> any any (content:\"attack\"; sid:1;)\n"
        "alert http any any -> any any (http.uri; content:\"/x\"; sid:2;)\n"
        "pass tcp any any -> any any (content:\"fine\"; flow:established; sid:3;)\n");
  write_policy();
  const auto checked = check();
  EXPECT_EQ(checked.status, 0) << checked.err;
  EXPECT_NE((checked.out + checked.err).find("2 of 3 rules are not decided"), std::string::npos)
      << checked.out << checked.err;
  EXPECT_NE((checked.out + checked.err).find("rules that pass"), std::string::npos);
  attach_here();
  const auto applied = apply();
  EXPECT_EQ(applied.status, 0) << applied.err;
  EXPECT_NE((applied.out + applied.err).find("2 of 3 rules are not decided"), std::string::npos)
      << applied.out << applied.err;
}

TEST_P(SignaturesOnTheWire, PoliciesThatNameFilesThatAreNoneAreRefusedInOneSentence) {
  write("rules/a.rules", "alert udp any any -> any $NONE (content:\"attack\"; sid:1;)\n");
  struct Case {
    std::string more, said;
  };
  for (const auto& [more, said] :
       {Case{"", "rules/a.rules:1:"}, Case{R"(, "vars": {"NONE": "[80,"})", "the variable NONE"},
        Case{R"(, "vars": {"NONE": 80}, "disable": "none.conf")", "none.conf"},
        Case{R"(, "vars": {"NONE": 80}, "classification": "rules/a.rules")", "config classification"},
        Case{R"(, "vars": {"NO-NE": 80})", "a variable's name"},
        Case{R"(, "vars": {"NONE": [80, "x y"]})", "the variable NONE"}}) {
    SCOPED_TRACE(more);
    write_policy(more);
    const auto checked = check();
    EXPECT_EQ(checked.status, 2) << checked.out << checked.err;
    EXPECT_NE(checked.err.find(said), std::string::npos) << checked.err;
  }
}

}  // namespace
}  // namespace xdpgpu::lab
