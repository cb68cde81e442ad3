// SPDX-License-Identifier: MIT
//
// Which cores and which memory workers get on hosts with one NUMA node and with several.
#include "userspace/dataplane/placement.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "userspace/dataplane/frame_region.hpp"

namespace xdpgpu::dataplane {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(CpuList, IsReadAsSysfsWritesIt) {
  EXPECT_THAT(parse_cpu_list("0"), ElementsAre(0));
  EXPECT_THAT(parse_cpu_list("0-3,8,10-11"), ElementsAre(0, 1, 2, 3, 8, 10, 11));
  for (const char* none : {"", "x", "-1", "3-1", "1,", ",1", "1-", "1 2", "0-9999999999"})
    EXPECT_THAT(parse_cpu_list(none), IsEmpty()) << none;
}

// Eight cores of two nodes; node 2 has memory alone.
Topology two_nodes() { return {{7, 6, 5, 4, 3, 2, 1, 0}, {{0, {3, 2, 1, 0}}, {1, {7, 6, 5, 4}}, {2, {}}}}; }

std::vector<int> cores(const std::vector<Placement>& placements) {
  std::vector<int> cpus;
  for (const Placement& placement : placements) {
    cpus.push_back(placement.cpu);
    if (placement.retire_cpu >= 0) cpus.push_back(placement.retire_cpu);
  }
  return cpus;
}

std::vector<int> nodes(const std::vector<Placement>& placements) {
  std::vector<int> on;
  on.reserve(placements.size());
  for (const Placement& placement : placements) on.push_back(placement.node);
  return on;
}

TEST(Placement, OnOneNodeWorkersTakeAllCoresInTurn) {
  const Topology one{{3, 2, 1, 0}, {{0, {3, 2, 1, 0}}}};
  for (const int nic : {-1, 0}) {
    const auto placements = place(one, std::vector<int>(5, nic), {.first_cpu = 1});
    EXPECT_THAT(cores(placements), ElementsAre(2, 1, 0, 3, 2));
    EXPECT_THAT(nodes(placements), ElementsAre(-1, -1, -1, -1, -1)) << "nothing is different there";
  }
}

TEST(Placement, AWorkerStandsOnTheNodeOfItsNic) {
  const auto placements = place(two_nodes(), {0, 1, 0, 1, 0}, {});
  EXPECT_THAT(nodes(placements), ElementsAre(0, 1, 0, 1, 0));
  EXPECT_THAT(cores(placements), ElementsAre(3, 7, 2, 6, 1));
}

TEST(Placement, BothThreadsOfAWorkerStandThere) {
  const auto placements = place(two_nodes(), {1, 0, 1}, {.threads = 2});
  EXPECT_THAT(cores(placements), ElementsAre(7, 6, 3, 2, 5, 4));
}

TEST(Placement, MoreThreadsThanTheNodeHasCoresShareThem) {
  EXPECT_THAT(cores(place(two_nodes(), std::vector<int>(6, 1), {})), ElementsAre(7, 6, 5, 4, 7, 6));
}

TEST(Placement, ANicOnNoNodeOrOnAnUnknownOneIsServedAnywhere) {
  const auto placements = place(two_nodes(), {-1, 5, 0}, {});
  EXPECT_THAT(nodes(placements), ElementsAre(-1, -1, 0));
  EXPECT_THAT(cores(placements), ElementsAre(7, 6, 3));
}

TEST(Placement, ANodeWithoutUsableCoresGetsTheFramesAlone) {
  const auto placements = place(two_nodes(), {2}, {});
  EXPECT_THAT(nodes(placements), ElementsAre(2));
  EXPECT_THAT(cores(placements), ElementsAre(7));
}

TEST(Placement, WithoutPinningOnlyTheFramesHaveTheirPlace) {
  const auto placements = place(two_nodes(), {1}, {.threads = 2, .pin = false});
  EXPECT_THAT(nodes(placements), ElementsAre(1));
  EXPECT_THAT(cores(placements), ElementsAre(-1));
  EXPECT_THAT(cores(place({}, {1}, {})), ElementsAre(-1)) << "nothing is known of the host";
}

TEST(Placement, ThisHostsTopologyHasEachUsableCoreOnOneNode) {
  const Topology topology = read_topology();
  ASSERT_FALSE(topology.cpus.empty());
  if (topology.nodes.empty()) GTEST_SKIP() << "this kernel shows no NUMA nodes";
  std::size_t cpus = 0;
  for (const auto& [node, on_node] : topology.nodes) cpus += on_node.size();
  EXPECT_EQ(cpus, topology.cpus.size());
}

TEST(FrameRegion, FramesStandOnTheNodeTheyAreToBeOn) {
  const Topology topology = read_topology();
  if (topology.nodes.empty()) GTEST_SKIP() << "this kernel shows no NUMA nodes";
  const int last = topology.nodes.rbegin()->first;
  const std::vector<FrameShare> shares{{0, 1001, topology.nodes.begin()->first}, {1001, 999, last}};
  const auto region = FrameRegion::create(2000, false, shares);
  ASSERT_TRUE(region) << region.error();
  if (node_of((*region)->base()) < 0) GTEST_SKIP() << "get_mempolicy is not allowed here";
  EXPECT_THAT((*region)->notes(), IsEmpty());
  EXPECT_EQ(node_of((*region)->base()), topology.nodes.begin()->first);
  EXPECT_EQ(node_of((*region)->base() + chunk_of(1999)), last);
}

// A node is preferred, and what does not stand there is found, wherever in the region it is.
TEST(FrameRegion, WhatStandsElsewhereIsFound) {
  const Topology topology = read_topology();
  if (topology.nodes.empty()) GTEST_SKIP() << "this kernel shows no NUMA nodes";
  const int here = topology.nodes.begin()->first, nowhere = topology.nodes.rbegin()->first + 1;
  const std::vector<FrameShare> shares{{0, 2000, here}};
  const auto region = FrameRegion::create(2000, false, shares);
  ASSERT_TRUE(region) << region.error();
  const u8* const base = (*region)->base();
  if (node_of(base) < 0) GTEST_SKIP() << "get_mempolicy is not allowed here";
  EXPECT_EQ(find_elsewhere(base, chunk_of(2000), here).bytes, 0u);
  const Elsewhere all = find_elsewhere(base, chunk_of(2000), nowhere);
  EXPECT_EQ(all.bytes, chunk_of(2000));
  EXPECT_EQ(all.node, here);
  EXPECT_EQ(find_elsewhere(base + 100, 1, nowhere).bytes, 4096u) << "whole pages";
}

TEST(FrameRegion, ANodeThatIsNotThereIsSaidAndNoFailure) {
  const std::vector<FrameShare> shares{{0, 64, 1000}, {64, 64, 4096}, {128, 64, -1}};
  const auto region = FrameRegion::create(192, false, shares);
  ASSERT_TRUE(region) << region.error();
  ASSERT_EQ((*region)->notes().size(), 2u);
  EXPECT_THAT((*region)->notes()[0], HasSubstr("64 frames are not kept on NUMA node 1000"));
  EXPECT_THAT((*region)->notes()[1], HasSubstr("there is no NUMA node 4096"));
}

}  // namespace
}  // namespace xdpgpu::dataplane
