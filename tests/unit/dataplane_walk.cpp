// SPDX-License-Identifier: MIT
//
// The data path walked by real packets: veth → XDP → AF_XDP → the CPU device → what the verdict says, as
// the other host sees it. Needs root; the daemon and the command line have tests of their own.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ctime>
#include <thread>

#include "bench/path/bed.hpp"
#include "tests/netns/lab.hpp"

namespace xdpgpu {
namespace {

using namespace std::chrono_literals;
using dataplane::ComputeMode;
using gpu::AclRule;

gpu::AclSettings acl(AclRule::Action otherwise, bool cache = false) {
  gpu::AclSettings settings;
  settings.otherwise = otherwise;
  settings.cache = cache;
  return settings;
}

gpu::AclSettings redirect_to(u32 port) {
  AclRule rule;
  rule.name = "there";
  rule.action = AclRule::Action::redirect;
  rule.target = port;
  gpu::AclSettings settings;
  settings.rules.push_back(rule);
  return settings;
}

struct WalkParameters {
  kernel::XdpMode mode;
  u32 queues;
  ComputeMode compute = ComputeMode::inlined;
  u32 devices = 1;
};

// For an echo. A host whose cores are wanted elsewhere answers late; what is lost is never answered.
constexpr lab::Millis kPatience{5000};

class Walk : public testing::TestWithParam<WalkParameters> {
 protected:
  void SetUp() override {
    if (const std::string reason = lab::why_unavailable(); !reason.empty()) GTEST_SKIP() << reason;
    near_.emplace("near");
    far_.emplace("far");
    lab::VethOptions options;
    options.queues = GetParam().queues;
    options.mtu = mtu();
    wire_.emplace(*near_, "n0", *far_, "f0", options);
    second_.emplace(*near_, "n1", *far_, "f1", options);
    wire_->address("10.9.0.1/24", "10.9.0.2/24");
    wire_->up();
    second_->up();
    // Segments of many packets cannot go through generic XDP.
    for (const char* offload :
         {"tx-tcp-segmentation", "tx-tcp6-segmentation", "tx-generic-segmentation", "tx-udp-segmentation"})
      wire_->b().feature(offload, false);
  }

  virtual u32 mtu() const { return 1500; }

  bed::Bed& lay(std::vector<gpu::StageSettings> stages, bool two_ports = false) {
    bed::Options options;
    options.mode = GetParam().mode;
    options.queues = GetParam().queues;
    options.packet_buffers = (mtu() + 22 + XG_FRAME_MAX - 1) / XG_FRAME_MAX;
    options.engine.compute_mode = GetParam().compute;
    options.devices.assign(GetParam().devices, "cpu");
    options.stages = std::move(stages);
    std::vector<const lab::Interface*> ports{&wire_->a()};
    if (two_ports) ports.push_back(&second_->a());
    bed_.emplace(ports, options);
    return *bed_;
  }

  // UDP frames from the far host, of `flows` flows.
  std::vector<lab::Frame> frames(u32 count, u32 flows = 16) const {
    std::vector<lab::Frame> out;
    for (u32 i = 0; i < count; ++i)
      out.push_back(lab::build({.src = wire_->b().mac(),
                                .dst = wire_->a().mac(),
                                .src_port = static_cast<u16>(1000 + i % flows),
                                .dst_port = 4000,
                                .payload = "packet " + std::to_string(i)}));
    return out;
  }

  // Counters move until the packets are through.
  template <class Get>
  u64 settles_at(u64 wanted, Get&& get) const {
    for (int i = 0; i < 200 && get() != wanted; ++i) std::this_thread::sleep_for(10ms);
    return get();
  }

  void expect_clean_end() {
    const dataplane::FrameCount frames = bed_->down();
    EXPECT_GT(frames.total, 0u);
    EXPECT_EQ(frames.free, frames.total);
  }

