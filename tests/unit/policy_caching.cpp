// SPDX-License-Identifier: MIT
//
// Which verdicts may be remembered for a flow: not those of packets that a limit or a mirror ahead must see,
// nor of those that a rule treats by their TCP flags.
#include "userspace/policy/caching.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace xdpgpu::policy {
namespace {

Result<Policy> parsed(const std::string& rules, const std::string& cache = R"(, "cache": "60s")") {
  return parse(fmt::format(R"({{"version": 1, "lists": {{"few": ["192.0.2.0/24"]}}, "rules": [{}],
      "pipelines": {{"look": [{{"stage": "acl", "rules": []{}}}]}}}})",
                           rules, cache),
               "p.json", read_files_of({}));
}

constexpr const char* kLook = R"({"match": {"proto": "tcp", "dst_port": 80}, "action": {"inspect": "look"}})";

std::string limit(const std::string& match) {
  return fmt::format(R"({{"name": "limit", "match": {{{}}}, "limit": {{"per": "src", "pps": 10}}}},)", match);
}

TEST(Caching, IsRefusedBehindALimitOfTheSameFlows) {
  for (const char* match : {R"("proto": "tcp")", R"("dst_port": ["70-90"], "proto": "tcp")", "",
                            R"("src": "@few")", R"("proto": "tcp", "tcp_flags": "ack")"}) {
    const auto policy = parsed(limit(match) + kLook);
    ASSERT_FALSE(policy) << match;
    ASSERT_EQ(policy.error().size(), 1u);
    EXPECT_EQ(policy.error()[0].pointer, "/rules/1");
    EXPECT_NE(policy.error()[0].message.find("\"limit\""), std::string::npos) << policy.error()[0].message;
    EXPECT_TRUE(parsed(limit(match) + kLook, "")) << "nothing is cached there";
  }
}

// The kernel knows flows by their outer headers alone.
TEST(Caching, IsRefusedWithInner) {
  const auto inside = [](const char* inner, const char* stages) {
    return parse(fmt::format(R"({{"version": 1, "rules": [{}],
        "pipelines": {{"look": {{"inner": {}, "stages": [{}]}}}}}})",
                             kLook, inner, stages),
                 "p.json", read_files_of({}));
  };
  for (
      const char* stages :
      {R"({"stage": "acl", "rules": []}, {"stage": "acl", "rules": [], "cache": "60s"})",
       R"({"stage": "l2fwd"}, {"stage": "ddos", "syn_pps": 9, "cache": true})",
       R"({"stage": "l2fwd"}, {"stage": "load_balance", "backends": [{"mac": "02:00:00:00:00:01"}], "cache": true})"}) {
    const auto policy = inside("true", stages);
    ASSERT_FALSE(policy) << stages;
    ASSERT_EQ(policy.error().size(), 1u) << policy.error()[1].sentence();
    EXPECT_EQ(policy.error()[0].pointer, "/pipelines/look/stages/1");
    EXPECT_NE(
        policy.error()[0].message.find("(\"inner\"), and the kernel knows flows by the outer ones alone"),
        std::string::npos)
        << policy.error()[0].message;
    EXPECT_TRUE(inside("false", stages)) << stages;
  }
  EXPECT_TRUE(inside("true", R"({"stage": "acl", "rules": []}, {"stage": "ddos", "syn_pps": 9})"));
}

TEST(Caching, IsFineWhereTheLimitMeetsOtherPackets) {
  for (const char* match : {R"("proto": "udp")", R"("proto": "tcp", "dst_port": 81)",
                            R"("proto": "tcp", "tcp_flags": "syn,!ack")", R"("proto": "icmp")"})
    EXPECT_TRUE(parsed(limit(match) + kLook)) << match;
  const std::string other = R"({"match": {"src": "198.51.100.0/24", "dst_port": 80, "proto": "tcp"},
      "action": {"inspect": "look"}})";
  EXPECT_TRUE(parsed(limit(R"("src": "@few")") + other));
  EXPECT_TRUE(parsed(std::string(kLook) + "," + limit("").substr(0, limit("").size() - 1)))
      << "it comes after";
}

