// SPDX-License-Identifier: MIT
//
// Which packets leave a pipeline for another interface ("on_unsupported"): those of the rules' headers, both
// ways, whatever prefixes and ports become of them; and what is said of it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "userspace/compiler/compiled_policy.hpp"
#include "userspace/policy/classify.hpp"
#include "userspace/policy/diversion.hpp"

namespace xdpgpu::policy {
namespace {

namespace sig = gpu::signatures;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::string sentences(const Diagnostics& found) {
  std::string all;
  for (const auto& one : found) all += one.sentence() + "\n";
  return all;
}
Result<Policy> read(std::string rules,
                    const std::string& more = R"("on_unsupported": {"redirect": "ips0"})") {
  return parse(
      R"({"version": 1, "rules": [{"action": {"inspect": "ids"}}], "pipelines": {"ids": [{"stage": "signatures",
      "rules": ["r.rules"], )" +
          more + "}]}}",
      "p", read_files_of({{"r.rules", std::move(rules)}}));
}
Policy good(std::string rules) {
  auto policy = read(std::move(rules));
  if (!policy) throw std::runtime_error(sentences(policy.error()));
  return std::move(*policy);
}
std::vector<Match> conditions_of(std::string rules) {
  auto all = diversions_of(good(std::move(rules)));
  EXPECT_EQ(all.size(), 1u);
  return all.empty() ? std::vector<Match>() : std::move(all[0].conditions);
}
std::vector<std::string> notes_of(const Policy& policy) {
  return gpu::file_rules(policy.pipelines.at(0).stages.at(0))->notes;
}

TEST(Diversion, IsThereWhereThePolicySaysSo) {
  const std::string rule = "alert tcp any any -> any 445 (content:\"a\"; sid:1;)\n";
  const auto plain = read(rule, R"("on_unsupported": "next")");
  ASSERT_TRUE(plain) << sentences(plain.error());
  EXPECT_THAT(diversions_of(*plain), IsEmpty());
  const auto all = diversions_of(good(rule));
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].pipeline, 0u);
  EXPECT_EQ(all[0].to, "ips0");
  EXPECT_EQ(all[0].conditions.size(), 2u) << "both ways";
}

TEST(Diversion, OfWhatIsDecidedThereIsNone) {
  EXPECT_THAT(conditions_of("alert udp any any -> any 53 (content:\"a\"; sid:1;)\n"), IsEmpty());
  EXPECT_THAT(conditions_of("alert tls any any -> any any (tls.sni; content:\"a\"; sid:1;)\n"), IsEmpty())
      << "its protocol alone tells";
  EXPECT_EQ(conditions_of("alert tls any any -> any 8443 (tls.sni; content:\"a\"; sid:1;)\n").size(), 2u);
  const auto followed = read("alert tls any any -> any 8443 (tls.sni; content:\"a\"; sid:1;)\n",
                             R"("streams": 16, "on_unsupported": {"redirect": "ips0"})");
  ASSERT_TRUE(followed) << sentences(followed.error());
  EXPECT_THAT(diversions_of(*followed).at(0).conditions, IsEmpty()) << "streams decide it";
}

// DNS over UDP is decided, over TCP it is not.
TEST(Diversion, OfDnsIsWhatGoesOverTcp) {
  const auto found = conditions_of("alert dns any any -> any 53 (dns.query; content:\"a\"; sid:1;)\n");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_THAT(found[0].protocols, ElementsAre(6));
}

TEST(Diversion, ProtocolsOfApplicationsSayWhatCarriesThem) {
  EXPECT_THAT(
      conditions_of("alert smb any any -> any 445 (smb.share; content:\"a\"; sid:1;)\n").at(0).protocols,
      ElementsAre(6));
  EXPECT_THAT(
      conditions_of("alert sip any any -> any 5060 (sip.method; content:\"a\"; sid:1;)\n").at(0).protocols,
      ElementsAre(6, 17));
  EXPECT_THAT(
      conditions_of("alert quic any any -> any 443 (quic.version; content:\"a\"; sid:1;)\n").at(0).protocols,
      ElementsAre(17));
  EXPECT_THAT(conditions_of("alert ip any any -> any any (ip_proto:132; content:\"a\"; sid:1;)\n").size(), 0u)
      << "by packets it is decided";
}

// One that another one includes adds nothing.
TEST(Diversion, AConditionThatIsInAnotherOneIsLeftOut) {
  const auto found = conditions_of(
      "alert tcp 10.0.0.0/8 any -> any 445 (content:\"a\"; sid:1;)\n"
      "alert tcp any any -> any [440:450] (content:\"a\"; sid:2;)\n"
      "alert smb any any -> 192.0.2.0/24 445 (smb.share; content:\"a\"; sid:3;)\n");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_THAT(found[0].dst_ports, ElementsAre(PortRange{440, 450}));
  EXPECT_THAT(found[1].src_ports, ElementsAre(PortRange{440, 450}));
}

