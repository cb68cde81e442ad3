// SPDX-License-Identifier: MIT
//
// userspace/control/program_verifier.hpp: has the kernel verify the programs that a policy names, before it
// is in force. The broker asks, as the data plane may not, of what the data plane has as bytes; whatever
// those are, they are a program within its bounds, or refused. Nothing is attached, and nothing of it is
// left.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "userspace/compiler/compiled_policy.hpp"
#include "userspace/control/broker_calls.hpp"
#include "userspace/kernel/verifier.hpp"

namespace xdpgpu::control {

// A program of a policy, each once.
struct NamedProgram {
  std::string_view bytes;  // the source's (userspace/compiler/programs/exchange.hpp)
  std::string where;       // "f.bpf.o of pipeline \"web\", stage 2"
  std::string pointer;     // to the object's name in the policy
};
// Both outlive the result.
std::vector<NamedProgram> programs_of(const policy::Policy& policy, const compiler::PolicySource& source);

// The data plane's: the error is a sentence that names the program and has the verifier's last lines. before:
// a policy that was verified, whose programs are not looked at again; nullptr: there is none.
Result<void> verify_programs(BrokerCalls& broker, const compiler::CompiledPolicy& policy,
                             const compiler::CompiledPolicy* before);

// The broker's: memory that the data plane writes a program to is looked at in a process of its own, which
// has so much time as it needs, or kLongestVerified. The error is why the kernel does not take it, and fits
// into a message.
Result<void> verify_apart(const kernel::Fd& memory);

// Who checks a policy: what the kernel refuses, with its place; and notes: where it was not asked, and what
// objects ask for that they do not get.
struct Verified {
  policy::Diagnostics refused;
  std::vector<std::string> notes;
};
Verified verify_here(const compiler::CompiledPolicy& policy);

}  // namespace xdpgpu::control
