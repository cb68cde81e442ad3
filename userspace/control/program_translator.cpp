// SPDX-License-Identifier: MIT
#include "userspace/control/program_translator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace xdpgpu::control {
namespace {

// A program takes a fraction of a second. What takes so long is nothing that a policy should wait for.
constexpr std::chrono::seconds kLongest{20};

std::string capability_text(u32 architecture) {
  return fmt::format("{}.{}", architecture / 10, architecture % 10);
}

std::string why_none(compiler::NoAnswer why) {
  switch (why) {
    case compiler::NoAnswer::too_long:
      return fmt::format(
          "their translation took longer than {} s: see what else the machine does, and apply the policy "
          "again",
          kLongest.count());
    case compiler::NoAnswer::cancelled:
      return "their translation was given up";
    case compiler::NoAnswer::ended:
    case compiler::NoAnswer::died:
      break;
  }
  return "the compiler of programs ended while it translated them: nvJitLink does not know this GPU (a newer "
         "CUDA toolkit does), or there was not enough memory (dmesg says so)";
}

}  // namespace

bool ProgramTranslator::can_serve(const compiler::CompiledPolicy& policy) const {
  return !codes_.empty() && policy.pipelines->runs_programs() && policy.pipelines->code() == nullptr &&
         policy.why_interpreted.empty();
}

void ProgramTranslator::serve(compiler::CompiledPolicy& policy, int given_up) {
  if (!can_serve(policy)) return;
  auto programs = gpu::programs::programs_of(*policy.pipelines);
  if (made_ == nullptr || programs != programs_) {
    auto made = make(programs, given_up);
    if (!made) {
      policy.why_interpreted = std::move(made.error());
      return;
    }
    made_ = *std::move(made);
    programs_ = std::move(programs);
  }
  policy.pipelines = gpu::Pipelines::with_code(policy.pipelines, made_);
}

PolicyPtr ProgramTranslator::served(PolicyPtr policy, int given_up) {
  if (!can_serve(*policy)) return policy;
  auto own = std::make_shared<compiler::CompiledPolicy>(*policy);
  serve(*own, given_up);
  return own;
}

Result<ProgramTranslator::Code> ProgramTranslator::make(const Programs& programs, int given_up) {
  const gpu::DeviceCode& own = *codes_.front();
  const u32 architecture = own.architecture;
  const auto other = std::find_if(codes_.begin(), codes_.end(),
                                  [&](const auto& code) { return code->architecture != architecture; });
  if (other != codes_.end())
    return Error(fmt::format(
        "GPUs of compute capability {} and {} serve together, and code is for one of them: attach "
        "with GPUs of one kind",
        capability_text(architecture), capability_text((*other)->architecture)));
  if (!gpu::has_machine_code(architecture))
    return Error(fmt::format(
        "this build has no machine code to link them to for a GPU of compute capability {}: build "
        "it with {}-real among XDPGPU_CUDA_ARCHITECTURES",
        capability_text(architecture), architecture));
  const auto answered = order(programs, given_up);
  if (!answered) return Error(answered.error());
  const auto memory = compiler::SealedMemory::map(*answered, compiler::kMostAnswer);
  if (!memory) return Error("the compiler of programs: " + memory.error());
  auto read = compiler::read_code_answer(memory->bytes());
  if (!read) return Error("the compiler of programs: " + read.error());
  if (!*read) {
    orders_ = {};  // what it lacks may be installed by the next time
    return Error((*read).error().sentence);
  }
  gpu::DeviceCode& code = **read;
  if (code.architecture != architecture || code.modules.size() != own.modules.size())
    return Error(std::string("the compiler of programs: what it handed over is other code than was ordered"));
  return std::make_shared<const gpu::DeviceCode>(std::move(code));
}

Result<kernel::Fd> ProgramTranslator::order(const Programs& programs, int given_up) {
  const auto end = std::chrono::steady_clock::now() + kLongest;
  const auto written = compiler::write_translation_order(programs, codes_.front()->architecture);
  if (!written) return Error(written.error());
  // One that has ended meanwhile, as for want of memory, has no part in this.
  for (bool again = static_cast<bool>(orders_);; again = false) {
    if (!orders_) {
      auto socket = start_();
      if (!socket) return Error(socket.error());
      orders_ = compiler::Orders(std::move(*socket));
    }
    auto answered = orders_.order(*written, given_up, end);
    if (answered) return *std::move(answered);
    if (again && answered.error() == compiler::NoAnswer::ended) continue;
    // It would go on with that, for nobody: another one takes its place.
    if (answered.error() == compiler::NoAnswer::too_long)
      if (auto socket = start_()) orders_ = compiler::Orders(std::move(*socket));
    return Error(why_none(answered.error()));
  }
}

PolicyPtr interpreted(const compiler::CompiledPolicy& policy, std::string why) {
  auto own = std::make_shared<compiler::CompiledPolicy>(policy);
  own->pipelines = gpu::Pipelines::with_code(policy.pipelines, nullptr);
  own->why_interpreted = std::move(why);
  return own;
}

std::optional<std::string> how_programs_run(const compiler::CompiledPolicy& policy) {
  if (!policy.pipelines->runs_programs()) return std::nullopt;
  if (policy.pipelines->code() != nullptr) return "translated";
  return "interpreted: " +
         (policy.why_interpreted.empty() ? "they are being translated" : policy.why_interpreted);
}

std::optional<std::string> interpreted_note(const compiler::CompiledPolicy& policy) {
  if (policy.why_interpreted.empty()) return std::nullopt;
  return fmt::format(
      "the policy's programs are interpreted on the GPU, which takes longer, and not translated: {}",
      policy.why_interpreted);
}

}  // namespace xdpgpu::control
