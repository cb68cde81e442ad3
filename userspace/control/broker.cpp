// SPDX-License-Identifier: MIT
#include "userspace/control/broker.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <net/if.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "userspace/control/broker_port.hpp"
#include "userspace/control/busy_poll.hpp"
#include "userspace/control/client.hpp"
#include "userspace/control/data_plane.hpp"
#include "userspace/control/forked.hpp"
#include "userspace/control/last_end.hpp"
#include "userspace/control/leftovers.hpp"
#include "userspace/control/output_relay.hpp"
#include "userspace/control/server.hpp"
#include "userspace/control/settle.hpp"
#include "userspace/control/signals.hpp"
#include "userspace/kernel/access.hpp"
#include "userspace/kernel/names.hpp"
#include "userspace/kernel/netlink.hpp"
#include "userspace/kernel/xdp_link.hpp"

namespace xdpgpu::control {
namespace {

// Where memory is short the kernel is to take the data plane before the broker, which starts it again.
constexpr int kWorseThanTheBroker = 200;
// How soon a new default gateway, its new MAC address, or a port's, is known to the XDP programs.
constexpr std::chrono::milliseconds kHouseTurn{1000};

void say(const std::string& sentence) { std::fprintf(stderr, "xdpgpu: %s\n", sentence.c_str()); }

std::optional<kernel::XdpMode> required_mode(host::IoMode mode) {
  switch (mode) {
    case host::IoMode::automatic:
      return std::nullopt;
    case host::IoMode::generic:
      return kernel::XdpMode::generic;
    case host::IoMode::zero_copy:
    case host::IoMode::copy:
      break;
  }
  return kernel::XdpMode::native;
}

sigset_t handled_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCHLD})
    sigaddset(&set, number);
  return set;
}

}  // namespace

Broker::Broker(Plan plan, const AttachOptions& options)
    : plan_(std::move(plan)),
      options_(options),
      compiler_(
          plan_.seccomp == SeccompMode::filter, [this] { controls_.clear(); }, say),
      translator_(
          plan_.seccomp == SeccompMode::filter, [this] { controls_.clear(); }, say,
          CompilerProcess::Makes::translations),
      logs_(plan_.policy->policy.log.outputs, options_.policy_file) {}
Broker::~Broker() { end(); }

Result<std::unique_ptr<Broker>> Broker::make(Plan plan, const AttachOptions& options) {
  std::unique_ptr<Broker> broker(new Broker(std::move(plan), options));
  const sigset_t set = handled_signals();
  sigprocmask(SIG_BLOCK, &set, nullptr);
  broker->signals_ = kernel::Fd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!broker->signals_) return Error(fmt::format("cannot watch signals: {}", std::strerror(errno)));
  if (auto made = broker->make_sockets(); !made) return Error(made.error());
  auto news = LinkWatch::open(true);
  if (!news) return Error(news.error());
  broker->news_ = std::move(*news);
  for (u32 i = 0; i < broker->plan_.ports.size(); i++)
    if (auto made = broker->make_port(i); !made) return Error(made.error());
  if (auto opened = broker->open_controls(); !opened) return Error(opened.error());
  (void)broker->look_at_macs();
  return broker;
}

// The socket comes first: binding it is what keeps a second attach out. Other interfaces' names are
// symbolic links to the first one's socket.
Result<void> Broker::make_sockets() {
  const auto lock = RunLock::take();
  if (!lock) return Error(lock.error());
  settle_names(*lock);
  remove_gone_namespaces();
  remains_ = find_remains();
  const Keep keep = remains_.empty() ? Keep::nothing : Keep::what_decides;
  for (const auto& name : plan_.interfaces())
    if (auto removed = remove_leftovers(name, *lock, keep); !removed) return Error(removed.error());
  const auto names = plan_.interfaces();
  plan_.last_end = last_end(names.front());
  for (const auto& name : names) forget_last_end(name);
  const std::string first = kernel::names::socket(names.front());
  auto listener = listen_at(first, plan_.control_group);
  if (!listener) return Error(listener.error());
  listener_ = std::move(*listener);
  socket_files_.push_back(first);
  for (std::size_t i = 1; i < names.size(); i++) {
    const std::string path = kernel::names::socket(names[i]);
    if (symlink((names.front() + ".sock").c_str(), path.c_str()) != 0)
      return Error(fmt::format("cannot make {}: {}", path, std::strerror(errno)));
    socket_files_.push_back(path);
  }
  return {};
}

