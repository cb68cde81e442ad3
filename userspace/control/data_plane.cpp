// SPDX-License-Identifier: MIT
#include "userspace/control/data_plane.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <net/if.h>
#include <signal.h>
#include <sys/prctl.h>
#include <syslog.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <set>
#include <utility>

#include "gpu/faults.hpp"
#include "gpu/gpu.hpp"
#include "gpu/standby.hpp"
#include "userspace/control/alarms.hpp"
#include "userspace/control/client.hpp"
#include "userspace/control/flows.hpp"
#include "userspace/control/grace_period.hpp"
#include "userspace/control/health.hpp"
#include "userspace/control/link_watch.hpp"
#include "userspace/control/policy_swap.hpp"
#include "userspace/control/privileges.hpp"
#include "userspace/control/report.hpp"
#include "userspace/control/seccomp.hpp"
#include "userspace/control/server.hpp"
#include "userspace/control/summary.hpp"
#include "userspace/host/doctor.hpp"
#include "userspace/kernel/xdp_link.hpp"
#include "userspace/policy/load_balance.hpp"

namespace xdpgpu::control {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

constexpr u32 kDrainMs = 2000;
constexpr std::chrono::milliseconds kHousekeeping{100};
constexpr std::chrono::seconds kGoneTimeout{20};
// Backends that change within it make one new generation.
constexpr std::chrono::milliseconds kHealthTogether{20};
constexpr std::chrono::seconds kRenewRetry{5};
// The longest batch that a GPU works on takes some milliseconds; software may be given no core for a while.
// Below what the worker waits for (userspace/dataplane/retirer.cpp).
constexpr u64 kPatience = 1'000'000'000, kSoftwarePatience = 4'000'000'000;
constexpr int kInterfaceTicks = 10;  // looked for every so many rounds of housekeeping
constexpr int kAlarmTicks = 2;       // likewise

// Where sentences go: to the terminal, or, in the background, to the system log. Any thread may tell a
// problem.
class Output {
 public:
  explicit Output(bool terminal_line)
      : live_(terminal_line),
        tty_(isatty(STDOUT_FILENO) == 1),
        null_(open("/dev/null", O_RDWR | O_CLOEXEC)) {}

  void text(const std::string& text) {
    end_line();
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }
  void json(const Json& json) { text(json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"); }
  void problem(const std::string& sentence) {
    if (background_) return syslog(LOG_WARNING, "%s", sentence.c_str());
    end_line();
    std::fprintf(stderr, "xdpgpu: %s\n", sentence.c_str());
  }
  // One line that replaces the last one where there is a terminal; elsewhere, only what is news.
  void live(const std::string& line, bool news) {
    if (!live_ || (!tty_ && !news)) return;
    std::printf(tty_ ? "\r\033[K%s" : "%s\n", line.c_str());
    std::fflush(stdout);
    open_line_ = tty_;
  }
  void to_background() {
    openlog("xdpgpu", LOG_PID, LOG_DAEMON);
    background_ = true;
    live_ = false;
    if (null_)
      for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null_.get(), fd);
  }

 private:
  void end_line() {
    if (open_line_.exchange(false)) std::fputs("\n", stdout);
  }
  bool live_;
  bool tty_;
  kernel::Fd null_;  // opened while it may be
  std::atomic<bool> open_line_ = false;
  std::atomic<bool> background_ = false;
};

// Everything of the data plane that is there while traffic flows.
class DataPlane {
 public:
  explicit DataPlane(DataPlaneSetup setup)
      : setup_(std::move(setup)),
        output_(setup_.live && !setup_.json && !setup_.daemon),
        broker_events_(context_),
        link_events_(context_),
        housekeeping_(context_),
        live_timer_(context_),
        confirm_timer_(context_),
        renew_timer_(context_),
        health_(context_, [this](const std::string& news) {
          output_.problem(news);
          renew_policy(kHealthTogether);
        }) {}

  int run() {
    if (auto started = start(); !started) {
      output_.problem(started.error());
      return 1;
    }
    watch_broker();
    watch_links();
    keep_house();
    print_live();
    context_.run();
    return status_;
  }

