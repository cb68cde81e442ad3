// SPDX-License-Identifier: MIT
//
// userspace/control/policy_swap.hpp: replaces the policy in force while traffic flows (DESIGN: never a
// half policy, a verdict never outlives its policy). Every packet is decided by one generation or the
// other. Generations count up from 1; one that a packet has met is never given to another policy.
#pragma once

#include <optional>
#include <vector>

#include "userspace/control/channel.hpp"
#include "userspace/control/compiled_policy.hpp"
#include "userspace/control/port_control.hpp"
#include "userspace/dataplane/engine.hpp"

namespace xdpgpu::control {

// The policy by which the kernel decides already, as a dead attach left it.
struct InForce {
  u64 active = 0;  // as xg_config's
  u64 policy_hash = 0;
};

// The generation `steps` behind this one. None is given twice: the error is that there are no more.
Result<u32> generation_behind(u32 generation, u32 steps);

class PolicySwap {
 public:
  // All of them outlive this object. in_force: generations count on from there, and the first policy that is
  // put in force keeps its generation, and with it the flow verdicts, if it is the same. Its conntrack stages
  // are loose, so that connections that were open go on, until another one is applied.
  PolicySwap(Channel& broker, std::vector<PortControl>& ports, dataplane::Engine& engine,
             const std::optional<InForce>& in_force);

  // Puts the policy in force, on every port. On failure nothing has changed: the error says which step
  // failed. Beside copying the tables it takes two RCU grace periods, some 15 ms each: the kernel's own as
  // tables go into the slot, and one until no packet is decided by the policy before. Where it says
  // on_failure or on_overload by what is known, flow verdicts of the policy before count there for the rules
  // that have not changed (userspace/policy/kept_verdicts.hpp).
  // renewed: the policy in force, for its backends or its device; a conntrack stage that is loose stays so.
  Result<void> apply(std::shared_ptr<const CompiledPolicy> policy, bool renewed = false);
  // Makes every cached flow verdict stale at once: the policy in force again, as a new generation.
  Result<void> renew();

  u32 generation() const noexcept { return generation_; }
  // Whether a conntrack stage is loose now that is not so by its policy.
  bool loosens() const noexcept { return loosens_; }
  const std::shared_ptr<const CompiledPolicy>& current() const noexcept { return current_; }

 private:
  // Has the broker show what the host sends, or stop to.
  Result<void> watch_egress(bool on);
  // Whether the policy is the one that a dead attach left in force.
  bool goes_on(const CompiledPolicy& policy) const;
  Result<void> replace(std::shared_ptr<const CompiledPolicy> policy, u32 generation,
                       std::vector<u32> kept_since);
  // By rule of the policy, xg_rule.kept_since under that generation.
  std::vector<u32> kept_since(const CompiledPolicy& policy, u32 generation) const;
  Result<void> activate(u32 generation, u32 slot, u64 hash);
  Result<void> prepare_slot(const CompiledPolicy& policy, const std::vector<u32>& kept_since, u32 generation,
                            u32 slot);

  Channel& broker_;
  std::vector<PortControl>& ports_;
  dataplane::Engine& engine_;
  std::shared_ptr<const CompiledPolicy> current_;
  std::vector<u32> kept_since_;  // of its rules
  u32 generation_ = 0;
  u32 slot_ = 0;
  std::optional<u64> left_hash_;  // of the policy in force, until this object has put one in force
  bool loose_ = false;            // conntrack is, until the next apply()
  bool loosens_ = false;
  bool watches_egress_ = false;
};

// Which pipeline a frame goes to by this policy's rules.
dataplane::Engine::PipelineChooser pipeline_chooser(std::shared_ptr<const CompiledPolicy> policy);

}  // namespace xdpgpu::control