kernel::PortOptions Broker::options_of(u32 index) const {
  const PlannedPort& planned = plan_.ports[index];
  kernel::PortOptions port_options;
  port_options.ifname = planned.facts.name;
  port_options.ifindex = planned.facts.ifindex;
  port_options.port_index = index;
  port_options.queues = planned.queues;
  port_options.flow_entries_per_queue = options_.flow_entries_per_queue;
  port_options.multi_buffer = host::packet_buffers(planned.facts.mtu) > 1;
  port_options.mirror_slots = plan_.policy->policy.io.mirror_slots;
  port_options.mirror_bytes = plan_.policy->policy.io.mirror_bytes;
  port_options.beat_timeout_ns = plan_.policy->policy.io.heartbeat_ns;
  port_options.tx_by_redirect = planned.facts.driver == "veth";
  port_options.replace = options_.replace;
  // The answer to what came in by one port may come in by another.
  if (!ports_.empty()) port_options.management_flows = ports_.front()->maps.management_flows.get();
  return port_options;
}

std::vector<kernel::Remains> Broker::find_remains() {
  std::vector<u32> ifindexes;
  for (const auto& planned : plan_.ports) ifindexes.push_back(planned.facts.ifindex);
  const auto required = required_mode(plan_.mode);
  std::vector<kernel::Remains> all;
  const auto start_anew = [&](const std::string& name, const std::string& why) {
    plan_.warnings.push_back(fmt::format(
        "{} starts anew, with no flow verdicts: what the process left that attached it before cannot be gone "
        "on with, as {}",
        name, why));
    return std::vector<kernel::Remains>{};
  };
  for (u32 i = 0; i < plan_.ports.size(); i++) {
    const auto& name = plan_.ports[i].facts.name;
    if (find_process(name) == Presence::running) return {};
    auto remains = kernel::find_remains(options_of(i), ifindexes);
    if (!remains) return start_anew(name, remains.error());
    if (!*remains && all.empty()) continue;
    if (!*remains || all.size() < i) return start_anew(name, "not all the interfaces have something of it");
    if (required && *required != (*remains)->mode)
      return start_anew(name, "it runs the other one of native and generic XDP");
    if (i > 0 && (XG_ACTIVE_GENERATION((*remains)->active) != XG_ACTIVE_GENERATION(all.front().active) ||
                  (*remains)->policy_hash != all.front().policy_hash))
      return start_anew(name, "its interfaces are not under one policy");
    all.push_back(std::move(**remains));
  }
  if (!all.empty()) in_force_ = InForce{all.front().active, all.front().policy_hash};
  return all;
}

Result<void> Broker::make_port(u32 index) {
  const PlannedPort& planned = plan_.ports[index];
  const auto& name = planned.facts.name;
  // Undone with the broker, whatever fails below.
  Port& port = *ports_.emplace_back(std::make_unique<Port>());
  auto program = remains_.empty()
                     ? kernel::PortProgram::load(options_of(index))
                     : kernel::PortProgram::load_over(options_of(index), std::move(remains_[index]));
  if (!program) return Error(program.error());
  port.program = std::move(*program);
  auto maps = port.program->maps();
  if (!maps) return Error(maps.error());
  port.maps = std::move(*maps);
  if (auto pinned = port.program->pin(); !pinned) return pinned;
  auto offloads = OffloadGuard::switch_off(planned.facts);
  if (!offloads) return Error(offloads.error());
  port.offloads = std::move(*offloads);
  auto mode = port.program->attach(required_mode(plan_.mode));
  if (!mode) return Error(mode.error());
  port.mode = *mode;
  if (const auto& replaced = port.program->replaced(); !replaced.empty())
    plan_.warnings.push_back(fmt::format("{}: took off the {} in whose place this one is", name, replaced));
  if (auto set = set_up_busy_poll(port, name); !set) return set;
  if (auto made = make_reinjection(index); !made) return made;
  return make_cutter(index);
}