TEST(Diversion, WhatIsSaidOfIt) {
  const auto notes =
      notes_of(good("alert tcp any any -> any 445 (content:\"a\"; sid:1;)\n"
                    "alert tcp 10.0.0.0/8 any -> any any (content:\"a\"; sid:2;)\n"
                    "alert http any any -> any any (http.start; content:\"a\"; sid:3;)\n"
                    "alert http any any -> any !443 (http.start; content:\"a\"; sid:4;)\n"
                    "alert udp any any -> any 53 (content:\"a\"; sid:5;)\n"));
  EXPECT_THAT(notes,
              Contains(AllOf(HasSubstr("2 of 5 rules are not decided, nor are their flows sent to ips0"),
                             HasSubstr("most often they ask for http (2)"), Not(HasSubstr("content")))));
  EXPECT_THAT(notes, Contains(AllOf(HasSubstr("1 of the rules whose flows are sent to ips0 are for any port"),
                                    HasSubstr("sid 2;"))));
  EXPECT_THAT(notes_of(good("alert tcp any any -> any 445 (content:\"a\"; sid:1;)\n")), IsEmpty());
}

TEST(Diversion, HasABound) {
  std::string rules;
  for (u32 i = 0; i < XG_DIVERT_WORDS * 32 + 1; ++i)
    rules += fmt::format("alert tcp any any -> any {} (content:\"a\"; sid:{};)\n", 1000 + 2 * i, i + 1);
  const auto refused = compile(good(rules));
  ASSERT_FALSE(refused);
  EXPECT_THAT(sentences(refused.error()), AllOf(HasSubstr("/pipelines/ids"), HasSubstr("514 kinds"),
                                                HasSubstr("room for 512"), HasSubstr("ips0")));
  rules.resize(rules.rfind("alert"));
  EXPECT_TRUE(compile(good(rules)));
}

// The interface is one of the attach's, as any that a policy names.
TEST(Diversion, GoesToAnAttachedInterface) {
  compiler::PolicySource source{
      .file = "p.json",
      .text = R"({"version": 1, "rules": [{"action": {"inspect": "ids"}}], "pipelines": {"ids":
      [{"stage": "signatures", "rules": ["r.rules"], "on_unsupported": {"redirect": "ips0"}}]}})",
      .files = {{"r.rules", "alert tcp any any -> any 445 (content:\"a\"; sid:1;)\n"}}};
  const auto refused = compiler::compile_policy(source, {"eth0"});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().sentence, AllOf(HasSubstr("/pipelines/ids/0/on_unsupported/redirect"),
                                              HasSubstr("\"ips0\" is not attached here")));
  const auto compiled = compiler::compile_policy(source, {"eth0", "ips0"});
  ASSERT_TRUE(compiled) << compiled.error().sentence;
  xg_rule rule;
  std::memcpy(&rule, &compiled->tables.lines.at(compiled->tables.header.rules_line), sizeof(rule));
  EXPECT_EQ(rule.divert_port, 1u);
}

// The rules are about inner headers there, and the kernel looks at the outermost ones.
TEST(Diversion, IsNotForWhatIsInsideOfTunnels) {
  const auto refused =
      parse(R"({"version": 1, "pipelines": {"ids": {"inner": true, "stages": [{"stage": "signatures",
      "rules": ["r.rules"], "on_unsupported": {"redirect": "ips0"}}]}}})",
            "p", read_files_of({{"r.rules", "alert tcp any any -> any 445 (content:\"a\"; sid:1;)\n"}}));
  ASSERT_FALSE(refused);
  EXPECT_THAT(sentences(refused.error()),
              AllOf(HasSubstr("/pipelines/ids/stages/0/on_unsupported"), HasSubstr("outermost")));
}

// ---- by chance -----------------------------------------------------------------------------------------

struct Packet {
  u8 family = 4, protocol = 6;
  sig::Address src{}, dst{};
  u16 src_port = 0, dst_port = 0;
};

bool is_in(const sig::Addresses& addresses, const Packet& packet, const sig::Address& address) {
  const auto& ranges = packet.family == 4 ? addresses.v4 : addresses.v6;
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](const auto& range) { return range.first <= address && address <= range.last; });
}
bool is_in(const std::optional<sig::Ranges<u16>>& ports, u16 port) {
  return !ports || std::any_of(ports->begin(), ports->end(),
                               [&](const auto& range) { return range.first <= port && port <= range.last; });
}
bool holds_one_way(const sig::Header& header, const Packet& p) {
  return header.protocols[p.protocol] && (p.family == 4 ? header.v4 : header.v6) &&
         is_in(header.src, p, p.src) && is_in(header.dst, p, p.dst) && is_in(header.src_ports, p.src_port) &&
         is_in(header.dst_ports, p.dst_port);
}
bool holds(const sig::Header& header, Packet p) {
  if (holds_one_way(header, p)) return true;
  std::swap(p.src, p.dst);
  std::swap(p.src_port, p.dst_port);
  return holds_one_way(header, p);
}

