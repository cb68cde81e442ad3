// SPDX-License-Identifier: MIT
//
// userspace/control/request/policy_files.hpp: the files of the policy in force, as they were read when it was
// applied: what each of them is known by, or a part of what is in a list's.
#pragma once

#include <algorithm>

#include "userspace/control/policy_diff.hpp"
#include "userspace/control/request_registry.hpp"

namespace xdpgpu::control {

struct PolicyFiles {
  static constexpr std::string_view kName = "policy.files";
  static constexpr RequestKind kKind = RequestKind::reads;
  static constexpr u64 kMostPart = u64{4} << 20;  // bytes of a file in one answer
  struct Arguments {
    std::optional<std::string> list{};  // of this list; else of all files
    std::optional<u64> from{};          // byte
    static void fields(auto& self, auto& field) {
      field("list", self.list);
      field("from", self.from);
    }
  };
  struct Answer {
    std::string hash;                              // of the policy
    std::optional<std::vector<FileDigest>> files;  // but those of lists; a key's without a digest
    std::optional<std::string> text;               // of the list's
    std::optional<u64> next;                       // where what is left of it begins
    static void fields(auto& self, auto& field) {
      field("hash", self.hash);
      field("files", self.files);
      field("text", self.text);
      field("next", self.next);
    }
  };
  static Result<Answer> serve(const Attached& attached, const Asked<Arguments>& asked) {
    const compiler::CompiledPolicy& policy = attached.policy();
    const auto& [list, from] = asked.arguments;
    Answer answer{fmt::format("{:016x}", policy.policy.hash), {}, {}, {}};
    if (!list) {
      answer.files.emplace();
      for (auto& [name, digest] : digests_of(policy.policy, policy.source.files, true))
        answer.files->push_back(std::move(digest));
      return answer;
    }
    const auto found = policy.policy.lists.find(*list);
    if (found == policy.policy.lists.end()) return Error(fmt::format("the policy has no list \"{}\"", *list));
    const auto file = policy.source.files.find(found->second.file);
    if (found->second.file.empty() || file == policy.source.files.end())
      return Error(fmt::format("the list \"{}\" is of no file", *list));
    const u64 at = std::min<u64>(from.value_or(0), file->second.size());
    answer.text = file->second.substr(at, kMostPart);
    if (at + answer.text->size() < file->second.size()) answer.next = at + answer.text->size();
    return answer;
  }
};
inline RegisteredRequest<PolicyFiles> registered_policy_files;

}  // namespace xdpgpu::control
