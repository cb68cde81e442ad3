// SPDX-License-Identifier: MIT
#include "userspace/control/compiled_policy.hpp"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "userspace/control/clashes.hpp"
#include "userspace/control/pipelines.hpp"
#include "userspace/policy/document.hpp"

namespace xdpgpu::control {
namespace {

using Refused = tl::unexpected<Refusal>;

Problem problem_of(const policy::Diagnostic& diagnostic) {
  Problem problem{.message = diagnostic.message};
  if (!diagnostic.file.empty()) problem.file = diagnostic.file;
  if (!diagnostic.pointer.empty()) problem.pointer = diagnostic.pointer;
  if (diagnostic.line != 0) problem.line = diagnostic.line;
  if (diagnostic.column != 0) problem.column = diagnostic.column;
  return problem;
}

Refusal refusal(const policy::Diagnostics& diagnostics) {
  Refusal made;
  for (const auto& diagnostic : diagnostics) {
    made.diagnostics.push_back(diagnostic.sentence());
    made.problems.push_back(problem_of(diagnostic));
  }
  made.sentence = made.diagnostics.empty() ? "the policy was refused" : made.diagnostics.front();
  if (made.diagnostics.size() > 1)
    made.sentence += fmt::format(" (and {} more)", made.diagnostics.size() - 1);
  return made;
}

Refusal refusal(std::string sentence) {
  return {.sentence = sentence, .diagnostics = {sentence}, .problems = {{.message = sentence}}};
}

const policy::Node* member_of(const policy::Node& node, const std::string& token) {
  if (const auto* object = node.as<policy::Object>()) {
    for (const auto& member : *object)
      if (policy::pointer_token(member.key) == "/" + token) return &member.value;
  } else if (const auto* array = node.as<policy::Array>()) {
    for (std::size_t i = 0; i < array->size(); i++)
      if (std::to_string(i) == token) return &(*array)[i];
  }
  return nullptr;
}

const policy::Node* node_at(const policy::Node& document, const std::string& pointer) {
  const policy::Node* node = &document;
  std::istringstream tokens(pointer.substr(std::min<std::size_t>(1, pointer.size())));
  for (std::string token; node && std::getline(tokens, token, '/');) node = member_of(*node, token);
  return node;
}

// With the places of their pointers' values in the text that was parsed before.
policy::Diagnostics placed(policy::Diagnostics diagnostics, const PolicySource& source) {
  const auto document = policy::read_document(source.text);
  for (auto& diagnostic : diagnostics) {
    diagnostic.file = source.file;
    const policy::Node* const node = document ? node_at(*document, diagnostic.pointer) : nullptr;
    if (!node) continue;
    const auto location = policy::locate(source.text, node->offset);
    diagnostic.line = location.line;
    diagnostic.column = location.column;
  }
  return diagnostics;
}

// The pointer to the stage that the devices' compiler names, which it does first where it is about one.
std::string stage_named(const std::string& sentence, const policy::Policy& policy) {
  for (const auto& pipeline : policy.pipelines)
    for (std::size_t i = 0; i < pipeline.stages.size(); i++)
      if (sentence.starts_with(fmt::format("pipeline \"{}\", stage {} (", pipeline.name, i + 1)))
        return policy::stage_pointer(pipeline, i);
  return "/pipelines";
}

// The key of the stages' tables: one for the process's life, so that a table outlives the policy that made
// it.
tl::expected<std::array<u64, 2>, std::string> table_key() {
  static const auto key = []() -> tl::expected<std::array<u64, 2>, std::string> {
    std::array<u64, 2> random{};
    if (getrandom(random.data(), sizeof(random), 0) != sizeof(random))
      return tl::unexpected(std::string(std::strerror(errno)));
    return random;
  }();
  return key;
}

// One that is the same in every run (splitmix64).
std::array<u64, 2> key_of(u64 seed) {
  std::array<u64, 2> key{};
  for (u64& word : key) {
    seed += 0x9e3779b97f4a7c15ull;
    word = (seed ^ seed >> 30) * 0xbf58476d1ce4e5b9ull;
    word = (word ^ word >> 27) * 0x94d049bb133111ebull;
    word ^= word >> 31;
  }
  return key;
}

tl::expected<std::shared_ptr<const gpu::Pipelines>, Refusal> compile_pipelines(
    const PolicySource& source, const policy::Policy& policy, const std::vector<std::string>& ports,
    const DownBackends& down, const std::optional<u64>& seed = {}) {
  auto settings = pipeline_settings(policy, ports, down);
  if (!settings) return Refused(refusal(placed({settings.error()}, source)));
  const auto key = seed ? key_of(*seed) : table_key();
  if (!key)
    return Refused(refusal(fmt::format("the system has no random numbers to hash with: {}", key.error())));
  auto pipelines = gpu::Pipelines::compile(std::move(*settings), {*key});
  if (!pipelines) {
    policy::Diagnostic problem;
    problem.pointer = stage_named(pipelines.error(), policy);
    problem.message = pipelines.error();
    return Refused(refusal(placed({std::move(problem)}, source)));
  }
  return std::move(*pipelines);
}

tl::expected<CompiledPolicy, Refusal> compile(PolicySource source, policy::Policy policy,
                                              const std::vector<std::string>& ports,
                                              const std::optional<u64>& seed = {}) {
  if (auto found = clashes(policy, choice_of(policy)); !found.empty())
    return Refused(refusal(placed(std::move(found), source)));
  auto tables = policy::compile(policy);
  if (!tables) return Refused(refusal(placed(tables.error(), source)));
  auto pipelines = compile_pipelines(source, policy, ports, {}, seed);
  if (!pipelines) return Refused(pipelines.error());
  return CompiledPolicy{
      std::move(source), std::move(policy), std::move(*tables), std::move(*pipelines), ports, {}};
}

}  // namespace

tl::expected<PolicySource, Refusal> read_policy(const std::string& path) {
  PolicySource source;
  source.file = path;
  auto text = policy::read_policy_text(path);
  if (!text) {
    const bool system = text.error().starts_with("cannot ");  // and the system says no more than why
    return Refused(refusal(text.error() + (system ? "; check the file's path and its permissions" : "")));
  }
  source.text = std::move(*text);
  const std::string directory = std::filesystem::path(path).parent_path();
  const std::string files = directory.empty() ? "." : directory;
  // What is in the lists is for whoever compiles the policy to read.
  auto parsed = policy::parse(source.text, path, policy::collect_files_from(files, source.files));
  if (parsed) return source;
  // It is wrong without them; with them it may be wrong in more than that.
  if (!source.files.empty())
    if (auto whole = policy::parse(source.text, path, policy::read_files_from(files)); !whole)
      parsed = std::move(whole);
  return Refused(refusal(parsed.error()));
}

PolicySource pass_everything() {
  return {.file = "(none, --pass-all: everything passes)",
          .text = "{ \"version\": 1, \"default\": \"pass\" }\n",
          .files = {}};
}

tl::expected<CompiledPolicy, Refusal> compile_policy(PolicySource source,
                                                     const std::vector<std::string>& ports) {
  auto policy = policy::parse(source.text, source.file, policy::read_files_in(source.files));
  if (!policy) return Refused(refusal(policy.error()));
  return compile(std::move(source), std::move(*policy), ports);
}

tl::expected<CompiledPolicy, Refusal> compile_with_down(const CompiledPolicy& policy,
                                                        const DownBackends& down) {
  auto pipelines = compile_pipelines(policy.source, policy.policy, policy.ports, down);
  if (!pipelines) return Refused(pipelines.error());
  CompiledPolicy with = policy;
  with.pipelines = std::move(*pipelines);
  with.down = down;
  return with;
}

tl::expected<CompiledPolicy, Refusal> compile_policy_anywhere(PolicySource source, const std::string& first,
                                                              const std::optional<u64>& seed) {
  auto policy = policy::parse(source.text, source.file, policy::read_files_in(source.files));
  if (!policy) return Refused(refusal(policy.error()));
  std::vector<std::string> ports{first};
  for (auto& name : mentioned_ports(*policy))
    if (name != first) ports.push_back(std::move(name));
  return compile(std::move(source), std::move(*policy), ports, seed);
}

}  // namespace xdpgpu::control
