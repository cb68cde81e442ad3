// SPDX-License-Identifier: MIT
//
// Several devices under one engine: a generation is known to all of them or to none. The devices are real
// ones; the CPU is as many as are opened.
#include "userspace/dataplane/devices.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <thread>

#include "gpu/faults.hpp"
#include "gpu/standby.hpp"
#include "maps/packet.h"

namespace xdpgpu::dataplane {
namespace {

using testing::HasSubstr;

std::shared_ptr<const gpu::Pipelines> bounce() {
  return gpu::Pipelines::compile({{"bounce", {gpu::L2fwdSettings{}}}}).value();
}

class SeveralDevices : public testing::Test {
 protected:
  void open(std::size_t count) {
    std::vector<std::unique_ptr<gpu::Device>> devices;
    for (std::size_t i = 0; i < count; ++i) {
      devices.push_back(gpu::open_device("cpu").value());
      raw_.push_back(devices.back().get());
    }
    auto made =
        Devices::create(std::move(devices), region_.data(), region_.size(), gpu::Frames::automatic, {});
    ASSERT_TRUE(made) << made.error();
    devices_ = std::move(*made);
  }

  // Whether a queue of the device would take a batch of the generation.
  static bool knows(gpu::Device& device, u32 generation) {
    auto queue = device.open_queue({.batch_capacity = 1, .depth = 1}).value();
    gpu::Slot* slot = queue->acquire();
    slot->descriptors[0] = {XG_FRAME_DATA, 64, 0};
    const bool known = queue->submit(slot, 1, generation) == gpu::Submit::ok;
    queue->release(known ? queue->poll() : slot);
    return known;
  }
  std::vector<bool> who_knows(u32 generation) const {
    std::vector<bool> known;
    for (gpu::Device* device : raw_) known.push_back(knows(*device, generation));
    return known;
  }

  alignas(4096) inline static std::array<u8, 8192> region_;
  std::vector<gpu::Device*> raw_;
  Devices devices_;
};

TEST_F(SeveralDevices, WorkersAreSpreadOverThemInTurn) {
  open(3);
  ASSERT_EQ(devices_.all().size(), 3u);
  EXPECT_EQ(&devices_.first(), raw_[0]);
  for (u32 worker = 0; worker < 9; ++worker) {
    EXPECT_EQ(devices_.of(worker).device.get(), raw_[worker % 3]);
    EXPECT_FALSE(devices_.of(worker).publishes);
  }
}

TEST_F(SeveralDevices, AGenerationIsLoadedAndUnloadedOnEach) {
  open(2);
  ASSERT_TRUE(devices_.load(7, bounce()));
  EXPECT_EQ(who_knows(7), (std::vector{true, true}));
  devices_.unload(7);
  EXPECT_EQ(who_knows(7), (std::vector{false, false}));
}

// The device in the middle refuses: it has this generation already.
TEST_F(SeveralDevices, ALoadThatFailsOnOneIsTakenBackOnTheOthers) {
  open(3);
  ASSERT_TRUE(raw_[1]->load(7, bounce()));
  const auto loaded = devices_.load(7, bounce());
  ASSERT_FALSE(loaded);
  EXPECT_THAT(loaded.error(), HasSubstr("device cpu: generation 7 is loaded already"));
  EXPECT_EQ(who_knows(7), (std::vector{false, true, false})) << "the one that refused keeps what it had";
  ASSERT_TRUE(devices_.load(8, bounce()));
  EXPECT_EQ(who_knows(8), (std::vector{true, true, true}));
}

TEST_F(SeveralDevices, WhatRemembersPacketsIsLoadedOnNone) {
  open(2);
  const auto tracking = gpu::Pipelines::compile({{"web", {gpu::ConntrackSettings{}}}}).value();
  const auto loaded = devices_.load(7, tracking);
  ASSERT_FALSE(loaded);
  EXPECT_THAT(loaded.error(), HasSubstr("pipeline \"web\", stage 1, remembers packets"));
  EXPECT_EQ(who_knows(7), (std::vector{false, false}));
}

// However soon: between two looks it may have come back and failed once more.
TEST_F(SeveralDevices, EachFailureOfADeviceIsSaid) {
  const auto breaks = [] { return gpu::with_fault(gpu::open_device("cpu").value(), "fail:1"); };
  std::vector<std::unique_ptr<gpu::Device>> one;
  one.push_back(gpu::with_standby(breaks().value(), gpu::open_device("cpu").value(),
                                  {.reopen = breaks, .retry = std::chrono::milliseconds(1)}));
  auto made = Devices::create(std::move(one), region_.data(), region_.size(), gpu::Frames::automatic, {});
  ASSERT_TRUE(made) << made.error();
  devices_ = std::move(*made);
  ASSERT_TRUE(devices_.load(1, bounce()));
  const auto queue = devices_.first().open_queue({.batch_capacity = 1, .depth = 1}).value();
  const auto fails = [&] {
    for (int batch = 0; batch < 10 && devices_.first().degraded().empty(); batch++) {
      gpu::Slot* slot = queue->acquire();
      slot->descriptors[0] = {XG_FRAME_DATA, 64, 0};
      EXPECT_EQ(queue->submit(slot, 1, 1), gpu::Submit::ok);
      gpu::Slot* done = queue->poll();
      while (!done) done = queue->poll();
      queue->release(done);
    }
    return !devices_.first().degraded().empty();
  };
  for (int time = 0; time < 2; time++) {
    ASSERT_TRUE(fails());
    EXPECT_EQ(devices_.failed().size(), 1u);
    EXPECT_EQ(devices_.failed().size(), 0u) << "once";
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (devices_.try_again().empty() && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ASSERT_EQ(devices_.first().degraded(), "") << "it is back";
  }
}

TEST_F(SeveralDevices, ADeviceThatTakesNoFramesIsNamed) {
  std::vector<std::unique_ptr<gpu::Device>> devices;
  devices.reserve(2);
  for (int i = 0; i < 2; ++i) devices.push_back(gpu::open_device("cpu").value());
  ASSERT_TRUE(devices[1]->register_frames(region_.data(), region_.size(), gpu::Frames::automatic));
  const auto made =
      Devices::create(std::move(devices), region_.data(), region_.size(), gpu::Frames::automatic, {});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error(), "device cpu: the device has a frame region already");
  EXPECT_FALSE(Devices::create({}, region_.data(), region_.size(), gpu::Frames::automatic, {}));
}

}  // namespace
}  // namespace xdpgpu::dataplane
