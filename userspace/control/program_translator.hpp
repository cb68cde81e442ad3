// SPDX-License-Identifier: MIT
//
// userspace/control/program_translator.hpp: machine code for the programs that a policy runs, where a GPU
// takes some: ordered from a compiler of its own, which is given the decoded instructions and reads no
// policy. A policy that gets none is none the worse for it: its programs are interpreted, and it says why.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu/device_code.hpp"
#include "gpu/program_translation.hpp"
#include "userspace/control/policy_compiler.hpp"

namespace xdpgpu::control {

// One thread at a time, which waits.
class ProgramTranslator {
 public:
  // codes: Device::code() of the devices that take some. start: of a compiler of programs.
  ProgramTranslator(PolicyCompiler::Start start, std::vector<std::shared_ptr<const gpu::DeviceCode>> codes)
      : start_(std::move(start)), codes_(std::move(codes)) {}

  // Whether the policy runs programs that a GPU could have code for, and nobody has tried to make it any.
  bool can_serve(const compiler::CompiledPolicy& policy) const;
  // The policy's pipelines get that code, or it gets why_interpreted. What was made last is there already,
  // for the same programs. given_up: as a PolicyCompiler's.
  void serve(compiler::CompiledPolicy& policy, int given_up);
  // The same of a policy that is others', too: it stays as it is, and where nothing is to be done it is the
  // result.
  PolicyPtr served(PolicyPtr policy, int given_up);

 private:
  using Programs = std::vector<gpu::programs::Decoded>;
  using Code = std::shared_ptr<const gpu::DeviceCode>;
  Result<Code> make(const Programs& programs, int given_up);
  Result<kernel::Fd> order(const Programs& programs, int given_up);

  PolicyCompiler::Start start_;
  std::vector<Code> codes_;
  compiler::Orders orders_;
  Programs programs_;  // for which there is code
  Code made_;
};

// The policy with its programs interpreted, as a device did not take their code: why.
PolicyPtr interpreted(const compiler::CompiledPolicy& policy, std::string why);

// As `status` tells of it: "translated", or "interpreted: ..."; nothing where it runs no program.
std::optional<std::string> how_programs_run(const compiler::CompiledPolicy& policy);
// What whoever put the policy in force is to be told, if a GPU interprets programs that it could have code
// for.
std::optional<std::string> interpreted_note(const compiler::CompiledPolicy& policy);

}  // namespace xdpgpu::control
