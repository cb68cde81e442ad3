// SPDX-License-Identifier: MIT
//
// tests/kernel/kernel_test.hpp: what the tests of the kernel program share: the skip, and a case of the
// table (policy, packet, verdict, reason).
#pragma once

#include <gtest/gtest.h>
#include <linux/bpf.h>

#include <algorithm>

#include "tests/kernel/program.hpp"

namespace xdpgpu::test {

// Skips, with the reason, where the program cannot be loaded.
class KernelTest : public testing::Test {
 protected:
  void SetUp() override {
    if (auto why = why_unavailable(); !why.empty()) GTEST_SKIP() << why;
  }
};

struct Case {
  std::string name;
  std::string policy;  // without the braces and the version
  Frame frame;
  int action;
  std::string reason;
};
inline void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class CaseTest : public KernelTest, public testing::WithParamInterface<Case> {};
inline std::string case_name(const testing::TestParamInfo<Case>& info) { return info.param.name; }

// A rewrite to 02:01:02:03:04:05, from 02:09:08:07:06:05 where the flags say so.
inline xg_rewrite rewrite(u32 generation, u32 flags) {
  xg_rewrite record{};
  record.generation = generation;
  record.flags = flags;
  const u8 dst[]{2, 1, 2, 3, 4, 5}, src[]{2, 9, 8, 7, 6, 5};
  std::copy_n(dst, 6, record.dst_mac);
  std::copy_n(src, 6, record.src_mac);
  return record;
}

}  // namespace xdpgpu::test
