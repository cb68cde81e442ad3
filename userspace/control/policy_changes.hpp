// SPDX-License-Identifier: MIT
//
// userspace/control/policy_changes.hpp: puts policies in force, one after the other, without the control
// thread's waiting for what takes long: compiling, loading devices, filling the kernel's tables and grace
// periods are a thread's of its own.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "userspace/control/health.hpp"
#include "userspace/control/policy_compiler.hpp"
#include "userspace/control/policy_swap.hpp"
#include "userspace/control/program_translator.hpp"

namespace xdpgpu::control {

// A policy that is to be put in force; or something else that has to wait for its turn among these.
struct PolicyChange {
  // That, in place of a policy: done on the thread, where it fails without effect.
  std::function<Result<void>()> work{};
  // Another one, which is to be compiled; or one that is. Neither: the one that is in force by then.
  std::optional<compiler::PolicySource> source{};
  PolicyPtr policy{};
  PolicySwap::Kind kind = PolicySwap::Kind::another;
  std::optional<bool> audit{};   // of `source`; nothing: as the policy that is in force by then
  bool as_it_is = false;         // `policy`, whichever backends are down by now: nothing is compiled
  bool first = false;            // before all others that wait
  bool keep = false;             // it is there for good: the broker keeps it for the next data plane
  std::function<bool()> left{};  // whether nobody waits for it any more; empty: it is to be done anyway
  // It is in force from now on, in place of that one. Control thread, as is what follows.
  std::function<void(const PolicyPtr& before)> in_force{};
  // And no packet goes by the one before any more; or nothing has changed, and why.
  std::function<void(tl::expected<void, Refusal>)> done{};
};

// Control thread.
class PolicyChanges {
 public:
  struct Hooks {
    std::function<std::vector<std::string>()> ports;  // interface names by port index
    // A policy that is in force; control thread, as is what follows.
    std::function<void(const compiler::CompiledPolicy& policy, const std::string& why)> cannot_keep;
  };
  using Kept = std::function<void(Result<void>)>;
  // All of them outlive this object.
  PolicyChanges(boost::asio::io_context& context, BrokerCalls& broker, PolicySwap& swap, HealthChecks& health,
                ProgramTranslator translator, Hooks hooks);
  ~PolicyChanges() { end(); }
  PolicyChanges(const PolicyChanges&) = delete;
  PolicyChanges& operator=(const PolicyChanges&) = delete;

  // Before there is a thread, and packets: compiles, and waits.
  PolicyCompiler& compiler() { return compiler_; }
  ProgramTranslator& translator() { return translator_; }
  // Starts the thread.
  Result<void> start();
  // To be done behind those that were added before.
  void add(PolicyChange change);
  // Has the broker keep the policy for the next data plane, behind what was added before.
  void keep(PolicyPtr policy, Kept kept);
  // What is not in force yet is given up, and waited for; what waits is refused.
  void end();

 private:
  using Prepared = tl::expected<PolicySwap::Prepared, Refusal>;
  // The one that is under way.
  struct Now {
    PolicyChange change;
    PolicyPtr before;
    kernel::Fd given_up;                 // an eventfd: nobody waits for it any more
    std::optional<Prepared> prepared{};  // once the thread is through with it
    bool in_force = false;
  };

  void begin();
  Prepared prepare(Now& now, std::vector<std::string> ports, const compiler::DownBackends& down);
  void look_whether_left();
  void commit();
  void settle();
  void finish(tl::expected<void, Refusal> result);
  // The thread's.
  tl::expected<PolicyPtr, Refusal> compile(Now& now, std::vector<std::string> ports,
                                           const compiler::DownBackends& down);
  // On the thread, and back on the control thread.
  void on_thread(std::function<void()> work);
  void on_control(std::function<void()> work);
  void run();

  boost::asio::io_context& context_;
  BrokerCalls& broker_;
  PolicySwap& swap_;
  HealthChecks& health_;
  Hooks hooks_;
  PolicyCompiler compiler_;
  ProgramTranslator translator_;
  boost::asio::steady_timer look_timer_;
  std::deque<PolicyChange> waiting_;
  std::shared_ptr<Now> now_;

  std::thread thread_;
  std::mutex mutex_;  // of what follows
  std::condition_variable wake_;
  std::deque<std::function<void()>> work_;
  bool ended_ = false;  // written by the control thread
};

}  // namespace xdpgpu::control
