// SPDX-License-Identifier: MIT
#include "userspace/control/data_plane.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/prctl.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cstdlib>
#include <utility>

#include "gpu/faults.hpp"
#include "gpu/standby.hpp"
#include "userspace/control/data_plane_state.hpp"
#include "userspace/control/grace_period.hpp"
#include "userspace/control/kept_policy.hpp"
#include "userspace/control/privileges.hpp"
#include "userspace/control/region_size.hpp"
#include "userspace/kernel/names.hpp"
#include "userspace/kernel/xdp_link.hpp"

namespace xdpgpu::control {
namespace {

namespace asio = boost::asio;

constexpr u32 kDrainMs = 2000;
constexpr std::chrono::milliseconds kHousekeeping{100};
constexpr std::chrono::seconds kRenewRetry{5};
// The longest batch that a GPU works on takes some milliseconds; software may be given no core for a while.
// Below what the worker waits for (userspace/dataplane/retirer.cpp).
constexpr u64 kPatience = 1'000'000'000, kSoftwarePatience = 4'000'000'000;
constexpr std::chrono::milliseconds kBrokerTurn{2};
constexpr int kInterfaceTicks = 10;  // looked for every so many rounds of housekeeping
constexpr int kAlarmTicks = 2;       // likewise

}  // namespace

// ---- start ------------------------------------------------------------------------------------------

Result<void> DataPlane::open_ports() {
  for (std::size_t i = 0; i < setup_.port_maps.size(); i++) {
    const auto& planned = setup_.plan.ports[i];
    auto port = PortControl::open(planned.facts.name, planned.queues, setup_.flow_entries_per_queue,
                                  std::move(setup_.port_maps[i]), PortControl::Of::data_plane);
    if (!port) return Error(port.error());
    ports_.push_back(std::move(*port));
    pairs_.push_back(setup_.specs[i].reinject_ifindex);
    xdp_modes_.emplace_back(setup_.specs[i].xdp_mode == kernel::XdpMode::native ? "native" : "generic");
  }
  return {};
}

// With its standby, and the fault that it is to have.
Result<std::unique_ptr<gpu::Device>> DataPlane::open_device(const std::string& name) {
  auto device = gpu::open_device(name, setup_.plan.codes);
  if (!device) return device;
  const gpu::Kind kind = (*device)->info().kind;
  drivers_.cuda |= kind == gpu::Kind::cuda;
  drivers_.vulkan |= kind == gpu::Kind::vulkan;
  if (auto code = (*device)->code()) takes_code_.emplace((*device)->info().name, std::move(code));
  const char* fault = std::getenv("XDPGPU_FAULT");
  if (fault != nullptr && *fault != '\0') {
    device = gpu::with_fault(std::move(*device), fault);
    if (!device) return Error("XDPGPU_FAULT: " + device.error());
    output_.problem(fmt::format("XDPGPU_FAULT is set: device {} will break ({})", name, fault));
  } else if (kind == gpu::Kind::cpu) {
    return device;
  }
  if (!setup_.plan.standby) return device;
  auto standby = gpu::open_device("cpu");
  if (!standby) return standby;
  gpu::StandbyOptions options;
  options.hung_ns = (*device)->info().software ? kSoftwarePatience : kPatience;
  if (const u64 retry_ns = setup_.plan.policy->policy.compute.retry_ns; retry_ns > 0) {
    options.reopen = [name = (*device)->info().name, codes = setup_.plan.codes] {
      return gpu::open_device(name, codes);
    };
    options.retry = std::chrono::nanoseconds(retry_ns);
  }
  return gpu::with_standby(std::move(*device), std::move(*standby), options);
}

Result<void> DataPlane::open_devices() {
  std::vector<std::unique_ptr<gpu::Device>> devices;
  for (const auto& name : setup_.plan.devices) {
    auto device = open_device(name);
    if (!device) return Error(device.error());
    devices.push_back(std::move(*device));
  }
  return engine_->use_devices(std::move(devices), setup_.plan.frames);
}

Result<void> DataPlane::restrict_files(bool drivers) {
  if (setup_.plan.seccomp != SeccompMode::filter) return {};
  auto limits = limit_files(drivers);
  if (!limits) return Error(limits.error());
  if (!limits->landlock.limits_files())
    output_.problem(fmt::format("what files the data plane opens is left to its user's rights: {}",
                                limits->landlock.why));
  else if (limits->threads_left_out > 0)
    output_.problem(fmt::format(
        "{} threads of the device's driver could not be limited in what files they open: the system-call "
        "filter and its user's rights hold them",
        limits->threads_left_out));
  file_limits_ = std::move(*limits);
  return {};
}

CageReport DataPlane::cage() const {
  const bool filter = setup_.plan.seccomp == SeccompMode::filter;
  const bool limited = file_limits_ && file_limits_->landlock.limits_files();
  CageReport cage;
  cage.system_calls = filter ? "filtered" : recorder_ ? "recorded" : "not filtered";
  cage.files = limited ? "limited" : "not limited";
  if (limited) {
    cage.landlock = file_limits_->landlock.version;
    cage.device_requests = file_limits_->landlock.limits_device_requests() ? "limited" : "not limited";
    cage.threads_left_out = file_limits_->threads_left_out;
  } else {
    cage.why = file_limits_ ? file_limits_->landlock.why : "XDPGPU_SECCOMP, or a sanitized build";
  }
  return cage;
}

void DataPlane::add_bursts(std::vector<PortReport>& ports) const {
  for (std::size_t i = 0; i < setup_.plan.ports.size(); i++) {
    const auto& port = setup_.plan.ports[i];
    if (port.burst_mbps == 0) continue;
    u64 frame_bytes = XG_CHUNK_SIZE;
    for (const auto& queue : engine_->status().queues)
      if (queue.port == i) frame_bytes = u64{queue.chunks_per_frame} * XG_CHUNK_SIZE;
    ports.at(i).burst = BurstReport{.ns = setup_.plan.policy->policy.io.burst_ns,
                                    .link_mbps = port.burst_mbps,
                                    .wire_bytes = kSmallestOnWire,
                                    .frames_per_queue = port.frames_per_queue,
                                    .queues = port.queues,
                                    .frame_bytes = frame_bytes,
                                    .bytes = u64{port.frames_per_queue} * port.queues * frame_bytes};
  }
}

Result<void> DataPlane::restrict() {
  switch (setup_.plan.seccomp) {
    case SeccompMode::filter:
      return restrict_system_calls(drivers_);
    case SeccompMode::record: {
      auto recorder = SystemCallRecorder::start(
          drivers_, [this](const std::string& sentence) { output_.problem(sentence); });
      if (!recorder) return Error(recorder.error());
      recorder_ = std::move(*recorder);
      output_.problem("XDPGPU_SECCOMP is record: the data plane's system calls are not filtered");
      return {};
    }
    case SeccompMode::off:
      break;
  }
  output_.problem("the data plane's system calls are not filtered (XDPGPU_SECCOMP, or a sanitized build)");
  return {};
}

Result<PolicyPtr> DataPlane::first_policy() {
  if (!setup_.kept_policy) return setup_.plan.policy;
  auto kept = read_kept_policy(setup_.kept_policy);
  if (!kept) return Error(kept.error());
  setup_.kept_policy = kernel::Fd();
  swap_->set_names(std::move(kept->names));
  return changes_->compiler()
      .compile(std::move(kept->source), setup_.plan.interfaces(), {}, kept->audit, -1)
      .map_error([](const Refusal& why) { return why.sentence; });
}

Result<void> DataPlane::start() {
  // Whoever was told in the terminal is told elsewhere by now.
  if (setup_.daemon && setup_.before.deaths > 0) output_.to_background();
  const bool busy_poll = std::any_of(setup_.specs.begin(), setup_.specs.end(),
                                     [](const auto& spec) { return spec.busy_poll.wanted; });
  if (auto kept = keep_socket_privileges(busy_poll); !kept) return kept;
  if (auto opened = open_ports(); !opened) return opened;
  auto links = LinkWatch::open();
  if (!links) return Error(links.error());
  links_ = std::move(*links);
  auto engine = dataplane::Engine::create(std::move(setup_.specs), setup_.plan.engine);
  if (!engine) return Error(engine.error());
  engine_ = std::move(*engine);
  setup_.frames = kernel::Fd();
  setup_.huge_frames = kernel::Fd();
  if (auto dropped = drop_all_privileges(); !dropped) return dropped;

  // A driver that is not open yet asks for more than it ever does again.
  if (auto opened = open_devices(); !opened) return opened;
  if (auto limited = restrict_files(drivers_.cuda || drivers_.vulkan); !limited) return limited;
  if (auto restricted = restrict(); !restricted) return restricted;
  for (auto& link : setup_.links)
    if (!kernel::look_at_link(link.get())) link = kernel::Fd();  // a kernel that does not tell
  swap_ = std::make_unique<PolicySwap>(broker_, ports_, *engine_, setup_.in_force);
  maps_ = std::make_unique<MapTwins>(broker_, *engine_,
                                     [this] { boost::asio::post(context_, [this] { renew_for_maps(); }); });
  swap_->keep_maps(*maps_);
  if (auto logs = start_logs(); !logs) return logs;
  std::vector<std::shared_ptr<const gpu::DeviceCode>> codes;
  for (const auto& [name, code] : takes_code_) codes.push_back(code);
  changes_ = std::make_unique<PolicyChanges>(
      context_, broker_, *swap_, health_,
      ProgramTranslator(PolicyCompiler::by(broker_, CompilerFor::programs), codes),
      PolicyChanges::Hooks{
          .ports = [this] { return setup_.plan.interfaces(); },
          .cannot_keep =
              [this](const compiler::CompiledPolicy& policy, const std::string& why) {
                output_.problem(
                    fmt::format("should the data plane die, the next one begins with the policy before {}, "
                                "as this one could not be kept for it: {}",
                                policy.source.file, why));
              }});
  auto policy = first_policy();
  if (!policy) return Error(policy.error());
  // Who follows a dead one goes on at once, and has programs translated while packets go on.
  if (setup_.before.deaths == 0) policy = changes_->translator().served(std::move(*policy), -1);
  if (auto applied = swap_->apply(*policy); !applied) return applied;
  confirmed_ = swap_->current();
  health_.watch(confirmed_->policy);
  if (auto changes = changes_->start(); !changes) return changes;
  if (auto started = engine_->start(); !started) return started;
  maps_->start();
  if (auto running = set_state(XG_STATE_RUNNING, false); !running) return running;
  if (changes_->translator().can_serve(*swap_->current())) renew_policy(std::chrono::milliseconds(0));
  const auto ends = bypass_end();
  for (std::size_t i = 0; i < ports_.size(); i++)
    if (const auto& name = setup_.plan.ports[i].facts.name; ports_[i].state() == XG_STATE_BYPASS)
      output_.problem(fmt::format(
          "bypass is still on, as it was before: every packet of {} passes; {}end it with \"xdpgpu "
          "bypass off {}\"",
          name, ends ? fmt::format("it ends by itself in {} s, or ", ends->ends_in_s) : "",
          kernel::names::operand(name)));

  server_ = std::make_unique<Server>(
      context_, std::move(setup_.listener),
      [this](Request request, const Reply& reply) { handle(std::move(request), reply); },
      Server::Admission{.group = setup_.plan.control_group, .excluded = geteuid()});
  announce();
  return setup_.broker.send(Message::make(MessageType::ready));
}

// What has become of what a dead attach left.
GoesOn DataPlane::goes_on() const {
  const u32 before = XG_ACTIVE_GENERATION(setup_.in_force->active);
  GoesOn on{before, swap_->generation() == before, 0};
  for (const auto& queue : engine_->status().queues) on.lost_with_workers += queue.counters.lost_with_worker;
  return on;
}

void DataPlane::announce() {
  for (const auto& warning : setup_.plan.warnings) output_.problem(warning);
  if (const auto note = interpreted_note(*swap_->current())) output_.problem(*note);
  auto made = make_report();
  if (!made) return output_.problem(made.error());
  if (setup_.in_force) made->goes_on = goes_on();
  if (setup_.before.deaths == 0) made->notes = setup_.plan.notes;
  if (setup_.before.deaths > 0 && swap_->generation() != XG_ACTIVE_GENERATION(setup_.in_force->active))
    output_.problem(fmt::format(
        "policy {} is in force again: what came after it had not been confirmed, or was not whole, "
        "when the data plane died",
        swap_->current()->source.file));
  if (setup_.json) {
    made->event = "ready";
    output_.json(as_json(*made));
  } else {
    output_.text(ready_text(*made));
  }
  if (setup_.daemon) output_.to_background();
}

// ---- while traffic flows ----------------------------------------------------------------------------

void DataPlane::watch_broker() {
  if (!broker_events_.is_open()) broker_events_.assign(dup(setup_.broker.fd()));
  broker_events_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const error_code& error) {
    if (error || shutting_down_) return;
    bool stop = false, keep = false, reopen = false;
    {
      const auto held = broker_.hold();
      if (!held) return watch_broker_later();  // an answer, to who waits for it
      // It may have been an answer, which whoever asked has taken by now.
      pollfd there{setup_.broker.fd(), POLLIN, 0};
      if (poll(&there, 1, 0) > 0) {
        const auto received = setup_.broker.receive(std::chrono::milliseconds(0));
        if (!received) broker_is_gone();
        stop = !received || received->message.type == MessageType::stop;
        keep = received && stop && received->message.a == 1;
        reopen = received && received->message.type == MessageType::reopen_logs;
      }
    }
    if (stop) return shut_down({}, keep);
    if (reopen) (void)reopen_logs();
    watch_broker();
  });
}