  std::optional<lab::Namespace> near_, far_;
  std::optional<lab::Veth> wire_, second_;
  std::optional<bed::Bed> bed_;
};

TEST_P(Walk, DropIsSilence) {
  bed::Bed& bed = lay({acl(AclRule::Action::drop)});
  lab::Sniffer back(wire_->b());
  lab::Sender(wire_->b()).send(frames(500));
  EXPECT_EQ(settles_at(500, [&] { return bed.worker_counts(0).dropped; }), 500u);
  EXPECT_EQ(bed.worker_counts(0).received, 500u);
  EXPECT_EQ(bed.kernel_count(0, XG_KERNEL_inspected), 500u);
  EXPECT_TRUE(back.drain(50ms, 1s, lab::udp_to(4000)).empty());
  for (const auto& queue : bed.engine().status().queues) {
    EXPECT_EQ(queue.mode, GetParam().mode == kernel::XdpMode::native ? dataplane::PortMode::copy
                                                                     : dataplane::PortMode::generic);
    EXPECT_EQ(queue.metadata, queue.counters.received != 0);
    EXPECT_EQ(queue.device, queue.queue % GetParam().devices);
    EXPECT_EQ(queue.compute_mode,
              GetParam().compute == ComputeMode::automatic ? ComputeMode::inlined : GetParam().compute);
    EXPECT_EQ(queue.retire_cpu >= 0, GetParam().compute == ComputeMode::split);
  }
  expect_clean_end();
}

TEST_P(Walk, TransmitBouncesEveryFrameInOrder) {
  bed::Bed& bed = lay({gpu::L2fwdSettings{}});
  const auto sent = frames(500, GetParam().queues == 1 ? 16 : 1);
  lab::Sniffer back(wire_->b());
  lab::Sender(wire_->b()).send(sent);
  const auto seen = back.take(500, 3000ms, lab::udp_to(4000));
  ASSERT_EQ(seen.size(), 500u);
  EXPECT_EQ(back.lost(), 0u);
  for (std::size_t i = 0; i < seen.size(); ++i)
    ASSERT_EQ(seen[i].frame, lab::with_macs_swapped(sent[i])) << "frame " << i;
  EXPECT_EQ(bed.worker_counts(0).transmitted, 500u);
  expect_clean_end();
}

TEST_P(Walk, RedirectArrivesOnTheSecondPort) {
  bed::Bed& bed = lay({redirect_to(1)}, true);
  lab::Sniffer there(second_->b());
  const auto sent = frames(300);
  lab::Sender(wire_->b()).send(sent);
  const auto seen = there.take(300, 3000ms, lab::udp_to(4000));
  ASSERT_EQ(seen.size(), 300u);
  EXPECT_EQ(bed.worker_counts(0).redirected, 300u);
  expect_clean_end();
}

TEST_P(Walk, PassReachesTheStack) {
  bed::Bed& bed = lay({acl(AclRule::Action::pass)});
  const lab::PingResult ping =
      lab::ping(*far_, "10.9.0.1", {.count = 20, .interval = lab::Millis(2), .timeout = kPatience});
  EXPECT_EQ(ping.received, 20u);
  EXPECT_EQ(ping.duplicates, 0u);
  const lab::TransferResult transfer = lab::tcp_transfer(*far_, *near_, "10.9.0.1", {.bytes = 4 << 20});
  EXPECT_TRUE(transfer.intact) << transfer.problem;
  // Every packet ran the program once: nothing that was reinjected came by again.
  EXPECT_TRUE(settles_at(1, [&] {
    const u64 received = bed.worker_counts(0).received;
    const xg_worker_counters counts = bed.worker_counts(0);
    return bed.kernel_count(0, XG_KERNEL_inspected) == received &&
           counts.passed + counts.error_refused == received;
  }));
  const xg_worker_counters counts = bed.worker_counts(0);
  EXPECT_GT(counts.passed, 20u);
  EXPECT_GT(counts.checksums_repaired, 0u);
  expect_clean_end();
}

// The pair's other end does not take packets, as under a flood it may not: they are lost, and that is told.
TEST_P(Walk, WhatTheStackRefusesIsCounted) {
  bed::Bed& bed = lay({acl(AclRule::Action::pass)});
  lab::Interface(*near_, fmt::format("xg{}k", wire_->a().ifindex())).down();
  lab::Sender(wire_->b()).send(frames(100));
  EXPECT_EQ(settles_at(100, [&] { return bed.worker_counts(0).error_refused; }), 100u);
  EXPECT_EQ(bed.worker_counts(0).passed, 0u);
  EXPECT_EQ(settles_at(100,
                       [&] {
                         u64 refused = 0;
                         for (const auto& queue : bed.engine().status().queues)
                           refused += queue.metrics.reinject_refused;
                         return refused;
                       }),
            100u);
  expect_clean_end();
}

TEST_P(Walk, ACachedVerdictIsHandledInTheKernel) {
  bed::Bed& bed = lay({acl(AclRule::Action::drop, true)});
  lab::Sender sender(wire_->b());
  sender.send(frames(16));
  EXPECT_EQ(settles_at(16, [&] { return bed.worker_counts(0).dropped; }), 16u);
  EXPECT_EQ(bed.worker_counts(0).flows_cached, 16u);
  sender.send(frames(1000));
  EXPECT_EQ(settles_at(1000, [&] { return bed.kernel_count(0, XG_KERNEL_drop_flow); }), 1000u);
  EXPECT_EQ(bed.worker_counts(0).received, 16u);
  expect_clean_end();
}

TEST_P(Walk, ACachedPassTakesOverOnceTheEarlierPacketsHaveLeft) {
  bed::Bed& bed = lay({acl(AclRule::Action::pass, true)});
  const lab::PingResult ping =
      lab::ping(*far_, "10.9.0.1", {.count = 20, .interval = lab::Millis(5), .timeout = kPatience});
  EXPECT_EQ(ping.received, 20u);
  EXPECT_GT(bed.kernel_count(0, XG_KERNEL_pass_flow), 10u);
  EXPECT_LT(bed.worker_counts(0).received, 10u);
  expect_clean_end();
}

TEST_P(Walk, ASwapLosesAndMisjudgesNothing) {
  bed::Bed& bed = lay({acl(AclRule::Action::drop, true)});
  lab::Sender sender(wire_->b());
  sender.send(frames(64));
  EXPECT_EQ(
      settles_at(64, [&] { return bed.worker_counts(0).dropped + bed.kernel_count(0, XG_KERNEL_drop_flow); }),
      64u);
  lab::Sniffer back(wire_->b());
  const u32 generation = bed.swap({gpu::L2fwdSettings{}});
  bed.engine().retire_generations_before(generation);
  // What was cached under the old policy is stale at once.
  sender.send(frames(64));
  EXPECT_EQ(back.take(64, 3000ms, lab::udp_to(4000)).size(), 64u);
  for (int i = 0; i < 50; ++i) {
    for (const std::string& event : bed.engine().poll()) ADD_FAILURE() << event;
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(bed.engine().status().generation, generation);
  expect_clean_end();
}

// Frames are counted while they go from hand to hand, and flows stay in order, at full rate.
TEST_P(Walk, FramesAreConservedWhileTheyMove) {
  bed::Bed& bed = lay({gpu::L2fwdSettings{}});
  const auto sent = frames(64, 1);
  lab::Sender sender(wire_->b());
  u64 reports = 0;
  for (int round = 0; round < 100; ++round) {
    sender.send(sent);
    for (int i = 0; i < 5; ++i, ++reports) {
      const dataplane::EngineStatus status = bed.engine().status();
      const dataplane::FrameCount& frames = status.frames;
      ASSERT_TRUE(frames.conserved()) << "report " << reports << ": " << frames.total << " = " << frames.free
                                      << " + " << frames.fill << " + " << frames.batch << " + " << frames.tx;
      // None of the parts has run below nothing.
      for (const u64 part : {frames.free, frames.fill, frames.batch, frames.tx})
        ASSERT_LE(part, frames.total);
    }
  }
  EXPECT_TRUE(settles_at(1, [&] {
    const xg_worker_counters counts = bed.worker_counts(0);
    return bed.kernel_count(0, XG_KERNEL_inspected) == counts.received + counts.lost_in_kernel &&
           counts.transmitted + counts.error_ring_full == counts.received;
  }));
  expect_clean_end();
}

u64 process_cpu_ns() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<u64>(now.tv_sec) * 1'000'000'000 + static_cast<u64>(now.tv_nsec);
}

TEST_P(Walk, AQuietLinkBurnsNoCore) {
  bed::Bed& bed = lay({acl(AclRule::Action::drop)});
  lab::Sender(wire_->b()).send(frames(500));
  EXPECT_EQ(settles_at(500, [&] { return bed.worker_counts(0).dropped; }), 500u);
  const u64 before = process_cpu_ns();
  std::this_thread::sleep_for(1s);
  EXPECT_LT(process_cpu_ns() - before, 100'000'000u) << "ns of CPU time in an idle second";
  expect_clean_end();
}

// ---- Frames of several buffers ----------------------------------------------------------------------

class JumboWalk : public Walk {
 protected:
  void SetUp() override {
    if (!lab::kernel_at_least(6, 7)) GTEST_SKIP() << "frames of several buffers take Linux 6.7";
    Walk::SetUp();
  }
  u32 mtu() const override { return 9000; }

