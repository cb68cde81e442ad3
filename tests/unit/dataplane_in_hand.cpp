// SPDX-License-Identifier: MIT
//
// Which packets a dead worker had in hand, found in its frames.
#include "userspace/dataplane/in_hand.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "userspace/dataplane/lost.hpp"

namespace xdpgpu::dataplane {
namespace {

class InHand : public ::testing::Test {
 protected:
  // Two workers with 64 and 32 frames.
  InHand() {
    auto region = FrameRegion::create(96, false, shares_, {.ordinary = memory_});
    EXPECT_TRUE(region) << region.error();
    region_ = std::move(*region);
  }
  ~InHand() override { close(memory_); }

  void put(FrameId frame, u32 sequence, u8 port = 0, u32 generation = 1) {
    u8* const packet = region_->base() + chunk_of(frame) + XG_FRAME_DATA;
    xg_metadata metadata{};
    metadata.rx_time_ns = 1'000'000 + sequence;
    metadata.generation = generation;
    metadata.sequence = sequence;
    metadata.flags = XG_PKT_IPV4;
    metadata.l3_offset = 14;
    metadata.port = port;
    std::memcpy(packet - sizeof(metadata), &metadata, sizeof(metadata));
    std::memset(packet, 0, 200);
    packet[14] = 0x45;
    packet[16] = 0, packet[17] = 46;  // 60 bytes with the Ethernet header
    packet[59] = static_cast<u8>(sequence);
  }
  std::vector<u32> sequences(std::vector<QueueAtDeath> queues, std::size_t most = 100) {
    region_.reset();  // as the process is gone
    packets_ = packets_in_hand(memory_, shares_, queues, most);
    std::vector<u32> all;
    for (const auto& packet : packets_) all.push_back(packet.sequence);
    return all;
  }

  int memory_ = memfd_create("frames", MFD_CLOEXEC);
  std::vector<FrameShare> shares_{{0, 64}, {64, 32}};
  std::unique_ptr<FrameRegion> region_;
  std::vector<PacketInHand> packets_;
};

TEST_F(InHand, AreThoseThatHaveNotLeft) {
  put(3, 7);  // retired
  put(60, 9);
  put(5, 8);
  put(7, 10);       // not taken yet
  put(8, 9, 1);     // of a port that has no such queue
  put(9, 9, 0, 0);  // no metadata
  put(70, 9);       // of the other worker, where it is retired
  put(71, 102);
  EXPECT_EQ(sequences({{0, 0, 8, 10}, {0, 1, 100, 103}}), (std::vector<u32>{8, 9, 102}));
  EXPECT_EQ(packets_[0].length, 60u);
  EXPECT_EQ(packets_[0].captured, 60u);
  EXPECT_EQ(packets_[0].bytes[59], 8);
  EXPECT_EQ(packets_[2].queue, 1);
}

TEST_F(InHand, SequencesWrap) {
  put(1, 0xffffffff);
  put(2, 0);
  put(3, 1);
  EXPECT_EQ(sequences({{0, 0, 0xffffffff, 1}}).size(), 2u);
}

TEST_F(InHand, TheNewestAreKept) {
  for (u32 i = 0; i < 50; i++) put(i, i);
  EXPECT_EQ(sequences({{0, 0, 0, 50}}, 3), (std::vector<u32>{47, 48, 49}));
}

// Whoever has the memory may have cut it off.
TEST_F(InHand, WhatIsNotThereIsNoPacket) {
  put(1, 1);
  put(63, 2);
  region_.reset();
  ASSERT_EQ(ftruncate(memory_, chunk_of(10)), 0);
  EXPECT_EQ(sequences({{0, 0, 0, 10}}), std::vector<u32>{1});
}

TEST_F(InHand, ACaptureIsItsOwnersAlone) {
  put(1, 1);
  (void)sequences({{0, 0, 0, 10}});
  const std::string path = "/tmp/xdpgpu-in-hand-" + std::to_string(getpid());
  for (int i = 0; i < 2; i++) {
    const auto written = write_capture(path, packets_);
    ASSERT_TRUE(written) << written.error();
  }
  struct stat info {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777u, 0600u);
  EXPECT_EQ(info.st_size, 24 + 16 + 60);
  unlink(path.c_str());
  EXPECT_FALSE(write_capture("/nowhere/at/all", packets_));
}

TEST(Lost, IsCountedOnce) {
  xg_worker_counters counters{};
  counters.received = 10;
  counters.passed = 4;
  counters.lost_in_kernel = 2;
  for (int i = 0; i < 2; i++) {
    count_lost(15, counters);
    EXPECT_EQ(counters.received, 13u);
    EXPECT_EQ(counters.lost_with_worker, 9u);
  }
}

}  // namespace
}  // namespace xdpgpu::dataplane
