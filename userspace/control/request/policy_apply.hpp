// SPDX-License-Identifier: MIT
//
// userspace/control/request/policy_apply.hpp: another policy is put in force while traffic flows. The files
// that it names come behind the request.
#pragma once

#include <fmt/format.h>

#include "userspace/control/notes.hpp"
#include "userspace/control/program_translator.hpp"
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
  static void serve(Attached& attached, Asked<Arguments> asked, const Reply& reply) {
    auto& [text, file, confirm_s, audit, keep_audit] = asked.arguments;
    attached.apply({.source = {std::move(file), std::move(text), std::move(asked.files)},
                    .audit = keep_audit.value_or(false) ? std::nullopt : std::optional(audit.value_or(false)),
                    .confirm_within = std::chrono::seconds(confirm_s.value_or(0)),
                    .left = std::move(asked.left)},
                   [&attached, reply, confirm_s = confirm_s](tl::expected<void, Refusal> applied) {
                     reply(applied ? Response::success(as_json(answer(attached, confirm_s)))
                                   : Response::failure(not_applied(std::move(applied.error()))));
                   });
  }

 private:
  static Answer answer(const Attached& attached, std::optional<u64> confirm_s) {
    const policy::Policy& policy = attached.policy().policy;
    Answer answer{.generation = attached.generation(),
                  .hash = fmt::format("{:016x}", policy.hash),
                  .rules = policy.rules.size(),
                  .audit = attached.policy().audits(),
                  .notes = policy::notes(policy),
                  .confirm_within_s = confirm_s};
    if (auto ignored = ignored_by_apply(taken_at_attach(attached.plan().policy->policy), policy))
      answer.notes.push_back(std::move(*ignored));
    answer.notes.insert(answer.notes.end(), attached.lost_names().begin(), attached.lost_names().end());
    if (auto note = interpreted_note(attached.policy())) answer.notes.push_back(std::move(*note));
    return answer;
  }
  // What is wrong with the policy itself says enough.
  static Refusal not_applied(Refusal why) {
    if (why.problems.empty())
      why.sentence = "the policy was not applied, nothing has changed: " + why.sentence;
    return why;
  }
};
inline RegisteredRequest<PolicyApply> registered_policy_apply;

}  // namespace xdpgpu::control
