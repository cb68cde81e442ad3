// SPDX-License-Identifier: MIT
//
// Arguments of requests, by clients that mean something else by them.
#include "userspace/control/arguments.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace xdpgpu::control {
namespace {

using ::testing::HasSubstr;

// A value of each kind of JSON.
const std::vector<Json> kKinds{nullptr,
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

TEST(ControlArguments, OfAnyKindAreTakenOrRefusedAndNothingElse) {
  const std::vector<std::pair<const char*, std::function<bool(const Json&)>>> requests{
      {"keep", [](const Json& a) { return detach_keeps(a).has_value(); }},
      {"on", [](const Json& a) { return bypass_is_on(a).has_value(); }},
      {"text", [](const Json& a) { return apply_arguments(a).has_value(); }},
      {"file", [](const Json& a) { return apply_arguments(a).has_value(); }},
      {"confirm_s", [](const Json& a) { return apply_arguments(a).has_value(); }},
      {"audit", [](const Json& a) { return apply_arguments(a).has_value(); }},
      {"keep_audit", [](const Json& a) { return apply_arguments(a).has_value(); }},
      {"interface", [](const Json& a) { return flow_query(a).has_value(); }},
      {"limit", [](const Json& a) { return flow_query(a).has_value(); }},
      {"from", [](const Json& a) { return flow_query(a).has_value(); }}};
  for (const auto& [name, takes] : requests) {
    std::size_t taken = 0;
    for (const Json& value : kKinds) {
      Json arguments = {{"text", "{}"}, {"file", "a.json"}, {"on", true}, {"interface", "eth0"}};
      arguments[name] = value;
      EXPECT_NO_THROW(taken += takes(arguments) ? 1 : 0) << name << ": " << value;
    }
    EXPECT_GT(taken, 0u) << name;
    EXPECT_LT(taken, 4u) << name << " is taken for what it is not";
  }
}

TEST(ControlArguments, WhatIsNotSaidIsAsItIsDescribed) {
  EXPECT_FALSE(detach_keeps(Json::object()).value());
  EXPECT_TRUE(detach_keeps({{"keep", true}}).value());
  EXPECT_THAT(detach_keeps({{"keep", 1}}).error(), HasSubstr("\"keep\" is not true or false"));
  EXPECT_THAT(bypass_is_on(Json::object()).error(), HasSubstr("needs \"on\""));
  EXPECT_THAT(apply_arguments({{"text", "{}"}}).error(), HasSubstr("\"file\""));
  const auto apply = apply_arguments({{"text", "{}"}, {"file", "f"}, {"confirm_s", 60u}});
  ASSERT_TRUE(apply) << apply.error();
  EXPECT_EQ(apply->confirm_s, 60u);
  EXPECT_FALSE(apply->audit);
  EXPECT_FALSE(apply_arguments({{"text", "{}"}, {"file", "f"}, {"confirm_s", 0u}}));
  EXPECT_FALSE(apply_arguments({{"text", "{}"}, {"file", "f"}, {"confirm_s", kMaxConfirmSeconds + 1}}));
  const auto flows = flow_query(Json::object());
  ASSERT_TRUE(flows) << flows.error();
  EXPECT_EQ(flows->limit, 1000u);
  EXPECT_EQ(flows->from, 0u);
  EXPECT_FALSE(flow_query({{"from", 7u}})) << "of which port?";
  EXPECT_FALSE(flow_query({{"interface", "eth0"}, {"from", 0x100000000u}})) << "no map is that long";
  EXPECT_EQ(flow_query({{"interface", "eth0"}, {"from", 7u}})->from, 7u);
}

}  // namespace
}  // namespace xdpgpu::control