 private:
  Result<void> start();
  Result<void> open_ports();
  Result<std::unique_ptr<gpu::Device>> open_device(const std::string& name);
  Result<void> open_devices();
  // Filters what this process may ask of the kernel from here on, or records it.
  Result<void> restrict();
  void announce();
  Json goes_on() const;
  void watch_broker();
  void keep_house();
  void print_live();
  void watch_links();
  // Ends the attach for an interface that is not there any more.
  void end_without(const std::string& ifname);
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
  // Tells what `ddos` stages have detected, and what is over.
  void watch_alarms();
  // Says so, once; without the broker nothing can be undone from here.
  void broker_is_gone();

  // Of the ports that are not bypassed: an operator's bypass outlives the process that was told of it.
  void set_state(u32 state) {
    for (auto& port : ports_)
      if (port.state() != XG_STATE_BYPASS) port.set_state(state);
  }
  // Ends everything in order; `reply` is the client's that asked for it, if one did.
  // keep: what the kernel decides by stays, for a later attach to go on with.
  void shut_down(const Server::Reply& reply, bool keep = false);

  void handle(Request request, const Server::Reply& reply);
  Response status() const;
  Response apply(Request request);
  Response confirm();
  Response show() const;
  Response list(const Json& arguments) const;
  Response flush();
  Response bypass(const Json& arguments);

  // Puts a policy in force with those of its backends down that are, and checks its backends from then on.
  // renewed: it is the one in force.
  Result<void> put_in_force(std::shared_ptr<const CompiledPolicy> policy, bool renewed = false);
  // Puts the policy in force again after so long, as its backends are then; until that works.
  void renew_policy(std::chrono::milliseconds after);
  // Puts the policy in force that was before the one that nobody confirmed.
  Result<void> go_back();
  // In so long, until that works; unless the new one is confirmed before.
  void go_back_after(std::chrono::seconds time);

  Result<Json> make_report() const {
    auto made = report(
        {ports_, *engine_, *swap_, xdp_modes_, std::chrono::duration<double>(Clock::now() - since_).count()});
    if (!made) return made;
    if (Json alarms = alarms_.report(); !alarms.is_null()) (*made)["alarms"] = std::move(alarms);
    if (Json health = health_.report(swap_->current()->policy); !health.empty())
      (*made)["health"] = std::move(health);
    return made;
  }

  DataPlaneSetup setup_;
  Output output_;
  Drivers drivers_;
  std::unique_ptr<SystemCallRecorder> recorder_;
  std::vector<PortControl> ports_;
  std::vector<std::string> xdp_modes_;
  std::unique_ptr<dataplane::Engine> engine_;
  std::unique_ptr<PolicySwap> swap_;
  Clock::time_point since_ = Clock::now();

