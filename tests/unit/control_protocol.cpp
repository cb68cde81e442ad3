// SPDX-License-Identifier: MIT
//
// The control socket's codec: what is said is what is heard, and nonsense is one sentence.
#include "userspace/control/protocol.hpp"

#include <gtest/gtest.h>

#include <ctime>

namespace xdpgpu::control {
namespace {

TEST(ControlProtocol, RequestsComeBackAsTheyWere) {
  const Request request{
      "policy.apply", {{"text", "{\n \"version\": 1\n}"}}, {{"a.txt", "10.0.0.0/8\n"}, {"b", ""}}};
  const std::string line = encode(request);
  EXPECT_EQ(line.find('\n'), line.size() - 1) << "a message is one line";
  const auto back = decode_request(line);
  ASSERT_TRUE(back) << back.error();
  EXPECT_EQ(back->name, "policy.apply");
  EXPECT_EQ(back->arguments.at("text"), "{\n \"version\": 1\n}");
  EXPECT_EQ(back->announced.at("a.txt"), 11u) << "its content is to follow the line";
  EXPECT_EQ(back->announced.at("b"), 0u);
}

TEST(ControlProtocol, ARequestSaysWhoseProcessIsMeant) {
  Request request{"status", {}};
  request.ifname = "eth0";
  const auto back = decode_request(encode(request));
  ASSERT_TRUE(back) << back.error();
  EXPECT_EQ(back->ifname, "eth0");
  const auto anybody = decode_request(encode(Request{"status", {}}));
  ASSERT_TRUE(anybody) << anybody.error();
  EXPECT_EQ(anybody->ifname, "");
  for (const char* name : {"3", "\"\"", "[]", "null"})
    EXPECT_FALSE(decode_request(std::string("{\"request\": \"status\", \"for\": ") + name + "}")) << name;
}

TEST(ControlProtocol, FilesHaveALengthAndABound) {
  const auto refused = [](const std::string& files) {
    const auto request = decode_request("{\"request\": \"policy.apply\", \"files\": " + files + "}");
    return !request && request.error().find("length") != std::string::npos;
  };
  EXPECT_TRUE(refused("[]"));
  EXPECT_TRUE(refused("{\"a\": \"10.0.0.0/8\"}"));
  EXPECT_TRUE(refused("{\"a\": -1}"));
  EXPECT_TRUE(refused("{\"a\": 1.5}"));
  EXPECT_TRUE(refused("{\"a\": 18446744073709551615}"));
  EXPECT_TRUE(refused("{\"a\": 1, \"b\": " + std::to_string(kMaxFilesBytes) + "}"));
  EXPECT_FALSE(refused("{}"));
  EXPECT_FALSE(refused("{\"a\": 0}"));
}

TEST(ControlProtocol, AnswersComeBackAsTheyWere) {
  const auto good = decode_response(encode(Response::success({{"generation", 7}})));
  ASSERT_TRUE(good);
  EXPECT_TRUE(good->ok());
  EXPECT_EQ(good->result.at("generation"), 7);
  const auto bad = decode_response(encode(Response::failure(
      Refusal{"it does not work; do this",
              {"one", "two"},
              {{.message = "no such key", .pointer = "/defualt", .line = 2}, {.message = "another"}}})));
  ASSERT_TRUE(bad);
  EXPECT_FALSE(bad->ok());
  EXPECT_EQ(bad->error, "it does not work; do this");
  EXPECT_EQ(bad->diagnostics, (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(as_json(bad->problems),
            Json::parse(
                R"([{"message": "no such key", "pointer": "/defualt", "line": 2}, {"message": "another"}])"));
}

TEST(ControlProtocol, BytesThatAreNoTextDoNotThrow) {
  const std::string line = encode(Response::failure("file \xff\xfe"));
  EXPECT_TRUE(decode_response(line));
}

TEST(ControlProtocol, NonsenseIsRefusedInASentence) {
  for (const char* line : {"", "\n", "{", "[]", "42", "\"status\"", "{}", "{\"request\": 3}",
                           "{\"request\": null}", "{\"request\": \"status\"} x", "\xff\xfe\xfd"}) {
    const auto request = decode_request(line);
    ASSERT_FALSE(request) << line;
    EXPECT_FALSE(request.error().empty());
    EXPECT_EQ(request.error().find('\n'), std::string::npos);
  }
  for (const char* line : {"", "{}", "{\"ok\": 1}", "[true]"}) EXPECT_FALSE(decode_response(line)) << line;
}

TEST(ControlProtocol, DepthIsBounded) {
  auto nested = [](int depth) {
    return "{\"request\": \"status\", \"x\": " + std::string(static_cast<std::size_t>(depth), '[') +
           std::string(static_cast<std::size_t>(depth), ']') + "}";
  };
  EXPECT_TRUE(decode_request(nested(kMaxDepth - 1)));
  const auto deep = decode_request(nested(kMaxDepth + 1));
  ASSERT_FALSE(deep);
  EXPECT_NE(deep.error().find("deeper"), std::string::npos) << deep.error();
  EXPECT_FALSE(decode_request(nested(1'000'000))) << "and a million levels do not end the process";
}

// Each value takes many times its length in memory.
TEST(ControlProtocol, ValuesAreBounded) {
  const auto with = [](std::size_t values) {
    std::string line = "{\"request\": \"status\", \"x\": [[]";
    for (std::size_t i = 0; i < values; ++i) line += i % 2 == 0 ? ",1" : ",{}";
    return line + "]}";
  };
  EXPECT_TRUE(decode_request(with(1000)));
  const auto many = decode_request(with(10'000'000));
  ASSERT_FALSE(many);
  EXPECT_EQ(many.error(), "the request has more than 100000 values");
}

// As many as a large list of flows has.
TEST(ControlProtocol, ManyObjectsAreReadInTheTimeOfTheirLength) {
  std::string line = "{\"ok\": true, \"result\": [{}";
  for (int i = 1; i < 500'000; ++i) line += ",{}";
  const std::clock_t start = std::clock();
  const auto answer = decode_response(line + "]}");
  EXPECT_LT(double(std::clock() - start) / CLOCKS_PER_SEC, 10);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->result.size(), 500'000U);
}

TEST(ControlProtocol, LengthIsBounded) {
  const std::string line = "{\"request\": \"" + std::string(kMaxMessage, 'x') + "\"}";
  const auto request = decode_request(line);
  ASSERT_FALSE(request);
  EXPECT_NE(request.error().find("longer"), std::string::npos) << request.error();
}

}  // namespace
}  // namespace xdpgpu::control
