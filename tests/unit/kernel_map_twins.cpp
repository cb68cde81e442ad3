// SPDX-License-Identifier: MIT
//
// What keeps the two copies of a map in step.
#include "userspace/kernel/map_twins.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

namespace xdpgpu::kernel {
namespace {

using namespace std::chrono_literals;

const MapBytes kA{1}, kB{2}, kC{3};
constexpr CountedWord kWhole{0, 8};

MapBytes number(u64 number) {
  MapBytes bytes(sizeof(number));
  std::memcpy(bytes.data(), &number, sizeof(number));
  return bytes;
}
MapBytes halves(u32 first, u32 second) { return number(u64{second} << 32 | first); }
MapStep counts(const MapSides& last, const MapSides& now) { return step_counts(last, now, {&kWhole, 1}); }

TEST(MapChanges, AreWhatMakesOneOfTheOther) {
  const MapEntries from{{kA, number(1)}, {kB, number(2)}}, to{{kB, number(3)}, {kC, number(4)}};
  const auto made = changes(from, to);
  EXPECT_EQ(made, (MapChanges{{{kB, number(3)}, {kC, number(4)}}, {kA}}));
  MapEntries applied = from;
  carry_out(made, applied);
  EXPECT_EQ(applied, to);
  EXPECT_EQ(changes(to, to), MapChanges{});
}

TEST(MapTwinsOfCounts, TheKernelGetsTheSumOfWhatDevicesCounted) {
  const MapSides last{{{kA, number(100)}}, {{{kA, number(60)}}, {{kA, number(40)}}}};
  const auto step = counts(last, {{{kA, number(100)}}, {{{kA, number(65)}}, {{kA, number(41)}}}});
  EXPECT_EQ(step.kernel, (MapChanges{{{kA, number(106)}}, {}}));
  EXPECT_THAT(step.devices, ::testing::ElementsAre(MapChanges{}, MapChanges{}));
  EXPECT_EQ(step.after.devices[0].at(kA), number(65));
  const auto again = counts(step.after, step.after);
  EXPECT_EQ(again.kernel, MapChanges{}) << "nothing is counted twice";
}

TEST(MapTwinsOfCounts, WhatBothSidesAddAddsUp) {
  const MapSides last{{{kA, number(100)}}, {{{kA, number(100)}}}};
  const auto step = counts(last, {{{kA, number(1000)}}, {{{kA, number(107)}}}});
  EXPECT_EQ(step.after.kernel.at(kA), number(1007));
  EXPECT_EQ(step.devices[0].put.at(kA), number(1007));
  const auto reset = counts(step.after, {{{kA, number(0)}}, {{{kA, number(1010)}}}});
  EXPECT_EQ(reset.after.kernel.at(kA), number(3)) << "the operator began from 0, and 3 came since";
  EXPECT_EQ(reset.after.devices[0].at(kA), number(3));
}

TEST(MapTwinsOfCounts, FlagsBelowACountAreTheOperators) {
  constexpr u64 kOne = 64;  // as xdp-filter counts
  const MapSides last{{{kA, number(10 * kOne + 1)}}, {{{kA, number(10 * kOne + 1)}}}};
  const auto step = counts(last, {{{kA, number(10 * kOne + 3)}}, {{{kA, number(15 * kOne + 1)}}}});
  EXPECT_EQ(step.after.kernel.at(kA), number(15 * kOne + 3));
  EXPECT_EQ(step.after.devices[0].at(kA), number(15 * kOne + 3));
}

TEST(MapTwinsOfCounts, WordsWrapAndDoNotReachIntoTheirNeighbours) {
  const std::vector<CountedWord> words{{0, 4}};
  constexpr u32 kMost = std::numeric_limits<u32>::max();
  const MapSides last{{{kA, halves(kMost, 7)}}, {{{kA, halves(kMost, 7)}}}};
  // The second half is nobody's count: what the operator wrote goes to the device.
  const auto step = step_counts(last, {{{kA, halves(kMost, 8)}}, {{{kA, halves(1, 7)}}}}, words);
  EXPECT_EQ(step.after.kernel.at(kA), halves(1, 8));
  EXPECT_EQ(step.devices[0].put.at(kA), halves(1, 8));
}

TEST(MapTwinsOfCounts, EntriesAreTheOperatorsToMakeAndToDelete) {
  const MapSides last{{{kA, number(1)}}, {{{kA, number(1)}}, {{kA, number(0)}}}};
  const auto step = counts(last, {{{kB, number(5)}}, {{{kA, number(2)}}, {{kA, number(0)}}}});
  EXPECT_EQ(step.kernel, MapChanges{});
  for (const MapChanges& device : step.devices) EXPECT_EQ(device, (MapChanges{{{kB, number(5)}}, {kA}}));
}

TEST(MapTwinsOfCounts, BeginWithWhatTheKernelHas) {
  const auto step = counts({}, {{{kA, number(9)}}, {{{kA, number(4)}}, {}}});
  EXPECT_EQ(step.kernel, MapChanges{});
  EXPECT_EQ(step.devices[0].put.at(kA), number(9));
  EXPECT_EQ(step.devices[1].put.at(kA), number(9));
}

// Who wrote to the kernel's between look and step loses nothing, and neither do packets.
TEST(MapTwinsOfCounts, AnEntryThatWasNotWrittenIsFoundByTheNextStep) {
  const MapSides last{{{kA, number(10)}}, {{{kA, number(10)}}}};
  for (const u64 seen : {10, 11}) {  // the operator had added to it before, too, or not
    const MapSides now{{{kA, number(seen)}}, {{{kA, number(14)}}}};
    auto step = counts(last, now);
    // Then he adds 100, and it stays: the device has what step.devices says.
    leave_kernel(step, last, now, kA, {&kWhole, 1});
    MapEntries device = now.devices[0];
    carry_out(step.devices[0], device);
    const auto next = counts(step.after, {{{kA, number(seen + 100)}}, {device}});
    EXPECT_EQ(next.after.kernel.at(kA), number(seen + 104));
    EXPECT_EQ(next.after.devices[0].at(kA), number(seen + 104));
  }
}

TEST(MapTwinsOfCounts, WordsOutsideOfTheValueAndOtherSizesAreLeftAlone) {
  const std::vector<CountedWord> words{{4, 8}, {0xfffffffcu, 8}, {0, 2}};
  const MapSides last{{{kA, number(1)}}, {{{kA, number(1)}}}};
  const auto step = step_counts(last, {{{kA, number(2)}}, {{{kA, MapBytes(3)}}}}, words);
  EXPECT_EQ(step.kernel, MapChanges{});
  EXPECT_EQ(step.devices[0].put.at(kA), number(2));
}

TEST(MapTwinsOfChangedMaps, TheDeviceOverwritesTheKernel) {
  const MapSides last{{{kA, number(1)}}, {{{kA, number(1)}}}};
  const MapSides now{{{kA, number(7)}, {kB, number(8)}}, {{{kA, number(2)}, {kC, number(3)}}}};
  const auto step = step_changed(&last, now, false);
  EXPECT_EQ(step.kernel, (MapChanges{{{kA, number(2)}, {kC, number(3)}}, {kB}}));
  EXPECT_EQ(step.devices[0], MapChanges{});
}

TEST(MapTwinsOfChangedMaps, WhereTheKernelWinsTheOperatorsEntriesGoFirst) {
  const MapSides last{{{kA, number(1)}, {kB, number(1)}}, {{{kA, number(1)}, {kB, number(1)}}}};
  const MapSides now{{{kA, number(7)}}, {{{kA, number(2)}, {kB, number(2)}, {kC, number(3)}}}};
  const auto step = step_changed(&last, now, true);
  EXPECT_EQ(step.devices[0], (MapChanges{{{kA, number(7)}}, {kB}}));
  EXPECT_EQ(step.kernel, (MapChanges{{{kC, number(3)}}, {}}));
  EXPECT_EQ(step.after.kernel, step.after.devices[0]);
  const auto at_first = step_changed(nullptr, now, true);
  EXPECT_EQ(at_first.devices[0], MapChanges{}) << "nobody has written yet";
}

TEST(MapTwins, LooksTakeATwentiethOfTheTimeAtMost) {
  EXPECT_EQ(wait_after(1ms, 100ms), 100ms);
  EXPECT_EQ(wait_after(2s, 100ms), 38s);
}

}  // namespace
}  // namespace xdpgpu::kernel
