// SPDX-License-Identifier: MIT
//
// The tc programs of the reinjection pair: only marked frames, and the mark goes.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/pkt_cls.h>

#include "reinject.skel.h"
#include "tests/kernel/kernel_test.hpp"

namespace xdpgpu::test {
namespace {

struct Verdict {
  int action;
  u32 mark;
};

class ReinjectTest : public KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    if (IsSkipped()) return;
    skeleton_ = reinject_bpf__open();
    ASSERT_NE(skeleton_, nullptr);
    skeleton_->rodata->target_ifindex = 1;
    ASSERT_EQ(reinject_bpf__load(skeleton_), 0);
  }
  void TearDown() override { reinject_bpf__destroy(skeleton_); }

  static Verdict run(const bpf_program* program, u32 mark) {
    const Frame frame = ethernet() + ipv4({}, udp(1, 2));
    __sk_buff in{}, out{};
    in.mark = mark;
    LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = frame.data(),
                .data_size_in = static_cast<u32>(frame.size()), .ctx_in = &in, .ctx_out = &out,
                .ctx_size_in = sizeof(in), .ctx_size_out = sizeof(out));
    EXPECT_EQ(bpf_prog_test_run_opts(bpf_program__fd(program), &options), 0);
    return {static_cast<int>(options.retval), out.mark};
  }

  reinject_bpf* skeleton_ = nullptr;
};

TEST_F(ReinjectTest, NativeRedirectsMarkedFrames) {
  const Verdict verdict = run(skeleton_->progs.reinject_native, XG_REINJECT_MARK);
  EXPECT_EQ(verdict.action, TC_ACT_REDIRECT);
  EXPECT_EQ(verdict.mark, 0u);
}

TEST_F(ReinjectTest, GenericHandsMarkedFramesToTheNextFilter) {
  const Verdict verdict = run(skeleton_->progs.reinject_generic, XG_REINJECT_MARK);
  EXPECT_EQ(verdict.action, TC_ACT_UNSPEC);
  EXPECT_EQ(verdict.mark, 0u);
}

TEST_F(ReinjectTest, NothingElseGetsThrough) {
  for (const auto* program : {skeleton_->progs.reinject_native, skeleton_->progs.reinject_generic})
    for (u32 mark : {0u, 1u, XG_REINJECT_MARK + 1}) EXPECT_EQ(run(program, mark).action, TC_ACT_SHOT) << mark;
}

}  // namespace
}  // namespace xdpgpu::test