void DataPlane::watch_broker_later() {
  broker_timer_.expires_after(kBrokerTurn);
  broker_timer_.async_wait([this](const error_code& error) {
    if (!error && !shutting_down_) watch_broker();
  });
}

void DataPlane::keep_house() {
  housekeeping_.expires_after(kHousekeeping);
  housekeeping_.async_wait([this](const error_code& error) {
    if (error || shutting_down_) return;
    output_.flush();
    for (const auto& event : engine_->poll()) output_.problem(event);
    rule_stats_->forget_before(engine_->oldest_generation());
    if (engine_->wants_policy_again()) renew_policy(std::chrono::milliseconds(0));
    if (const auto keep = setup_.broker.take_pending_stop()) return shut_down({}, *keep);
    watch_logs();
    if (++ticks_ % kAlarmTicks == 0) {
      watch_alarms();
      watch_flow_events();
    }
    if (ticks_ % kInterfaceTicks == 0) {
      if (!check_interfaces() || !check_programs()) return;
      watch_mtus();
      watch_queues();
    }
    keep_house();
  });
}

void DataPlane::fail_with(const std::string& why) {
  output_.problem(why);
  status_ = 1;
  why_ = why;
}

void DataPlane::watch_alarms() {
  const auto events = engine_->alarms(alarms_.watch());
  if (!events) return;  // of a device that has failed, which is said elsewhere
  alarms_.add(*events);
  for (const auto& event : *events) {
    if (setup_.json && !setup_.daemon)
      output_.json(as_json(alarm_event(event)));
    else
      output_.problem(alarm_sentence(event));
  }
}