TEST(Caching, IsRefusedBehindAMirrorOfTheSameFlows) {
  const auto watched = [](const std::string& match, const std::string& look) {
    return parse(fmt::format(R"({{"version": 1, "rules": [
        {{"name": "watch", "match": {{{}}}, "action": {{"mirror": "scrub"}}}}, {}],
        "pipelines": {{"scrub": [{{"stage": "acl", "rules": [], "default": "drop", "cache": true}}],
                       "look": [{{"stage": "acl", "rules": []{}}}]}}}})",
                             match, kLook, look),
                 "p.json", read_files_of({}));
  };
  for (const char* match : {R"("proto": "tcp")", ""}) {
    const auto policy = watched(match, R"(, "cache": "60s")");
    ASSERT_FALSE(policy) << match;
    EXPECT_EQ(policy.error()[0].pointer, "/rules/1");
    EXPECT_NE(policy.error()[0].message.find("the mirror \"watch\" ahead of this rule must see every packet"),
              std::string::npos)
        << policy.error()[0].message;
    EXPECT_TRUE(watched(match, "")) << "nothing is cached behind it";
  }
  // Packets that a rule tells by their flags meet the rules whatever is cached.
  for (const char* match : {R"("proto": "tcp", "tcp_flags": "syn,!ack")", R"("proto": "udp")"})
    EXPECT_TRUE(watched(match, R"(, "cache": "60s")")) << match;
}

// A mirror's own verdicts act where it stands, behind the limits: nothing gets round them.
TEST(Caching, OfAMirrorsPipelineIsFineBehindALimit) {
  EXPECT_TRUE(parsed(limit("") + R"({"match": {"proto": "tcp"}, "action": {"mirror": "look"}})"));
}

bool special(const Tables& tables, u8 flags) {
  return (tables.header.tcp_special[flags / 64] >> flags % 64 & 1) != 0;
}

TEST(Caching, PacketsThatARuleTellsByTheirFlagsAreSpecial) {
  const auto plain = parsed(kLook);
  ASSERT_TRUE(plain);
  const auto none = compile(*plain);
  ASSERT_TRUE(none);
  for (u32 flags = 0; flags < 256; ++flags) EXPECT_FALSE(special(*none, static_cast<u8>(flags))) << flags;

  const auto syn = parsed(limit(R"("proto": "tcp", "tcp_flags": "syn,!ack")") +
                          R"({"match": {"proto": "tcp", "tcp_flags": "rst"}, "action": "drop"},)" + kLook);
  ASSERT_TRUE(syn) << syn.error()[0].sentence();
  const auto tables = compile(*syn);
  ASSERT_TRUE(tables);
  for (u32 flags = 0; flags < 256; ++flags)
    EXPECT_EQ(special(*tables, static_cast<u8>(flags)), (flags & 0x12) == 0x02 || (flags & 0x04) != 0)
        << flags;
}

// Behind a stage that asks for flags a later one's cache would hide packets from it, too.
TEST(Caching, PacketsThatAStageTellsByTheirFlagsAreSpecial) {
  const auto tables_of = [](const std::string& stages) {
    const auto policy =
        parse(fmt::format(R"({{"version": 1, "rules": [{}], "pipelines": {{"look": [{}]}}}})", kLook, stages),
              "p.json", read_files_of({}));
    return compile(policy.value()).value();
  };
  const std::string asks = R"({"stage": "acl", "rules": [
      {"match": {"tcp_flags": "syn,!ack"}, "action": "drop"}, {"match": {"tcp_flags": "fin"}, "action": "next"}]
      )";
  for (const std::string& stages :
       {asks + R"(, "cache": "60s"})", asks + R"(}, {"stage": "l2fwd", "cache": true})"}) {
    const Tables tables = tables_of(stages);
    for (u32 flags = 0; flags < 256; ++flags)
      EXPECT_EQ(special(tables, static_cast<u8>(flags)), (flags & 0x12) == 0x02 || (flags & 0x01) != 0)
          << flags;
  }
  const Tables uncached = tables_of(asks + "}");
  for (u32 flags = 0; flags < 256; ++flags) EXPECT_FALSE(special(uncached, static_cast<u8>(flags))) << flags;
}

}  // namespace
}  // namespace xdpgpu::policy
