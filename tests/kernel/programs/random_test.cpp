// SPDX-License-Identifier: MIT
//
// Programs by chance, in the kernel, in the reference, and in the form that devices run: verdict, bytes and
// maps are the same.
//
// XDPGPU_TEST_PROGRAMS says how many are tried, XDPGPU_TEST_SEED from which number on; a failure names its
// own.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>

#include "tests/kernel/programs/random.hpp"
#include "tests/unit/program_devices.hpp"

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
  const RandomKind kind{.version4 = lab::kernel_at_least(6, 6), .reserves = true};
  u32 refused = 0;
  std::string refusals;
  std::unique_ptr<Twins> twins;
  std::unique_ptr<gpu::programs::DeviceTwins> devices;
  for (u32 i = 0; i < programs; ++i) {
    // Maps go on from program to program, for a while.
    if (i % 50 == 0) {
      twins = std::make_unique<Twins>(random_maps(kind));
      devices = std::make_unique<gpu::programs::DeviceTwins>(random_maps(kind));
    }
    dataplane::Random random(first + i);
    const Code code = random_program(random, kind);
    const auto program = twins->add(code);
    if (!program) {
      if (++refused <= 3) refusals += twins->refusal() + "\n";
      continue;
    }
    const u32 on_device = devices->add(code);
    for (int run = 0; run < 3; ++run) {
      const ProgramPacket packet = random_packet(random, queues());
      const auto where = [&] {
        return fmt::format("XDPGPU_TEST_SEED={}, program {}, packet {}\n{}", first + i / 50 * 50, i % 50, run,
                           text_of(code));
      };
      ASSERT_EQ(twins->run(*program, packet), "") << where();
      ASSERT_EQ(devices->run(on_device, packet, run == 2), "") << where();
    }
  }
  std::printf("%u programs, %u refused\n", programs, refused);
  EXPECT_LE(refused * 10, programs) << refusals;
}

INSTANTIATE_TEST_SUITE_P(Parts, RandomProgramTest, testing::Range(0u, kParts));

}  // namespace
}  // namespace xdpgpu::test
