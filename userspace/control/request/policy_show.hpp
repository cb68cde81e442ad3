// SPDX-License-Identifier: MIT
//
// userspace/control/request/policy_show.hpp: the policy in force, as it was written and as it was understood.
#pragma once

#include <fmt/format.h>

#include "userspace/control/notes.hpp"
#include "userspace/control/request_registry.hpp"

namespace xdpgpu::control {

struct PolicyShow {
  static constexpr std::string_view kName = "policy.show";
  static constexpr RequestKind kKind = RequestKind::reads;
  using Arguments = Nothing;
  struct Answer {
    std::string file, text;
    std::optional<Json> settings;              // each, as the policy library writes them; null of a long text
    std::map<std::string, std::size_t> files;  // bytes by name
    AtAttach at_attach;
    u32 generation = 0;
    bool audit = false;
    std::string hash;
    std::optional<Trial> trial;
    std::optional<LastEnd> last_end;  // of the attach before this one
    static void fields(auto& self, auto& field) {
      field("file", self.file);
      field("text", self.text);
      field.nullable("settings", self.settings);
      field("files", self.files);
      field("at_attach", self.at_attach);
      field("generation", self.generation);
      field("audit", self.audit);
      field("hash", self.hash);
      field.part("confirm_within_s", self.trial);
      field("last_end", self.last_end);
    }
  };
  static Result<Answer> serve(const Attached& attached, const Asked<Arguments>& /*asked*/) {
    // More than somebody would look at.
    constexpr std::size_t kMostText = std::size_t{1} << 20;
    const compiler::CompiledPolicy& policy = attached.policy();
    Answer answer{.file = policy.source.file,
                  .text = policy.source.text,
                  .settings = {},
                  .files = {},
                  .at_attach = taken_at_attach(attached.plan().policy->policy),
                  .generation = attached.generation(),
                  .audit = policy.audits(),
                  .hash = fmt::format("{:016x}", policy.policy.hash),
                  .trial = attached.on_trial(),
                  .last_end = attached.plan().last_end};
    if (answer.text.size() <= kMostText) answer.settings = Json::parse(policy::to_json(policy.policy));
    // A program of an object is behind the object's name.
    for (const auto& [path, content] : policy.source.files)
      answer.files[path.substr(0, path.find('\0'))] += content.size();
    return answer;
  }
};
inline RegisteredRequest<PolicyShow> registered_policy_show;

}  // namespace xdpgpu::control
