// SPDX-License-Identifier: MIT
//
// userspace/control/data_plane_state.hpp: the data plane while it is attached. How it begins, what it looks
// after and how it ends is in data_plane.cpp, what it answers in data_plane_requests.cpp. Of the control
// thread.
#pragma once

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gpu/gpu.hpp"
#include "userspace/control/alarms.hpp"
#include "userspace/control/attached.hpp"
#include "userspace/control/data_plane.hpp"
#include "userspace/control/eve_log.hpp"
#include "userspace/control/file_access.hpp"
#include "userspace/control/flow_events.hpp"
#include "userspace/control/health.hpp"
#include "userspace/control/link_watch.hpp"
#include "userspace/control/map_twins.hpp"
#include "userspace/control/output.hpp"
#include "userspace/control/policy_changes.hpp"
#include "userspace/control/policy_swap.hpp"
#include "userspace/control/report.hpp"
#include "userspace/control/seccomp.hpp"
#include "userspace/control/server.hpp"
#include "userspace/control/summary.hpp"

namespace xdpgpu::control {

// Everything of the data plane that is there while traffic flows.
class DataPlane final : public Attached {
 public:
  explicit DataPlane(DataPlaneSetup setup)
      : setup_(std::move(setup)),
        output_(setup_.live && !setup_.json && !setup_.daemon, setup_.terminal),
        broker_events_(context_),
        link_events_(context_),
        housekeeping_(context_),
        live_timer_(context_),
        confirm_timer_(context_),
        renew_timer_(context_),
        broker_timer_(context_),
        health_(context_, [this](const std::string& news) {
          output_.problem(news);
          renew_policy(kHealthTogether);
        }) {}

  int run() {
    if (auto started = start(); !started) {
      if (maps_) maps_->end();
      output_.problem(started.error());
      if (setup_.json && setup_.before.deaths == 0) output_.json(failed_end(started.error()));
      return 1;
    }
    watch_broker();
    watch_links();
    keep_house();
    print_live();
    context_.run();
    return status_;
  }

  // What requests ask (data_plane_requests.cpp).
  const Plan& plan() const override { return setup_.plan; }
  Result<StatusReport> make_report() const override {
    auto made = report(
        {ports_, *engine_, *swap_, xdp_modes_, std::chrono::duration<double>(Clock::now() - since_).count()});
    if (!made) return made;
    made->cage = cage();
    if (made->service)
      for (auto& device : made->service->devices)
        if (takes_code_.contains(device.name)) device.programs = how_programs_run(*swap_->current());
    add_bursts(made->ports);
    made->alarms = alarms_.report();
    made->flow_events = flow_events_.report();
    if (log_) made->log = log_->report();
    if (made->service) {
      made->service->programs = rule_stats_->programs(*swap_->current());
      add_given(*made->service, *swap_->current());
      add_maps(*made->service, maps_->report());
    }
    if (auto health = health_.report(swap_->current()->policy); !health.empty())
      made->health = std::move(health);
    made->data_plane = life_report(setup_.before, true);
    made->policy.trial = on_trial();
    made->bypass = bypass_end();
    made->last_end = setup_.plan.last_end;
    return made;
  }
  const compiler::CompiledPolicy& policy() const override { return *swap_->current(); }
  u32 generation() const override { return swap_->generation(); }
  std::optional<Trial> on_trial() const override;
  void apply(Order order, Done done) override;
  void confirm(Done done) override;
  void renew(Done done) override;
  void change_list(ListOrder order, Changed done) override;
  std::shared_ptr<const gpu::NameChanges> changed_names() const override { return swap_->names(); }
  const std::vector<std::string>& lost_names() const override { return lost_names_; }
  FlowsReport flows(const FlowQuery& query) const override;
  FlowCountsReport flow_counts(const FlowCountQuery& query) const override;
  FileRulesReport rules(const RuleQuery& query) const override;
  Result<void> set_bypass(bool on, std::chrono::seconds ends_after) override;
  ReopenedLogs reopen_logs() override;
  void detach(bool keep, const Reply& reply) override;

 private:
  using Clock = std::chrono::steady_clock;
  using error_code = boost::system::error_code;
  // Backends that change within it make one new generation.
  static constexpr std::chrono::milliseconds kHealthTogether{20};
  // For the broker's answers that somebody waits for: to orders, and for a report.
  static constexpr std::chrono::seconds kStateTimeout{5}, kReportTimeout{1};

