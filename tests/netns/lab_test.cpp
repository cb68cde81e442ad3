// SPDX-License-Identifier: MIT
//
// tests/netns/lab_test.cpp: the laboratory checked against the plain kernel, so that what the other
// tests see is xdpgpu's doing.
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>

#include "tests/netns/lab.hpp"

namespace xdpgpu::lab {
namespace {

using namespace std::chrono_literals;

class Lab : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = why_unavailable(); !reason.empty()) GTEST_SKIP() << reason;
    near_.emplace("near");
    far_.emplace("far");
  }
  // A wire with addresses, up.
  void connect(const VethOptions& options = {}) {
    wire_.emplace(*near_, "xgGn0", *far_, "xgGf0", options);
    wire_->address("10.9.0.1/24", "10.9.0.2/24");
    wire_->address("fd09::1/64", "fd09::2/64");
    wire_->up();
  }
  PacketSpec towards_near(std::string payload) const {
    return {.src = wire_->b().mac(),
            .dst = wire_->a().mac(),
            .src_port = 1000,
            .dst_port = 2000,
            .payload = std::move(payload)};
  }
  std::optional<Namespace> near_, far_;
  std::optional<Veth> wire_;
};

TEST_F(Lab, PingsBothFamilies) {
  connect();
  for (const char* address : {"10.9.0.1", "fd09::1"}) {
    const PingResult result = ping(*far_, address, {.count = 3, .interval = 1ms});
    EXPECT_EQ(result.received, 3U) << address;
    EXPECT_EQ(result.duplicates, 0U) << address;
  }
  EXPECT_EQ(ping(*far_, "10.9.0.77", {.count = 1, .timeout = 100ms}).received, 0U);
}

// The kernel's own answers wait for their neighbour's address in memory that is a CPU's, and all namespaces'.
TEST_F(Lab, AnswersToStrangersLeaveRoomForOthers) {
  connect();
  for (const char* family : {"ipv4", "ipv6"})
    for (const Interface* end : {&wire_->a(), &wire_->b()}) {
      const std::string path = std::string("/proc/sys/net/") + family + "/neigh/" + end->ifname();
      const long waiting = end->ns().run([&] {
        long bytes = -1;
        std::ifstream(path + "/unres_qlen_bytes") >> bytes;
        return bytes;
      });
      EXPECT_EQ(waiting, 0) << path << ": more than one packet waits";
    }
}

TEST_F(Lab, TransfersOverTcp) {
  connect({.queues = 2});
  for (const char* address : {"10.9.0.1", "fd09::1"}) {
    const TransferResult result = tcp_transfer(*far_, *near_, address, {.bytes = 8 << 20});
    EXPECT_TRUE(result.intact) << address << ": " << result.problem;
  }
}

TEST_F(Lab, AnIdleWireIsSilent) {
  connect();
  Sniffer sniffer(wire_->a(), Sniffer::Direction::both);
  EXPECT_EQ(sniffer.drain(300ms, 300ms).size(), 0U);
}

TEST_F(Lab, FramesArriveAsSent) {
  connect();
  Sniffer sniffer(wire_->a());
  Sender sender(wire_->b());
  std::vector<Frame> frames;
  PacketSpec spec = towards_near("plain");
  frames.push_back(build(spec));
  spec.vlans = {{10}};
  frames.push_back(build(spec));
  spec.vlans = {{20, 0x88a8}, {10}};
  frames.push_back(build(spec));
  spec.vlans = {};
  spec.src_ip = "fd09::2", spec.dst_ip = "fd09::1", spec.protocol = kTcp;
  frames.push_back(build(spec));
  spec.protocol = kIcmp;
  frames.push_back(build(spec));
  sender.send(frames);
  const auto seen = sniffer.take(frames.size(), 1000ms);
  ASSERT_EQ(seen.size(), frames.size());
  for (std::size_t i = 0; i < frames.size(); ++i) {
    EXPECT_EQ(seen[i].frame, frames[i]) << "frame " << i;
    EXPECT_TRUE(parse(seen[i].frame)->checksums_right) << "frame " << i;
  }
  EXPECT_EQ(sniffer.lost(), 0U);
}

TEST_F(Lab, BuiltPacketsAreTakenByTheStack) {
  connect();
  for (const bool v6 : {false, true}) {
    PacketSpec spec = towards_near("hello");
    if (v6) spec.src_ip = "fd09::2", spec.dst_ip = "fd09::1";
    UdpSocket socket(*near_, spec.dst_ip, 2000);
    Sender sender(wire_->b());
    sender.send(build(spec));
    EXPECT_EQ(socket.receive(1000ms), "hello");

    spec.wrong_l4_checksum = true;
    sender.send(build(spec));
    EXPECT_EQ(socket.receive(100ms), std::nullopt) << "a wrong checksum was accepted";

    spec.wrong_l4_checksum = false;
    spec.payload = std::string(3000, 'f');
    spec.ip_id = 77;
    const auto fragments = build_fragments(spec, 1000);
    EXPECT_EQ(fragments.size(), 4U);
    sender.send(fragments);
    EXPECT_EQ(socket.receive(1000ms), spec.payload);
  }
}

