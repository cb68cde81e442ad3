// SPDX-License-Identifier: MIT
//
// Rules lowered to signatures, and the steps of signatures one by one. What comes of whole files of rules:
// compiler_signatures.cpp; for streams: compiler_lowering_streams.cpp.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "gpu/reference/signature.hpp"
#include "tests/unit/compiler_captures.hpp"
#include "tests/unit/lowered.hpp"
#include "userspace/compiler/rules/cost.hpp"
#include "userspace/compiler/rules/load.hpp"
#include "userspace/compiler/rules/lower.hpp"

namespace xdpgpu::rules {
namespace {

namespace sig = gpu::signatures;
using test::CapturedPacket;
using test::in_streams;
using test::lowered;
using test::packet_of;
using test::rule_of;

// ---- lowering ------------------------------------------------------------------------------------------

TEST(Lowering, NamesWhatPacketsDoNotDecide) {
  struct Case {
    std::string protocol, options;
    std::vector<std::string> keywords;
  };
  for (const auto& [protocol, options, keywords] : std::vector<Case>{
           {"tcp", "content:\"a\";", {"content"}},
           {"tcp", "content:\"a\"; depth:5;", {"content"}},
           {"ip", "content:\"a\";", {"content"}},
           {"tcp-stream", "content:\"a\";", {"tcp-stream"}},
           {"http", "flow:established; http.uri; content:\"a\"; http.method; content:\"GET\";", {"http.uri"}},
           {"http", "http.header; content:\"a\";", {"http.header"}},
           {"http", "flow:to_client; http.cookie; content:\"a\";", {"http.cookie"}},
           {"http", "http.uri; to_lowercase; content:\"a\";", {"to_lowercase", "http.uri"}},
           {"http", "http.uri; dotprefix; content:\"a\";", {"dotprefix", "http.uri"}},
           {"http", "http.method; content:\"a\"; http.stat_code; content:\"200\";", {"http.method"}},
           {"tls", "tls_sni; content:\"a\";", {"tls.sni"}},
           {"tls", "content:\"a\";", {"tls", "content"}},
           {"tls",
            "tls.sni; content:\"a\"; tls.cert_subject; content:\"b\";",
            {"tls.cert_subject", "tls.sni"}},
           {"http", "flow:to_server; file_data; content:\"a\";", {"file.data"}},
           {"pkthdr", "", {"pkthdr"}},
           {"udp", "content:\"a\"; flowint:n,+,1;", {"flowint"}},
           {"udp", "content:\"a\"; flow:only_frag;", {"flow"}},
           {"ip", "content:\"a\"; flow:only_stream;", {"flow"}},
           {"dns", "flow:only_stream;", {"flow"}},
           {"udp", "udp.hdr; content:\"a\";", {"udp.hdr"}},
           {"tcp", "tcp.mss:1460;", {"tcp.mss"}},
           {"ip", "ipopts:any;", {"ipopts"}},
           {"tcp", "dns.query; content:\"a\";", {"dns.query"}},
           {"icmp", "dns.opcode:0;", {"dns.opcode"}},
           {"dns", "dns.query; dotprefix; to_lowercase; content:\"a\";", {"to_lowercase"}},
           {"dns", "dns.query; dotprefix; dotprefix; content:\"a\";", {"dotprefix"}},
           {"dns", "dns.query; byte_extract:1,0,n; isdataat:n;", {"byte_extract"}},
           {"udp", "byte_test:4,>,1,0,dce;", {"dce"}},
           {"udp", "content:\"a\"; byte_jump:0,0,relative,string,dec;", {"byte_jump"}},
           // What it is then depends on the stream.
           {"tcp", "dsize:0; flags:S;", {"dsize"}},
           {"tcp", "dsize:!3; flags:S;", {"dsize"}},
           {"tcp-pkt", "content:!\"a\";", {"content"}},
           {"tcp-pkt", "isdataat:!9;", {"content"}},
           {"tcp-pkt", "pcre:!\"/a/\";", {"content"}},
           {"tcp-pkt", "pcre:\"/a*/\";", {"content"}},
           {"tcp-pkt", "pcre:\"/(a?)\\1/\";", {"content"}},
           // What is in its groups is not kept.
           {"udp", "pcre:\"/(a)/,flow:x\";", {"pcre"}},
           // Suricata mistakes a variable for a number.
           {"udp", "content:\"a\"; dsize:!5;", {"dsize"}},
           {"udp", "byte_extract:1,0,n; content:\"a\"; depth:n; dsize:<9;", {"dsize"}},
           {"udp", "byte_extract:1,0,n; content:\"a\"; offset:n; depth:9;", {"content"}},
           {"udp", "byte_extract:1,0,n; content:\"a\"; depth:1; content:\"b\"; within:n;", {"content"}}}) {
    const auto made = lowered(options, protocol);
    std::vector<std::string> said;
    for (const auto& one : made.not_yet) {
      said.push_back(one.keyword);
      EXPECT_FALSE(one.why.empty());
    }
    EXPECT_EQ(said, keywords) << protocol << " " << options;
    EXPECT_FALSE(made.signature) << protocol << " " << options;
  }
}

TEST(Lowering, NamesWhatNoDeviceTakes) {
  const auto why = [](const std::string& options) {
    const auto made = lowered(options);
    return made.not_yet.empty() ? std::string()
                                : made.not_yet.front().keyword + ": " + made.not_yet.front().why;
  };
  std::string steps, relative;
  for (u32 i = 0; i < 64; i++) steps += fmt::format("content:\"{}\"; ", i);
  EXPECT_EQ(why(steps), "");
  EXPECT_EQ(why(steps + "content:\"more\";"),
            "content: has more than 64 steps: use fewer contents and tests");
  EXPECT_EQ(why(steps + "dns.query; content:\"more\";"),
            "content: has more than 64 steps: use fewer contents and tests");
  std::string names;
  for (u32 i = 0; i < 8; i++) names += "dns.query; content:\"a\"; ";
  EXPECT_EQ(why(names), "");
  EXPECT_EQ(why(names + "dns.query; content:\"a\";").substr(0, 37), "content: asks more than 8 times for t");
  for (u32 i = 0; i < 33; i++) relative += "content:\"a\"; within:9; ";
  EXPECT_EQ(why(relative), "");  // the last one is not tried again
  EXPECT_EQ(why(relative + "content:\"a\"; within:9;"),
            "content: has more than 32 contents that others are relative to: use fewer");
}

// Of rules for DNS, the half over UDP.
TEST(Lowering, AsksForDnsMessages) {
  const auto of = [](const std::string& options, const std::string& protocol = "dns") {
    return lowered(options, protocol);
  };
  const auto bare = of("");
  EXPECT_EQ(bare.signature.value().header.protocols, std::bitset<256>().set(17));
  EXPECT_EQ(bare.signature->dns, sig::Dns{});
  EXPECT_FALSE(bare.signature->once_a_flow);
  EXPECT_TRUE(bare.over_tcp_too);
  EXPECT_FALSE(of("content:\"a\";", "udp").signature.value().dns);
  EXPECT_FALSE(of("dns.query; content:\"a\";", "udp").over_tcp_too);
  EXPECT_TRUE(of("dns.query; content:\"a\";", "ip").over_tcp_too);
  EXPECT_EQ(of("dns.query; content:\"a\";", "ip").signature.value().header.protocols.count(), 1u);
  EXPECT_FALSE(of("dns.query; content:\"a\";", "ip6").signature.value().header.v4);
  // Which way, and what.
  EXPECT_FALSE(of("flow:to_client;").signature.value().dns->queries);
  EXPECT_FALSE(of("flow:to_server,stateless;").signature.value().dns->answers);
  EXPECT_FALSE(of("dns.query; content:\"a\";").signature.value().dns->answers);
  EXPECT_THAT(of("dns.opcode:!0; dns.opcode:4;").signature.value().dns->operations,
              testing::ElementsAre(sig::OperationIs{0, true}, sig::OperationIs{4, false}));
  EXPECT_TRUE(of("flow:stateless; content:\"a\";", "udp").signature);
}

TEST(Lowering, AsksForNames) {
  const auto of = [](const std::string& options) { return lowered(options, "dns").signature.value(); };
  const auto one = of("dns.query; dotprefix; content:\".a.com\"; endswith; bsize:6;");
  ASSERT_EQ(one.dns->names.size(), 1u);
  const sig::NameIs& name = one.dns->names.front();
  EXPECT_TRUE(name.dot_prefix);
  EXPECT_THAT(name.sizes, testing::ElementsAre(sig::SizeIs{{6, 6}, false}));
  ASSERT_EQ(name.steps.size(), 1u);
  EXPECT_TRUE(std::get<sig::Content>(name.steps.front()).ends);
  EXPECT_EQ(one.fast_pattern, (sig::FastPattern{0, 0, 6, 1}));
  EXPECT_EQ(sig::found_by(one), &std::get<sig::Content>(name.steps.front()));
  // Each is about any of the message's.
  const auto two = of("content:\"a\"; dns.query; content:\"b\"; dns.query; dotprefix; content:\".cd\";");
  EXPECT_EQ(two.payload.size(), 1u);
  ASSERT_EQ(two.dns->names.size(), 2u);
  EXPECT_FALSE(two.dns->names[0].dot_prefix);
  EXPECT_TRUE(two.dns->names[1].dot_prefix);
  EXPECT_EQ(two.fast_pattern, (sig::FastPattern{0, 0, 3, 2}));
  // A transform behind a content changes what is asked for behind it.
  const auto changed = of("dns.query; content:\"b\"; dotprefix; content:\".cd\";");
  ASSERT_EQ(changed.dns->names.size(), 2u);
  EXPECT_TRUE(changed.dns->names[1].dot_prefix);
  EXPECT_EQ(sig::beyond_bounds(one), std::nullopt);
}

TEST(Lowering, TakesWhatIsLeftOutOutOfRanges) {
  using sig::Range;
  const auto header = [](const std::string& src, const std::string& ports) {
    return lower(rule_of(fmt::format("alert udp {} {} -> any any (dsize:1; sid:1;)", src, ports)))
        .signature.value()
        .header;
  };
  const auto address = [](std::initializer_list<u8> bytes) {
    sig::Address made{};
    std::copy(bytes.begin(), bytes.end(), made.begin());
    return made;
  };
  const auto some = header("[10.0.0.0/8,!10.1.0.0/16,10.255.0.0/15]", "[1:9,5:20,22,!7,!22,65535]");
  EXPECT_THAT(some.src.v4,
              testing::ElementsAre(Range<sig::Address>{address({10}), address({10, 0, 255, 255})},
                                   Range<sig::Address>{address({10, 2}), address({10, 255, 255, 255})}));
  EXPECT_TRUE(some.src.v6.empty());
  EXPECT_THAT(some.src_ports.value(),
              testing::ElementsAre(Range<u16>{1, 6}, Range<u16>{8, 20}, Range<u16>{65535, 65535}));
  // Without addresses of a family: no packets of it, unless "any" is there.
  EXPECT_TRUE(header("!10.0.0.0/8", "any").src.v6.empty());
  EXPECT_EQ(header("[any,!10.0.0.0/8]", "any").src.v6.size(), 1u);
  EXPECT_EQ(header("!255.255.255.255", "any").src.v4.size(), 1u);
  EXPECT_EQ(header("!0.0.0.0", "any").src.v4.front().first, address({0, 0, 0, 1}));
  // "any" is also of packets without ports, and no other group is.
  EXPECT_FALSE(header("any", "any").src_ports);
  EXPECT_THAT(header("any", "0:65535").src_ports.value(), testing::ElementsAre(Range<u16>{0, 65535}));
  EXPECT_THAT(header("any", "!80").src_ports.value(),
              testing::ElementsAre(Range<u16>{0, 79}, Range<u16>{81, 65535}));
}

TEST(Lowering, KeepsWhichContentIsLookedForFirst) {
  const auto first = [](const std::string& options) {
    return lowered(options).signature.value().fast_pattern;
  };
  EXPECT_EQ(first("dsize:1;"), std::nullopt);
  EXPECT_EQ(first("content:\"a\"; content:\"bcd\";"), (sig::FastPattern{1, 0, 3}));
  EXPECT_EQ(first("content:\"abcd\"; fast_pattern:1,2; content:\"efghi\";"), (sig::FastPattern{0, 1, 2}));
  // That nothing is behind a content is no step.
  EXPECT_EQ(first("content:\"a\"; isdataat:!1,relative; content:\"bcd\";"), (sig::FastPattern{1, 0, 3}));
}

TEST(Lowering, TriesContentsAgainThatLaterStepsAreRelativeTo) {
  const auto again = [](const std::string& options) {
    const auto signature = lowered(options).signature.value();
    return std::get<sig::Content>(signature.payload.front()).tried_again;
  };
  EXPECT_FALSE(again("content:\"a\"; content:\"b\"; distance:1;"));
  EXPECT_TRUE(again("content:\"a\"; content:!\"b\"; distance:1;"));
  EXPECT_TRUE(again("content:\"a\"; content:\"b\"; within:1;"));
  EXPECT_TRUE(again("content:\"a\"; byte_test:1,>,1,0,relative;"));
  EXPECT_FALSE(again("content:\"a\"; byte_test:1,>,1,0;"));
  EXPECT_FALSE(again("content:\"a\"; byte_test:1,>,1,0; byte_test:1,>,1,0,relative;"));
  EXPECT_TRUE(again("content:\"a\"; isdataat:2,relative;"));
  EXPECT_FALSE(again("content:\"a\"; isdataat:!1,relative;"));
}

TEST(Lowering, TriesContentsAgainThatExpressionsAreRelativeTo) {
  const auto again = [](const std::string& options) {
    const auto signature = lowered(options).signature.value();
    return std::get<sig::Content>(signature.payload.front()).tried_again;
  };
  EXPECT_TRUE(again("content:\"a\"; pcre:\"/b/R\";"));
  EXPECT_TRUE(again("content:\"a\"; pcre:!\"/b/R\";"));
  EXPECT_TRUE(again("content:\"a\"; byte_test:1,>,1,0; pcre:\"/b/R\";"));
  EXPECT_FALSE(again("content:\"a\"; pcre:\"/b/\";"));
  EXPECT_FALSE(again("content:\"a\"; pcre:!\"/b/\"; content:\"c\"; within:9;"));
  EXPECT_FALSE(again("content:\"a\"; pcre:!\"/b/\"; pcre:\"/c/R\";"));
}

// What a device asks for: up to the first expression that it has not.
TEST(Lowering, LeavesExpressionsThatNoDeviceHasToHosts) {
  const auto texts = [](const std::vector<sig::Step>& steps) {
    std::vector<std::string> made;
    made.reserve(steps.size());
    for (const sig::Step& step : steps)
      made.push_back(std::visit(sig::Visitor{[](const sig::Content& one) {
                                               return one.bytes + (one.negated ? "!" : "") +
                                                      (one.relative() ? " behind" : "") +
                                                      (one.tried_again ? " again" : "");
                                             },
                                             [](const sig::Expression& one) {
                                               return "/" + one.pattern + "/" + (one.relative ? "R" : "") +
                                                      (one.negated ? "!" : "") +
                                                      (one.tried_again ? " again" : "");
                                             },
                                             [](const sig::Regex&) { return std::string("automaton"); },
                                             [](const auto&) { return std::string("other"); }},
                                step));
    return made;
  };
  using Texts = std::vector<std::string>;
  struct Case {
    std::string options;
    Texts device, host;
  };
  for (const auto& [options, device, host] : std::vector<Case>{
           {"content:\"a\"; pcre:\"/b/\";", {"a", "automaton"}, {}},
           {"content:\"a\"; pcre:\"/(b)\\1/\";", {"a"}, {"a", "/(b)\\1/"}},
           {"content:\"a\"; pcre:\"/(b)\\1/R\";", {"a again"}, {"a again", "/(b)\\1/R"}},
           // Of a payload that there is.
           {"pcre:!\"/(b)\\1/\";", {"other"}, {"/(b)\\1/!"}},
           {"pcre:\"/a/\"; content:\"b\"; distance:0;", {"b"}, {"/a/ again", "b behind"}},
           {"pcre:\"/a/\"; content:!\"b\"; within:1;", {"other"}, {"/a/ again", "b! behind"}},
           {"pcre:\"/a/\"; pcre:!\"/b/R\"; content:\"c\";", {"c"}, {"/a/ again", "/b/R!", "c"}},
           {"pcre:\"/a/\"; byte_test:1,=,1,0,relative;", {"other"}, {"/a/ again", "other"}},
           {"pcre:\"/a/\"; isdataat:!1,relative;", {"other"}, {"/a/ again", "other"}},
           {"pcre:\"/a/\"; isdataat:!1,relative; byte_test:1,=,1,0,relative;",
            {"other"},
            {"/a/ again", "other", "other"}},
           // It says where the position is; what is negated behind it does not.
           {"pcre:\"/a/\"; pcre:!\"/b/\"; content:\"c\"; within:9;",
            {"c"},
            {"/a/", "/b/! again", "c behind"}},
           {"content:\"a\"; pcre:\"/b/\"; pcre:\"/(c)\\1/\"; content:\"d\"; offset:3;",
            {"a", "automaton", "d"},
            {"a", "/b/", "/(c)\\1/", "d"}},
           {"pcre:\"/b/\"; content:\"a\"; pcre:\"/c/R\";", {"automaton", "a again", "automaton"}, {}}}) {
    const auto made = lowered(options);
    ASSERT_TRUE(made.signature) << options;
    EXPECT_EQ(texts(made.signature->payload), device) << options;
    EXPECT_EQ(texts(made.rest ? made.rest->payload : std::vector<sig::Step>()), host) << options;
    EXPECT_EQ(made.rest != nullptr, !host.empty()) << options;
  }
}

TEST(Lowering, FindsRulesByContentsBehindWhatHostsMatch) {
  const auto found_by = [](const std::string& options) -> std::string {
    const auto signature = lowered(options).signature.value();
    const sig::Content* const content = sig::found_by(signature);
    if (content == nullptr) return "nothing";
    EXPECT_FALSE(content->relative() || content->depth);
    const auto& fast = *signature.fast_pattern;
    return fmt::format("{}:{}", fast.buffer, content->bytes.substr(fast.first, fast.length));
  };
  EXPECT_EQ(found_by("content:\"a\"; pcre:\"/(x)\\1/\"; content:\"longer\"; distance:1; within:9;"),
            "0:longer");
  EXPECT_EQ(found_by("content:\"long\"; pcre:\"/(x)\\1/\"; content:\"b\"; depth:9;"), "0:long");
  EXPECT_EQ(found_by("pcre:\"/(x)\\1/\"; content:\"longer\"; offset:1; fast_pattern:2,3;"), "0:nge");
  EXPECT_EQ(found_by("pcre:\"/(x)\\1/\"; content:!\"a\";"), "nothing");
  EXPECT_EQ(found_by("dns.query; content:\"a\"; dns.query; pcre:\"/(x)\\1/\"; content:\"bb\";"), "2:bb");
}

TEST(Lowering, OfRulesThatHostsMatchSaysWhenTheyAct) {
  const auto of = [](const std::string& action, const std::string& options) {
    return lower(rule_of(action + " udp any any -> any any (" + options + " sid:1;)"));
  };
  const auto drops = of("drop", "pcre:\"/(a)\\1/\";");
  EXPECT_TRUE(drops.late);
  EXPECT_EQ(drops.action, sig::Action::drop);
  EXPECT_EQ(drops.signature.value().action, sig::Action::alert);
  EXPECT_FALSE(of("alert", "pcre:\"/(a)\\1/\";").late);
  EXPECT_FALSE(of("drop", "pcre:\"/a/\";").late);
  const auto passes = of("pass", "pcre:\"/(a)\\1/\";");
  EXPECT_TRUE(passes.late);
  EXPECT_EQ(passes.action, sig::Action::pass);
  EXPECT_EQ(passes.signature.value().action, sig::Action::alert);
  EXPECT_FALSE(of("pass", "pcre:\"/a/\";").late);
}

TEST(Lowering, KeepsVariablesWhereSuricataDoes) {
  const auto steps = lowered(
                         "byte_extract:1,0,a; byte_extract:1,1,b; "
                         "byte_math:bytes 1, offset 2, oper +, rvalue a, result c; byte_test:1,=,c,b;")
                         .signature.value()
                         .payload;
  EXPECT_EQ(std::get<sig::ByteExtract>(steps[0]).variable, 0);
  EXPECT_EQ(std::get<sig::ByteExtract>(steps[1]).variable, 1);
  EXPECT_EQ(std::get<sig::ByteMath>(steps[2]).variable, 0);  // where "a" was
  EXPECT_EQ(std::get<sig::ByteTest>(steps[3]).value.variable, u8{0});
  EXPECT_EQ(std::get<sig::ByteTest>(steps[3]).number.offset.variable, u8{1});
  std::string many;
  for (u32 i = 0; i < sig::kMostVariables; i++) many += fmt::format("byte_extract:1,0,v{};", i);
  EXPECT_TRUE(lowered(many).signature);
  EXPECT_FALSE(lowered(many + "byte_extract:1,0,more;").signature);
}

// A content that is relative has a place from the payload's start, too, by what stands in front of it.
TEST(Lowering, ConcludesWhereContentsStand) {
  const auto last = [](const std::string& options) {
    return std::get<sig::Content>(lowered(options).signature.value().payload.back());
  };
  const auto two = last("content:\"ab\"; offset:3; depth:5; content:\"c\"; distance:1; within:4;");
  EXPECT_EQ(two.offset.constant, 6);
  EXPECT_EQ(two.depth.value().constant, 8 + 1 + 4);
  EXPECT_EQ(last("content:\"ab\"; content:\"c\"; distance:-1;").offset.constant, 1);
  EXPECT_EQ(last("content:\"ab\"; content:\"c\"; distance:-9;").offset.constant, 0);
  EXPECT_EQ(last("content:\"ab\"; byte_jump:1,0; content:\"c\"; distance:1;").offset.constant, 1);
  // The first one's is the payload's start.
  const auto first = last("content:\"ab\"; distance:2; within:5;");
  EXPECT_FALSE(first.relative());
  EXPECT_EQ(first.offset.constant, 2);
  EXPECT_EQ(first.depth.value().constant, 7);
  // Of a variable it is the number that Suricata knows it by.
  EXPECT_EQ(last("byte_extract:1,0,a; byte_extract:1,0,b; content:\"ab\"; content:\"c\"; distance:b;")
                .offset.constant,
            2 + 1);
}

// Of 1,000 random bytes.
TEST(Lowering, TellsWhatASignatureCosts) {
  const auto cost = [](const std::string& options) { return cost_of(lowered(options).signature.value()); };
  EXPECT_DOUBLE_EQ(cost("dsize:1;"), 1);
  EXPECT_DOUBLE_EQ(cost("byte_test:1,>,1,0; isdataat:9;"), 2);
  EXPECT_DOUBLE_EQ(cost("content:!\"abc\";"), 1);
  EXPECT_DOUBLE_EQ(cost("content:\"a\";"), 1);  // it is there in nearly all
  EXPECT_DOUBLE_EQ(cost("content:\"ab\";"), 999.0 / 65536);
  EXPECT_DOUBLE_EQ(cost("content:\"ab\"; nocase; isdataat:9;"), 2 * 4 * 999.0 / 65536);
  EXPECT_DOUBLE_EQ(cost("content:\"ab\"; startswith;"), 1.0 / 65536);
  EXPECT_DOUBLE_EQ(cost("content:\"abcd\"; fast_pattern:0,2;"), 997.0 / 65536);
  // A stream's text has 6,144, and a rule that is looked for in packets, too, costs both.
  const auto of_tcp = [](const std::string& options) {
    const auto rule = rule_of("alert tcp any any -> any any (" + options + " sid:1;)");
    return cost_of(lower(rule, Streams::with_answers).signature.value());
  };
  EXPECT_DOUBLE_EQ(of_tcp("content:\"ab\";"), 6143.0 / 65536);
  EXPECT_DOUBLE_EQ(of_tcp("content:\"abc\"; depth:9;"), 2 * 7.0 / (65536 * 256));
  EXPECT_DOUBLE_EQ(of_tcp("content:\"abc\"; offset:9;"), (6133.0 + 989) / (65536 * 256));
  EXPECT_DOUBLE_EQ(of_tcp("content:\"ab\"; dsize:9;"), 999.0 / 65536);
  // A name has 32.
  EXPECT_DOUBLE_EQ(cost("dns.query; content:\"ab\";"), 31.0 / 65536);
  EXPECT_DOUBLE_EQ(cost("isdataat:1; dns.query; content:\"ab\"; startswith;"), 2.0 / 65536);
}

// ---- steps, each at its edges --------------------------------------------------------------------------

CapturedPacket datagram(const std::string& payload) {
  std::vector<u8> frame{0x02, 0, 0, 0,  0,   0x0a, 0x02, 0, 0,  0,  0, 0x0b, 0x08, 0x00,  // Ethernet
                        0x45, 0, 0, 0,  0,   0,    0,    0, 64, 17, 0, 0,                 // IPv4
                        192,  0, 2, 1,  198, 51,   100,  2,                               // addresses
                        0x0f, 1, 0, 80, 0,   0,    0,    0};                              // UDP
  const auto set = [&](std::size_t at, std::size_t value) {
    frame[at] = static_cast<u8>(value >> 8);
    frame[at + 1] = static_cast<u8>(value);
  };
  set(16, 28 + payload.size());
  set(38, 8 + payload.size());
  frame.insert(frame.end(), payload.begin(), payload.end());
  return packet_of(frame);
}

TEST(Steps, MatchAtTheirEdges) {
  using namespace std::string_literals;
  struct Case {
    std::string options, payload;
    bool matches;
  };
  for (const auto& [options, payload, matches] : std::vector<Case>{
           {"content:\"abc\";", "xxabc", true},
           {"content:\"abc\";", "xxab", false},
           {"content:\"abc\";", "", false},
           {"content:!\"abc\";", "ab", true},
           {"content:!\"abc\";", "", false},  // a payload is there
           {"content:\"aBc\"; nocase;", "AbC", true},
           {"content:\"abc\"; offset:1;", "abc", false},
           {"content:\"abc\"; offset:1;", "xabc", true},
           {"content:\"abc\"; depth:3;", "xabc", false},
           {"content:\"abc\"; offset:1; depth:3;", "xabc", true},
           {"content:\"abc\"; offset:1; depth:3;", "xxabc", false},
           {"content:\"abc\"; endswith;", "abcabc", true},
           {"content:\"abc\"; endswith;", "abcx", false},
           {"content:!\"abc\"; endswith; content:\"x\";", "abcx", true},
           {"content:!\"abc\"; endswith;", "abcx", false},  // it is looked for first
           {"content:\"a\"; content:\"b\"; distance:1; within:1;", "axb", true},
           {"content:\"a\"; content:\"b\"; distance:1; within:1;", "axxb", false},
           {"content:\"a\"; content:\"b\"; distance:1; within:1;", "a.axb", true},  // tried again
           {"content:\"a\"; content:\"b\"; distance:-2;", "ba", true},
           {"content:\"a\"; content:!\"b\"; within:1;", "abac", true},
           {"content:\"a\"; content:!\"b\"; within:1;", "abab", false},
           {"isdataat:2;", "ab", false},
           {"isdataat:2;", "abc", true},
           {"content:\"a\"; isdataat:2,relative;", "abc", true},
           {"content:\"a\"; isdataat:3,relative;", "abc", false},
           {"content:\"a\"; isdataat:!2,relative;", "ab", true},
           {"byte_test:2,=,258,0;", "\x01\x02", true},
           {"byte_test:2,=,513,0,little;", "\x01\x02", true},
           {"byte_test:2,=,258,1;", "\x01\x02", false},
           {"byte_test:1,!=,1,0;", "\x01", false},
           {"byte_test:1,&,6,0;", "\x04", true},
           {"byte_test:1,^,4,0;", "\x04", false},
           {"byte_test:1,=,3,0,bitmask 0x0c;", "\x0f", true},
           {"byte_test:4,=,31,0,string;", "0x1f", true},
           {"byte_test:4,=,31,0,string,hex;", "1fzz", true},
           {"byte_test:4,=,0,0,string,dec;", "zzzz", false},
           {"byte_jump:1,0; isdataat:!1,relative;", "\x02..", true},
           {"byte_jump:1,0; content:\"b\"; distance:0; within:1;", "\x02..b", true},
           {"byte_jump:1,0;", "\x03..", false},
           {"byte_jump:1,0,from_beginning; content:\"b\"; within:1;", "\x02.b", true},
           {"byte_jump:0,0,from_end,post_offset -2; content:\"b\"; within:1;", "aabb", true},
           {"byte_jump:1,0,align; content:\"b\"; within:1;", "\x01....b", true},
           {"byte_jump:1,0,post_offset -9; content:\"|05|\"; within:1;", "\x05",
            true},  // in front is the start
           {"byte_jump:8,0;", "\xff\xff\xff\xff\xff\xff\xff\xf0", true},
           {"byte_jump:8,0;", "\x7f\xff\xff\xff\xff\xff\xff\xff", false},
           {"byte_extract:1,0,n; content:\"b\"; offset:n; depth:n;", "\x02.b.", true},
           {"byte_extract:1,0,n; content:\"b\"; offset:n;", "\x03.b", false},
           {"byte_extract:1,0,n,multiplier 2,align 4; isdataat:!n;", "\x03" + "......."s, true},
           {"byte_extract:1,0,n,multiplier 2,align 4; isdataat:!n;", "\x03" + "........"s, false},
           {"byte_extract:4,0,n; isdataat:!n;", "\xff\xff\xff\xff", true},
           {"byte_math:bytes 1, offset 0, oper -, rvalue 1, result n; byte_test:1,=,n,1;", "\x03\x02", true},
           {"byte_math:bytes 1, offset 0, oper <<, rvalue 64, result n; byte_test:1,=,n,1;", "\x03"s + "\0"s,
            true},
           {"byte_extract:1,0,n; byte_math:bytes 1, offset 1, oper /, rvalue n, result m;", "\0\1"s,
            false}}) {
    const auto made = lowered(options);
    ASSERT_TRUE(made.signature) << options << ": " << made.not_yet.front().why;
    EXPECT_EQ(gpu::reference::matches(*made.signature, datagram(payload).seen), matches)
        << options << " in " << pattern_text(payload);
  }
}

// What Suricata's own count ends; edges.pcap has the same.
TEST(Steps, AreTriedSoOftenAndNoMore) {
  const auto signature =
      lowered("content:\"a\"; content:\"a\"; within:800; content:\"a\"; within:3; content:\"b\"; within:1;")
          .signature.value();
  EXPECT_TRUE(matches(signature, datagram(std::string(751, 'a') + "Xab").seen));
  EXPECT_FALSE(matches(signature, datagram(std::string(752, 'a') + "Xab").seen));
}

}  // namespace
}  // namespace xdpgpu::rules
