// SPDX-License-Identifier: MIT
//
// userspace/control/compiled_policy.hpp: a policy's way from text to everything that the kernel and the
// devices take, as one value that is whole or not there.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gpu/pipelines.hpp"
#include "userspace/control/pipelines.hpp"
#include "userspace/control/protocol.hpp"
#include "userspace/policy/policy.hpp"

namespace xdpgpu::control {

// A policy's text with every file it names, as they were read: what can be applied, shown and applied
// again without reading a file.
struct PolicySource {
  std::string file;  // name for diagnostics
  std::string text;
  policy::FileContents files;
};

struct CompiledPolicy {
  PolicySource source;
  policy::Policy policy;
  policy::Tables tables;
  std::shared_ptr<const gpu::Pipelines> pipelines;
  std::vector<std::string> ports;  // names that the pipelines' port indexes stand for
  DownBackends down{};             // for the pipelines

  // --audit: what it would drop is counted and passes.
  bool audits() const { return tables.header.audit != 0; }
  void set_audit(bool on) { tables.header.audit = on ? 1 : 0; }
};

// Reads a policy file and the files that it names (relative paths start where the policy file is). Of a
// policy that is right in itself what its list files say is not looked at: compiling it does.
tl::expected<PolicySource, Refusal> read_policy(const std::string& path);

// The policy of an attach without one: pass everything.
PolicySource pass_everything();

// ports: interface names by port index, for the pipelines' redirects.
tl::expected<CompiledPolicy, Refusal> compile_policy(PolicySource source,
                                                     const std::vector<std::string>& ports);

// The same policy while these backends are down: only its pipelines differ.
tl::expected<CompiledPolicy, Refusal> compile_with_down(const CompiledPolicy& policy,
                                                        const DownBackends& down);

// As compile_policy, with an index for each interface that the policy mentions, in the order of their
// mention behind `first`: what a check without interfaces does. seed: the key by which flows are hashed is
// made of it, so that it is the same in each process; else it is random.
tl::expected<CompiledPolicy, Refusal> compile_policy_anywhere(PolicySource source, const std::string& first,
                                                              const std::optional<u64>& seed = {});

}  // namespace xdpgpu::control