  // Of all lengths up to the longest, which takes six buffers.
  std::vector<lab::Frame> long_frames(u32 count, u32 flows) const {
    std::vector<lab::Frame> out;
    for (u32 i = 0; i < count; ++i)
      out.push_back(lab::build(
          {.src = wire_->b().mac(),
           .dst = wire_->a().mac(),
           .src_port = static_cast<u16>(1000 + i % flows),
           .dst_port = 4000,
           .payload = std::string(i % 7 == 6 ? 8972 : i * 613 % 8972, static_cast<char>('a' + i % 26))}));
    return out;
  }
  // At a pace that a loaded machine keeps up with.
  void send(const std::vector<lab::Frame>& sent) const { lab::Sender(wire_->b()).send_paced(sent, 5000); }
};

TEST_P(JumboWalk, DropGivesEveryBufferBack) {
  bed::Bed& bed = lay({acl(AclRule::Action::drop)});
  for (int round = 0; round < 4; ++round) send(long_frames(1000, 16));
  // A loaded machine may be too slow for all of them: those were passed for want of a credit.
  const auto entered = [&] {
    return bed.kernel_count(0, XG_KERNEL_inspected) + bed.kernel_count(0, XG_KERNEL_pass_overload);
  };
  EXPECT_EQ(settles_at(4000, entered), 4000u);
  const u64 inspected = bed.kernel_count(0, XG_KERNEL_inspected);
  EXPECT_GT(inspected, 1000u);
  EXPECT_EQ(settles_at(inspected, [&] { return bed.worker_counts(0).dropped; }), inspected);
  EXPECT_EQ(bed.worker_counts(0).received, inspected) << "packets, not buffers";
  EXPECT_EQ(bed.worker_counts(0).lost_in_kernel, 0u);
  expect_clean_end();
}

TEST_P(JumboWalk, TransmitBouncesEveryByteInOrder) {
  bed::Bed& bed = lay({gpu::L2fwdSettings{}});
  const auto sent = long_frames(300, 1);
  lab::Sniffer back(wire_->b());
  send(sent);
  const auto seen = back.take(300, 3000ms, lab::udp_to(4000));
  ASSERT_EQ(seen.size(), 300u);
  for (std::size_t i = 0; i < seen.size(); ++i)
    ASSERT_TRUE(seen[i].frame == lab::with_macs_swapped(sent[i])) << "frame " << i;
  EXPECT_EQ(bed.worker_counts(0).transmitted, 300u);
  expect_clean_end();
}

TEST_P(JumboWalk, RedirectArrivesOnTheSecondPort) {
  bed::Bed& bed = lay({redirect_to(1)}, true);
  const auto sent = long_frames(200, 1);
  lab::Sniffer there(second_->b());
  send(sent);
  const auto seen = there.take(200, 3000ms, lab::udp_to(4000));
  ASSERT_EQ(seen.size(), 200u);
  for (std::size_t i = 0; i < seen.size(); ++i) ASSERT_TRUE(seen[i].frame == sent[i]) << "frame " << i;
  EXPECT_EQ(bed.worker_counts(0).redirected, 200u);
  expect_clean_end();
}

TEST_P(JumboWalk, PassReachesTheStack) {
  bed::Bed& bed = lay({acl(AclRule::Action::pass)});
  const lab::PingResult ping = lab::ping(
      *far_, "10.9.0.1", {.count = 20, .size = 8000, .interval = lab::Millis(2), .timeout = kPatience});
  EXPECT_EQ(ping.received, 20u);
  EXPECT_EQ(ping.duplicates, 0u);
  const lab::TransferResult transfer = lab::tcp_transfer(*far_, *near_, "10.9.0.1", {.bytes = 4 << 20});
  EXPECT_TRUE(transfer.intact) << transfer.problem;
  EXPECT_GT(bed.worker_counts(0).checksums_repaired, 0u);
  EXPECT_TRUE(settles_at(1, [&] {
    const xg_worker_counters counts = bed.worker_counts(0);
    return bed.kernel_count(0, XG_KERNEL_inspected) == counts.received &&
           counts.passed + counts.error_refused == counts.received;
  }));
  expect_clean_end();
}

class OversizedWalk : public JumboWalk {};

// Segments that the far host leaves to be cut later are longer than the MTU lets frames be.
TEST_P(OversizedWalk, WhatIsLongerThanTheMtuIsDroppedAndCounted) {
  bed::Bed& bed = lay({acl(AclRule::Action::pass)});
  wire_->b().feature("tx-tcp-segmentation", true);
  lab::tcp_transfer(*far_, *near_, "10.9.0.1", {.bytes = 1 << 20, .timeout = lab::Millis(3000)});
  EXPECT_GT(bed.worker_counts(0).error_invalid, 0u);
  EXPECT_TRUE(settles_at(1, [&] {
    const xg_worker_counters counts = bed.worker_counts(0);
    return counts.received == counts.passed + counts.error_invalid &&
           bed.kernel_count(0, XG_KERNEL_inspected) == counts.received + counts.lost_in_kernel;
  }));
  expect_clean_end();
}

TEST_P(JumboWalk, FramesAreConservedWhileTheyMove) {
  bed::Bed& bed = lay({gpu::L2fwdSettings{}});
  const auto sent = long_frames(64, 4);
  lab::Sender sender(wire_->b());
  for (int round = 0; round < 100; ++round) {
    sender.send(sent);
    const dataplane::FrameCount frames = bed.engine().status().frames;
    ASSERT_TRUE(frames.conserved()) << frames.total << " = " << frames.free << " + " << frames.fill << " + "
                                    << frames.batch << " + " << frames.tx;
    for (const u64 part : {frames.free, frames.fill, frames.batch, frames.tx}) ASSERT_LE(part, frames.total);
  }
  EXPECT_TRUE(settles_at(1, [&] {
    const xg_worker_counters counts = bed.worker_counts(0);
    return bed.kernel_count(0, XG_KERNEL_inspected) == counts.received + counts.lost_in_kernel &&
           counts.transmitted + counts.error_ring_full == counts.received;
  }));
  EXPECT_EQ(bed.worker_counts(0).lost_in_kernel, 0u) << "a credit stands for the longest frame";
  expect_clean_end();
}

std::string name_of(const testing::TestParamInfo<WalkParameters>& info) {
  const auto compute = info.param.compute;
  return std::string(info.param.mode == kernel::XdpMode::native ? "native" : "generic") +
         std::to_string(info.param.queues) +
         (compute == ComputeMode::inlined ? "" : "_" + std::string(dataplane::name_of(compute))) +
         (info.param.devices == 1 ? "" : "_" + std::to_string(info.param.devices) + "devices");
}

INSTANTIATE_TEST_SUITE_P(
    Modes, Walk,
    testing::Values(WalkParameters{kernel::XdpMode::native, 1}, WalkParameters{kernel::XdpMode::native, 2},
                    WalkParameters{kernel::XdpMode::generic, 1}, WalkParameters{kernel::XdpMode::generic, 2},
                    WalkParameters{kernel::XdpMode::native, 2, ComputeMode::split},
                    WalkParameters{kernel::XdpMode::generic, 1, ComputeMode::split},
                    WalkParameters{kernel::XdpMode::native, 2, ComputeMode::persistent},
                    WalkParameters{kernel::XdpMode::native, 2, ComputeMode::automatic, 2}),
    name_of);

// A driver with native XDP brings none.
INSTANTIATE_TEST_SUITE_P(Modes, OversizedWalk,
                         testing::Values(WalkParameters{kernel::XdpMode::generic, 1},
                                         WalkParameters{kernel::XdpMode::generic, 1, ComputeMode::split}),
                         name_of);

INSTANTIATE_TEST_SUITE_P(Modes, JumboWalk,
                         testing::Values(WalkParameters{kernel::XdpMode::native, 1},
                                         WalkParameters{kernel::XdpMode::native, 2},
                                         WalkParameters{kernel::XdpMode::generic, 1},
                                         WalkParameters{kernel::XdpMode::native, 2, ComputeMode::split},
                                         WalkParameters{kernel::XdpMode::native, 1, ComputeMode::persistent}),
                         name_of);

}  // namespace
}  // namespace xdpgpu