void DataPlane::watch_flow_events() {
  const auto events = engine_->flow_events(flow_events_.watch());
  if (!events) return;  // of a device that has failed, which is said elsewhere
  flow_events_.add(*events);
  const bool lines = setup_.json && !setup_.daemon;
  const std::size_t most = lines ? FlowEvents::kLines : FlowEvents::kSentences;
  for (std::size_t i = 0; i < std::min(events->size(), most); i++) {
    if (lines)
      output_.json(as_json(event_report((*events)[i])));
    else
      output_.problem(event_sentence((*events)[i]));
  }
  if (events->size() > most)
    output_.problem(
        fmt::format("{} more events of flows at once are counted and not told; the last are in status",
                    events->size() - most));
}

void DataPlane::broker_is_gone() {
  status_ = 1;
  if (std::exchange(broker_gone_, true)) return;
  const auto names = setup_.plan.interfaces();
  std::vector<std::string> cures;
  cures.reserve(names.size());
  for (const auto& name : names) cures.push_back("xdpgpu detach " + kernel::names::operand(name));
  output_.problem(
      fmt::format("the privileged half of this process was killed: the XDP program, the pins and the "
                  "reinjection pair stay on {}, and on_failure decides there; clean up with \"{}\"",
                  fmt::join(names, ", "), fmt::join(cures, "; ")));
}

