// SPDX-License-Identifier: MIT
//
// userspace/control/request/policy_apply.hpp: another policy is put in force while traffic flows. The files
// that it names come behind the request.
#pragma once

#include <fmt/format.h>

#include "userspace/control/notes.hpp"
#include "userspace/control/request_registry.hpp"
#include "userspace/policy/notes.hpp"

namespace xdpgpu::control {

struct PolicyApply {
  static constexpr std::string_view kName = "policy.apply";
  static constexpr RequestKind kKind = RequestKind::changes;
  // Longest time within which it can be asked to be confirmed.
  static constexpr unsigned kMostConfirmSeconds = 24 * 3600;
  struct Arguments {
    std::string text, file;
    std::optional<u64> confirm_s{};    // it goes back unless it is confirmed within so long
    std::optional<bool> audit{};       // it drops nothing
    std::optional<bool> keep_audit{};  // instead: as it is now
    static void fields(auto& self, auto& field) {
      field("text", self.text);
      field("file", self.file);
      field("confirm_s", self.confirm_s, Within{1, kMostConfirmSeconds, "a number of seconds"});
      field("audit", self.audit);
      field("keep_audit", self.keep_audit);
    }
  };
  struct Answer {
    u32 generation = 0;
    std::string hash;
    std::size_t rules = 0;
    bool audit = false;
    std::vector<std::string> notes;  // what it probably does not mean
    std::optional<u64> confirm_within_s;
    static void fields(auto& self, auto& field) {
      field("generation", self.generation);
      field("hash", self.hash);
      field("rules", self.rules);
      field("audit", self.audit);
      field("notes", self.notes);
      field("confirm_within_s", self.confirm_within_s);
    }
  };
  static tl::expected<Answer, Refusal> serve(Attached& attached, Asked<Arguments> asked) {
    auto& [text, file, confirm_s, audit, keep_audit] = asked.arguments;
    const bool audits = keep_audit.value_or(false) ? attached.policy().audits() : audit.value_or(false);
    auto compiled = compile_policy({std::move(file), std::move(text), std::move(asked.files)},
                                   attached.plan().interfaces());
    if (!compiled) return tl::unexpected(std::move(compiled.error()));
    compiled->set_audit(audits);
    if (asked.left && asked.left())
      return tl::unexpected(
          Refusal{"whoever asked for it has gone; the policy was not applied, nothing has changed"});
    if (auto applied = attached.apply(std::make_shared<const CompiledPolicy>(std::move(*compiled)),
                                      std::chrono::seconds(confirm_s.value_or(0)));
        !applied)
      return tl::unexpected(Refusal{"the policy was not applied, nothing has changed: " + applied.error()});
    const policy::Policy& policy = attached.policy().policy;
    Answer answer{.generation = attached.generation(),
                  .hash = fmt::format("{:016x}", policy.hash),
                  .rules = policy.rules.size(),
                  .audit = audits,
                  .notes = policy::notes(policy),
                  .confirm_within_s = confirm_s};
    if (auto ignored = ignored_by_apply(taken_at_attach(attached.plan().policy->policy), policy))
      answer.notes.push_back(std::move(*ignored));
    return answer;
  }
};
inline RegisteredRequest<PolicyApply> registered_policy_apply;

}  // namespace xdpgpu::control
