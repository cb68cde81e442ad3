// SPDX-License-Identifier: MIT
//
// userspace/compiler/artifacts.hpp: what a policy is compiled into, in parts. Each part (artifact) is found
// by a hash of what it is made of, so that what has not changed is neither made nor handed over again: one
// changed list of ten makes that list and what looks addresses up in it anew; a backend that goes down makes
// its stage's code anew.
//
//   prefixes   of one list of the policy's; names of domains are wanted by their stages' code alone
//   routes     of one stage, in place and of files
//   tables     what the XDP program reads
//   code       of one stage (gpu/stage_code.hpp), but not of one that runs a program: whoever links makes it
//              itself, of the policy's files, as no one else's words are to say where a device writes
//
// Values, no more: who makes them is compiler.hpp, how they go from one process to another is exchange.hpp.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "gpu/pipelines.hpp"
#include "userspace/compiler/compiled_policy.hpp"
#include "userspace/policy/policy.hpp"

namespace xdpgpu::compiler {

// BLAKE2b (RFC 7693) of 256 bits.
using ArtifactId = std::array<u8, 32>;

struct RouteTable {
  std::vector<gpu::Route> routes;
  std::vector<gpu::RouteSource> sources;
};
using Prefixes = std::shared_ptr<const std::vector<policy::Prefix>>;
using Routes = std::shared_ptr<const RouteTable>;
using Tables = std::shared_ptr<const policy::Tables>;
using Artifact = std::variant<Prefixes, Routes, Tables, gpu::CodePtr>;
using Artifacts = std::map<ArtifactId, Artifact>;

// What a policy is made of.
struct Recipe {
  std::map<std::string, ArtifactId> lists;      // by the list's name
  std::vector<std::vector<ArtifactId>> routes;  // of the stages that have some, by pipeline
  ArtifactId tables{};
  std::vector<std::vector<ArtifactId>> codes;  // by pipeline and stage
  bool operator==(const Recipe&) const = default;
};

struct Made {
  Recipe recipe;
  Artifacts artifacts;  // all that the recipe names
};

// Those of the artifacts that the recipe names.
Artifacts named_by(const Recipe& recipe, Artifacts artifacts);

// For whom it is compiled.
struct Target {
  std::vector<std::string> ports;  // interface names by port index
  DownBackends down{};
  std::array<u64, 2> hash_key{};  // of the stages' tables
};

// Compiles the policy, but for what is known already. The source is for what is said where it is refused.
tl::expected<Made, Refusal> make_artifacts(const PolicySource& source, const policy::Policy& policy,
                                           const Target& target, const Artifacts& known);

// A policy without what its artifacts have: as text alone says it.
tl::expected<policy::Policy, Refusal> outline(const PolicySource& source);

// The whole, of a policy or its outline. The error is a sentence: something is not there, or does not fit.
tl::expected<CompiledPolicy, std::string> assemble(PolicySource source, policy::Policy policy,
                                                   const Target& target, const Recipe& recipe,
                                                   const Artifacts& artifacts);

}  // namespace xdpgpu::compiler
