// SPDX-License-Identifier: MIT
//
// userspace/control/policy_compiler.hpp: the other side of the compiler, an attach's or a data plane's: it
// orders, takes what is new of what it gets, and puts the policy together. One thread, which waits.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "userspace/compiler/compiler.hpp"
#include "userspace/control/broker_calls.hpp"
#include "userspace/control/protocol.hpp"

namespace xdpgpu::control {

using PolicyPtr = std::shared_ptr<const compiler::CompiledPolicy>;

class PolicyCompiler {
 public:
  // Starts a compiler, where there is none: what it takes orders through.
  using Start = std::function<Result<kernel::Fd>()>;
  // The caller's alone, until it is somebody else's, too: a PolicyPtr.
  using Compiled = std::shared_ptr<compiler::CompiledPolicy>;
  explicit PolicyCompiler(Start start) : start_(std::move(start)) {}
  // The broker's, which outlives the result.
  static Start by(BrokerCalls& broker, CompilerFor what = CompilerFor::policies);

  // down: of the backends that are known, those that are down; those of other policies may be among them.
  // given_up: an eventfd; once it can be read, nobody waits for this any more (-1: none).
  tl::expected<Compiled, Refusal> compile(compiler::PolicySource source, std::vector<std::string> ports,
                                          const compiler::DownBackends& down, bool audit, int given_up);
  // The same policy while these backends are down: what it has is not read again, and code of its programs
  // stays.
  tl::expected<Compiled, Refusal> compile_with_down(const compiler::CompiledPolicy& policy,
                                                    const compiler::DownBackends& down, int given_up);
  // Of those that are down, the policy's own.
  static compiler::DownBackends of_policy(const compiler::DownBackends& down, const policy::Policy& policy);

 private:
  tl::expected<compiler::Answer, Refusal> order(const compiler::PolicySource& source,
                                                const compiler::Target& target, int given_up);
  tl::expected<kernel::Fd, std::string> ask(const compiler::PolicySource& source,
                                            const compiler::Target& target, int given_up);
  Result<void> start();

  Start start_;
  compiler::Orders orders_;
  compiler::Artifacts artifacts_;  // of the policy that this compiler has compiled last
};

}  // namespace xdpgpu::control
