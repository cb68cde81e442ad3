// SPDX-License-Identifier: MIT
//
// Programs by chance, in the kernel and in the reference: verdict, bytes and maps are the same.
//
// XDPGPU_TEST_PROGRAMS says how many are tried, XDPGPU_TEST_SEED from which number on; a failure names its
// own.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>

#include "tests/kernel/programs/random.hpp"

namespace xdpgpu::test {
namespace {

u32 number_of(const char* variable, u32 otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : static_cast<u32>(std::strtoul(text, nullptr, 10));
}

// The verifier of Linux 6.16 and later warns where it finds that its own bounds of a number contradict each
// other, which some of these programs bring about. Nothing else comes of it, where warnings are no panics.
class RandomProgramTest : public ProgramTest, public testing::WithParamInterface<u32> {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    if (IsSkipped()) return;
    int panics = 0;
    std::ifstream("/proc/sys/kernel/panic_on_warn") >> panics;
    if (panics != 0)
      GTEST_SKIP() << "a warning is a panic here (kernel.panic_on_warn), and verifiers warn of themselves";
  }
};

constexpr u32 kParts = 4;

TEST_P(RandomProgramTest, AnswersAreTheKernels) {
  const u32 programs = number_of("XDPGPU_TEST_PROGRAMS", 10'000) / kParts;
  const u32 first = number_of("XDPGPU_TEST_SEED", 1) + GetParam() * programs;
  const RandomKind kind{.version4 = lab::kernel_at_least(6, 6)};
  u32 refused = 0;
  std::string refusals;
  std::unique_ptr<Twins> twins;
  for (u32 i = 0; i < programs; ++i) {
    // Maps go on from program to program, for a while.
    if (i % 50 == 0) twins = std::make_unique<Twins>(random_maps(kind));
    dataplane::Random random(first + i);
    const Code code = random_program(random, kind);
    const auto program = twins->add(code);
    if (!program) {
      if (++refused <= 3) refusals += twins->refusal() + "\n";
      continue;
    }
    for (int run = 0; run < 3; ++run) {
      const ProgramPacket packet = random_packet(random, queues());
      const std::string difference = twins->run(*program, packet);
      ASSERT_EQ(difference, "") << "XDPGPU_TEST_SEED=" << first + i / 50 * 50 << ", program " << i % 50
                                << ", packet " << run << "\n"
                                << text_of(code);
    }
  }
  std::printf("%u programs, %u refused\n", programs, refused);
  EXPECT_LE(refused * 10, programs) << refusals;
}

INSTANTIATE_TEST_SUITE_P(Parts, RandomProgramTest, testing::Range(0u, kParts));

}  // namespace
}  // namespace xdpgpu::test