  asio::io_context context_;
  asio::posix::stream_descriptor broker_events_;
  asio::posix::stream_descriptor link_events_;
  asio::steady_timer housekeeping_;
  asio::steady_timer live_timer_;
  asio::steady_timer confirm_timer_;
  asio::steady_timer renew_timer_;
  HealthChecks health_;
  Alarms alarms_;
  std::unique_ptr<Server> server_;
  std::shared_ptr<const CompiledPolicy> confirmed_;  // what comes back unless the new policy is confirmed
  std::optional<Totals> last_totals_;
  Clock::time_point last_time_;
  int ticks_ = 0;
  std::vector<u32> mtus_;       // by port, as last seen
  std::vector<u32> queues_;     // by port, as last seen; 0: not yet
  std::set<std::string> told_;  // what is said once
  LinkWatch links_;
  bool broker_gone_ = false;
  bool shutting_down_ = false;
  int status_ = 0;
};

// ---- start ------------------------------------------------------------------------------------------

Result<void> DataPlane::open_ports() {
  for (std::size_t i = 0; i < setup_.port_maps.size(); i++) {
    const auto& planned = setup_.plan.ports[i];
    auto port = PortControl::open(planned.facts.name, planned.queues, setup_.flow_entries_per_queue,
                                  std::move(setup_.port_maps[i]));
    if (!port) return Error(port.error());
    ports_.push_back(std::move(*port));
    xdp_modes_.emplace_back(setup_.specs[i].xdp_mode == kernel::XdpMode::native ? "native" : "generic");
  }
  return {};
}

// With its standby, and the fault that it is to have.
Result<std::unique_ptr<gpu::Device>> DataPlane::open_device(const std::string& name) {
  auto device = gpu::open_device(name);
  if (!device) return device;
  const gpu::Kind kind = (*device)->info().kind;
  drivers_.cuda |= kind == gpu::Kind::cuda;
  drivers_.vulkan |= kind == gpu::Kind::vulkan;
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
    options.reopen = [name = (*device)->info().name] { return gpu::open_device(name); };
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

Result<void> DataPlane::start() {
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
  if (auto dropped = drop_all_privileges(); !dropped) return dropped;

  if (auto opened = open_devices(); !opened) return opened;
  if (auto restricted = restrict(); !restricted) return restricted;
  for (auto& link : setup_.links)
    if (!kernel::look_at_link(link.get())) link = kernel::Fd();  // a kernel that does not tell
  swap_ = std::make_unique<PolicySwap>(setup_.broker, ports_, *engine_, setup_.in_force);
  if (auto applied = put_in_force(setup_.plan.policy); !applied) return applied;
  confirmed_ = swap_->current();
  if (auto started = engine_->start(); !started) return started;
  set_state(XG_STATE_RUNNING);
  for (std::size_t i = 0; i < ports_.size(); i++)
    if (const auto& name = setup_.plan.ports[i].facts.name; ports_[i].state() == XG_STATE_BYPASS)
      output_.problem(
          fmt::format("bypass is still on, as it was before: every packet of {} passes; end it with \"xdpgpu "
                      "bypass off {}\"",
                      name, name));

  server_ = std::make_unique<Server>(
      context_, std::move(setup_.listener),
      [this](Request request, const Server::Reply& reply) { handle(std::move(request), reply); },
      Server::Admission{.group = setup_.plan.control_group, .excluded = geteuid()});
  announce();
  return setup_.broker.send(Message::make(MessageType::ready));
}

// What has become of what a dead attach left.
Json DataPlane::goes_on() const {
  u64 lost = 0;
  for (const auto& queue : engine_->status().queues) lost += queue.counters.lost_with_worker;
  return {{"generation_before", XG_ACTIVE_GENERATION(setup_.in_force->active)},
          {"same_policy", swap_->generation() == XG_ACTIVE_GENERATION(setup_.in_force->active)},
          {"lost_with_workers", lost}};
}

void DataPlane::announce() {
  for (const auto& warning : setup_.plan.warnings) output_.problem(warning);
  auto made = make_report();
  if (!made) return output_.problem(made.error());
  if (setup_.in_force) (*made)["goes_on"] = goes_on();
  if (setup_.json) {
    (*made)["event"] = "ready";
    output_.json(*made);
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
    const auto received = setup_.broker.receive(std::chrono::milliseconds(0));
    if (!received) broker_is_gone();
    if (!received || received->message.type == MessageType::stop) return shut_down({});
    watch_broker();
  });
}

void DataPlane::keep_house() {
  housekeeping_.expires_after(kHousekeeping);
  housekeeping_.async_wait([this](const error_code& error) {
    if (error || shutting_down_) return;
    for (const auto& event : engine_->poll()) output_.problem(event);
    if (engine_->wants_policy_again()) renew_policy(std::chrono::milliseconds(0));
    if (setup_.broker.take_pending_stop()) return shut_down({});
    if (++ticks_ % kAlarmTicks == 0) watch_alarms();
    if (ticks_ % kInterfaceTicks == 0) {
      if (!check_interfaces() || !check_programs()) return;
      watch_mtus();
      watch_queues();
    }
    keep_house();
  });
}

void DataPlane::watch_links() {
  if (!link_events_.is_open()) link_events_.assign(dup(links_.fd()));
  link_events_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const error_code& error) {
    if (error || shutting_down_) return;
    const auto gone = links_.gone();
    for (const auto& port : setup_.plan.ports)
      if (std::find(gone.begin(), gone.end(), port.facts.ifindex) != gone.end())
        return end_without(port.facts.name);
    if (check_interfaces()) watch_links();
  });
}

