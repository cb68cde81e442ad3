// SPDX-License-Identifier: MIT
#include "userspace/control/policy_swap.hpp"

#include <gtest/gtest.h>

#include "userspace/kernel/remains.hpp"

namespace xdpgpu::control {
namespace {

TEST(ControlPolicySwap, NoGenerationIsGivenTwice) {
  EXPECT_EQ(generation_behind(0, 1).value(), 1u);
  EXPECT_EQ(generation_behind(7, 0).value(), 7u) << "the same policy goes on";
  EXPECT_EQ(generation_behind(0xfffffffe, 1).value(), 0xffffffffu);
  for (const auto& [generation, steps] : {std::pair{0xffffffffu, 1u}, {0xfffffffeu, 3u}}) {
    const auto none = generation_behind(generation, steps);
    ASSERT_FALSE(none) << *none;
    EXPECT_NE(none.error().find("detach and attach again"), std::string::npos) << none.error();
  }
  // What a dead attach left can be gone on with, and there are many left then.
  EXPECT_GT(generation_behind(kernel::kLastGenerationToGoOn, 1u << 29).value(),
            kernel::kLastGenerationToGoOn);
}

}  // namespace
}  // namespace xdpgpu::control
