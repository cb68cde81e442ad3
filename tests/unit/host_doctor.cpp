// SPDX-License-Identifier: MIT
//
// The doctor's judgement: a table of facts, each changed in one way from a host and an interface that are
// ready, and what has to be said about it.
#include "userspace/host/doctor.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>

namespace xdpgpu::host {
namespace {

HostFacts good_host() {
  HostFacts host;
  host.root = host.cap_net_admin = host.cap_net_raw = host.cap_bpf = host.cap_ipc_lock = true;
  host.memlock_limit = 8 << 20;
  host.kernel = parse_kernel_release("6.1.0-28-amd64");
  host.bpffs = true;
  host.cpus = {0, 1, 2, 3};
  return host;
}

InterfaceFacts good_interface() {
  InterfaceFacts facts;
  facts.name = "eth0";
  facts.ifindex = 2;
  facts.driver = "ice";
  facts.ethernet = facts.up = facts.carrier = true;
  facts.mtu = 1500;
  facts.rx_queues = 4;
  facts.xdp_features = kXdpBasic | kXdpRedirect | kXdpNdoXmit | kXdpZeroCopy;
  return facts;
}

const Finding* find(const std::vector<Finding>& findings, Severity severity) {
  const auto it = std::find_if(findings.begin(), findings.end(),
                               [&](const Finding& f) { return f.severity == severity; });
  return it == findings.end() ? nullptr : &*it;
}

TEST(HostDoctor, AReadyHostAndInterfaceAreOk) {
  for (const auto& findings :
       {examine_host(good_host(), {}), examine_interface(good_host(), good_interface(), {})})
    for (const auto& finding : findings) EXPECT_EQ(finding.severity, Severity::ok) << finding.sentence();
}

struct HostCase {
  const char* name;
  std::function<void(HostFacts&)> change;
  Severity severity;
  const char* says;
};

TEST(HostDoctor, HostTable) {
  const HostCase cases[] = {
      {"not root", [](HostFacts& h) { h.root = false; }, Severity::blocker, "sudo"},
      {"no CAP_BPF", [](HostFacts& h) { h.cap_bpf = false; }, Severity::blocker, "CAP_BPF"},
      {"no CAP_NET_ADMIN", [](HostFacts& h) { h.cap_net_admin = false; }, Severity::blocker, "CAP_NET_ADMIN"},
      {"no CAP_NET_RAW", [](HostFacts& h) { h.cap_net_raw = false; }, Severity::blocker, "CAP_NET_RAW"},
      {"old kernel", [](HostFacts& h) { h.kernel = parse_kernel_release("5.15.0"); }, Severity::blocker,
       "6.1"},
      {"unreadable kernel", [](HostFacts& h) { h.kernel = parse_kernel_release("x"); }, Severity::blocker,
       "6.1"},
      {"no bpffs", [](HostFacts& h) { h.bpffs = false; }, Severity::blocker, "mount -t bpf bpf /sys/fs/bpf"},
      {"little locked memory", [](HostFacts& h) { h.cap_ipc_lock = false; }, Severity::blocker,
       "CAP_IPC_LOCK"},
      {"a needed feature is missing",
       [](HostFacts& h) {
         h.features.push_back({"xskmap", Have::no, true, "", "tried"});
       },
       Severity::blocker, "xskmap"},
  };
  for (const auto& c : cases) {
    auto host = good_host();
    c.change(host);
    const auto findings = examine_host(host, {});
    const Finding* finding = find(findings, c.severity);
    ASSERT_NE(finding, nullptr) << c.name;
    EXPECT_NE(finding->sentence().find(c.says), std::string::npos) << c.name << ": " << finding->sentence();
    EXPECT_FALSE(finding->cure.empty()) << c.name;
  }
}

TEST(HostDoctor, WhatIsNotNeededDoesNotBlock) {
  auto host = good_host();
  host.features = {{"dispatcher", Have::no, false, "", ""}, {"bpf_xdp", Have::unknown, true, "", ""}};
  host.cap_ipc_lock = false;
  host.memlock_limit = std::numeric_limits<u64>::max();
  EXPECT_EQ(first_blocker(examine_host(host, {})), std::nullopt);
}

struct InterfaceCase {
  const char* name;
  std::function<void(InterfaceFacts&)> change;
  DoctorOptions options;
  Severity severity;
  const char* says;
};

TEST(HostDoctor, InterfaceTable) {
  const DoctorOptions any;
  DoctorOptions copy, zero_copy, generic, eight, two, before_attach;
  before_attach.foreign_blocks = true;
  copy.mode = IoMode::copy;
  zero_copy.mode = IoMode::zero_copy;
  generic.mode = IoMode::generic;
  eight.queues = 8;
  two.queues = 2;
  auto offload = [](const char* name, bool changeable) {
    return [=](InterfaceFacts& f) { f.offloads[name] = {.active = true, .changeable = changeable}; };
  };
  const InterfaceCase cases[] = {
      {"loopback", [](InterfaceFacts& f) { f.loopback = true; }, any, Severity::blocker, "loopback"},
      {"not Ethernet", [](InterfaceFacts& f) { f.ethernet = false; }, any, Severity::blocker, "Ethernet"},
      {"bond", [](InterfaceFacts& f) { f.kind = "bond"; }, any, Severity::blocker, "bond"},
      {"bridge", [](InterfaceFacts& f) { f.kind = "bridge"; }, any, Severity::blocker, "bridge"},
      {"port of a bridge",
       [](InterfaceFacts& f) {
         f.master = "br0";
         f.master_kind = "bridge";
       },
       any, Severity::blocker, "ip link set eth0 nomaster"},
      {"port of a bond",
       [](InterfaceFacts& f) {
         f.master = "bond0";
         f.master_kind = "bond";
       },
       any, Severity::blocker, "bond0"},
      {"down", [](InterfaceFacts& f) { f.up = false; }, any, Severity::warning, "ip link set eth0 up"},
      {"jumbo frames", [](InterfaceFacts& f) { f.mtu = 9000; }, any, Severity::blocker, "mtu 1500"},
      {"MTU one too many", [](InterfaceFacts& f) { f.mtu = 1739; }, any, Severity::blocker, "1739"},
      {"more queues than there are", [](InterfaceFacts&) {}, eight, Severity::blocker, "not 8"},
      {"fewer queues than there are", [](InterfaceFacts&) {}, two, Severity::warning, "on_failure"},
      {"more queues than cores", [](InterfaceFacts& f) { f.rx_queues = 64; }, any, Severity::note, "share"},
      {"no native XDP, strict", [](InterfaceFacts& f) { f.xdp_features = 0; }, copy, Severity::blocker,
       "generic"},
      {"no native XDP, auto", [](InterfaceFacts& f) { f.xdp_features = 0; }, any, Severity::warning,
       "generic"},
      {"no zero-copy, strict", [](InterfaceFacts& f) { *f.xdp_features &= ~kXdpZeroCopy; }, zero_copy,
       Severity::blocker, "zero-copy"},
      {"no XDP transmit", [](InterfaceFacts& f) { *f.xdp_features &= ~kXdpNdoXmit; }, any, Severity::note,
       "workers transmit"},
      {"veth without NAPI at its peer",
       [](InterfaceFacts& f) {
         f.driver = f.kind = "veth";
         f.xdp_features = kXdpBasic | kXdpRedirect;
       },
       any, Severity::note, "gro on"},
      {"rxvlan", offload(kRxVlan, true), any, Severity::note, "ethtool -K eth0 rxvlan off"},
      {"lro", offload(kLro, true), any, Severity::note, "ethtool -K eth0 lro off"},
      {"fixed offload", offload(kHwGro, false), any, Severity::warning, "fixed"},
      {"another program",
       [](InterfaceFacts& f) {
         f.xdp_program_id = 7;
         f.xdp_program_name = "somebody_elses";
       },
       any, Severity::note, "somebody_elses"},
      {"another program, before an attach",
       [](InterfaceFacts& f) {
         f.xdp_program_id = 7;
         f.xdp_program_name = "somebody_elses";
         f.xdp_link_holder = 123;
         f.xdp_link_holder_name = "other";
       },
       before_attach, Severity::blocker, "stop process 123 (other)"},
  };
  for (const auto& c : cases) {
    auto facts = good_interface();
    c.change(facts);
    const auto findings = examine_interface(good_host(), facts, c.options);
    const Finding* finding = find(findings, c.severity);
    ASSERT_NE(finding, nullptr) << c.name;
    EXPECT_NE(finding->sentence().find(c.says), std::string::npos) << c.name << ": " << finding->sentence();
    EXPECT_NE(finding->sentence().find("eth0"), std::string::npos) << c.name << ": " << finding->sentence();
    EXPECT_EQ(first_blocker(findings).has_value(), c.severity == Severity::blocker) << c.name;
  }
}

TEST(HostDoctor, JumboFramesWhereKernelDriverAndModeTakeThem) {
  HostFacts newer = good_host();
  newer.kernel = parse_kernel_release("6.12.0");
  auto facts = good_interface();
  facts.mtu = 9000;
  const auto mtu_of = [&](IoMode mode) {
    DoctorOptions options;
    options.mode = mode;
    for (const auto& finding : examine_interface(newer, facts, options))
      if (finding.check == "mtu") return finding;
    return Finding{};
  };
  struct {
    IoMode mode;
    bool driver;
    Severity severity;
    const char* says;
  } const cases[] = {
      {IoMode::automatic, true, Severity::ok, "6 buffers"},
      {IoMode::copy, true, Severity::ok, "6 buffers"},
      {IoMode::generic, true, Severity::ok, "6 buffers"},
      {IoMode::zero_copy, true, Severity::blocker, "use --mode copy"},
      {IoMode::automatic, false, Severity::warning, "generic"},
      {IoMode::copy, false, Severity::blocker, "use --mode generic or ip link set eth0 mtu 1500"},
      {IoMode::generic, false, Severity::ok, "6 buffers"},
  };
  for (const auto& c : cases) {
    facts.xdp_features = *good_interface().xdp_features | (c.driver ? kXdpReceiveBuffers : 0);
    const Finding finding = mtu_of(c.mode);
    EXPECT_EQ(finding.severity, c.severity) << finding.sentence();
    EXPECT_NE(finding.sentence().find(c.says), std::string::npos) << finding.sentence();
    if (c.severity == Severity::ok) continue;
    EXPECT_NE(finding.sentence().find("1738"), std::string::npos) << finding.sentence();
  }
  facts.xdp_features = std::nullopt;
  facts.mtu = kMostJumboMtu;
  EXPECT_EQ(packet_buffers(facts.mtu), XG_PACKET_BUFFERS);
  EXPECT_EQ(mtu_of(IoMode::automatic).severity, Severity::ok);
  facts.mtu++;
  EXPECT_NE(mtu_of(IoMode::automatic).sentence().find("28138"), std::string::npos);
  EXPECT_EQ(mtu_of(IoMode::automatic).severity, Severity::blocker);
  newer.kernel = parse_kernel_release("6.6.80");
  EXPECT_NE(mtu_of(IoMode::automatic).sentence().find("6.7"), std::string::npos);
}

TEST(HostDoctor, ThePortMustSendFramesOfAllTheirBuffers) {
  auto facts = good_interface();
  EXPECT_TRUE(can_transmit_xdp(facts, false));
  EXPECT_FALSE(can_transmit_xdp(facts, false, 6));
  EXPECT_TRUE(can_transmit_xdp(facts, true, 6));
  *facts.xdp_features |= kXdpTransmitBuffers;
  EXPECT_TRUE(can_transmit_xdp(facts, false, 6));
}

TEST(HostDoctor, TheLargestMtuThatFitsIsAllowed) {
  auto facts = good_interface();
  facts.mtu = 1738;
  EXPECT_EQ(first_blocker(examine_interface(good_host(), facts, {})), std::nullopt);
}

TEST(HostDoctor, GenericModeNeedsNothingOfTheDriver) {
  auto facts = good_interface();
  facts.xdp_features = 0;
  DoctorOptions generic;
  generic.mode = IoMode::generic;
  const auto findings = examine_interface(good_host(), facts, generic);
  EXPECT_EQ(first_blocker(findings), std::nullopt);
  EXPECT_EQ(find(findings, Severity::warning), nullptr);
  EXPECT_TRUE(can_transmit_xdp(facts, true));
  EXPECT_FALSE(can_transmit_xdp(facts, false));
}

TEST(HostDoctor, GenericModeMeetsSegmentsThatNobodyCut) {
  auto facts = good_interface();
  DoctorOptions generic;
  generic.mode = IoMode::generic;
  EXPECT_EQ(find(examine_interface(good_host(), facts, generic), Severity::note), nullptr)
      << "its kernel joins none for generic XDP";
  facts.driver = "veth";
  EXPECT_EQ(find(examine_interface(good_host(), facts, {}), Severity::note), nullptr) << "native XDP";
  for (const bool falls_back : {false, true}) {
    if (falls_back) facts.xdp_features = 0;
    const auto findings = examine_interface(good_host(), facts, falls_back ? DoctorOptions{} : generic);
    const Finding* note = find(findings, Severity::note);
    ASSERT_NE(note, nullptr);
    EXPECT_EQ(note->check, "segments");
    EXPECT_NE(note->sentence().find("ethtool -K PEER tso off gso off"), std::string::npos)
        << note->sentence();
  }
}

TEST(HostDoctor, BeforeKernelsTellVethIsNotTrustedToTransmit) {
  auto facts = good_interface();
  facts.xdp_features.reset();
  EXPECT_TRUE(can_transmit_xdp(facts, false));
  facts.driver = "veth";
  EXPECT_FALSE(can_transmit_xdp(facts, false));
  EXPECT_TRUE(partial_checksums(facts));
  facts.driver = "ice";
  EXPECT_FALSE(partial_checksums(facts));
}

TEST(HostDoctor, AZeroCopyFrameHasTheChunksThatItNeeds) {
  auto facts = good_interface();
  facts.driver = "igb";
  EXPECT_TRUE(wants_two_chunks(facts)) << "whole KiB";
  facts.driver = "ice";
  for (facts.mtu = 1600; facts.mtu <= kMostMtu + 1; facts.mtu++)
    EXPECT_EQ(wants_two_chunks(facts), facts.mtu > 1638 && facts.mtu <= kMostMtu) << facts.mtu;
  facts.mtu = kMostMtu;
  *facts.xdp_features &= ~kXdpZeroCopy;
  EXPECT_FALSE(wants_two_chunks(facts)) << "its driver fills none";
  facts.xdp_features.reset();
  EXPECT_TRUE(wants_two_chunks(facts)) << "it may";
}

TEST(HostDoctor, KernelReleasesAreRead) {
  EXPECT_TRUE(parse_kernel_release("6.1.0-28-amd64").at_least(6, 1));
  EXPECT_TRUE(parse_kernel_release("6.18.44-fc-v657").at_least(6, 3));
  EXPECT_TRUE(parse_kernel_release("10.0.1").at_least(6, 1));
  EXPECT_FALSE(parse_kernel_release("6.0.19").at_least(6, 1));
  EXPECT_FALSE(parse_kernel_release("").at_least(1, 0));
}

// What every Linux host has.
TEST(HostDoctor, TheLoopbackInterfaceIsRead) {
  const auto facts = read_interface("lo");
  ASSERT_TRUE(facts) << facts.error();
  EXPECT_TRUE(facts->loopback);
  EXPECT_EQ(facts->ifindex, 1u);
  for (const char* name : {"", "no-such-if", "a/b", "a b", "much-too-long-a-name-for-an-interface"}) {
    const auto none = read_interface(name);
    ASSERT_FALSE(none) << name;
    EXPECT_EQ(none.error().find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace xdpgpu::host
