// SPDX-License-Identifier: MIT
//
// userspace/control/attached.hpp: what a request on the control socket can ask of the process that has
// attached. The data plane is one (data_plane_state.hpp). Control thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "userspace/compiler/compiled_policy.hpp"
#include "userspace/control/flows.hpp"
#include "userspace/control/list_changes.hpp"
#include "userspace/control/plan.hpp"
#include "userspace/control/rule_stats.hpp"
#include "userspace/control/server.hpp"
#include "userspace/control/status_report.hpp"

namespace xdpgpu::control {

// What came of it when files of logs were to be opened anew.
struct ReopenedLogs {
  u64 files = 0;                      // of the policy's log
  std::vector<std::string> problems;  // of those that could not be, a sentence each
};

// To be called once, now or later.
using Reply = Server::Reply;

// Each error is a sentence for whoever asked.
class Attached {
 public:
  Attached() = default;
  Attached(const Attached&) = delete;
  Attached& operator=(const Attached&) = delete;
  virtual ~Attached() = default;

  // How it was attached.
  virtual const Plan& plan() const = 0;
  virtual Result<StatusReport> make_report() const = 0;

  // The policy in force, and since which generation it is.
  virtual const compiler::CompiledPolicy& policy() const = 0;
  virtual u32 generation() const = 0;
  // Of a policy that is to be confirmed; nothing where it is there for good.
  virtual std::optional<Trial> on_trial() const = 0;

  // Compiles the policy and puts it in force: for good, or, with a time other than 0, on trial: unless it is
  // confirmed within that, what was in force for good comes back. On failure nothing has changed. `done` is
  // called once, now or later.
  struct Order {
    compiler::PolicySource source;
    std::optional<bool> audit{};  // it drops nothing; without a value: as the policy in force by then
    std::chrono::seconds confirm_within{0};
    std::function<bool()> left{};  // whether nobody waits for it any more; empty: it is to be done anyway
  };
  using Done = std::function<void(tl::expected<void, Refusal>)>;
  virtual void apply(Order order, Done done) = 0;
  // Keeps the policy that is on trial for good, also for the data plane that may come after this one.
  virtual void confirm(Done done) = 0;
  // Puts the policy in force as another generation: what was decided under this one is void. Likewise.
  virtual void renew(Done done) = 0;

  // Adds names to a list of the policy in force, or removes them, without compiling it: all of them, or,
  // where that fails, none. Packets that come from then on meet the list so. `done` is called once, now or
  // later.
  using Changed = std::function<void(tl::expected<ListChanged, Refusal>)>;
  virtual void change_list(ListOrder order, Changed done) = 0;
  // What has become of the lists so.
  virtual std::shared_ptr<const gpu::NameChanges> changed_names() const = 0;
  // Of the policy that was put in force last: a sentence for each list whose changes went with the one
  // before.
  virtual const std::vector<std::string>& lost_names() const = 0;

  virtual FlowsReport flows(const FlowQuery& query) const = 0;
  virtual FlowCountsReport flow_counts(const FlowCountQuery& query) const = 0;
  virtual FileRulesReport rules(const RuleQuery& query) const = 0;
  // Every packet passes, or the policy decides again. ends_after: by itself; 0: when somebody says so.
  virtual Result<void> set_bypass(bool on, std::chrono::seconds ends_after) = 0;
  // Opens the files of logs anew, as somebody has put others in their places (logrotate). A file that cannot
  // be opened is tried again later; until then its lines go to the one that was open.
  virtual ReopenedLogs reopen_logs() = 0;
  // Undoes everything, and answers then: with the account of all packets. keep: what the kernel decides by
  // stays, for a later attach.
  virtual void detach(bool keep, const Reply& reply) = 0;
};

}  // namespace xdpgpu::control
