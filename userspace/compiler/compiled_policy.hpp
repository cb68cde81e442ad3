// SPDX-License-Identifier: MIT
//
// userspace/compiler/compiled_policy.hpp: a policy's way from text to everything that the kernel and the
// devices take, as one value that is whole or not there.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gpu/pipelines.hpp"
#include "userspace/compiler/pipelines.hpp"
#include "userspace/compiler/refusal.hpp"
#include "userspace/policy/policy.hpp"

namespace xdpgpu::compiler {

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
  // Why a GPU that takes machine code interprets the policy's programs: a sentence without its subject.
  // Empty: it has such code (Pipelines::code), or has not been made any.
  std::string why_interpreted{};

  // --audit: what it would drop is counted and passes.
  bool audits() const { return tables.header.audit != 0; }
  void set_audit(bool on) { tables.header.audit = on ? 1 : 0; }
};

// Reads a policy file ("-": standard input, to its end) and the files that it names (relative paths start
// where it is; of standard input here). What the list files of one that is right in itself say is not looked
// at: compiling it does. Programs of objects are read by read_object (control::object_reader()); empty: who
// names one is refused.
tl::expected<PolicySource, Refusal> read_policy(const std::string& path,
                                                const policy::ObjectReader& read_object = {});

// The key of the stages' tables: one for the life of a process, and of those that it forks from then on, so
// that a table outlives the policy that made it. The error is a sentence.
tl::expected<std::array<u64, 2>, std::string> table_key();

// The policy of an attach without one: pass everything.
PolicySource pass_everything();

// ports: interface names by port index, for the pipelines' redirects.
tl::expected<CompiledPolicy, Refusal> compile_policy(PolicySource source,
                                                     const std::vector<std::string>& ports);

// As compile_policy, with an index for each interface that the policy mentions, in the order of their
// mention behind `first`: what a check without interfaces does. seed: the key by which flows are hashed is
// made of it, so that it is the same in each process; else it is random.
tl::expected<CompiledPolicy, Refusal> compile_policy_anywhere(PolicySource source, const std::string& first,
                                                              const std::optional<u64>& seed = {});

}  // namespace xdpgpu::compiler
