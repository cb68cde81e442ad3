// SPDX-License-Identifier: MIT
//
// What a policy's programs get where a GPU takes code for them, and what is said where they get none.
#include "userspace/control/program_translator.hpp"

#include <elf.h>
#include <gmock/gmock.h>
#include <linux/bpf.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "gpu/programs.hpp"
#include "gpu/stages/stages.hpp"
#include "userspace/compiler/translations.hpp"
#include "userspace/control/compiler_process.hpp"

namespace xdpgpu::control {
namespace {

using testing::HasSubstr;
using testing::Optional;
using testing::StartsWith;
using Code = std::shared_ptr<const gpu::DeviceCode>;

// One that passes everything; number: tells it from others.
gpu::StageSettings program_stage(int number = 0) {
  gpu::programs::Program program;
  program.name = "passes";
  program.license = "GPL";
  program.instructions = {{.opcode = BPF_ALU64 | BPF_MOV | BPF_K, .destination = 3, .immediate = number},
                          {.opcode = BPF_ALU64 | BPF_MOV | BPF_K, .destination = 0, .immediate = 2},
                          {.opcode = BPF_JMP | BPF_EXIT}};
  return gpu::stage_with(std::make_shared<const gpu::programs::Program>(program)).value();
}

compiler::CompiledPolicy policy_of(std::vector<gpu::StageSettings> stages) {
  compiler::CompiledPolicy policy;
  policy.pipelines =
      gpu::Pipelines::compile({{.name = "p", .stages = std::move(stages), .inner = false}}).value();
  return policy;
}
compiler::CompiledPolicy with_program(int number = 0) { return policy_of({program_stage(number)}); }

Code code_for(u32 architecture) {
  return std::make_shared<const gpu::DeviceCode>(gpu::DeviceCode{"code", architecture, {{'a'}}});
}

class ControlProgramTranslator : public testing::Test {
 protected:
  ProgramTranslator translator(std::vector<Code> codes) {
    return ProgramTranslator(
        [this]() -> Result<kernel::Fd> {
          started_++;
          return Error(std::string("there is none"));
        },
        std::move(codes));
  }
  int started_ = 0;
};

TEST_F(ControlProgramTranslator, HasNothingToDoForOtherDevicesAndOtherPolicies) {
  auto nobody = translator({});
  auto policy = with_program();
  const auto pipelines = policy.pipelines;
  EXPECT_FALSE(nobody.can_serve(policy));
  nobody.serve(policy, -1);
  EXPECT_EQ(policy.pipelines, pipelines);
  EXPECT_EQ(interpreted_note(policy), std::nullopt);
  auto other = translator({code_for(90)});
  auto without = policy_of({});
  EXPECT_FALSE(other.can_serve(without));
  other.serve(without, -1);
  EXPECT_EQ(how_programs_run(without), std::nullopt);
  EXPECT_EQ(started_, 0);
}

TEST_F(ControlProgramTranslator, ThatMakesNoneSaysWhyAndRefusesNothing) {
  for (const auto& [codes, why] : {std::pair{std::vector{code_for(80), code_for(90)}, "8.0 and 9.0 serve"},
                                   {std::vector{code_for(1)}, "no machine code to link them to"}}) {
    auto policy = with_program();
    const auto pipelines = policy.pipelines;
    auto without = translator(codes);
    EXPECT_TRUE(without.can_serve(policy));
    EXPECT_THAT(how_programs_run(policy), Optional(StartsWith("interpreted: ")));
    without.serve(policy, -1);
    EXPECT_EQ(policy.pipelines, pipelines);
    EXPECT_THAT(policy.why_interpreted, HasSubstr(why));
    EXPECT_THAT(how_programs_run(policy), Optional(HasSubstr(why)));
    EXPECT_THAT(interpreted_note(policy), Optional(HasSubstr(why)));
    EXPECT_FALSE(without.can_serve(policy)) << "it is not tried again for nothing";
  }
  EXPECT_EQ(started_, 0);
}

TEST_F(ControlProgramTranslator, APolicyOfOthersStaysAsItIs) {
  auto without = translator({code_for(1)});
  const auto policy = std::make_shared<const compiler::CompiledPolicy>(with_program());
  const auto served = without.served(policy, -1);
  EXPECT_NE(served, policy);
  EXPECT_EQ(policy->why_interpreted, "");
  EXPECT_NE(served->why_interpreted, "");
  EXPECT_EQ(without.served(served, -1), served);
}

TEST_F(ControlProgramTranslator, CodeThatADeviceDoesNotTakeIsTakenBack) {
  auto policy = with_program();
  policy.pipelines = gpu::Pipelines::with_code(policy.pipelines, code_for(90));
  EXPECT_EQ(how_programs_run(policy), "translated");
  const auto without = interpreted(policy, "it is for another GPU");
  EXPECT_EQ(without->pipelines->code(), nullptr);
  EXPECT_EQ(without->pipelines->image(), policy.pipelines->image());
  EXPECT_EQ(how_programs_run(*without), "interpreted: it is for another GPU");
}

// By a compiler as the broker starts it; it needs no GPU.
TEST(ControlProgramTranslation, IsOrderedOnceForTheSamePrograms) {
  const std::array known{120u, 100u, 90u, 89u, 86u, 80u};
  const auto* const architecture = std::find_if(known.begin(), known.end(), gpu::has_machine_code);
  if (architecture == known.end()) GTEST_SKIP() << "this build has no machine code";
  if (const auto loaded = compiler::load_translator(); !loaded) GTEST_SKIP() << loaded.error();
  if (geteuid() != 0) GTEST_SKIP() << "a compiler is started by root: run it with sudo";
#if defined(XDPGPU_SANITIZED)
  constexpr bool kFilter = false;
#else
  constexpr bool kFilter = true;
#endif
  std::string said;
  CompilerProcess process(
      kFilter, [] {}, [&](const std::string& sentence) { said = sentence; },
      CompilerProcess::Makes::translations);
  int started = 0;
  ProgramTranslator translator(
      [&] {
        started++;
        return process.start();
      },
      {*gpu::built_in_code(*architecture, true)});
  auto first = with_program(), again = with_program(), other = with_program(1);
  for (auto* const policy : {&first, &again, &other}) {
    translator.serve(*policy, -1);
    process.reap();
    ASSERT_NE(policy->pipelines->code(), nullptr) << policy->why_interpreted << " " << said;
    EXPECT_EQ(how_programs_run(*policy), "translated");
  }
  EXPECT_EQ(started, 1);
  EXPECT_EQ(again.pipelines->code(), first.pipelines->code());
  const gpu::DeviceCode& code = *first.pipelines->code();
  EXPECT_EQ(code.architecture, *architecture);
  EXPECT_THAT(code.id, StartsWith("programs of "));
  EXPECT_NE(code.id, other.pipelines->code()->id);
  EXPECT_NE(code.modules.front(), other.pipelines->code()->modules.front());
  EXPECT_EQ(std::string_view(code.modules.front().data(), SELFMAG), ELFMAG);
}

}  // namespace
}  // namespace xdpgpu::control
