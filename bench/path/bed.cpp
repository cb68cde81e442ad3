// SPDX-License-Identifier: MIT
#include "bench/path/bed.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <cstring>

#include "userspace/dataplane/counters.hpp"
#include "userspace/policy/policy.hpp"

namespace xdpgpu::bed {
namespace {

template <class T, class E>
T value_of(tl::expected<T, E> result) {
  if (!result) throw lab::Error(result.error());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

// Rules that meet whatever is IP, which leaves ARP and neighbour discovery to the stack.
policy::Tables tables_of(Rules rules, bool overload_drops) {
  using Action = policy::Rule::Action;
  policy::Policy policy;
  if (overload_drops) policy.on_overload = policy::Do::drop;
  const auto add = [&](const char* name, Action action) {
    policy::Rule& rule = policy.rules.emplace_back();
    rule.name = name;
    rule.action = action;
    if (action == Action::inspect || action == Action::mirror) rule.pipeline = "main";
  };
  if (rules == Rules::mirror_and_drop) add("watch", Action::mirror);
  add("all", rules == Rules::inspect ? Action::inspect : Action::drop);
  policy.pipelines.push_back({"main", {gpu::L2fwdSettings{}}});
  auto tables = policy::compile(policy);
  if (!tables) throw lab::Error(tables.error().front().sentence());
  return std::move(*tables);
}

std::shared_ptr<const gpu::Pipelines> pipelines_of(std::vector<gpu::StageSettings> stages) {
  return value_of(gpu::Pipelines::compile({{"main", std::move(stages)}}));
}

}  // namespace

void choose_device(const std::string& name, Options& options) {
  const auto slash = name.find('/');
  options.devices = {name.substr(0, slash)};
  if (slash == std::string::npos) return;
  const auto mode = dataplane::compute_mode_of(name.substr(slash + 1));
  if (!mode)
    throw lab::Error(name + " names no mode that there is: auto, inline, split, persistent or graph");
  options.engine.compute_mode = *mode;
}

std::vector<std::string> ways_of(const std::string& device) {
  const auto opened = gpu::open_device(device);
  if (!opened) throw lab::Error(opened.error());
  std::vector<std::string> ways{device + "/auto", device + "/inline", device + "/split"};
  if ((*opened)->info().persistent) ways.push_back(device + "/persistent");
  if ((*opened)->info().graph) ways.push_back(device + "/graph");
  return ways;
}

const char* name_of(dataplane::PortMode mode) {
  switch (mode) {
    case dataplane::PortMode::zero_copy:
      return "zero-copy";
    case dataplane::PortMode::copy:
      return "copy";
    default:
      return "generic";
  }
}

Bed::Bed(const std::vector<const lab::Interface*>& interfaces, const Options& options)
    : ns_(interfaces.front()->ns()),
      interfaces_(interfaces),
      overload_drops_(options.overload_drops),
      rules_(options.rules) {
  ns_.run([&] { attach(options); });
}

Bed::~Bed() { down(); }

void Bed::attach(const Options& options) {
  std::vector<dataplane::PortSpec> specs;
  for (u32 port = 0; port < interfaces_.size(); ++port) {
    const lab::Interface& interface = *interfaces_[port];
    kernel::PortOptions port_options;
    port_options.ifname = interface.ifname();
    port_options.ifindex = interface.ifindex();
    port_options.port_index = port;
    port_options.queues = options.queues;
    port_options.multi_buffer = options.packet_buffers > 1;
    port_options.flow_entries_per_queue = options.flow_entries_per_queue;
    // A shared two-core host may take a worker off its core for a while.
    port_options.beat_timeout_ns = 1'000'000'000;
    programs_.push_back(value_of(kernel::PortProgram::load(port_options)));
    maps_.push_back(value_of(programs_.back()->maps()));
    install_policy(port, 0, generation_);
    value_of(programs_.back()->attach(options.mode));
    reinjections_.push_back(value_of(
        kernel::Reinjection::create(interface.ifname(), interface.ifindex(), options.queues, options.mode)));

    dataplane::PortSpec spec;
    spec.ifname = interface.ifname();
    spec.ifindex = interface.ifindex();
    spec.queues = options.queues;
    spec.packet_buffers = options.packet_buffers;
    spec.xdp_mode = options.mode;
    spec.repair_checksums = options.repair_checksums;
    spec.reinject_ifname = reinjections_.back()->worker_ifname();
    spec.reinject_ifindex = reinjections_.back()->worker_ifindex();
    spec.maps = value_of(programs_.back()->maps());
    specs.push_back(std::move(spec));
  }
  engine_ = value_of(dataplane::Engine::create(std::move(specs), options.engine));
  std::vector<std::unique_ptr<gpu::Device>> devices;
  for (const std::string& name : options.devices) devices.push_back(value_of(gpu::open_device(name)));
  value_of(engine_->use_devices(std::move(devices), gpu::Frames::automatic));
  value_of(
      engine_->load_policy(generation_, pipelines_of(options.stages), {}, rules_ == Rules::mirror_and_drop));
  engine_->make_current(generation_);
  value_of(engine_->start());
  set_state(XG_STATE_RUNNING);
}

void Bed::install_policy(u32 port, u32 slot, u32 generation) {
  const policy::Tables tables = tables_of(rules_, overload_drops_);
  const kernel::PortMaps& maps = maps_[port];
  auto inner = value_of(kernel::create_policy_maps(static_cast<u32>(tables.lines.size()),
                                                   static_cast<u32>(tables.rows.size())));
  value_of(kernel::fill_policy_maps(inner, tables.lines, tables.rows));
  value_of(kernel::install_policy_maps({&maps}, slot, inner));
  auto header = value_of(kernel::MapView<xg_policy>::open(maps.policy.get(), 2));
  header[slot] = tables.header;
  header[slot].generation = generation;
  auto config = value_of(kernel::MapView<xg_config>::open(maps.config.get(), 1));
  __atomic_store_n(&config[0].active, u64{generation} << 32 | slot, __ATOMIC_RELEASE);
}

u32 Bed::swap(std::vector<gpu::StageSettings> stages) {
  ++generation_;
  value_of(engine_->load_policy(generation_, pipelines_of(std::move(stages))));
  engine_->make_current(generation_);
  for (u32 port = 0; port < maps_.size(); ++port) install_policy(port, generation_ & 1, generation_);
  return generation_;
}

void Bed::set_state(u32 state) {
  for (const kernel::PortMaps& maps : maps_) {
    auto config = value_of(kernel::MapView<xg_config>::open(maps.config.get(), 1));
    __atomic_store_n(&config[0].state, state, __ATOMIC_RELEASE);
  }
}

u64 Bed::kernel_count(u32 port, xg_kernel_reason reason) const {
  std::vector<xg_counter> per_cpu(static_cast<std::size_t>(libbpf_num_possible_cpus()));
  const u32 key = reason;
  if (bpf_map_lookup_elem(maps_[port].counters.get(), &key, per_cpu.data()) != 0)
    throw lab::Error("cannot read the XDP program's counters");
  u64 sum = 0;
  for (const xg_counter& counter : per_cpu) sum += counter.packets;
  return sum;
}

xg_worker_counters Bed::worker_counts(u32 port) const {
  xg_worker_counters sum{};
  for (const auto& queue : engine_->status().queues) {
    if (queue.port == port) dataplane::add(sum, queue.counters);
  }
  return sum;
}

dataplane::FrameCount Bed::down() {
  dataplane::FrameCount frames;
  ns_.run([&] {
    if (engine_) {
      set_state(XG_STATE_DRAINING);
      static_cast<void>(engine_->drain(2000));
    }
    for (auto& program : programs_) program->detach();
    if (engine_) frames = engine_->stop();
    engine_.reset();
    reinjections_.clear();
    programs_.clear();
  });
  maps_.clear();
  return frames;
}

}  // namespace xdpgpu::bed