void DataPlane::print_live() {
  if (!setup_.live || setup_.json || setup_.daemon) return;
  live_timer_.expires_after(std::chrono::seconds(1));
  live_timer_.async_wait([this](const error_code& error) {
    if (error || shutting_down_) return;
    const auto now = Clock::now();
    if (const auto sum = totals(ports_, *engine_)) {
      const double seconds = std::chrono::duration<double>(now - last_time_).count();
      if (last_totals_) output_.live(live_line(*last_totals_, *sum, seconds), last_totals_->in != sum->in);
      last_totals_ = *sum;
      last_time_ = now;
    }
    print_live();
  });
}

// ---- backends ---------------------------------------------------------------------------------------

// Puts the policy in force again, under a new generation: for backends that came or went, for a standby.
void DataPlane::renew_policy(std::chrono::milliseconds after) {
  renew_timer_.expires_after(after);
  renew_timer_.async_wait([this](const error_code& error) {
    if (!error)
      renew_now(PolicySwap::Kind::renewed,
                "the policy could not be put in force again, and flows go as they went before");
  });
}

// Maps of its programs have other contents.
void DataPlane::renew_for_maps() {
  renew_now(PolicySwap::Kind::anew, "what has changed in maps of programs is not on the device");
}

// problem: half a sentence for when that fails.
void DataPlane::renew_now(PolicySwap::Kind kind, const char* problem) {
  if (shutting_down_) return;
  changes_->add({.kind = kind,
                 .in_force = [this](const PolicyPtr& before) { follows(before); },
                 .done =
                     [this, problem](const tl::expected<void, Refusal>& renewed) {
                       if (renewed || shutting_down_) return;
                       output_.problem(fmt::format("{}: {}; it is tried again in {} s", problem,
                                                   renewed.error().sentence, kRenewRetry.count()));
                       renew_policy(kRenewRetry);
                     }});
}

