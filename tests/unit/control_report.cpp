// SPDX-License-Identifier: MIT
//
// The account of packets, and records in words.
#include "userspace/control/report.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include "userspace/control/decide.hpp"
#include "userspace/control/describe.hpp"
#include "userspace/control/flows.hpp"
#include "userspace/control/summary.hpp"
#include "userspace/dataplane/counters.hpp"

namespace xdpgpu::control {
namespace {

PortReport port_with(u32 reason, u64 packets) {
  PortReport port;
  port.kernel.by[reason].packets = packets;
  return port;
}

// Every reason gets a count of its own, so that one that is forgotten or counted twice shows.
TEST(ControlReport, EveryReasonIsInExactlyOneOutcome) {
  PortReport port;
  u64 outcomes = 0;
  for (u32 reason = 0; reason < XG_KERNEL_REASON_COUNT; reason++) {
    port.kernel.by[reason].packets = u64{1} << reason;
    if (reason != XG_KERNEL_received && reason != XG_KERNEL_inspected && reason != XG_KERNEL_cut)
      outcomes += u64{1} << reason;
  }
  constexpr u64 kReceived = u64{1} << XG_KERNEL_REASON_COUNT;
  port.kernel.by[XG_KERNEL_received].packets = kReceived;
  const Totals sum = total({port});
  EXPECT_EQ(sum.in, kReceived - (u64{1} << XG_KERNEL_cut)) << "its segments came in again";
  EXPECT_EQ(sum.inspected, u64{1} << XG_KERNEL_inspected);
  EXPECT_EQ(sum.pass + sum.drop + sum.tx + sum.redirect + sum.error + sum.program, outcomes);
  EXPECT_EQ(sum.out(), outcomes);
  EXPECT_EQ(sum.program, u64{1} << XG_KERNEL_program);
  EXPECT_EQ(sum.error, u64{1} << XG_KERNEL_error_redirect | u64{1} << XG_KERNEL_error_rewrite |
                           u64{1} << XG_KERNEL_error_too_long | u64{1} << XG_KERNEL_error_program);
  EXPECT_EQ(sum.tx, u64{1} << XG_KERNEL_tx_flow);
}

// So does every counter of a worker; what is no end of a packet moves nothing.
TEST(ControlReport, EveryWorkersCounterIsInExactlyOneOutcome) {
  for (const auto& counter : dataplane::kWorkerCounters) {
    PortReport port;
    port.queues.emplace_back().counters.*counter.value = 7;
    const Totals sum = total({port});
    const u64 outcomes[] = {sum.drop, sum.pass, sum.tx, sum.redirect, sum.error};
    for (u32 outcome = XG_OUTCOME_drop; outcome <= XG_OUTCOME_error; outcome++)
      EXPECT_EQ(outcomes[outcome - XG_OUTCOME_drop], outcome == counter.outcome ? 7u : 0u) << counter.name;
    EXPECT_EQ(sum.in + sum.inspected, 0u) << counter.name;
  }
}

// What a report says of a verdict is what the account counts it as.
TEST(ControlReport, AReasonsActionIsItsOutcome) {
  for (u32 reason = 0; reason < XG_KERNEL_REASON_COUNT; reason++) {
    const Totals sum = total({port_with(reason, 1)});
    EXPECT_EQ(action_of(reason) == XG_PASS, sum.pass == 1) << reason_name(reason);
    EXPECT_EQ(action_of(reason) == XG_DROP, sum.drop == 1) << reason_name(reason);
    EXPECT_EQ(action_of(reason) == XG_TX, sum.tx == 1) << reason_name(reason);
    EXPECT_EQ(action_of(reason) == XG_REDIRECT, sum.redirect == 1) << reason_name(reason);
  }
}

TEST(ControlReport, WorkersCompleteTheAccount) {
  PortReport port = port_with(XG_KERNEL_received, 100);
  port.kernel.by[XG_KERNEL_pass_control].packets = 10;
  port.kernel.by[XG_KERNEL_inspected].packets = 90;
  xg_worker_counters& counters = port.queues.emplace_back().counters;
  counters.received = 85;
  counters.lost_in_kernel = 5;
  counters.dropped = 20;
  counters.passed = 30;
  counters.transmitted = 15;
  counters.redirected = 10;
  counters.error_device = 1;
  counters.error_generation = 2;
  counters.error_target = 2;
  counters.error_too_long = 1;
  counters.error_ring_full = 1;
  counters.error_refused = 1;
  counters.error_hand_over = 1;
  counters.error_invalid = 1;
  counters.flows_cached = 1000;  // no packets
  counters.checksums_repaired = 1000;
  Totals sum = total({port});
  EXPECT_TRUE(sum.balanced());
  EXPECT_EQ(sum.in_flight(), 0u);
  EXPECT_EQ(sum.pass, 40u);
  EXPECT_EQ(sum.error, 15u);
  EXPECT_EQ(sum.refused, 1u);
  counters.passed--;
  sum = total({port});
  EXPECT_FALSE(sum.balanced());
  EXPECT_EQ(sum.in_flight(), 1u);
}

// A counter of outcomes is read behind that of what came in, or the other way round.
TEST(ControlReport, TotalsOfAProgramThatGoesOnAreReadTwice) {
  Totals first, later;
  first.in = 10, first.pass = 11;
  EXPECT_FALSE(first.balanced());
  later.in = 12, later.pass = 12;
  EXPECT_TRUE(first.balanced(later));
  later.in = later.pass = 10;
  EXPECT_FALSE(first.balanced(later)) << "one passed that never came in";
  first.pass = 7;
  later.in = 12, later.pass = 9;
  EXPECT_FALSE(first.balanced(later)) << "one that came in is still not accounted for";
}

TEST(ControlReport, OneIsNotSeveral) {
  EXPECT_EQ(counted(0, "packet"), "0 packets");
  EXPECT_EQ(counted(1, "packet"), "1 packet");
  EXPECT_EQ(counted(2, "flow verdict"), "2 flow verdicts");
}

TEST(ControlReport, SaysWhatTheKernelRefusedBesideTheTotals) {
  const auto text = [](const Totals& sum) {
    StatusReport report;
    report.packets = sum;
    return account_text(report);
  };
  Totals sum{.in = 12, .pass = 3, .drop = 2, .error = 7, .inspected = 12, .refused = 6};
  EXPECT_EQ(
      text(sum),
      "12 packets in: 3 passed, 2 dropped, 0 sent back, 0 redirected, 7 errors (6 refused by the kernel "
      "behind user space); 12 of them were inspected\n");
  sum = {.in = 1, .error = 1, .inspected = 1};
  EXPECT_EQ(
      text(sum),
      "1 packet in: 0 passed, 0 dropped, 0 sent back, 0 redirected, 1 error; 1 of them was inspected\n");
}

xg_flow_key key_v4(const char* src, const char* dst, u16 sport, u16 dport, u8 protocol) {
  xg_flow_key key{};
  key.family = 4;
  inet_pton(AF_INET, src, key.src);
  inet_pton(AF_INET, dst, key.dst);
  key.src_port = htons(sport);
  key.dst_port = htons(dport);
  key.protocol = protocol;
  return key;
}

TEST(ControlReport, FlowsInWords) {
  auto key = key_v4("10.0.0.1", "10.0.0.2", 1234, 80, 6);
  EXPECT_EQ(flow_text(key), "10.0.0.1:1234 > 10.0.0.2:80 tcp");
  key.vlan_outer = 100;
  key.vlan_inner = XG_VLAN_PRIORITY;
  EXPECT_EQ(flow_text(key), "10.0.0.1:1234 > 10.0.0.2:80 tcp vlan 100 vlan 0");
  xg_flow_key v6{};
  v6.family = 6;
  inet_pton(AF_INET6, "2001:db8::1", v6.src);
  inet_pton(AF_INET6, "2001:db8::2", v6.dst);
  v6.protocol = 17;
  v6.src_port = htons(53);
  v6.dst_port = htons(5353);
  EXPECT_EQ(flow_text(v6), "[2001:db8::1]:53 > [2001:db8::2]:5353 udp");
  EXPECT_EQ(flow_text(key_v4("10.0.0.1", "10.0.0.2", 0, 0, 47)), "10.0.0.1 > 10.0.0.2 protocol 47");
  EXPECT_EQ(flow_text(xg_flow_key{}), "not IP");
  auto fragment = key_v4("10.0.0.1", "10.0.0.2", 0, 0, 17);
  fragment.src_port = 0x5678;  // the identification, in host order
  EXPECT_EQ(flow_text(fragment, XG_PKT_FRAGMENT), "10.0.0.1 > 10.0.0.2 udp fragment id 22136");
  fragment.dst_port = 0x1234;
  EXPECT_EQ(flow_text(fragment, XG_PKT_FRAGMENT), "10.0.0.1 > 10.0.0.2 udp fragment id 305419896");
}

TEST(ControlReport, VerdictsInWords) {
  gpu::PipelineSettings pipeline;
  pipeline.name = "web";
  gpu::AclSettings acl;
  acl.rules.push_back({});
  acl.rules.back().name = "office";
  gpu::LoadBalanceSettings balance;
  balance.backends.resize(2);
  balance.backends[1].name = "b2";
  pipeline.stages = {acl, balance};
  EXPECT_EQ(decider_text(XG_VERDICT(XG_DROP, 0u, 1u, 1u), &pipeline, nullptr),
            "stage 1 (acl) rule 1 (office)");
  EXPECT_EQ(decider_text(XG_VERDICT(XG_DROP, 0u, 1u, 0u), &pipeline, nullptr), "stage 1 (acl) otherwise");
  xg_result result{};
  result.detail = 1;
  EXPECT_EQ(decider_text(XG_VERDICT(XG_TX, 0u, 2u, 0u), &pipeline, &result),
            "stage 2 (load_balance) backend 2 (b2)");
  balance.encapsulation = gpu::EncapsulationSettings{};
  balance.backends[1].address = {6, {0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9}, 128};
  pipeline.stages[1] = balance;
  EXPECT_EQ(decider_text(XG_VERDICT(XG_TX, 0u, 2u, 0u), &pipeline, &result),
            "stage 2 (load_balance) backend 2 (b2), inside of IP to 2001:db8::9");
  EXPECT_EQ(decider_text(XG_VERDICT(XG_DROP, 0u, 2u, gpu::balance_rule::kTooLong), &pipeline, &result),
            "stage 2 (load_balance) too long to be encapsulated to backend b2: more than 1460 bytes");
  EXPECT_EQ(decider_text(XG_VERDICT(XG_DROP, 0u, 2u, gpu::balance_rule::kMalformed), &pipeline, &result),
            "stage 2 (load_balance) malformed, so not encapsulated");
  EXPECT_EQ(decider_text(XG_PASS, &pipeline, nullptr), "end of pipeline web");
  EXPECT_EQ(decider_text(XG_VERDICT(XG_DROP, 0u, 9u, 3u), nullptr, nullptr), "stage 9 rule 3");
}

TEST(ControlReport, BpftoolsKeyIsTheIndexLowestByteFirst) {
  EXPECT_EQ(bpftool_key(0), "hex 00 00 00 00");
  EXPECT_EQ(bpftool_key(0x01020304), "hex 04 03 02 01");
}

}  // namespace
}  // namespace xdpgpu::control
