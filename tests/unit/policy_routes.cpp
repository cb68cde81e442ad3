// SPDX-License-Identifier: MIT
//
// Files of routes, as exported from a routing daemon or written by hand.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>

#include "userspace/policy/stage_names.hpp"
#include "userspace/policy/values.hpp"

namespace xdpgpu::policy {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kPolicy = R"({"version": 1, "pipelines": {"p": [{"stage": "forward",
  "next_hops": {"up": {"mac": "02:00:00:00:00:01"}, "up-2": {"mac": "02:00:00:00:00:02"}},
  "routes": [{"prefix": "192.0.2.0/24", "next_hop": "up"}, {"file": "r"}]}]}})";

Result<Policy> read(std::string text) { return parse(kPolicy, "p", read_files_of({{"r", std::move(text)}})); }
const gpu::ForwardSettings& stage_of(const Policy& policy) {
  return std::get<gpu::ForwardSettings>(policy.pipelines[0].stages[0]);
}

std::vector<std::string> routes(const std::string& text) {
  const auto policy = read(text);
  if (!policy) return {policy.error().front().sentence()};
  const gpu::ForwardSettings& stage = stage_of(*policy);
  EXPECT_EQ(stage.sources.at(0), (gpu::RouteSource{"", 1}));
  EXPECT_EQ(stage.sources.at(1).file, "r");
  EXPECT_EQ(stage.routes.size(), 1 + stage.sources[1].count);
  std::vector<std::string> texts;
  for (std::size_t i = 1; i < stage.routes.size(); i++) {
    const u32 hop = stage.routes[i].next_hop;
    texts.push_back(write_prefix(policy_prefix(stage.routes[i].prefix)) + " " +
                    (hop == gpu::kRoutePass   ? "pass"
                     : hop == gpu::kRouteDrop ? "drop"
                                              : stage.next_hops.at(hop).name));
  }
  return texts;
}
std::string problem(const std::string& text) { return routes(text).at(0); }

TEST(Routes, TakesOneALine) {
  EXPECT_THAT(
      routes("# a table\r\n0.0.0.0/0 up\r\n\t10.0.0.0/8\t up-2 ; rest\n;\n\n 2001:db8::/32  drop# and\n"
             "::ffff:192.0.2.1 pass\n198.51.100.7 up-2"),
      ElementsAre("0.0.0.0/0 up", "10.0.0.0/8 up-2", "2001:db8::/32 drop", "::ffff:192.0.2.1 pass",
                  "198.51.100.7 up-2"));
  EXPECT_THAT(routes("\xef\xbb\xbf::/0 up\n"), ElementsAre("::/0 up"));
  EXPECT_THAT(routes(""), ElementsAre());
}

TEST(Routes, SaysWhatIsWrongWithALineAndWhere) {
  EXPECT_THAT(
      problem("::/0 up\n 10.0.0.0/8 upp\n"),
      HasSubstr("r:2:13: /pipelines/p/0/routes/1/file: there is no next hop \"upp\"; did you mean \"up\"?"));
  EXPECT_THAT(problem("10.0.0.0/8\n"), HasSubstr("r:1:1: "));
  EXPECT_THAT(problem("10.0.0.0/8 # up\n"), HasSubstr("a route is a prefix and the name of a next hop"));
  EXPECT_THAT(problem("10.0.0.0/8 up up-2\n"), HasSubstr("r:1:15: "));
  EXPECT_THAT(problem("10.0.0.0/8 up up-2\n"), HasSubstr("a line holds one route"));
  EXPECT_THAT(problem("10.0.0.1/8 up\n"), HasSubstr("\"10.0.0.1/8\" has bits set behind its prefix length"));
  EXPECT_THAT(problem("10.0.0.0/8,up\n"), HasSubstr("\"10.0.0.0/8,up\": the prefix length"));
  EXPECT_THAT(problem("10.0.0.0/8 \x1bup\n"), HasSubstr("\"?up\""));
}

TEST(Routes, AFloodOfBadLinesIsCounted) {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += "bad up\n::/0 down\n";
  const auto policy = read(text);
  ASSERT_FALSE(policy);
  ASSERT_EQ(policy.error().size(), kMaxDiagnostics + 1);
  EXPECT_EQ(policy.error().back().message, "and 199980 more problems");
}

TEST(Routes, ThePoliciesHashIsTheTextsOfItsFiles) {
  EXPECT_EQ(read("::/0 up\n")->hash, read("::/0 up\n")->hash);
  EXPECT_NE(read("::/0 up\n")->hash, read("::/0 up-2\n")->hash);
  EXPECT_FALSE(parse(kPolicy, "p", read_files_of({}))) << "a file that is not there";
}

TEST(Routes, MoreThanThereIsRoomForAreRefused) {
  std::string text;
  for (u64 i = 0; i < kMaxPrefixes; ++i) text += "::/0 up\n";
  const auto policy = read(text);  // with the one in the policy
  ASSERT_FALSE(policy);
  EXPECT_THAT(policy.error().front().message, HasSubstr("more prefixes than the 4000000"));
}

// Packets are looked at as a router does where there is one.
TEST(Routes, TheXdpProgramIsToldOfARouter) {
  EXPECT_EQ(compile(*read("::/0 up\n"))->header.routes, 1u);
  const auto none =
      parse(R"({"version": 1, "pipelines": {"p": [{"stage": "l2fwd"}]}})", "p", read_files_of({}));
  EXPECT_EQ(compile(*none)->header.routes, 0u);
}

TEST(Routes, AFullTableIsReadInSeconds) {
  std::string text;
  for (u32 i = 0; i < 1'000'000; ++i)
    text +=
        fmt::format("{}.{}.{}.0/24 {}\n", 1 + i / 65536, i / 256 % 256, i % 256, i % 3 == 0 ? "up" : "up-2");
  for (u32 i = 0; i < 200'000; ++i) text += fmt::format("2001:{:x}:{:x}::/48 up\n", i / 65536, i % 65536);
  const std::clock_t start = std::clock();  // its own time: others may use the processor
  const auto policy = read(text);
  EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 4) << "seconds";
  ASSERT_TRUE(policy);
  EXPECT_EQ(routes_of(policy->pipelines[0].stages[0]), 1'200'001u);
}

}  // namespace
}  // namespace xdpgpu::policy