// Its sockets are unbound for good, also if it comes back.
void DataPlane::end_without(const std::string& ifname) {
  output_.problem(fmt::format(
      "{} is gone: it was deleted or moved to another network namespace, so this attach ends; attach "
      "again where the interface is",
      ifname));
  status_ = 1;
  shut_down({});
}

bool DataPlane::check_interfaces() {
  for (u32 i = 0; i < ports_.size(); i++) {
    const auto& facts = setup_.plan.ports[i].facts;
    char now[IF_NAMESIZE] = {};
    errno = 0;
    if (if_indextoname(facts.ifindex, now)) {
      if (facts.name != now) rename(i, now);
    } else if (errno == ENXIO) {
      end_without(facts.name);
      return false;
    }  // else it cannot be told
  }
  return true;
}

bool DataPlane::check_programs() {
  for (std::size_t i = 0; i < setup_.links.size(); i++) {
    const int link = setup_.links[i].get();
    if (link < 0 || kernel::look_at_link(link)) continue;
    if (!check_interfaces()) return false;  // it went with its interface
    output_.problem(
        fmt::format("the XDP program of {} was taken off by somebody else, so that no packet comes here any "
                    "more and this attach ends; attach again",
                    setup_.plan.ports[i].facts.name));
    status_ = 1;
    shut_down({});
    return false;
  }
  return true;
}

void DataPlane::rename(u32 port, const std::string& now) {
  std::string& name = setup_.plan.ports[port].facts.name;
  const auto answer = setup_.broker.call(Message::make(MessageType::renamed, port), kGoneTimeout);
  if (!answer) return;  // whoever watches the broker says so
  if (answer->message.type == MessageType::done) {
    const std::string is = answer->message.text;
    output_.problem(fmt::format(
        "{} was renamed: it is {} from now on, for every command, in policies and in the path of its pins",
        name, is));
    name = is;
    ports_[port].rename(is);
    return;
  }
  auto problem =
      fmt::format("{} was renamed to {}, and goes on under its old name for status, detach and pins: {}",
                  name, now, answer->message.text);
  if (told_.insert(problem).second) output_.problem(problem);
}

void DataPlane::watch_queues() {
  queues_.resize(setup_.plan.ports.size());
  for (std::size_t i = 0; i < queues_.size(); i++) {
    const auto& planned = setup_.plan.ports[i];
    const auto& name = planned.facts.name;
    const u32 before = queues_[i] ? queues_[i] : planned.facts.rx_queues;
    queues_[i] = host::receive_queues(name).value_or(before);
    if (queues_[i] == before) continue;
    // A veth gives its program to the queues that it has when that is attached.
    if (queues_[i] > planned.queues)
      output_.problem(fmt::format(
          "{} has {} receive queues now, and {} of them a worker: what comes in on the others and is to be "
          "inspected goes by on_failure{}; ethtool -L {} to {}, or attach again",
          name, queues_[i], planned.queues,
          planned.facts.driver == "veth" ? ", or past the XDP program, which a veth may not run on them" : "",
          name, planned.queues));
    else
      output_.problem(fmt::format("{} has {} receive queues now, each with a worker", name, queues_[i]));
  }
}

