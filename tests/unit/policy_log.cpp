// SPDX-License-Identifier: MIT
//
// A policy's "log": what is taken, and what is wrong with the rest.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "userspace/policy/log.hpp"
#include "userspace/policy/policy.hpp"

namespace xdpgpu::policy {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Empty: nothing is wrong.
std::string problems(const std::string& text) {
  std::string all;
  if (const auto policy = parse(text, "p.json", read_files_of({})); !policy)
    for (const auto& one : policy.error()) all += one.sentence() + "\n";
  return all;
}
Log log_of(const std::string& text) {
  EXPECT_EQ(problems(text), "");
  return parse(text, "p.json", read_files_of({})).value().log;
}

TEST(ParseLog, HasItsDefaults) {
  const Log log = log_of(R"({"version": 1, "log": {"outputs": [{"file": "/a.json"}]}})");
  Log expected;
  expected.outputs = {{LogOutput::Kind::file, "/a.json"}};
  EXPECT_EQ(log, expected);
  EXPECT_TRUE(log.drop && log.dns && log.stats && log.alert && log.program);
  EXPECT_EQ(log.rate, 1000u);
  EXPECT_EQ(log.alert_rate, 10u);
  EXPECT_EQ(log.stats_every_ns, 10'000'000'000u);
}

TEST(ParseLog, IsTakenAsItIsWritten) {
  const Log log = log_of(
      R"({"version": 1, "log": {"events": ["stats", "alert"], "rate": 1000000, "alert_rate": 7, "payload": 1024,
      "outputs": [{"socket": "/run/x.sock"}, {"journald": true}, {"file": "/run/x.sock"}], "stats_every": "1h"}})");
  EXPECT_THAT(log.outputs, ElementsAre(LogOutput{LogOutput::Kind::socket, "/run/x.sock"},
                                       LogOutput{LogOutput::Kind::journald, ""},
                                       LogOutput{LogOutput::Kind::file, "/run/x.sock"}));
  EXPECT_TRUE(!log.drop && !log.dns && log.stats && log.alert && !log.program);
  EXPECT_EQ(log.rate, 1'000'000u);
  EXPECT_EQ(log.alert_rate, 7u);
  EXPECT_EQ(log.payload_bytes, 1024u);
  EXPECT_EQ(log.stats_every_ns, 3'600'000'000'000u);
}

TEST(ParseLog, WhatIsWrongIsSaid) {
  const auto said = [](const std::string& log) { return problems(R"({"version": 1, "log": )" + log + "}"); };
  const auto output = [&](const std::string& text) { return said(R"({"outputs": [)" + text + "]}"); };
  EXPECT_THAT(said("{}"), HasSubstr("outputs"));
  EXPECT_THAT(output(""), HasSubstr("1 to 8 outputs, here are 0"));
  std::string nine = R"({"file": "/0"})";
  for (int i = 1; i < 9; i++) nine += R"(, {"file": "/)" + std::to_string(i) + "\"}";
  EXPECT_THAT(output(nine), HasSubstr("1 to 8 outputs, here are 9"));
  EXPECT_THAT(output("{}"), HasSubstr("an output is one of"));
  EXPECT_THAT(output(R"({"file": "/a", "socket": "/b"})"), HasSubstr("an output is one of"));
  EXPECT_THAT(output(R"({"flie": "/a"})"), HasSubstr("file"));
  EXPECT_THAT(output(R"({"journald": false})"), HasSubstr("is true or is not there"));
  EXPECT_THAT(output(R"({"file": "/a"}, {"file": "/a"})"), HasSubstr("stands here twice"));
  for (const char* path : {"a", "./a", "/a/", "/", "/a/../b", "/..", "@abstract"})
    EXPECT_THAT(output(std::string(R"({"file": ")") + path + "\"}"), HasSubstr("a path from the root"))
        << path;
  for (const char* path : {"/a\\nb", "/a\\u007fb"})
    EXPECT_THAT(output(std::string(R"({"file": ")") + path + "\"}"), HasSubstr("control characters")) << path;
  EXPECT_THAT(output(R"({"socket": "/)" + std::string(400, 'a') + "\"}"),
              HasSubstr("401 bytes; at most 400"));
  EXPECT_EQ(output(R"({"socket": "/)" + std::string(399, 'a') + "\"}"), "");
  EXPECT_EQ(output(R"({"file": "/a..b/..c"})"), "");
  const auto with = [&](const std::string& member) {
    return said(R"({"outputs": [{"file": "/a"}], )" + member + "}");
  };
  EXPECT_THAT(with(R"("events": [])"), HasSubstr("names no event"));
  EXPECT_THAT(with(R"("events": ["drop", "drop"])"), HasSubstr("stands here twice"));
  EXPECT_THAT(with(R"("events": ["drops"])"), HasSubstr("drop"));
  EXPECT_THAT(with(R"("events": "drop")"), HasSubstr("must be an array"));
  for (const char* member : {R"("rate": 0)", R"("rate": 1000001)", R"("alert_rate": 0)",
                             R"("alert_rate": 1000001)", R"("payload": 1025)", R"("payload": -1)",
                             R"("stats_every": "999ms")", R"("stats_every": "61m")", R"("stats_every": 10)"})
    EXPECT_NE(with(member), "") << member;
}

// What the broker reads: of a text that may be anybody's.
TEST(ParseLog, OutputsAreFoundInATextThatIsOtherwiseWrong) {
  EXPECT_THAT(log_outputs_of(R"({"rules": 7, "log": {"outputs": [{"file": "/a"}]}})"),
              ElementsAre(LogOutput{LogOutput::Kind::file, "/a"}));
  for (const char* text : {"", "[]", "{", R"({"log": 7})", R"({"log": {"outputs": [{"file": "a"}]}})",
                           R"({"log": {"outputs": [{"file": "/a"}], "rate": 0}})", R"({"version": 1})"})
    EXPECT_TRUE(log_outputs_of(text).empty()) << text;
}

}  // namespace
}  // namespace xdpgpu::policy