Result<void> Broker::make_reinjection(u32 index) {
  const PlannedPort& planned = plan_.ports[index];
  Port& port = *ports_[index];
  port.reinjection.reset();
  auto pair =
      kernel::Reinjection::create(planned.facts.name, planned.facts.ifindex, planned.queues, port.mode);
  if (!pair) return Error(pair.error());
  port.reinjection = std::move(*pair);
  return {};
}

// Native XDP is shown no frame that is to be cut: its drivers see to that.
Result<void> Broker::make_cutter(u32 index) {
  const PlannedPort& planned = plan_.ports[index];
  Port& port = *ports_[index];
  if (port.mode == kernel::XdpMode::native) return {};
  port.cutter.reset();
  const u32 most_bytes = host::packet_buffers(planned.facts.mtu) * XG_FRAME_MAX;
  auto cutter = kernel::Cutter::create(planned.facts.name, planned.facts.ifindex, planned.queues, most_bytes,
                                       port.maps);
  if (!cutter) return Error(cutter.error());
  port.cutter = std::move(*cutter);
  return {};
}

Result<void> Broker::set_up_busy_poll(Port& port, const std::string& name) {
  const policy::Io& io = plan_.policy->policy.io;
  const bool native = port.mode == kernel::XdpMode::native;
  port.busy_poll.us = io.busy_poll_us;
  port.busy_poll.budget = io.busy_poll_budget;
  if (io.busy_poll != policy::Io::BusyPoll::on) restore_busy_poll(name);  // of an attach that died
  if (io.busy_poll == policy::Io::BusyPoll::automatic)
    port.busy_poll.wanted = native && is_set_up_for_busy_poll(name);
  if (io.busy_poll != policy::Io::BusyPoll::on) return {};
  if (!native)
    return Error(
        fmt::format("{} runs generic XDP, where a worker cannot poll the driver; set io.busy_poll to "
                    "\"auto\" or false",
                    name));
  auto interrupts = BusyPollGuard::set(name);
  if (!interrupts) return Error(interrupts.error());
  port.interrupts = std::move(*interrupts);
  port.busy_poll.wanted = port.busy_poll.required = true;
  return {};
}

Result<DataPlaneKeeper::Started> Broker::fork_data_plane(const DeathRecord& before) {
  auto pair = Channel::make_pair();
  if (!pair) return Error(pair.error());
  pair->first.refuse_descriptors();  // the data plane has none to give
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) return Error(fmt::format("cannot fork the data plane: {}", std::strerror(errno)));
  if (child == 0) become_data_plane(std::move(pair->second), before);
  return Started{child, std::move(pair->first)};
}

dataplane::PortSpec Broker::spec_of(u32 index) const {
  const Port& port = *ports_[index];
  const auto& facts = plan_.ports[index].facts;
  u32 most_buffers = 1;
  for (const auto& other : plan_.ports)
    most_buffers = std::max(most_buffers, host::packet_buffers(other.facts.mtu));
  dataplane::PortSpec spec;
  spec.ifname = facts.name;
  spec.ifindex = facts.ifindex;
  spec.queues = plan_.ports[index].queues;
  spec.packet_buffers = host::packet_buffers(facts.mtu);
  spec.frames_per_queue = plan_.ports[index].frames_per_queue;
  spec.numa_node = facts.numa_node;
  spec.busy_poll = port.busy_poll;
  spec.xdp_mode = port.mode;
  spec.require_zero_copy = plan_.mode == host::IoMode::zero_copy;
  spec.forbid_zero_copy = plan_.mode == host::IoMode::copy;
  spec.two_chunks = host::wants_two_chunks(facts);
  spec.repair_checksums = host::partial_checksums(facts);
  // The kernel cannot hand back a frame that turns out to be too long for the port it is to leave by.
  spec.cache_transmit =
      spec.packet_buffers == most_buffers &&
      host::can_transmit_xdp(facts, port.mode == kernel::XdpMode::generic, spec.packet_buffers);
  spec.reinject_ifname = port.reinjection->worker_ifname();
  spec.reinject_ifindex = port.reinjection->worker_ifindex();
  return spec;
}