PacketFacts facts_of(const Packet& p) {
  PacketFacts facts;
  facts.family = p.family;
  std::copy(p.src.begin(), p.src.end(), facts.src);
  std::copy(p.dst.begin(), p.dst.end(), facts.dst);
  facts.src_port = p.src_port;
  facts.dst_port = p.dst_port;
  facts.l4 = l4_of(p.family, p.protocol, false, 0x10, XG_CONTROL_NONE, 0);
  return facts;
}

TEST(Diversion, MeetsWhatTheHeadersMeet) {
  const u32 seed = std::random_device{}();
  RecordProperty("seed", static_cast<int>(seed));
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const auto below = [&](u32 n) { return static_cast<u32>(random() % n); };
  const auto one_address = [&](bool six) {
    return six ? fmt::format("2001:db8:{}::{:x}", below(3), below(9))
               : fmt::format("10.{}.{}.{}", below(3), below(3), below(9));
  };
  const auto address = [&]() -> std::string {
    const bool six = below(3) == 0;
    switch (below(5)) {
      case 0:
        return "any";
      case 1:
        return (below(2) == 0 ? "!" : "") + one_address(six);
      case 2:
        return fmt::format("10.{}.0.{}-10.{}.2.{}", 0, below(9), 1 + below(2), below(9));
      case 3:
        return fmt::format("[{}/{},!{}]", one_address(false), 8 + below(24), one_address(false));
      default:
        return fmt::format("{}{}/{}", below(3) == 0 ? "!" : "", one_address(six),
                           six ? 32 + below(97) : 8 + below(25));
    }
  };
  const auto ports = [&]() -> std::string {
    const u32 first = below(30);
    switch (below(4)) {
      case 0:
        return "any";
      case 1:
        return fmt::format("!{}", first);
      case 2:
        return fmt::format("[{}:{},!{}]", first, first + 6, first + below(6));
      default:
        return fmt::format("{}", first);
    }
  };
  u32 met = 0, all = 0;
  for (u32 round = 0; round < 40; ++round) {
    std::string rules;
    for (u32 i = 1 + below(6); i > 0; --i) {
      constexpr std::array<std::string_view, 5> kProtocols{"tcp", "sip", "smb", "ftp", "dns"};
      rules += fmt::format("alert {} {} {} {} {} {} (content:\"a\"; sid:{};)\n", kProtocols[below(5)],
                           address(), ports(), below(4) == 0 ? "<>" : "->", address(), ports(), i);
    }
    SCOPED_TRACE(rules);
    auto policy = read(rules);
    if (!policy) continue;  // nothing is left of an address, say
    const auto& headers = *gpu::file_rules(policy->pipelines[0].stages[0])->undecided;
    const auto conditions = diversions_of(*policy).at(0).conditions;
    Policy one_by_one;
    for (const Match& match : conditions) one_by_one.rules.emplace_back().match = match;
    const auto tables = compile(*policy);
    ASSERT_TRUE(tables) << sentences(tables.error());
    for (u32 i = 0; i < 400; ++i, ++all) {
      Packet packet{.family = static_cast<u8>(below(3) == 0 ? 6 : 4),
                    .protocol = static_cast<u8>(below(3) == 0 ? 17 : 6)};
      for (sig::Address* to : {&packet.src, &packet.dst}) {
        if (packet.family == 4)
          *to = {10, static_cast<u8>(below(4)), static_cast<u8>(below(3)), static_cast<u8>(below(10))};
        else
          *to = {0x20, 1, 0x0d, 0xb8, 0, static_cast<u8>(below(4)), 0, 0, 0, 0,
                 0,    0, 0,    0,    0, static_cast<u8>(below(10))};
      }
      packet.src_port = static_cast<u16>(below(32));
      packet.dst_port = static_cast<u16>(below(32));
      const bool right = std::any_of(headers.begin(), headers.end(),
                                     [&](const auto& header) { return holds(header, packet); });
      ASSERT_EQ(!match_linear(one_by_one, facts_of(packet)).empty(), right);
      const auto found = classify(*tables, facts_of(packet));
      ASSERT_EQ(found.at(0), 0u) << "the policy's own rule";
      ASSERT_EQ(found.size() > 1, right);
      met += right;
    }
  }
  EXPECT_GT(met, all / 20);
  EXPECT_LT(met, all * 19 / 20);
}

}  // namespace
}  // namespace xdpgpu::policy
