// SPDX-License-Identifier: MIT
//
// Several receive queues: each has its own shard of verdicts, its own credits and its own order. A
// veth pair lends the queues; no packet crosses it.
#include <bpf/libbpf.h>

#include "tests/kernel/kernel_test.hpp"
#include "tests/netns/lab.hpp"

namespace xdpgpu::test {
namespace {

const Frame kUdp = ethernet() + ipv4({}, udp(1000, 53, 20));
const std::string kPolicy = policy_text(R"("default": "drop", "on_failure": "drop", "on_overload": "drop",
    "pipelines": {"p": [{"stage": "l2fwd"}]}, "rules": [{"match": {"dst_port": 53}, "action": {"inspect": "p"}}])");

class QueueTest : public KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    if (IsSkipped()) return;
    if (auto why = lab::why_unavailable(); !why.empty()) GTEST_SKIP() << why;
  }
};

TEST_F(QueueTest, EachHasItsOwn) {
  const lab::Namespace ns("queues"), far("far");
  const lab::Veth wire(ns, "xgAq0", far, "xgAq1", {.queues = 2, .mtu = 1500});
  wire.up();
  Program program({.queues = 2, .flow_entries_per_queue = 64, .limits = 16});
  program.install(kPolicy);
  const int ifindex = static_cast<int>(wire.a().ifindex());
  ns.run([&] {
    // A queue is known to the kernel as an XDP queue once a program is attached.
    ASSERT_EQ(bpf_xdp_attach(ifindex, program.fd(), 1u << 2 /* XDP_FLAGS_DRV_MODE */, nullptr), 0);
    auto run = [&](u32 queue) { return program.run(kUdp, queue, wire.a().ifindex()); };

    program.connect(1, 2);
    EXPECT_EQ(run(0).reason, "drop_failure");
    EXPECT_EQ(run(1).reason, "inspected");
    program.connect(0, 1);
    EXPECT_EQ(run(0).reason, "inspected");
    EXPECT_EQ(run(0).reason, "drop_overload");
    EXPECT_EQ(run(1).metadata.value_or(xg_metadata{}).sequence, 1u);
    EXPECT_EQ(program.queue(0).admitted, 1u);
    EXPECT_EQ(program.queue(1).admitted, 2u);

    const u32 index = program.publish(kUdp, XG_DROP, {}, 1);
    EXPECT_GE(index, 64u);
    EXPECT_EQ(run(0).reason, "drop_overload") << "queue 0 does not read queue 1's shard";
    EXPECT_EQ(run(1).reason, "drop_flow");

    program.verdict(index).action = XG_PASS;
    EXPECT_EQ(run(1).reason, "drop_overload") << "two packets of the flow are still in user space";
    program.queue(0).retired = 2;
    EXPECT_EQ(run(1).reason, "drop_overload") << "another queue's packets do not matter";
    program.queue(1).retired = 2;
    EXPECT_EQ(run(1).reason, "pass_flow");
    bpf_xdp_detach(ifindex, 0, nullptr);
  });
}

}  // namespace
}  // namespace xdpgpu::test