// Nothing of the broker's is destroyed here: the process ends by _exit.
void Broker::become_data_plane(Channel channel, const DeathRecord& before) noexcept {
  prefer_for_the_oom_killer(kWorseThanTheBroker);
  // The mappings by which the broker changes what steers the XDP programs.
  controls_.clear();
  if (auto left = leave_terminal(); !left) {
    say(left.error());
    _exit(1);
  }
  DataPlaneSetup setup;
  setup.before = before;
  std::vector<int> keep{channel.fd(), listener_.get()};
  if (kept_policy_) keep.push_back(kept_policy_.get());
  for (const int fd : {frames_.ordinary.get(), frames_.huge.get()})
    if (fd >= 0) keep.push_back(fd);
  for (u32 i = 0; i < ports_.size(); i++) {
    const Port& port = *ports_[i];
    auto maps = kernel::for_data_plane(port.maps);
    auto control_maps = kernel::for_data_plane(port.maps);
    if (!maps || !control_maps) {
      say(maps ? control_maps.error() : maps.error());
      _exit(1);
    }
    for (const auto* set : {&*maps, &*control_maps})
      for (const int fd : set->descriptors())
        if (fd >= 0) keep.push_back(fd);
    kernel::Fd link(fcntl(port.program->link_fd(), F_DUPFD_CLOEXEC, 0));
    if (link) keep.push_back(link.get());
    dataplane::PortSpec spec = spec_of(i);
    spec.maps = std::move(*maps);
    setup.specs.push_back(std::move(spec));
    setup.port_maps.push_back(std::move(*control_maps));
    setup.links.push_back(std::move(link));
  }
  close_others(std::move(keep));
  ignore_all_signals();
  setup.plan = std::move(plan_);
  setup.frames = std::move(frames_.ordinary);
  setup.huge_frames = std::move(frames_.huge);
  setup.plan.engine.memory = {setup.frames.get(), setup.huge_frames.get()};
  setup.flow_entries_per_queue = options_.flow_entries_per_queue;
  setup.in_force = in_force_;
  setup.kept_policy = std::move(kept_policy_);
  setup.broker = std::move(channel);
  setup.listener = std::move(listener_);
  setup.daemon = options_.daemon;
  setup.json = options_.json;
  setup.live = options_.live;
  setup.terminal = options_.terminal;
  int status = 1;
  try {
    status = run_data_plane(std::move(setup));
  } catch (const std::exception& error) {
    say(fmt::format("the data plane failed: {}", error.what()));
  }
  std::fflush(nullptr);
  _exit(status);
}

Result<std::string> Broker::rename(u32 port) {
  if (port >= ports_.size()) return Error(std::string("there is no such port"));
  std::string& name = plan_.ports[port].facts.name;
  char found[IF_NAMESIZE] = {};
  if (!if_indextoname(plan_.ports[port].facts.ifindex, found)) return Error(fmt::format("{} is gone", name));
  const std::string now = found;
  if (now == name) return now;
  const auto lock = RunLock::take();
  if (!lock) return Error(lock.error());
  if (find_process(now) == Presence::running)
    return Error(std::string("another attach has pins and control socket of that name"));
  auto& program = *ports_[port]->program;
  if (auto renamed = program.rename(now); !renamed) return Error(renamed.error());
  orphan_links(now, *lock);
  const std::string path = kernel::names::socket(now);
  std::error_code error;
  std::filesystem::rename(socket_files_[port], path, error);
  if (error) {
    (void)program.rename(name);
    return Error(fmt::format("cannot rename {}: {}", socket_files_[port], error.message()));
  }
  socket_files_[port] = path;
  ports_[port]->offloads.rename(now);
  ports_[port]->interrupts.rename(now);
  name = now;
  // The others' are links to the first one's.
  for (std::size_t i = 1; port == 0 && i < socket_files_.size(); i++) {
    unlink(socket_files_[i].c_str());
    if (symlink((now + ".sock").c_str(), socket_files_[i].c_str()) != 0)
      return Error(fmt::format("cannot make {}: {}", socket_files_[i], std::strerror(errno)));
  }
  return now;
}

Result<void> Broker::watch_egress(bool on) {
  Result<void> watched{};
  for (std::size_t i = 0; i < ports_.size() && watched; i++) {
    Port& port = *ports_[i];
    const auto& facts = plan_.ports[i].facts;
    if (!on || port.egress) continue;
    auto feed = kernel::EgressFeed::attach(facts.name, facts.ifindex, port.maps);
    if (feed)
      port.egress = std::move(*feed);
    else
      watched = Error(feed.error());
  }
  if (!on || !watched)
    for (const auto& port : ports_) port->egress.reset();
  return watched;
}

