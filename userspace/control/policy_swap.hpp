// SPDX-License-Identifier: MIT
//
// userspace/control/policy_swap.hpp: replaces the policy in force while traffic flows (DESIGN: never a
// half policy, a verdict never outlives its policy). Every packet is decided by one generation or the
// other. Generations count up from 1; one that a packet has met is never given to another policy.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "gpu/stages/values.hpp"
#include "userspace/compiler/compiled_policy.hpp"
#include "userspace/control/broker_calls.hpp"
#include "userspace/control/map_twins.hpp"
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

// In three steps, so that the control thread waits for none of what takes long:
//
//   prepare   loads the policy into the devices, and fills and installs the kernel's tables, while packets go
//             by the one before; any thread
//   commit    has packets go by it: one word of the broker's; control thread
//   settle    once all packets that went by the one before have come to the device (a grace period, which is
//             for whoever drives this to wait for): that one goes; control thread
//
// A policy that was prepared is committed or given up before another one is. On failure nothing has changed:
// the error says which step failed.
class PolicySwap {
 public:
  // Who is told of policies. Control thread.
  struct Listener {
    // Before packets meet it: it is committed next, or that fails.
    std::function<void(const std::shared_ptr<const compiler::CompiledPolicy>& policy, u32 generation)> coming;
    std::function<void(const compiler::CompiledPolicy& policy)> in_force;
    // The kernel hands on no packet by the one before any more; some may be under way.
    std::function<void(const compiler::CompiledPolicy& policy)> settled;
  };
  // Before the first policy.
  void tell(Listener listener) { listener_ = std::move(listener); }
  // Likewise: whoever keeps maps of programs in step. Outlives this object.
  void keep_maps(MapTwins& maps) { maps_ = &maps; }
  // All of them outlive this object. in_force: generations count on from there, and the first policy that is
  // put in force keeps its generation, and with it the flow verdicts, if it is the same. Its conntrack stages
  // are loose, so that connections that were open go on, until another one is applied.
  PolicySwap(BrokerCalls& broker, std::vector<PortControl>& ports, dataplane::Engine& engine,
             const std::optional<InForce>& in_force);

  struct Prepared {
    std::shared_ptr<const compiler::CompiledPolicy> policy;
    std::shared_ptr<const gpu::Pipelines> pipelines;
    std::vector<u32> kept_since;  // of its rules
    std::shared_ptr<MapTwins::Policy> maps;
    std::shared_ptr<const gpu::NameChanges> names;  // that devices were told
    u32 generation = 0, slot = 0;
    bool loose = false, loosened = false;  // and whether its pipelines are others by that
  };
  enum class Kind {
    another,  // another policy than the one in force, as far as is known
    renewed,  // the policy in force, for its backends or its device; a conntrack stage that is loose stays so
    anew,     // the policy in force, with all that was decided by it void
  };
  // Where the policy says on_failure or on_overload by what is known, flow verdicts of the policy before
  // count there for the rules that have not changed (userspace/policy/kept_verdicts.hpp).
  Result<Prepared> prepare(std::shared_ptr<const compiler::CompiledPolicy> policy, Kind kind);
  Result<void> commit(Prepared prepared);
  void settle();
  void give_up(const Prepared& prepared);
  // Behind the grace period: what the host sends is shown no more where only the policy before wanted it. Any
  // thread.
  void stop_watching();
  // All three, with a grace period: where nothing else is to be done meanwhile.
  Result<void> apply(std::shared_ptr<const compiler::CompiledPolicy> policy);

  // What was changed of lists of names, one name at a time: of each policy that is prepared, too. Any thread.
  std::shared_ptr<const gpu::NameChanges> names() const;
  // Has packets go by these, from those on that come once it is done; on failure nothing has changed. Where a
  // policy is in force, and none is being prepared.
  Result<void> change_names(gpu::NameChanges names);
  // Likewise, where packets go by the same before and after: nothing is told to devices.
  void set_names(gpu::NameChanges names);

  u32 generation() const noexcept { return generation_; }
  // Whether a conntrack stage is loose now that is not so by its policy.
  bool loosens() const noexcept { return loosens_; }
  const std::shared_ptr<const compiler::CompiledPolicy>& current() const noexcept { return current_; }

 private:
  // Has the broker show what the host sends, or stop to.
  Result<void> watch_egress(bool on);
  // Whether the policy is the one that a dead attach left in force.
  bool goes_on(const compiler::CompiledPolicy& policy) const;
  // By rule of the policy, xg_rule.kept_since under that generation.
  std::vector<u32> kept_since(const compiler::CompiledPolicy& policy, u32 generation) const;
  Result<void> activate(u32 generation, u32 slot, u64 hash);
  Result<void> load(Prepared& prepared);
  Result<void> tell_names(Prepared& prepared);
  Result<void> load_pipelines(const Prepared& prepared);
  // Those that devices are to have, with what programs' maps in the kernel have.
  void make_pipelines(Prepared& prepared);
  Result<void> prepare_slot(const Prepared& prepared);
  // Of a slot by which no packet goes.
  void retire_programs(u32 slot);

  BrokerCalls& broker_;
  std::vector<PortControl>& ports_;
  dataplane::Engine& engine_;
  Listener listener_;
  MapTwins* maps_ = nullptr;
  // The control thread's; while it changes them, nothing is prepared.
  std::shared_ptr<const compiler::CompiledPolicy> current_;
  std::vector<u32> kept_since_;  // of its rules
  u32 generation_ = 0;
  u32 slot_ = 0;
  std::optional<u64> left_hash_;  // of the policy in force, until this object has put one in force
  bool loose_ = false;            // conntrack is, until another policy is put in force
  bool loosens_ = false;
  bool watches_egress_ = false;
  bool has_programs_ = false;  // in the kernel, or maps of some, as far as is known
  bool has_maps_ = false;      // the policy in force does
  mutable std::mutex names_mutex_;
  std::shared_ptr<const gpu::NameChanges> names_ = std::make_shared<const gpu::NameChanges>();
};

// Which pipeline a frame goes to by this policy's rules.
dataplane::Engine::PipelineChooser pipeline_chooser(std::shared_ptr<const compiler::CompiledPolicy> policy);

}  // namespace xdpgpu::control
