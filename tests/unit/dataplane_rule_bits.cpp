// SPDX-License-Identifier: MIT
#include "userspace/dataplane/rule_bits.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "maps/packet.h"

namespace xdpgpu::dataplane {
namespace {

using Bits = gpu::RuleBits;
using On = Bits::On;
using What = Bits::What;

constexpr u64 kSecond = 1'000'000'000, kNow = 1'000 * kSecond;

Ends between(u8 src, u8 dst) {
  Ends ends{.version = 4, .protocol = 6, .src_port = 40000, .dst_port = 80};
  ends.connection = XG_CONNECTION_SEEN | XG_CONNECTION_HAS | 0x5550;
  ends.src = {192, 0, 2, src};
  ends.dst = {192, 0, 2, dst};
  return ends;
}
Ends answer(Ends ends) {
  std::swap(ends.src, ends.dst);
  std::swap(ends.src_port, ends.dst_port);
  ends.connection |= XG_CONNECTION_ANSWERS;
  return ends;
}

struct Table {
  RuleBits bits;
  bool is(On on, u64 name, const Ends& ends, u64 now = kNow) {
    const bool set = bits.hold(std::vector{Bits{What::is_set, on, {name}, 0}}, ends, now);
    const bool is_not = bits.hold(std::vector{Bits{What::is_not_set, on, {name}, 0}}, ends, now);
    EXPECT_NE(set, is_not);
    return set;
  }
  void change(What what, On on, u64 name, const Ends& ends, u32 seconds = 0, u64 now = kNow) {
    bits.change(std::vector{Bits{what, on, {name}, seconds}}, ends, now);
  }
};

TEST(RuleBits, OnAConnectionAreOfBothItsDirectionsAndOfNoOther) {
  Table table;
  const Ends ends = between(1, 2);
  EXPECT_FALSE(table.is(On::connection, 7, ends));
  table.change(What::set, On::connection, 7, ends);
  EXPECT_TRUE(table.is(On::connection, 7, ends));
  EXPECT_TRUE(table.is(On::connection, 7, answer(ends)));
  EXPECT_FALSE(table.is(On::connection, 8, ends)) << "another name";
  for (const auto change : {+[](Ends& one) { one.src_port++; }, +[](Ends& one) { one.protocol = 17; },
                            +[](Ends& one) { one.dst[3]++; }, +[](Ends& one) { one.version = 6; },
                            +[](Ends& one) { one.connection ^= 0x10; }}) {
    Ends other = ends;
    change(other);
    EXPECT_FALSE(table.is(On::connection, 7, other));
  }
  table.change(What::unset, On::connection, 7, answer(ends));
  EXPECT_FALSE(table.is(On::connection, 7, ends));
  table.change(What::toggle, On::connection, 7, ends);
  EXPECT_TRUE(table.is(On::connection, 7, ends));
  table.change(What::toggle, On::connection, 7, ends);
  EXPECT_FALSE(table.is(On::connection, 7, ends));
}

TEST(RuleBits, APacketOfNoConnectionHasNoneOfItAndChangesNone) {
  Table table;
  Ends none = between(1, 2);
  none.connection = XG_CONNECTION_SEEN;
  table.change(What::set, On::connection, 7, none);
  for (const What what : {What::is_set, What::is_not_set})
    EXPECT_FALSE(table.bits.hold(std::vector{Bits{what, On::connection, {7}, 0}}, none, kNow));
  Ends has = none;
  has.connection |= XG_CONNECTION_HAS;
  EXPECT_FALSE(table.is(On::connection, 7, has));
}

TEST(RuleBits, OnAnAddressAreThatsWhereverItStands) {
  Table table;
  table.change(What::set, On::source, 7, between(1, 2), 5);
  EXPECT_TRUE(table.is(On::source, 7, between(1, 9)));
  EXPECT_TRUE(table.is(On::destination, 7, between(9, 1)));
  EXPECT_FALSE(table.is(On::destination, 7, between(1, 9)));
  EXPECT_FALSE(table.is(On::pair, 7, between(1, 2))) << "another kind of bit";
  table.change(What::set, On::pair, 7, between(1, 2), 5);
  EXPECT_TRUE(table.is(On::pair, 7, between(2, 1)));
  EXPECT_FALSE(table.is(On::pair, 7, between(1, 3)));
  table.change(What::unset, On::destination, 7, between(9, 1));
  EXPECT_FALSE(table.is(On::source, 7, between(1, 9)));
}

TEST(RuleBits, EndBehindTheirLastSecond) {
  Table table;
  const Ends ends = between(1, 2);
  table.change(What::set, On::source, 7, ends, 5, kNow + kSecond / 2);
  EXPECT_TRUE(table.is(On::source, 7, ends, kNow + 6 * kSecond - 1));
  EXPECT_FALSE(table.is(On::source, 7, ends, kNow + 6 * kSecond));
  table.change(What::set, On::source, 7, ends, 5, kNow + 6 * kSecond);
  EXPECT_TRUE(table.is(On::source, 7, ends, kNow + 11 * kSecond));
}

// As Suricata's, which looks at its end only where it is asked for.
TEST(RuleBits, ThatAreThereAreNotSetAnew) {
  Table table;
  const Ends ends = between(1, 2);
  table.change(What::set, On::source, 7, ends, 5);
  table.change(What::set, On::source, 7, ends, 50);
  EXPECT_TRUE(table.is(On::source, 7, ends, kNow + 5 * kSecond));
  table.change(What::set, On::source, 7, ends, 5, kNow + 6 * kSecond);
  EXPECT_FALSE(table.is(On::source, 7, ends, kNow + 6 * kSecond));
  table.change(What::set, On::source, 7, ends, 5, kNow + 6 * kSecond);
  EXPECT_TRUE(table.is(On::source, 7, ends, kNow + 6 * kSecond)) << "it was asked for";
  table.change(What::toggle, On::source, 7, ends, 5, kNow + 20 * kSecond);
  EXPECT_FALSE(table.is(On::source, 7, ends, kNow + 20 * kSecond)) << "it was there, if behind its end";
}

TEST(RuleBits, AskForAnyOfSeveralNamesAndForAllOfSeveralLines) {
  Table table;
  const Ends ends = between(1, 2);
  table.change(What::set, On::source, 7, ends, 5);
  const Bits any{What::is_set, On::source, {6, 7}, 0}, none{What::is_not_set, On::source, {7}, 0},
      either{What::is_not_set, On::source, {6, 7}, 0};
  EXPECT_TRUE(table.bits.hold(std::vector{any}, ends, kNow));
  EXPECT_TRUE(table.bits.hold(std::vector{any, either}, ends, kNow));
  EXPECT_FALSE(table.bits.hold(std::vector{any, none}, ends, kNow));
}

// Who sets many bits makes others lose theirs, which is counted, and no table grows.
TEST(RuleBits, ATableThatIsFullForgetsWhatEndsFirst) {
  Table table;
  const Ends ends = between(1, 2);
  table.change(What::set, On::source, 1, ends, 100);
  for (u64 name = 100; name < 100 + 4 * RuleBits::kEntries; name++)
    table.change(What::set, On::source, name, ends, 5);
  EXPECT_TRUE(table.is(On::source, 1, ends)) << "it ends last";
  EXPECT_GT(table.bits.forgotten(), RuleBits::kEntries);
  u64 set = 0;
  for (u64 name = 100; name < 100 + 4 * RuleBits::kEntries; name++)
    set += table.bits.hold(std::vector{Bits{What::is_set, On::source, {name}, 0}}, ends, kNow);
  EXPECT_LE(set, RuleBits::kEntries);
  EXPECT_EQ(set + table.bits.forgotten(), 4 * RuleBits::kEntries);
}

// An even number of toggles by several threads leaves it as it was.
TEST(RuleBits, AreChangedByThreadsAtOnce) {
  Table table;
  const Ends ends = between(1, 2);
  const std::vector toggle{Bits{What::toggle, On::source, {7}, 60}};
  std::vector<std::thread> threads;
  for (u32 i = 0; i < 4; i++)
    threads.emplace_back([&] {
      for (u32 k = 0; k < 10'001; k++) table.bits.change(toggle, ends, kNow);
    });
  for (auto& thread : threads) thread.join();
  EXPECT_FALSE(table.is(On::source, 7, ends));
  table.bits.change(toggle, ends, kNow);
  EXPECT_TRUE(table.is(On::source, 7, ends));
}

}  // namespace
}  // namespace xdpgpu::dataplane
