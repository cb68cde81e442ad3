// SPDX-License-Identifier: MIT
//
// Arguments of requests, by clients that mean something else by them.
#include "userspace/control/arguments.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "userspace/control/request_registry.hpp"

namespace xdpgpu::control {
namespace {

using ::testing::HasSubstr;

struct Everything {
  std::string text;
  bool truth = false;
  u64 number = 0;
  u32 narrow = 0;
  u64 few = 0;
  std::optional<std::string> perhaps_text;
  std::optional<bool> perhaps_truth;
  std::optional<u32> perhaps_number;
  std::optional<std::vector<u32>> perhaps_numbers;
  static void fields(auto& self, auto& field) {
    field("text", self.text);
    field("truth", self.truth);
    field("number", self.number);
    field("narrow", self.narrow);
    field("few", self.few, Within{1, 60, "a number of seconds"});
    field("perhaps_text", self.perhaps_text);
    field("perhaps_truth", self.perhaps_truth);
    field("perhaps_number", self.perhaps_number);
    field("perhaps_numbers", self.perhaps_numbers);
  }
};
const Json kRight = {{"text", "x"}, {"truth", true}, {"number", 7u}, {"narrow", 8u}, {"few", 9u}};

std::string problem_with(const char* name, const Json& value) {
  Json arguments = kRight;
  arguments[name] = value;
  const auto read = read_arguments<Everything>("try", arguments);
  return read ? "" : read.error();
}
std::string problem_without(const char* name) {
  Json arguments = kRight;
  arguments.erase(name);
  const auto read = read_arguments<Everything>("try", arguments);
  return read ? "" : read.error();
}

TEST(ControlArguments, AreReadIntoTheirFields) {
  Json arguments = kRight;
  arguments["perhaps_number"] = 10u;
  arguments["unknown"] = Json::array();
  const auto read = read_arguments<Everything>("try", arguments);
  ASSERT_TRUE(read) << read.error();
  EXPECT_EQ(read->text, "x");
  EXPECT_TRUE(read->truth);
  EXPECT_EQ(read->number, 7u);
  EXPECT_EQ(read->narrow, 8u);
  EXPECT_EQ(read->few, 9u);
  EXPECT_FALSE(read->perhaps_text);
  EXPECT_FALSE(read->perhaps_truth);
  EXPECT_EQ(read->perhaps_number, 10u);
}

TEST(ControlArguments, OfAnotherKindAreRefusedByASentence) {
  // A value of each kind of JSON.
  const std::vector<Json> kinds{nullptr,
                                true,
                                1u,
                                -1,
                                1.5,
                                "x",
                                "",
                                Json::array(),
                                1e300,
                                Json::object(),
                                Json(Json::array({Json::object()}))};
  for (const Json& value : kinds) {
    const bool whole = value.is_number_unsigned();
    for (const char* name : {"text", "perhaps_text"})
      EXPECT_EQ(problem_with(name, value),
                value.is_string() ? "" : "\"" + std::string(name) + "\" is not a text");
    for (const char* name : {"truth", "perhaps_truth"})
      EXPECT_EQ(problem_with(name, value),
                value.is_boolean() ? "" : "\"" + std::string(name) + "\" is not true or false");
    for (const char* name : {"narrow", "perhaps_number"})
      EXPECT_EQ(problem_with(name, value),
                whole ? "" : "\"" + std::string(name) + "\" is not a number from 0 to 4294967295");
    EXPECT_EQ(problem_with("few", value), whole ? "" : "\"few\" is not a number of seconds from 1 to 60");
  }
  EXPECT_NE(problem_with("few", 0u), "");
  EXPECT_EQ(problem_with("few", 60u), "");
  EXPECT_NE(problem_with("few", 61u), "");
  EXPECT_EQ(problem_with("narrow", 0xffffffffu), "");
  EXPECT_NE(problem_with("narrow", 0x100000000u), "") << "it does not fit";
  EXPECT_EQ(problem_with("number", 0xffffffffffffffffu), "");
}

TEST(ControlArguments, AreListsOfNumbersAsWholes) {
  Json arguments = kRight;
  arguments["perhaps_numbers"] = {3u, 0xffffffffu};
  const auto read = read_arguments<Everything>("try", arguments);
  ASSERT_TRUE(read) << read.error();
  EXPECT_THAT(*read->perhaps_numbers, ::testing::ElementsAre(3u, 0xffffffffu));
  EXPECT_EQ(problem_with("perhaps_numbers", Json::array()), "");
  for (const Json& wrong : {Json(3u), Json("3"), Json(), Json({-1}), Json({3u, "4"}), Json({0x100000000u}),
                            Json({Json::array()}), Json::object()})
    EXPECT_EQ(problem_with("perhaps_numbers", wrong), "\"perhaps_numbers\" is not a list of numbers")
        << wrong;
}

TEST(ControlArguments, ThatHaveToBeSaidAreAskedFor) {
  EXPECT_EQ(problem_without("text"), "try needs \"text\": a text");
  EXPECT_EQ(problem_without("truth"), "try needs \"truth\": true or false");
  EXPECT_EQ(problem_without("few"), "try needs \"few\": a number of seconds from 1 to 60");
  EXPECT_EQ(problem_without("narrow"), "try needs \"narrow\": a number from 0 to 4294967295");
}

TEST(ControlArguments, OfTheRequestsAreLookedAtByThem) {
  const auto problem = [](const char* name, const Json& arguments) {
    const auto checked = AnyRequest::find(name)->check(arguments);
    return checked ? "" : checked.error();
  };
  EXPECT_EQ(problem("detach", Json::object()), "");
  EXPECT_EQ(problem("detach", {{"keep", true}}), "");
  EXPECT_EQ(problem("detach", {{"keep", 1}}), "\"keep\" is not true or false");
  EXPECT_EQ(problem("bypass", Json::object()), "bypass needs \"on\": true or false");
  EXPECT_THAT(problem("policy.apply", {{"text", "{}"}}), HasSubstr("needs \"file\""));
  EXPECT_EQ(problem("policy.apply", {{"text", "{}"}, {"file", "f"}, {"confirm_s", 86400u}}), "");
  for (const unsigned seconds : {0u, 86401u})
    EXPECT_EQ(problem("policy.apply", {{"text", "{}"}, {"file", "f"}, {"confirm_s", seconds}}),
              "\"confirm_s\" is not a number of seconds from 1 to 86400");
  EXPECT_EQ(problem("flows.list", {{"interface", "eth0"}, {"from", 7u}}), "");
  EXPECT_NE(problem("flows.list", {{"interface", "eth0"}, {"from", 0x100000000u}}), "")
      << "no map is that long";
}

}  // namespace
}  // namespace xdpgpu::control