void DataPlane::watch_mtus() {
  mtus_.resize(setup_.plan.ports.size());
  for (std::size_t i = 0; i < mtus_.size(); i++) {
    const auto& facts = setup_.plan.ports[i].facts;
    const u32 mtu = host::interface_mtu(facts.name).value_or(0);
    const u32 buffers = host::packet_buffers(facts.mtu);
    if (std::exchange(mtus_[i], mtu) == mtu || host::packet_buffers(mtu) <= buffers) continue;
    const u32 most = buffers * XG_FRAME_MAX;
    output_.problem(
        fmt::format("the MTU of {} was raised to {}: frames of more than {} bytes fit no {}, and "
                    "those that are to be inspected are lost; ip link set {} mtu {} or less, or attach again",
                    facts.name, mtu, most,
                    buffers == 1 ? fmt::format("{}-byte chunk", XG_CHUNK_SIZE)
                                 : fmt::format("{} chunks, for which this attach is laid out", buffers),
                    facts.name, most - host::kFrameOverhead));
  }
  for (const auto& [to, outer] : policy::outer_mtus(swap_->current()->policy))
    for (std::size_t i = 0; i < mtus_.size(); i++) {
      const auto& name = setup_.plan.ports[i].facts.name;
      if ((!to.empty() && to != name) || mtus_[i] == 0 || mtus_[i] >= outer) continue;
      auto problem = fmt::format(
          "the MTU of {} is {}, and the policy sends packets of up to {} bytes out of it, outer headers "
          "included: those that are longer are lost; ip link set {} mtu {}, or give \"encapsulation\" "
          "\"mtu\": {}",
          name, mtus_[i], outer, name, outer, mtus_[i]);
      if (told_.insert(problem).second) output_.problem(problem);
    }
}

void DataPlane::watch_alarms() {
  const auto events = engine_->alarms(alarms_.watch());
  if (!events) return;  // of a device that has failed, which is said elsewhere
  alarms_.add(*events);
  for (const auto& event : *events) {
    if (setup_.json && !setup_.daemon)
      output_.json(alarm_json(event));
    else
      output_.problem(alarm_sentence(event));
  }
}