  Result<void> start();
  Result<void> open_ports();
  Result<std::unique_ptr<gpu::Device>> open_device(const std::string& name);
  Result<void> open_devices();
  // Limits which files may be opened from here on: with drivers those of theirs, too.
  Result<void> restrict_files(bool drivers);
  // Filters what this process may ask of the kernel from here on, or records it.
  Result<void> restrict();
  // What the plan says, or what was applied before a data plane died.
  Result<PolicyPtr> first_policy();
  // Of the two, for reports.
  CageReport cage() const;
  // How io.burst came to so many frames, by port.
  void add_bursts(std::vector<PortReport>& ports) const;
  void announce();
  GoesOn goes_on() const;
  void watch_broker();
  void watch_broker_later();
  void keep_house();
  void print_live();
  void watch_links();
  // Ends the attach for an interface that is not there any more.
  void end_without(const std::string& ifname);
  const char* what_the_others_do() const;
  // What this attach ends for, with exit status 1.
  void fail_with(const std::string& why);
  // Looks whether interfaces are still there, and under their names. False: the attach ends.
  bool check_interfaces();
  // Looks whether interfaces still have their programs. False: the attach ends.
  bool check_programs();
  // The interface goes on under its new name.
  void rename(u32 port, const std::string& now);
  // Says so when an interface has come to have queues that no worker serves, or has them no more.
  void watch_queues();
  // Says so when an interface's MTU has come to let in frames that fit no chunk.
  void watch_mtus();
  // In zero-copy, where the longest frame is shorter (host::kMostZeroCopyFrame).
  bool driver_fills_one_chunk(u32 port) const;
  // Tells what `ddos` stages have detected, and what is over.
  void watch_alarms();
  void watch_flow_events();
  // Begins to write logs, as each policy says (data_plane_logs.cpp).
  Result<void> start_logs();
  // Has what is to be opened opened, and says what there is to say.
  void watch_logs();
  // By the broker: where that output's lines go.
  Result<kernel::Fd> open_log(const policy::LogOutput& output);
  // Says so, once; without the broker nothing can be undone from here.
  void broker_is_gone();

  // XG_STATE_*, by the broker. Not bypassed_too: of the ports that are not bypassed, as an operator's bypass
  // outlives the process that was told of it.
  Result<void> set_state(u32 state, bool bypassed_too);
  // When an operator's bypass ends by itself, where there is one that does.
  std::optional<BypassReport> bypass_end() const;
  // Ends everything in order; `reply` is the client's that asked for it, if one did.
  // keep: what the kernel decides by stays, for a later attach to go on with.
  void shut_down(const Reply& reply, bool keep = false);

  // Ends as its reinjection pair is gone, so that the next one gets a new one: everything else goes out
  // first.
  void end_for_another(const std::string& ifname);
  // Nothing is done any more but ending.
  void cease();

  void handle(Request request, const Reply& reply);

  // The policy in force is so for good: what was changed of lists that it has not is gone, and what its own
  // say by themselves needs to be remembered no more.
  void settle_names();
  // Has the broker keep what was changed, for the next data plane.
  void keep_names();

  // Puts the policy in force again after so long, as its backends are then; until that works.
  void renew_policy(std::chrono::milliseconds after);
  void renew_for_maps();
  void renew_now(PolicySwap::Kind kind, const char* problem);
  // The policy in force is `before`, as it is now.
  void follows(const PolicyPtr& before);
  // Puts the policy in force that was before the one that nobody confirmed; `done` is told why not.
  void go_back(std::function<void(Result<void>)> done);
  // Likewise, where nothing is done any more but ending.
  Result<void> go_back_now();
  std::string cannot_go_back(const std::string& why) const;
  // In so long, until that works; unless the new one is confirmed before.
  void go_back_after(std::chrono::seconds time);

  DataPlaneSetup setup_;
  mutable BrokerCalls broker_{setup_.broker};
  Output output_;
  Drivers drivers_;
  // Machine code for the same kind of GPU comes with a policy: by device's name, what each has already.
  std::map<std::string, std::shared_ptr<const gpu::DeviceCode>> takes_code_;
  std::optional<FileLimits> file_limits_;
  std::unique_ptr<SystemCallRecorder> recorder_;
  std::vector<PortControl> ports_;
  std::vector<std::string> xdp_modes_;
  std::vector<u32> pairs_;  // by port: the reinjection pair's end here, by index
  std::unique_ptr<dataplane::Engine> engine_;
  std::unique_ptr<RuleStats> rule_stats_;  // before the engine
  std::unique_ptr<EveLog> log_;            // likewise
  std::unique_ptr<PolicySwap> swap_;
  std::unique_ptr<MapTwins> maps_;  // its thread ends before anything else does
  Clock::time_point since_ = Clock::now();

  boost::asio::io_context context_;
  boost::asio::posix::stream_descriptor broker_events_;
  boost::asio::posix::stream_descriptor link_events_;
  boost::asio::steady_timer housekeeping_;
  boost::asio::steady_timer live_timer_;
  boost::asio::steady_timer confirm_timer_;
  boost::asio::steady_timer renew_timer_;
  boost::asio::steady_timer broker_timer_;
  HealthChecks health_;
  std::unique_ptr<PolicyChanges> changes_;  // after what it uses
  Alarms alarms_;
  FlowEvents flow_events_;
  std::unique_ptr<Server> server_;
  std::vector<std::string> lost_names_;
  bool keeps_names_ = false;  // that is under way
  PolicyPtr confirmed_;       // what comes back unless the new policy is confirmed
  u64 trial_ = 0;             // counts up when a policy is put in force, confirmed or taken back
  std::optional<Totals> last_totals_;
  Clock::time_point last_time_;
  int ticks_ = 0;
  std::vector<u32> mtus_;       // by port, as last seen
  std::vector<u32> queues_;     // by port, as last seen; 0: not yet
  std::set<std::string> told_;  // what is said once
  LinkWatch links_;
  bool broker_gone_ = false;
  bool interface_gone_ = false;
  bool shutting_down_ = false;
  int status_ = 0;
  std::string why_;  // it ends; empty: the broker said so
};

}  // namespace xdpgpu::control