TEST_F(Lab, VlanShimsTagTheWireInsideTheFrame) {
  connect();
  wire_->checksums_in_software();
  const VlanShim near_shim(wire_->a(), 42), far_shim(wire_->b(), 42);
  Sniffer leaving(wire_->b(), Sniffer::Direction::outgoing);
  EXPECT_EQ(ping(*far_, "10.9.0.1", {.count = 2}).received, 2U);
  for (const Captured& captured : leaving.drain(50ms)) {
    EXPECT_TRUE(captured.tag_in_frame);
    EXPECT_EQ(parse(captured.frame)->vlans, std::vector<Vlan>{{42}});
  }
  const TransferResult result = tcp_transfer(*far_, *near_, "10.9.0.1", {.bytes = 2 << 20});
  EXPECT_TRUE(result.intact) << result.problem;
}

TEST_F(Lab, VlanShimRefusesOtherTags) {
  connect();
  const VlanShim near_shim(wire_->a(), 42);
  EXPECT_EQ(ping(*far_, "10.9.0.1", {.count = 1, .timeout = 100ms}).received, 0U) << "untagged was taken";
  const VlanShim far_shim(wire_->b(), 43);
  EXPECT_EQ(ping(*far_, "10.9.0.1", {.count = 1, .timeout = 100ms}).received, 0U) << "tag 43 was taken";
}

TEST_F(Lab, XdpProgramsActAreSeenAndCounted) {
  connect();
  const BpfStatistics statistics;
  for (const bool generic : {false, true}) {
    EXPECT_EQ(xdp_state(wire_->a()).mode, XdpAttach::none);
    const XdpProgram pass(wire_->a(), 2, generic);
    const XdpState state = xdp_state(wire_->a());
    EXPECT_EQ(state.mode, generic ? XdpAttach::generic : XdpAttach::native);
    EXPECT_EQ(state.program_name, "lab_xdp");
    const auto before = program_runs(pass.id());
    EXPECT_EQ(ping(*far_, "10.9.0.1", {.count = 5, .interval = 1ms}).received, 5U);
    EXPECT_EQ(program_runs(pass.id()) - before, 5U);
  }
  const XdpProgram drop(wire_->a(), 1);
  EXPECT_EQ(ping(*far_, "10.9.0.1", {.count = 1, .timeout = 100ms}).received, 0U);
}

TEST_F(Lab, ProcessesLiveInTheNamespaceAndAreEnded) {
  {
    Process process(*near_, {"/bin/sh", "-c", "echo ready; echo bad >&2; sleep 60"});
    EXPECT_TRUE(process.wait_for([](const std::string& out) { return out == "ready\n"; }, 3000ms));
    EXPECT_FALSE(processes_in(*near_).empty());
    EXPECT_TRUE(processes_in(*far_).empty());
    EXPECT_EQ(process.wait(10ms), -1);
  }
  EXPECT_TRUE(processes_in(*near_).empty());
  const Outcome outcome = run_program(*near_, {"/bin/sh", "-c", "echo out; echo err >&2; exit 3"});
  EXPECT_EQ(outcome.status, 3);
  EXPECT_EQ(outcome.out, "out\n");
  EXPECT_EQ(outcome.err, "err\n");
  EXPECT_EQ(run_program(*near_, {"/bin/sh", "-c", "kill -9 $$"}).status, 137);
}

TEST_F(Lab, WhatStandsInTheKernelIsSeen) {
  connect();
  EXPECT_EQ(link_names(*near_), std::vector<std::string>{"xgGn0"});
  EXPECT_TRUE(qdiscs(*near_).empty());
  const std::string before = snapshot({&*near_}, "/sys/fs/bpf/xgG-none");
  {
    const VlanShim shim(wire_->a(), 1);
    EXPECT_EQ(qdiscs(*near_), std::vector<std::string>{"xgGn0 clsact"});
    EXPECT_NE(snapshot({&*near_}, "/sys/fs/bpf/xgG-none"), before);
  }
  EXPECT_EQ(snapshot({&*near_}, "/sys/fs/bpf/xgG-none"), before);
}

TEST_F(Lab, OffloadsFollow) {
  connect();
  EXPECT_TRUE(wire_->b().feature("rx-gro"));
  EXPECT_TRUE(wire_->b().feature("tx-checksum-ip-generic"));
  wire_->checksums_in_software();
  EXPECT_FALSE(wire_->b().feature("tx-checksum-ip-generic"));
  EXPECT_THROW(wire_->b().feature("no-such-offload", true), Error);
}

}  // namespace
}  // namespace xdpgpu::lab