void DataPlane::broker_is_gone() {
  status_ = 1;
  if (std::exchange(broker_gone_, true)) return;
  const auto names = setup_.plan.interfaces();
  std::vector<std::string> cures;
  cures.reserve(names.size());
  for (const auto& name : names) cures.push_back("xdpgpu detach " + name);
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

Result<void> DataPlane::put_in_force(std::shared_ptr<const CompiledPolicy> policy, bool renewed) {
  if (const auto down = health_.down(policy->policy); down != policy->down) {
    auto compiled = compile_with_down(*policy, down);
    if (!compiled) return Error(compiled.error().sentence);
    policy = std::make_shared<const CompiledPolicy>(std::move(*compiled));
  }
  if (auto applied = swap_->apply(std::move(policy), renewed); !applied) return applied;
  health_.watch(swap_->current()->policy);
  return {};
}

// Puts the policy in force again, under a new generation: for backends that came or went, for a standby.
void DataPlane::renew_policy(std::chrono::milliseconds after) {
  renew_timer_.expires_after(after);
  renew_timer_.async_wait([this](const error_code& error) {
    if (error || shutting_down_) return;
    const bool was_confirmed = confirmed_ == swap_->current();
    if (auto applied = put_in_force(swap_->current(), true); !applied) {
      output_.problem(fmt::format(
          "the policy could not be put in force again, and flows go as they went before: {}; it is "
          "tried again in {} s",
          applied.error(), kRenewRetry.count()));
      return renew_policy(kRenewRetry);
    }
    if (was_confirmed) confirmed_ = swap_->current();
  });
}

Result<void> DataPlane::go_back() {
  if (auto back = put_in_force(confirmed_); !back)
    return Error(fmt::format("cannot go back to policy {}, whose successor was not confirmed: {}",
                             confirmed_->source.file, back.error()));
  confirmed_ = swap_->current();
  output_.problem(
      fmt::format("policy {} is in force again: its successor was not confirmed", confirmed_->source.file));
  return {};
}

void DataPlane::go_back_after(std::chrono::seconds time) {
  confirm_timer_.expires_after(time);
  confirm_timer_.async_wait([this](const error_code& error) {
    if (error || shutting_down_) return;
    if (auto back = go_back(); !back) {
      output_.problem(fmt::format("{}; it is tried again in {} s", back.error(), kRenewRetry.count()));
      go_back_after(kRenewRetry);
    }
  });
}

// ---- the end ----------------------------------------------------------------------------------------

void DataPlane::shut_down(const Server::Reply& reply, bool keep) {
  if (std::exchange(shutting_down_, true)) {
    if (reply) reply(Response::failure("it is being detached already"));
    return;
  }
  housekeeping_.cancel();
  live_timer_.cancel();
  confirm_timer_.cancel();
  renew_timer_.cancel();
  health_.watch({});
  error_code ignored;
  broker_events_.close(ignored);
  link_events_.close(ignored);

  // Nobody is left to take it back.
  if (keep && confirmed_ != swap_->current())
    if (auto back = go_back(); !back) output_.problem(back.error());
  set_state(XG_STATE_DRAINING);
  wait_for_grace_period();
  if (auto drained = engine_->drain(kDrainMs); !drained) {
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
  // The programs are off when the broker answers, so that the counters are final.
  const auto gone =
      setup_.broker.call(Message::make(MessageType::stopped, conserved ? 1 : 0, keep ? 1 : 0), kGoneTimeout);
  if (!gone) broker_is_gone();
  wait_for_grace_period();

  auto account = make_report();
  if (!account) {
    output_.problem(account.error());
    status_ = 1;
  } else {
    const auto sum = totals(ports_, *engine_);
    const bool balanced = sum && sum->balanced();
    if (!balanced) {
      output_.problem(fmt::format("{} packets came in and {} are accounted for; please report this",
                                  sum ? sum->in : 0, sum ? sum->in - sum->in_flight() : 0));
      status_ = 1;
    }
    (*account)["event"] = "end";
    (*account)["frames_conserved"] = conserved;
    (*account)["packets_balanced"] = balanced;
    if (keep) (*account)["kept"] = gone && gone->message.a == 1;
    if (setup_.json)
      output_.json(*account);
    else
      output_.text(account_text(*account));
    if (reply)
      reply(gone ? Response::success(*account)
                 : Response::failure("the privileged half of the process is gone; run the command again"));
  }
  // Lets the answer leave; a client that does not take it is not waited for long.
  server_.reset();
  auto last = std::make_shared<asio::steady_timer>(context_, std::chrono::milliseconds(reply ? 300 : 0));
  last->async_wait([this, last](const error_code&) { context_.stop(); });
}

// ---- requests ---------------------------------------------------------------------------------------

void DataPlane::handle(Request request, const Server::Reply& reply) {
  const auto& name = request.name;
  if (const auto names = setup_.plan.interfaces();
      !request.ifname.empty() && std::find(names.begin(), names.end(), request.ifname) == names.end())
    return reply(Response::failure(fmt::format(
        "the process that was asked attached {} and not {}; run the command again, and where that "
        "does not help remove {}, which leads to it",
        fmt::join(names, ", "), request.ifname, socket_path(request.ifname))));
  if (shutting_down_) return reply(Response::failure("it is being detached"));
  if (name == request::kDetach) return shut_down(reply, request.arguments.value("keep", false));
  if (name == request::kStatus) return reply(status());
  if (name == request::kPolicyApply) return reply(apply(std::move(request)));
  if (name == request::kPolicyConfirm) return reply(confirm());
  if (name == request::kPolicyShow) return reply(show());
  if (name == request::kFlowsList) return reply(list(request.arguments));
  if (name == request::kFlowsFlush) return reply(flush());
  if (name == request::kBypass) return reply(bypass(request.arguments));
  reply(Response::failure(
      fmt::format("there is no request \"{}\"; is the command newer than the process?", name)));
}

Response DataPlane::status() const {
  auto made = make_report();
  return made ? Response::success(std::move(*made)) : Response::failure(made.error());
}

Response DataPlane::apply(Request request) {
  const Json& arguments = request.arguments;
  const auto text = arguments.find("text");
  const auto file = arguments.find("file");
  if (text == arguments.end() || !text->is_string() || file == arguments.end() || !file->is_string())
    return Response::failure("policy.apply needs \"text\" and \"file\"");
  PolicySource source{file->get<std::string>(), text->get<std::string>(), std::move(request.files)};
  u64 confirm_s = 0;
  if (const auto wanted = arguments.find("confirm_s"); wanted != arguments.end()) {
    if (!wanted->is_number_unsigned() || wanted->get<u64>() == 0 || wanted->get<u64>() > kMaxConfirmSeconds)
      return Response::failure(
          fmt::format("confirm_s is not a number of seconds from 1 to {}", kMaxConfirmSeconds));
    confirm_s = wanted->get<u64>();
  }
  bool audit = false;
  if (const auto wanted = arguments.find("audit"); wanted != arguments.end()) {
    if (!wanted->is_boolean()) return Response::failure("\"audit\" is not true or false");
    audit = wanted->get<bool>();
  }
  auto compiled = compile_policy(std::move(source), setup_.plan.interfaces());
  if (!compiled) return Response::failure(compiled.error().sentence, compiled.error().diagnostics);
  compiled->set_audit(audit);
  if (auto applied = put_in_force(std::make_shared<const CompiledPolicy>(std::move(*compiled))); !applied)
    return Response::failure("the policy was not applied, nothing has changed: " + applied.error());

  confirm_timer_.cancel();
  if (confirm_s == 0) {
    confirmed_ = swap_->current();
  } else {
    go_back_after(std::chrono::seconds(confirm_s));
  }
  Json result = {{"generation", swap_->generation()},
                 {"hash", fmt::format("{:016x}", swap_->current()->policy.hash)},
                 {"rules", swap_->current()->policy.rules.size()},
                 {"audit", audit}};
  if (confirm_s) result["confirm_within_s"] = confirm_s;
  return Response::success(std::move(result));
}

Response DataPlane::confirm() {
  if (confirmed_ == swap_->current())
    return Response::failure(
        "there is no policy to confirm: it is in force for good, or was taken back; apply it "
        "again with \"xdpgpu policy apply IF FILE --confirm TIME\"");
  confirm_timer_.cancel();
  confirmed_ = swap_->current();
  return Response::success({{"generation", swap_->generation()}});
}

Response DataPlane::show() const {
  const auto& current = *swap_->current();
  Json files = Json::object();
  for (const auto& [path, content] : current.source.files) files[path] = content.size();
  return Response::success({{"file", current.source.file},
                            {"text", current.source.text},
                            {"files", std::move(files)},
                            {"generation", swap_->generation()},
                            {"hash", fmt::format("{:016x}", current.policy.hash)}});
}

Response DataPlane::list(const Json& arguments) const {
  FlowQuery query;
  if (const auto name = arguments.find("interface"); name != arguments.end() && name->is_string())
    query.interface = name->get<std::string>();
  if (const auto limit = arguments.find("limit"); limit != arguments.end()) {
    if (!limit->is_number_unsigned()) return Response::failure("\"limit\" is not a number");
    query.limit = limit->get<u64>();
  }
  return Response::success(list_flows(ports_, *swap_->current(), query));
}

Response DataPlane::flush() {
  const auto was_confirmed = confirmed_ == swap_->current();
  if (auto renewed = swap_->renew(); !renewed) return Response::failure(renewed.error());
  if (was_confirmed) confirmed_ = swap_->current();
  return Response::success({{"generation", swap_->generation()}});
}

Response DataPlane::bypass(const Json& arguments) {
  const auto on = arguments.find("on");
  if (on == arguments.end() || !on->is_boolean())
    return Response::failure("bypass needs \"on\": true or false");
  for (auto& port : ports_) port.set_state(on->get<bool>() ? XG_STATE_BYPASS : XG_STATE_RUNNING);
  return Response::success({{"bypass", on->get<bool>()}});
}

}  // namespace

int run_data_plane(DataPlaneSetup setup) {
  prctl(PR_SET_NAME, "xdpgpu-data");
  // Signals are the broker's: it says when to stop, so that everything ends in order.
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) signal(number, SIG_IGN);
  DataPlane plane(std::move(setup));
  return plane.run();
}

}  // namespace xdpgpu::control
