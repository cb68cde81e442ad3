// SPDX-License-Identifier: MIT
//
// userspace/control/attached.hpp: what a request on the control socket can ask of the process that has
// attached. The data plane is one (data_plane_state.hpp). Control thread.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "userspace/control/compiled_policy.hpp"
#include "userspace/control/flows.hpp"
#include "userspace/control/plan.hpp"
#include "userspace/control/server.hpp"
#include "userspace/control/status_report.hpp"

namespace xdpgpu::control {

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
  virtual const CompiledPolicy& policy() const = 0;
  virtual u32 generation() const = 0;
  // Of a policy that is to be confirmed; nothing where it is there for good.
  virtual std::optional<Trial> on_trial() const = 0;

  // Puts the policy in force: for good, or, with a time other than 0, on trial: unless it is confirmed within
  // that, what was in force for good comes back. On failure nothing has changed.
  virtual Result<void> apply(std::shared_ptr<const CompiledPolicy> policy,
                             std::chrono::seconds confirm_within) = 0;
  // Keeps the policy that is on trial for good. False: none is.
  virtual bool confirm() = 0;
  // Puts the policy in force as another generation: what was decided under this one is void.
  virtual Result<void> renew() = 0;

  virtual FlowsReport flows(const FlowQuery& query) const = 0;
  // Every packet passes, or the policy decides again.
  virtual Result<void> set_bypass(bool on) = 0;
  // Undoes everything, and answers then: with the account of all packets. keep: what the kernel decides by
  // stays, for a later attach.
  virtual void detach(bool keep, const Reply& reply) = 0;
};

}  // namespace xdpgpu::control