void DataPlane::follows(const PolicyPtr& before) {
  if (confirmed_ == before) confirmed_ = swap_->current();
  if (const auto note = interpreted_note(*swap_->current()); note && before->why_interpreted.empty())
    output_.problem(*note);
}

std::string DataPlane::cannot_go_back(const std::string& why) const {
  return fmt::format("cannot go back to policy {}, whose successor was not confirmed: {}",
                     confirmed_->source.file, why);
}

// Unless the policy on trial was confirmed or replaced by the time that its turn comes. It is put in force as
// it was compiled, so that it waits for no compiler, and renewed where backends came or went since.
void DataPlane::go_back(std::function<void(Result<void>)> done) {
  const u64 trial = trial_;
  changes_->add({.policy = confirmed_,
                 .as_it_is = true,
                 .first = true,
                 .left = [this, trial] { return trial_ != trial; },
                 .in_force =
                     [this](const PolicyPtr&) {
                       trial_++;
                       confirmed_ = swap_->current();
                       if (PolicyCompiler::of_policy(health_.down(), confirmed_->policy) != confirmed_->down)
                         renew_policy(std::chrono::seconds(0));
                     },
                 .done =
                     [this, trial, done = std::move(done)](const tl::expected<void, Refusal>& back) {
                       if (!back && trial_ != trial) return;
                       if (!back) return done(Error(cannot_go_back(back.error().sentence)));
                       output_.problem(
                           fmt::format("policy {} is in force again: its successor was not confirmed",
                                       confirmed_->source.file));
                       done({});
                     }});
}

Result<void> DataPlane::go_back_now() {
  if (auto back = swap_->apply(confirmed_); !back) return Error(cannot_go_back(back.error()));
  confirmed_ = swap_->current();
  output_.problem(
      fmt::format("policy {} is in force again: its successor was not confirmed", confirmed_->source.file));
  return {};
}

void DataPlane::go_back_after(std::chrono::seconds time) {
  confirm_timer_.expires_after(time);
  confirm_timer_.async_wait([this](const error_code& error) {
    if (error || shutting_down_) return;
    go_back([this](const Result<void>& back) {
      if (back || shutting_down_) return;
      output_.problem(fmt::format("{}; it is tried again in {} s", back.error(), kRenewRetry.count()));
      go_back_after(kRenewRetry);
    });
  });
}

Result<void> DataPlane::set_state(u32 state, bool bypassed_too) {
  const auto answer =
      broker_.call(Message::make(MessageType::set_state, state, bypassed_too ? 1 : 0), kStateTimeout);
  if (!answer) return Error(answer.error());
  if (answer->message.type != MessageType::done) return Error(answer->message.text);
  return {};
}