std::vector<std::string> Broker::keep_house() {
  auto said = guard_pairs();
  const auto now = std::chrono::steady_clock::now();
  if (bypass_ends_ && *bypass_ends_ <= now) {
    end_bypass();
    said.push_back(
        fmt::format("the time of the bypass is over: the policy decides again on {}", interfaces()));
  }
  if (now < next_look_) return said;
  next_look_ = now + kHouseTurn;
  look_for_gateways();
  for (auto& change : look_at_macs()) said.push_back(std::move(change));
  return said;
}

std::vector<std::string> Broker::look_at_macs() {
  std::vector<std::string> changes;
  const auto netlink = kernel::Netlink::open();
  macs_.resize(ports_.size());
  for (std::size_t i = 0; netlink && i < ports_.size(); i++) {
    const auto& facts = plan_.ports[i].facts;
    const auto mac = netlink->mac(facts.ifindex);
    const u64 now = mac ? xg_mac_number(mac->data()) | XG_MAC_KNOWN : macs_[i];
    const u64 before = std::exchange(macs_[i], now);
    if (now == before) continue;
    const auto followed = ports_[i]->reinjection->follow_mac(*mac);
    controls_[i].set_mac(now);
    if (!followed)
      changes.push_back(
          fmt::format("{} has another MAC address, and what user space passes may not reach the stack ({}); "
                      "detach and attach again",
                      facts.name, followed.error()));
    else if (before != 0)
      changes.push_back(
          fmt::format("{} has the MAC address {:02x} now; \"forward\" takes what is sent to that", facts.name,
                      fmt::join(*mac, ":")));
  }
  return changes;
}

void Broker::look_for_gateways() {
  const xg_gateways found = gateways_.look();
  if (told_ && std::memcmp(&found, &*told_, sizeof(found)) == 0) return;
  told_ = found;
  for (const auto& port : ports_) kernel::tell_gateways(port->maps, found);
}

bool Broker::leave() noexcept {
  // Nobody is left to end it.
  if (bypass_ends_) end_bypass();
  std::vector<Port*> there;
  for (std::size_t i = 0; i < ports_.size(); i++)
    if (has_its_program(*ports_[i], plan_.ports[i].facts.ifindex)) there.push_back(ports_[i].get());
  const bool all = !there.empty() && std::all_of(there.begin(), there.end(),
                                                 [](const Port* port) { return port->program->can_stay(); });
  if (all)
    for (Port* port : there) leave(*port);
  undo();
  return all;
}

// Not where the interface was deleted, moved to another network namespace, or had its program taken off.
bool Broker::has_its_program(const Port& port, u32 ifindex) noexcept {
  if (!port.program) return false;
  char name[IF_NAMESIZE] = {};
  const int link = port.program->link_fd();
  return if_indextoname(ifindex, name) && (link < 0 || kernel::look_at_link(link));
}

void Broker::leave(Port& port) noexcept {
  if (port.program) port.program->leave();
  port.interrupts.leave();
  port.offloads.leave();
}

void Broker::leave_as_it_is() noexcept {
  for (auto& port : ports_)
    if (port) leave(*port);
}

void Broker::end() noexcept {
  // What a dead attach left is no worse for a vain try to go on with it.
  if (in_force_ && !ready_) leave_as_it_is();
  undo();
}

void Broker::undo() noexcept {
  if (std::exchange(undone_, true)) return;
  for (auto& port : ports_) {
    if (!port) continue;
    port->egress.reset();
    if (port->program) port->program->detach();
    port->cutter.reset();
    port->reinjection.reset();
    port->program.reset();
    port->interrupts.restore();
    port->offloads.restore();
  }
  ports_.clear();
  programs_ = KernelPrograms();
  if (socket_files_.empty()) return;
  // The lock takes the directory away with it if it is empty, and not from under another attach.
  const auto lock = RunLock::take();
  for (const auto& file : socket_files_) unlink(file.c_str());
  socket_files_.clear();
}

}  // namespace xdpgpu::control
