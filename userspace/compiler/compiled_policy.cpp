// SPDX-License-Identifier: MIT
#include "userspace/compiler/compiled_policy.hpp"

#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "userspace/compiler/artifacts.hpp"
#include "userspace/compiler/refusals.hpp"
#include "userspace/compiler/rules/datasets.hpp"

namespace xdpgpu::compiler {
namespace {

using Refused = tl::unexpected<Refusal>;

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

tl::expected<Target, Refusal> target_of(std::vector<std::string> ports, DownBackends down,
                                        const std::optional<u64>& seed = {}) {
  const auto key = seed ? tl::expected<std::array<u64, 2>, std::string>(key_of(*seed)) : table_key();
  if (!key) return Refused(refusal(key.error()));
  return Target{std::move(ports), std::move(down), *key};
}

tl::expected<CompiledPolicy, Refusal> compile(PolicySource source, policy::Policy policy,
                                              const Target& target) {
  auto made = make_artifacts(source, policy, target, {});
  if (!made) return Refused(std::move(made.error()));
  auto whole = assemble(std::move(source), std::move(policy), target, made->recipe, made->artifacts);
  if (!whole) return Refused(refusal(whole.error()));
  return std::move(*whole);
}

constexpr const char* kStandardInput = "(standard input)";

// To its end. A terminal is somebody who forgot to name a file.
tl::expected<std::string, std::string> read_standard_input() {
  if (isatty(STDIN_FILENO) == 1)
    return tl::unexpected(
        std::string("\"-\" reads a policy from standard input, which is a terminal: name a file, or send one "
                    "there, as in \"xdpgpu policy check - < policy.json\""));
  std::string text;
  for (;;) {
    const std::size_t filled = text.size();
    text.resize(filled + 65536);
    const ssize_t got = read(STDIN_FILENO, text.data() + filled, text.size() - filled);
    text.resize(filled + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && errno != EINTR)
      return tl::unexpected(fmt::format("standard input cannot be read: {}", std::strerror(errno)));
    if (got == 0) return text;
    if (text.size() > policy::kMaxTextBytes)
      return tl::unexpected(fmt::format(
          "standard input is larger than {} MiB, the most that a policy has; put long lists into files",
          policy::kMaxTextBytes >> 20));
  }
}

// Reads what the policy's rule files name, as far as it is there.
bool read_named_by_rules(const policy::Policy& policy, const policy::FileReader& read,
                         const policy::FileContents& files) {
  bool all = true;
  for (const policy::Pipeline& pipeline : policy.pipelines)
    for (const gpu::StageSettings& stage : pipeline.stages)
      if (const gpu::FileRules* const rules = gpu::file_rules(stage))
        for (const gpu::RuleFile& file : rules->source.files)
          for (const std::string& path : rules::dataset_paths(files.at(file.name), file.name))
            if (!files.contains(path)) all = read(path).has_value() && all;
  return all;
}

}  // namespace

tl::expected<std::array<u64, 2>, std::string> table_key() {
  static const auto key = []() -> tl::expected<std::array<u64, 2>, std::string> {
    std::array<u64, 2> random{};
    if (getrandom(random.data(), sizeof(random), 0) != sizeof(random))
      return tl::unexpected(
          fmt::format("the system has no random numbers to hash with: {}", std::strerror(errno)));
    return random;
  }();
  return key;
}

tl::expected<PolicySource, Refusal> read_policy(const std::string& path,
                                                const policy::ObjectReader& read_object) {
  PolicySource source;
  const bool is_input = path == "-";
  source.file = is_input ? kStandardInput : path;
  auto text = is_input ? read_standard_input() : policy::read_policy_text(path);
  if (!text) {
    const bool system = text.error().starts_with("cannot ");  // and the system says no more than why
    return Refused(refusal(text.error() + (system ? "; check the file's path and its permissions" : "")));
  }
  source.text = std::move(*text);
  const std::string directory = std::filesystem::path(path).parent_path();
  const std::string files = directory.empty() ? "." : directory;
  // What is in the lists is for whoever compiles the policy to read.
  const auto collect = policy::collect_files_from(files, source.files, policy::kMaxFilesBytes, read_object);
  auto parsed = policy::parse(source.text, source.file, collect);
  if (parsed) {
    if (read_named_by_rules(*parsed, collect, source.files)) return source;
    // Rules that do not count may name what is not there.
    if (parsed = policy::parse(source.text, source.file, policy::read_files_from(files, read_object)); parsed)
      return source;
    return Refused(refusal(parsed.error()));
  }
  // It is wrong without them; with them it may be wrong in more than that.
  if (!source.files.empty())
    if (auto whole = policy::parse(source.text, source.file, policy::read_files_from(files, read_object));
        !whole)
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
  return target_of(ports, {}).and_then(
      [&](const Target& target) { return compile(std::move(source), std::move(*policy), target); });
}

tl::expected<CompiledPolicy, Refusal> compile_policy_anywhere(PolicySource source, const std::string& first,
                                                              const std::optional<u64>& seed) {
  auto policy = policy::parse(source.text, source.file, policy::read_files_in(source.files));
  if (!policy) return Refused(refusal(policy.error()));
  std::vector<std::string> ports{first};
  for (auto& name : mentioned_ports(*policy))
    if (name != first) ports.push_back(std::move(name));
  return target_of(std::move(ports), {}, seed).and_then([&](const Target& target) {
    return compile(std::move(source), std::move(*policy), target);
  });
}

}  // namespace xdpgpu::compiler