// ---- the end ----------------------------------------------------------------------------------------

void DataPlane::cease() {
  housekeeping_.cancel();
  live_timer_.cancel();
  confirm_timer_.cancel();
  renew_timer_.cancel();
  broker_timer_.cancel();
  health_.watch({});
  maps_->end();
  changes_->end();
  error_code ignored;
  broker_events_.close(ignored);
  link_events_.close(ignored);
}

void DataPlane::end_for_another(const std::string& ifname) {
  if (std::exchange(shutting_down_, true)) return;
  cease();
  output_.problem(fmt::format(
      "the pair by which packets pass to the stack of {} was deleted, or moved to another network namespace, "
      "by somebody: this data plane ends, and the next one has another pair",
      ifname));
  if (!set_state(XG_STATE_DRAINING, false)) engine_->fall_silent();
  wait_for_grace_period();
  (void)engine_->drain(kDrainMs / 10);  // what is to pass to the stack has nowhere to go
  (void)engine_->stop();                // and is counted as lost
  status_ = kPairGone;
  context_.stop();
}

void DataPlane::shut_down(const Reply& reply, bool keep) {
  if (std::exchange(shutting_down_, true)) {
    if (reply) reply(Response::failure("it is being detached already"));
    return;
  }
  cease();

  // Nobody is left to take it back.
  if (keep && confirmed_ != swap_->current())
    if (auto back = go_back_now(); !back) output_.problem(back.error());
  if (!broker_gone_) (void)setup_.broker.send(Message::make(MessageType::ending, keep ? 1 : 0, 0, why_));
  // Without the broker it is the missing heartbeat that has on_failure decide.
  if (!set_state(XG_STATE_DRAINING, false)) engine_->fall_silent();
  wait_for_grace_period();
  if (interface_gone_) {
    (void)engine_->drain(kDrainMs / 10);  // what it was to send has nowhere to go, and is counted as lost
  } else if (auto drained = engine_->drain(kDrainMs); !drained) {
    output_.problem(drained.error());
    status_ = 1;
  }
  const auto frames = engine_->stop();
  const bool conserved = frames.conserved() && frames.free == frames.total;
  if (!conserved) {
    output_.problem(fmt::format("{} of {} frames did not come home; please report this",
                                frames.total - frames.free, frames.total));
    status_ = 1;
  }
  if (log_) log_->stop();
  // The programs are off when the broker answers, so that the counters are final.
  const auto gone = broker_.call(Message::make(MessageType::stopped, conserved ? 1 : 0, keep ? 1 : 0));
  if (!gone) broker_is_gone();
  wait_for_grace_period();

  auto account = make_report();
  if (!account) {
    output_.problem(account.error());
    status_ = 1;
  } else {
    const auto sum = totals(ports_, *engine_);
    // A program that stays goes on counting.
    const auto later = keep && sum ? totals(ports_, *engine_) : sum;
    const bool balanced = sum && later && sum->balanced(*later);
    if (!balanced) {
      output_.problem(fmt::format("{} packets came in and {} are accounted for; please report this",
                                  sum ? sum->in : 0, sum ? sum->in - sum->in_flight() : 0));
      status_ = 1;
    }
    account->event = "end";
    account->frames_conserved = conserved;
    account->packets_balanced = balanced;
    if (keep) account->kept = gone && gone->message.a == 1;
    if (status_ != 0 && !why_.empty()) account->error = Problem{.message = why_};
    Json json = as_json(*account);
    if (setup_.json)
      output_.json(json);
    else
      output_.text(account_text(*account));
    if (reply)
      reply(gone ? Response::success(std::move(json))
                 : Response::failure("the privileged half of the process is gone; run the command again"));
  }
  // Lets the answer leave; a client that does not take it is not waited for long.
  server_.reset();
  auto last = std::make_shared<asio::steady_timer>(context_, std::chrono::milliseconds(reply ? 300 : 0));
  last->async_wait([this, last](const error_code&) { context_.stop(); });
}

int run_data_plane(DataPlaneSetup setup) {
  prctl(PR_SET_NAME, "xdpgpu-data");
  DataPlane plane(std::move(setup));
  return plane.run();
}

}  // namespace xdpgpu::control
