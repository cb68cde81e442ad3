// SPDX-License-Identifier: MIT
//
// The table of counters against the records that it makes.
#include "userspace/dataplane/counters.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>

namespace xdpgpu::dataplane {
namespace {

constexpr std::size_t kWords = sizeof(xg_worker_counters) / sizeof(u64);
constexpr std::size_t kReserved = sizeof(xg_worker_counters::reserved_end) / sizeof(u64);

// Each counter gets a value of its own.
xg_worker_counters all_different() {
  xg_worker_counters counters{};
  for (std::size_t i = 0; i < kWorkerCounters.size(); i++) counters.*kWorkerCounters[i].value = u64{1} << i;
  return counters;
}

TEST(Counters, EachMemberOfTheRecordIsInTheTableOnce) {
  ASSERT_EQ(kWorkerCounters.size(), kWords - kReserved);
  const xg_worker_counters counters = all_different();
  std::array<u64, kWords> words{};
  std::memcpy(words.data(), &counters, sizeof(counters));
  for (std::size_t i = 0; i < kWords; i++)
    EXPECT_EQ(words[i], i < kWorkerCounters.size() ? u64{1} << i : 0u) << "word " << i;
}

TEST(Counters, EachReasonIsInTheTableAtItsNumber) {
  ASSERT_EQ(kKernelCounters.size(), std::size_t{XG_KERNEL_REASON_COUNT});
#define XG_X(reason, ...) EXPECT_STREQ(kKernelCounters[XG_KERNEL_##reason].name, #reason);
  XG_KERNEL_REASONS(XG_X)
#undef XG_X
}

template <class Table>
void expect_told_apart(const Table& table) {
  std::set<std::string> names, words;
  for (const Counter& counter : table) {
    EXPECT_TRUE(names.insert(counter.name).second) << counter.name;
    EXPECT_TRUE(words.insert(counter.words).second) << counter.words;
    EXPECT_STRNE(counter.words, "") << counter.name;
    EXPECT_STRNE(counter.brief, "") << counter.name;
    EXPECT_TRUE(counter.unit == XG_UNIT_packets || counter.outcome == XG_OUTCOME_none) << counter.name;
  }
}
TEST(Counters, AreToldApartByNameAndWords) {
  expect_told_apart(kKernelCounters);
  expect_told_apart(kWorkerCounters);
  expect_told_apart(kMalformedCounters);
}

// What came in is counted by the kernel program alone, and every reason of it says where the packet went.
TEST(Counters, EveryPacketOfTheKernelsHasAnOutcome) {
  for (u32 reason = 0; reason < kKernelCounters.size(); reason++) {
    const xg_outcome outcome = kKernelCounters[reason].outcome;
    EXPECT_NE(outcome, XG_OUTCOME_none) << kKernelCounters[reason].name;
    EXPECT_EQ(outcome == XG_OUTCOME_in, reason == XG_KERNEL_received) << kKernelCounters[reason].name;
    EXPECT_EQ(outcome == XG_OUTCOME_program, reason == XG_KERNEL_program) << kKernelCounters[reason].name;
    EXPECT_EQ(outcome == XG_OUTCOME_on, reason == XG_KERNEL_inspected) << kKernelCounters[reason].name;
  }
  for (const Counter& counter : kWorkerCounters)
    EXPECT_TRUE(counter.outcome == XG_OUTCOME_none || is_end(counter.outcome)) << counter.name;
}

TEST(Counters, WhatIsOverIsEveryEndButWhatWasNeverReceived) {
  const xg_worker_counters counters = all_different();
  u64 ends = 0;
  for (const WorkerCounter& counter : kWorkerCounters)
    if (is_end(counter.outcome)) ends += counters.*counter.value;
  EXPECT_EQ(packets_over(counters), ends - counters.lost_in_kernel);
  EXPECT_EQ(packets_handed(counters), counters.received + counters.lost_in_kernel);
}

TEST(Counters, AddUpByMember) {
  const xg_worker_counters one = all_different();
  xg_worker_counters sum = one;
  add(sum, one);
  for (const WorkerCounter& counter : kWorkerCounters)
    EXPECT_EQ(sum.*counter.value, 2 * (one.*counter.value)) << counter.name;
}

}  // namespace
}  // namespace xdpgpu::dataplane
