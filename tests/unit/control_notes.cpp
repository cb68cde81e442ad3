// SPDX-License-Identifier: MIT
#include "userspace/control/notes.hpp"

#include <gmock/gmock.h>

namespace xdpgpu::control {
namespace {

using testing::HasSubstr;

TEST(HugePageNote, CountsThePagesOfAllQueues) {
  policy::Policy policy;
  EXPECT_FALSE(huge_page_note(policy, 4, 0)) << "not wanted";
  policy.io.huge_pages = true;
  policy.io.frames_per_queue = 8192;  // 8 pages
  EXPECT_FALSE(huge_page_note(policy, 1, 8));
  EXPECT_FALSE(huge_page_note(policy, 4, 100));
  const auto note = huge_page_note(policy, 4, 31);
  ASSERT_TRUE(note);
  EXPECT_EQ(*note,
            "io.huge_pages: the frames of 4 queues take 32 huge pages of 2 MiB, and 31 are free on this "
            "host, so that "
            "attach would take ordinary pages; reserve them before (sysctl vm.nr_hugepages=32)");
  policy.io.frames_per_queue = 128;
  EXPECT_THAT(huge_page_note(policy, 1, 0).value_or(""), HasSubstr("of 1 queue take 1 huge pages"));
  // By the link at least a ring and a batch.
  policy.io.burst_ns = 1'000'000;
  EXPECT_THAT(huge_page_note(policy, 1, 1).value_or(""),
              HasSubstr("take 3 huge pages of 2 MiB, and 1 is free"));
}

TEST(IgnoredByApply, NamesTheSettings) {
  policy::Policy attached, applied;
  EXPECT_FALSE(ignored_by_apply(taken_at_attach(attached), applied));
  applied.io.ring_size = 4096;
  EXPECT_EQ(ignored_by_apply(taken_at_attach(attached), applied),
            "io.ring_size stays what it was when the interface was attached, whatever an applied policy "
            "says; detach and attach again to change it");
  applied.compute.device = "cuda";
  applied.io.burst_ns = 1'000'000;
  EXPECT_THAT(ignored_by_apply(taken_at_attach(attached), applied).value_or(""),
              HasSubstr("io.burst, io.frames_per_queue, io.ring_size, compute.device stay what they were"));
  applied = attached;
  applied.rules.emplace_back();
  applied.default_action = policy::Do::drop;
  EXPECT_FALSE(ignored_by_apply(taken_at_attach(attached), applied)) << "the rest is taken";
}

}  // namespace
}  // namespace xdpgpu::control
