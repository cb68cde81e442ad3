// SPDX-License-Identifier: MIT
#include "userspace/dataplane/engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <list>
#include <map>
#include <mutex>
#include <thread>

#include "gpu/abilities.hpp"
#include "userspace/dataplane/clock.hpp"
#include "userspace/dataplane/devices.hpp"
#include "userspace/dataplane/event_log.hpp"
#include "userspace/dataplane/hand_over.hpp"
#include "userspace/dataplane/host_rules.hpp"
#include "userspace/dataplane/placement.hpp"
#include "userspace/dataplane/port.hpp"
#include "userspace/dataplane/worker.hpp"

namespace xdpgpu::dataplane {
namespace {

u32 frames_per_queue(const PortSpec& port, const EngineOptions& options) {
  return port.frames_per_queue ? port.frames_per_queue : options.frames_per_queue;
}

u32 chunks_per_frame(const std::vector<PortSpec>& ports) {
  const auto wants_more = [](const PortSpec& port) {
    return port.two_chunks && port.xdp_mode == kernel::XdpMode::native && !port.forbid_zero_copy;
  };
  return std::any_of(ports.begin(), ports.end(), wants_more) ? 2 : 1;
}

u32 worker_count(const std::vector<PortSpec>& ports) {
  u32 most = 0;
  for (const PortSpec& port : ports) most = std::max(most, port.queues);
  return most;
}

// By worker. Of the ports that feed it, the first that is on a node decides.
std::vector<int> nic_nodes(const std::vector<PortSpec>& ports) {
  std::vector<int> nodes(worker_count(ports), -1);
  for (u32 worker = 0; worker < nodes.size(); ++worker)
    for (const PortSpec& port : ports)
      if (worker < port.queues && nodes[worker] < 0) nodes[worker] = port.numa_node;
  return nodes;
}

// Without regard to frames.
u32 wished_batch(const EngineOptions& options) {
  constexpr u32 kGrowth = 16, kMost = 16384;
  return std::max(options.batch, std::min(options.batch * kGrowth, kMost));
}

u32 fewest_frames(const std::vector<PortSpec>& ports, const EngineOptions& options) {
  u32 fewest = ~0u;
  for (const PortSpec& port : ports) fewest = std::min(fewest, frames_per_queue(port, options));
  return fewest;
}

Result<void> check(const std::vector<PortSpec>& ports, const EngineOptions& options) {
  if (ports.empty() || ports.size() > XG_MAX_PORTS)
    return tl::unexpected(
        fmt::format("{} interfaces given, 1 to {} are possible", ports.size(), XG_MAX_PORTS));
  if (!std::has_single_bit(options.ring_size) || options.ring_size < 64)
    return tl::unexpected(
        fmt::format("io.ring_size {} is not a power of two of at least 64", options.ring_size));
  if (options.batch == 0 || options.batches_in_flight == 0)
    return tl::unexpected(std::string("compute.batch and the batches in flight must be at least 1"));
  for (const PortSpec& port : ports) {
    if (port.queues == 0) return tl::unexpected(fmt::format("{} is given no queue", port.ifname));
    if (port.packet_buffers == 0 || port.packet_buffers > XG_PACKET_BUFFERS)
      return tl::unexpected(fmt::format("{}: frames of {} buffers cannot be, 1 to {} can", port.ifname,
                                        port.packet_buffers, XG_PACKET_BUFFERS));
    if (options.batch < port.packet_buffers)
      return tl::unexpected(
          fmt::format("compute.batch {} is too small: a frame of {} takes up to {} buffers, which go to the "
                      "device together; set compute.batch to {} or more",
                      options.batch, port.ifname, port.packet_buffers, port.packet_buffers));
    if (auto ok = check_frames(frames_per_queue(port, options), options.ring_size, options.batch); !ok)
      return ok;
  }
  return {};
}

}  // namespace

Result<void> check_frames(u32 frames_per_queue, u32 ring_size, u32 batch) {
  if (frames_per_queue >= ring_size + batch) return {};
  return tl::unexpected(
      fmt::format("io.frames_per_queue {} is too small: the fill ring and one batch need {} (io.ring_size "
                  "+ compute.batch)",
                  frames_per_queue, ring_size + batch));
}

u32 send_ring_size(const EngineOptions& options, u32 frames_per_queue) {
  const bool grows = options.compute_mode == ComputeMode::automatic;
  const u32 wanted =
      std::bit_ceil((grows ? wished_batch(options) : options.batch) * options.batches_in_flight);
  const u32 spared = std::bit_floor(frames_per_queue - std::min(frames_per_queue, options.batch));
  return std::max(options.ring_size, std::min(wanted, spared));
}

u32 largest_batch(const EngineOptions& options, u32 frames_per_queue) {
  const u32 spared = frames_per_queue - std::min(frames_per_queue, options.ring_size);
  const u32 together = std::min(send_ring_size(options, frames_per_queue), spared);
  return std::max(options.batch, std::min(wished_batch(options), together / options.batches_in_flight));
}

std::vector<FrameShare> frame_shares(const std::vector<PortSpec>& ports, const EngineOptions& options) {
  std::vector<FrameShare> shares;
  FrameId first = 0;
  const u32 step = chunks_per_frame(ports);
  for (u32 worker = 0; worker < worker_count(ports); ++worker) {
    u32 frames = 0;
    for (const PortSpec& port : ports)
      if (worker < port.queues) frames += frames_per_queue(port, options);
    shares.push_back({first, frames, -1, step});
    first += shares.back().chunks();
  }
  return shares;
}

struct Engine::Impl {
  EngineOptions options;
  u32 send_ring_size = 0;
  u32 largest_batch = 0;  // 0: as options say
  std::unique_ptr<FrameRegion> region;
  Umems umems;  // after the workers' sockets, before the region
  std::vector<std::unique_ptr<Port>> ports;
  Devices devices;                       // after the workers' queues, before the ports' maps
  std::unique_ptr<Mirroring> mirroring;  // before the devices
  std::vector<Placement> placements;     // by worker
  std::vector<int> frames_nodes;  // by worker, where frames stand that are not where they ought to, else all
  FragmentLogs fragments;         // by worker
  EventSelection selection;       // after the workers
  std::vector<std::unique_ptr<EventLog>> event_logs;  // by worker; likewise
  std::vector<std::unique_ptr<HandOver>> hand_overs;  // after the workers
  std::vector<std::unique_ptr<Worker>> workers;

  // Held while devices are told something: before `book`.
  std::mutex telling;
  std::atomic<u64> tables_life{0};
  // Of what follows, up to `retirements`; never for long.
  mutable std::mutex book;
  // Policies that packets without metadata may be under; kept until the end, as a worker may look.
  std::list<CurrentPolicy> policies;
  std::atomic<const CurrentPolicy*> policy{nullptr};
  std::vector<u32> loaded;                                         // generations that the device knows
  std::map<u32, std::shared_ptr<const gpu::Pipelines>> pipelines;  // of these

  // Generations before `before` go once each queue has retired what it had admitted, the device has looked at
  // what was mirrored, and each worker has done with what the host sent.
  struct Retirement {
    u32 before = 0;
    std::vector<std::vector<u32>> admitted;  // by port, queue
    std::vector<u64> mirrored;               // by ring
  };
  std::list<Retirement> retirements;
  std::vector<std::string> events;
  std::vector<bool> reported_failure;
  bool policy_again = false;
  std::optional<FrameCount> final_count;  // once stopped

  // Slots of this device's queues.
  u32 batch_on(const gpu::Device& device) const {
    const bool gains = device.info().kind == gpu::Kind::cuda && device.frames() == gpu::Frames::in_place;
    return gains ? std::max(options.batch, largest_batch) : options.batch;
  }
  std::vector<std::string_view> remembering() const;
  struct ModeNow {
    ComputeMode mode;
    std::string because;
    gpu::Choice choice;
  };
  ModeNow mode_now(u32 worker, const std::vector<std::string_view>& remembering) const;
  void make_workers(const std::vector<FrameShare>& shares);
  void connect(const std::vector<FrameShare>& shares);
  bool left(const Retirement& retirement) const;
  // Both with `telling`.
  void unload_before(u32 generation);
  void unload_left();
  Result<void> wait_for_rewrites(u32 generation);
  // Of the policy in force; no pipelines before there is one.
  struct InForce {
    u32 generation = 0;
    std::shared_ptr<const gpu::Pipelines> pipelines;
  };
  InForce in_force() const;
  Result<void> know(u32 generation) const;  // the error says that it is not loaded
};

void Engine::Impl::make_workers(const std::vector<FrameShare>& shares) {
  std::vector<EgressLogs> egress;
  for (const auto& port : ports) egress.push_back(port->egress());
  for (u32 i = 0; i < shares.size(); ++i) fragments.push_back(std::make_unique<FragmentLog>());
  for (u32 i = 0; i < shares.size(); ++i) {
    std::vector<std::unique_ptr<PortQueue>> queues;
    for (const auto& port : ports) queues.push_back(i < port->spec().queues ? port->queue(i) : nullptr);
    WorkerOptions worker;
    worker.index = i;
    worker.workers = static_cast<u32>(shares.size());
    worker.batch = options.batch;
    worker.batches_in_flight = options.batches_in_flight;
    worker.max_wait_ns = options.max_wait_ns;
    worker.spin_ns = options.spin_ns;
    worker.beat_timeout_ns = ports.front()->beat_timeout_ns();
    for (const auto& port : ports)
      worker.beat_timeout_ns = std::min(worker.beat_timeout_ns, port->beat_timeout_ns());
    worker.credit_step = std::max(1u, options.ring_size / 16);
    worker.split = options.compute_mode == ComputeMode::split;
    if (options.compute_mode == ComputeMode::automatic) worker.closing = Closing::by_load;
    worker.cpu = placements[i].cpu;
    worker.retire_cpu = placements[i].retire_cpu;
    workers.push_back(std::make_unique<Worker>(worker, region->base(), std::move(queues), shares[i], policy,
                                               egress, fragments));
    EventLog& log = *event_logs.emplace_back(std::make_unique<EventLog>(selection, i));
    workers.back()->tell(log);
    workers.back()->ask(region->base(), selection.rules(), log.finisher(), std::make_unique<HostAsker>());
    const u8* const first = region->base() + chunk_of(shares[i].first);
    const u64 bytes = chunk_of(shares[i].chunks());
    const Elsewhere elsewhere =
        placements[i].node >= 0 ? find_elsewhere(first, bytes, placements[i].node) : Elsewhere{};
    frames_nodes.push_back(elsewhere.bytes > 0 ? elsewhere.node : node_of(first));
    if (elsewhere.bytes > 0)
      events.push_back(fmt::format(
          "{:.1f} of {:.1f} MiB of the frames of worker {} are not on NUMA node {}, where its NIC is and "
          "which is preferred, but on node {}: it has too little free memory, and packets cross between "
          "nodes",
          static_cast<double>(elsewhere.bytes) / (1 << 20), static_cast<double>(bytes) / (1 << 20), i,
          placements[i].node, elsewhere.node));
  }
  reported_failure.resize(workers.size());
  connect(shares);
}

// A port with fewer queues than there are workers: worker i sends out of it by way of the one that has its
// queue i mod N.
void Engine::Impl::connect(const std::vector<FrameShare>& shares) {
  for (u32 p = 0; p < ports.size(); ++p) {
    const PortSpec& spec = ports[p]->spec();
    for (u32 i = spec.queues; i < workers.size(); ++i) {
      Worker* const other = workers[i % spec.queues].get();
      auto& hand_over = hand_overs.emplace_back(
          std::make_unique<HandOver>(p, spec.packet_buffers, spec.cache_transmit, shares[i], send_ring_size,
                                     [other] { other->wake(); }));
      workers[i]->hand_over_to(*hand_over);
      other->take_from(*hand_over);
    }
  }
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Engine::~Engine() {
  stop();
  impl_->workers.clear();
  impl_->devices = {};
  impl_->ports.clear();
}

Result<std::unique_ptr<Engine>> Engine::create(std::vector<PortSpec> ports, const EngineOptions& options) {
  if (auto ok = check(ports, options); !ok) return tl::unexpected(ok.error());
  auto impl = std::make_unique<Impl>();
  impl->options = options;
  u64 frames = 0;
  for (const PortSpec& port : ports) frames += u64{port.queues} * frames_per_queue(port, options);
  const u64 chunks = frames * chunks_per_frame(ports);
  if (chunks * XG_CHUNK_SIZE > u64{1} << 40)
    return tl::unexpected(
        fmt::format("{} frames are too many; lower io.frames_per_queue or io.burst", frames));
  impl->placements = place(read_topology(), nic_nodes(ports),
                           {.threads = options.compute_mode == ComputeMode::split ? 2u : 1u,
                            .first_cpu = options.first_cpu,
                            .pin = options.pin_threads});
  std::vector<FrameShare> shares = frame_shares(ports, options);
  for (std::size_t worker = 0; worker < shares.size(); ++worker)
    shares[worker].node = impl->placements[worker].node;
  auto region = FrameRegion::create(static_cast<u32>(chunks), options.huge_pages, shares, options.memory);
  if (!region) return tl::unexpected(region.error());
  impl->region = std::move(*region);
  impl->events = impl->region->notes();

  impl->umems.chunks_per_frame = shares.front().step;
  impl->umems.multi_buffer =
      std::any_of(ports.begin(), ports.end(), [](const PortSpec& port) { return port.packet_buffers > 1; });
  // The rings that say what was sent are of one size for all.
  const u32 fewest = fewest_frames(ports, options);
  impl->send_ring_size = send_ring_size(options, fewest);
  if (options.compute_mode == ComputeMode::automatic) impl->largest_batch = largest_batch(options, fewest);
  for (PortSpec& spec : ports) {
    auto port = Port::open(static_cast<u32>(impl->ports.size()), std::move(spec),
                           {options.ring_size, impl->send_ring_size});
    if (!port) return tl::unexpected(port.error());
    impl->ports.push_back(std::move(*port));
  }
  // Sockets go before the UMEM that they are on, also on failure.
  for (auto& port : impl->ports) {
    if (auto ok = port->open_sockets(*impl->region, impl->umems); !ok) {
      impl->ports.clear();
      return tl::unexpected(ok.error());
    }
  }
  for (auto& port : impl->ports) {
    if (auto ok = port->announce(impl->ports); !ok) {
      impl->ports.clear();
      return tl::unexpected(ok.error());
    }
  }
  impl->make_workers(shares);
  std::vector<gpu::MirrorPort> mirrors;
  for (auto& port : impl->ports) mirrors.push_back(port->mirror());
  impl->mirroring = std::make_unique<Mirroring>(std::move(mirrors));
  return std::unique_ptr<Engine>(new Engine(std::move(impl)));
}

Result<void> Engine::use_devices(std::vector<std::unique_ptr<gpu::Device>> given, gpu::Frames frames) {
  if (!impl_->devices.empty()) return tl::unexpected(std::string("the engine has its devices already"));
  std::vector<gpu::FlowTables> tables;
  for (auto& port : impl_->ports) tables.push_back(port->flow_tables());
  auto devices =
      Devices::create(std::move(given), impl_->region->base(), impl_->region->bytes(), frames, tables);
  if (!devices) return tl::unexpected(devices.error());
  std::vector<std::unique_ptr<gpu::Queue>> queues;
  for (u32 i = 0; i < impl_->workers.size(); ++i) {
    gpu::Device& device = *devices->of(i).device;
    auto queue = device.open_queue({impl_->batch_on(device), impl_->options.batches_in_flight,
                                    drive_of(impl_->options.compute_mode), i});
    if (!queue) return tl::unexpected(queue.error());
    queues.push_back(std::move(*queue));
  }
  for (u32 i = 0; i < queues.size(); ++i)
    impl_->workers[i]->use(std::move(queues[i]), devices->of(i).publishes,
                           impl_->batch_on(*devices->of(i).device));
  impl_->devices = std::move(*devices);
  return {};
}

Result<void> Engine::load_policy(u32 generation, const std::shared_ptr<const gpu::Pipelines>& pipelines,
                                 PipelineChooser chooser, bool mirrors, bool mirrors_to_tables,
                                 bool default_passes, std::optional<Overlapping> reassembles) {
  if (impl_->devices.empty())
    return tl::unexpected(std::string("the engine has no device to load a policy into"));
  const gpu::DeviceInfo& info = impl_->devices.first().info();
  if (mirrors)
    if (auto ok = gpu::check_mirrored(info.name, gpu::abilities_of(info), mirrors_to_tables); !ok) return ok;
  if (auto ok = impl_->wait_for_rewrites(generation); !ok) return ok;
  const std::vector<xg_rewrite>& rewrites = pipelines->rewrites();
  const std::lock_guard telling(impl_->telling);
  for (auto& port : impl_->ports) port->write_rewrites(generation, rewrites);
  if (auto ok = impl_->devices.load(generation, pipelines); !ok) return ok;
  if (mirrors)
    if (auto ok = impl_->mirroring->open(impl_->devices.first()); !ok) {
      impl_->devices.unload(generation);
      return ok;
    }
  const std::lock_guard lock(impl_->book);
  impl_->loaded.push_back(generation);
  impl_->policies.push_back(
      {generation, std::move(chooser), gpu::fed_by_egress(*pipelines), default_passes, reassembles});
  impl_->pipelines[generation] = pipelines;
  return {};
}

void Engine::make_current(u32 generation) {
  const std::lock_guard lock(impl_->book);
  for (const CurrentPolicy& policy : impl_->policies)
    if (policy.generation == generation) impl_->policy.store(&policy, std::memory_order_release);
}

void Engine::forget_policy(u32 generation) {
  const std::lock_guard telling(impl_->telling);
  impl_->devices.unload(generation);
  const std::lock_guard lock(impl_->book);
  std::erase(impl_->loaded, generation);
  impl_->pipelines.erase(generation);
  std::erase_if(impl_->policies,
                [&](const CurrentPolicy& policy) { return policy.generation == generation; });
}

void Engine::retire_generations_before(u32 generation) {
  Impl::Retirement retirement;
  retirement.before = generation;
  for (const auto& port : impl_->ports) {
    auto& admitted = retirement.admitted.emplace_back();
    for (u32 queue = 0; queue < port->spec().queues; ++queue) admitted.push_back(port->admitted(queue));
  }
  retirement.mirrored = impl_->mirroring->heads();
  const std::lock_guard lock(impl_->book);
  impl_->retirements.push_back(std::move(retirement));
}

u32 Engine::oldest_generation() const {
  const std::lock_guard lock(impl_->book);
  const auto older = [](u32 one, u32 other) { return static_cast<std::int32_t>(one - other) < 0; };
  const auto oldest = std::min_element(impl_->loaded.begin(), impl_->loaded.end(), older);
  return oldest == impl_->loaded.end() ? 0 : *oldest;
}

bool Engine::Impl::left(const Retirement& retirement) const {
  for (std::size_t p = 0; p < ports.size(); ++p)
    for (u32 queue = 0; queue < ports[p]->spec().queues; ++queue)
      if (static_cast<std::int32_t>(retirement.admitted[p][queue] - ports[p]->retired(queue)) > 0)
        return false;
  for (const auto& worker : workers) {
    const WorkerReport report = worker->report();
    if (static_cast<std::int32_t>(static_cast<u32>(report.generation) - retirement.before) < 0 ||
        report.older_under_way)
      return false;
  }
  return mirroring->past(retirement.mirrored);
}

void Engine::Impl::unload_before(u32 generation) {
  const auto older = [&](u32 one) { return static_cast<std::int32_t>(one - generation) < 0; };
  std::vector<u32> gone;
  {
    const std::lock_guard lock(book);
    std::copy_if(loaded.begin(), loaded.end(), std::back_inserter(gone), older);
  }
  for (const u32 old : gone) devices.unload(old);
  const std::lock_guard lock(book);
  std::erase_if(loaded, older);
  for (const u32 old : gone) pipelines.erase(old);
  // No worker looks at one of these any more: each has reported that it saw a later one.
  std::erase_if(policies, [&](const CurrentPolicy& one) { return older(one.generation); });
}

void Engine::Impl::unload_left() {
  const auto next = [&]() -> std::optional<u32> {
    const std::lock_guard lock(book);
    if (retirements.empty() || !left(retirements.front())) return std::nullopt;
    const u32 before = retirements.front().before;
    retirements.pop_front();
    return before;
  };
  while (const auto before = next()) unload_before(*before);
}

// Batches that are judged by a generation which encapsulates read its rewrites until they have retired, and
// the generation after the next has its own in the same place.
Result<void> Engine::Impl::wait_for_rewrites(u32 generation) {
  const auto stands_there = [&](const auto& one) {
    return one.first != generation && (one.first & 1) == (generation & 1) && gpu::encapsulates(*one.second);
  };
  for (u32 ms = 0; ms < 1000; ++ms) {
    {
      const std::lock_guard told(telling);
      unload_left();
      const std::lock_guard lock(book);
      if (std::none_of(pipelines.begin(), pipelines.end(), stands_there)) return {};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return tl::unexpected(
      std::string("packets of the policy before the last one are still under way after a second; try again"));
}

EventSelection& Engine::event_selection() noexcept { return impl_->selection; }

std::vector<EventLog*> Engine::event_logs() {
  std::vector<EventLog*> logs;
  for (const auto& log : impl_->event_logs) logs.push_back(log.get());
  return logs;
}

std::vector<std::string> Engine::poll() {
  const std::unique_lock telling(impl_->telling, std::try_to_lock);
  if (telling) impl_->unload_left();
  for (std::size_t i = 0; i < impl_->workers.size(); ++i) {
    if (impl_->reported_failure[i] || !impl_->workers[i]->report().device_failed) continue;
    impl_->reported_failure[i] = true;
    impl_->events.push_back(fmt::format(
        "device {} failed under worker {}: its packets are dropped and new ones go by on_failure; detach and "
        "attach again, with another device if it persists",
        impl_->devices.of(static_cast<u32>(i)).device->info().name, i));
  }
  if (!telling) return std::exchange(impl_->events, {});
  for (std::string& why : impl_->devices.failed()) {
    impl_->policy_again = true;
    impl_->tables_life.fetch_add(1, std::memory_order_acq_rel);
    if (!impl_->devices.first().degraded().empty()) impl_->mirroring->device_failed();
    impl_->events.push_back(
        fmt::format("device {}: packets go on, slower; what stages remembered is lost, and connections that "
                    "were open are taken up in the middle; it is tried again as \"compute\" \"retry\" says",
                    why));
  }
  const bool failed = !impl_->devices.empty() && !impl_->devices.first().degraded().empty();
  for (const std::string& what : impl_->devices.try_again())
    impl_->events.push_back(fmt::format("device {}", what));
  if (failed && impl_->devices.first().degraded().empty()) {
    impl_->tables_life.fetch_add(1, std::memory_order_acq_rel);
    if (auto looks = impl_->mirroring->device_is_back(impl_->devices.first()); !looks)
      impl_->events.push_back(
          fmt::format("mirrored packets are looked at no more: {}; attach again", looks.error()));
  }
  return std::exchange(impl_->events, {});
}

bool Engine::wants_policy_again() noexcept { return std::exchange(impl_->policy_again, false); }

Result<void> Engine::start() {
  if (impl_->loaded.empty()) return tl::unexpected(std::string("no policy is loaded"));
  for (auto& worker : impl_->workers)
    if (auto ok = worker->start(); !ok) return ok;
  return {};
}

void Engine::fall_silent() noexcept {
  for (auto& worker : impl_->workers) worker->fall_silent();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the longest that a worker sleeps
}

Result<void> Engine::drain(u32 timeout_ms) {
  const u64 end_ns = monotonic_ns() + u64{timeout_ms} * 1'000'000;
  // A worker that has turned twice since, and was quiet, has seen everything that came before.
  std::vector<u64> turns;
  for (const auto& worker : impl_->workers) turns.push_back(worker->report().turns + 2);
  const std::vector<u64> mirrored = impl_->mirroring->heads();
  for (;;) {
    u32 busy = 0;
    for (std::size_t i = 0; i < turns.size(); ++i) {
      const WorkerReport report = impl_->workers[i]->report();
      busy += !report.quiet || report.turns < turns[i];
    }
    const bool looked = impl_->mirroring->past(mirrored);
    if (!busy && looked) return {};
    if (monotonic_ns() >= end_ns) {
      if (busy)
        return tl::unexpected(
            fmt::format("{} worker(s) still had packets in hand after {} ms", busy, timeout_ms));
      return tl::unexpected(fmt::format("device {} had still not looked at all mirrored packets after {} ms",
                                        impl_->devices.first().info().name, timeout_ms));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

FrameCount Engine::stop() {
  if (impl_->final_count) return *impl_->final_count;
  FrameCount total;
  impl_->mirroring->close();
  for (auto& worker : impl_->workers) worker->stop();
  for (auto& worker : impl_->workers) worker->abandon();
  for (auto& worker : impl_->workers) worker->take_back();
  for (auto& worker : impl_->workers) {
    const FrameCount frames = worker->reclaim();
    total.total += frames.total;
    total.free += frames.free;
  }
  impl_->umems.zero_copy.reset();
  impl_->umems.copy.reset();
  impl_->final_count = total;
  return total;
}

Engine::Impl::InForce Engine::Impl::in_force() const {
  const std::lock_guard lock(book);
  const CurrentPolicy* current = policy.load(std::memory_order_acquire);
  if (current == nullptr) return {};
  return {current->generation, pipelines.at(current->generation)};
}

std::vector<std::string_view> Engine::Impl::remembering() const {
  const auto current = in_force().pipelines;
  return current ? gpu::stages_with_tables(*current) : std::vector<std::string_view>{};
}

Engine::Impl::ModeNow Engine::Impl::mode_now(u32 worker,
                                             const std::vector<std::string_view>& remembering) const {
  const gpu::Choice choice = workers[worker]->choice();
  ModeNow now{resolve(options.compute_mode, choice), {}, choice};
  if (options.compute_mode == ComputeMode::automatic)
    now.because = why(choice, devices.of(worker).device->info(), remembering);
  return now;
}

EngineStatus Engine::status() const {
  EngineStatus status;
  const std::vector<std::string_view> remembering = impl_->remembering();
  for (const auto& port : impl_->ports) {
    for (u32 i = 0; i < port->spec().queues; ++i) {
      const Worker& worker = *impl_->workers[i];
      QueueStatus queue;
      queue.port = static_cast<u32>(&port - impl_->ports.data());
      queue.queue = i;
      queue.mode = port->mode();
      if (queue.mode == PortMode::zero_copy) queue.chunks_per_frame = impl_->umems.chunks_per_frame;
      queue.metadata = worker.report().delivers_metadata >> queue.port & 1;
      if (!impl_->devices.empty()) {
        queue.device = i % static_cast<u32>(impl_->devices.all().size());
        const Impl::ModeNow now = impl_->mode_now(i, remembering);
        queue.compute_mode = now.mode;
        queue.because = now.because;
      }
      queue.cpu = worker.cpu();
      queue.retire_cpu = worker.retire_cpu();
      queue.numa_node = impl_->placements[i].node;
      queue.frames_node = impl_->frames_nodes[i];
      queue.frames = frames_per_queue(port->spec(), impl_->options);
      queue.busy_poll = worker.queue(queue.port)->busy_poll;
      queue.state = port->state(i);
      queue.counters = port->counters(i);
      queue.metrics = port->metrics(i);
      status.queues.push_back(queue);
    }
  }
  for (const auto& worker : impl_->workers) {
    const WorkerReport report = worker->report();
    status.frames.total += report.frames.total;
    status.frames.free += report.frames.free;
    status.frames.fill += report.frames.fill;
    status.frames.batch += report.frames.batch;
    status.frames.tx += report.frames.tx;
    status.frames.waiting += report.frames.waiting;
    status.batches += report.batches;
    status.batch_packets += report.batch_packets;
  }
  if (const CurrentPolicy* policy = impl_->policy.load(std::memory_order_acquire))
    status.generation = policy->generation;
  const auto devices = static_cast<u32>(impl_->devices.all().size());
  for (u32 d = 0; d < devices; ++d) {
    const Devices::Device& one = impl_->devices.all()[d];
    DeviceStatus device{
        one.device->info().name, one.device->frames(),  resolve(impl_->options.compute_mode, {}), {},
        one.publishes,           one.device->degraded()};
    for (u32 worker = d; worker < impl_->workers.size(); worker += devices) {
      const Impl::ModeNow now = impl_->mode_now(worker, remembering);
      device.compute_mode = now.mode;
      device.because = now.because;
      if (now.choice.reason != gpu::Reason::keeps_up) break;
    }
    status.devices.push_back(std::move(device));
  }
  status.automatic = impl_->options.compute_mode == ComputeMode::automatic;
  status.mirror = impl_->mirroring->status();
  return status;
}

Result<std::vector<gpu::TableReport>> Engine::tables() const {
  const auto current = impl_->in_force();
  if (!current.pipelines) return std::vector<gpu::TableReport>{};
  // Where stages have tables there is one device (Devices::load).
  return gpu::report_tables(impl_->devices.first(), current.generation, *current.pipelines, monotonic_ns());
}

constexpr const char* kOtherLife = "another device has the tables now";

Result<void> Engine::Impl::know(u32 generation) const {
  const std::lock_guard lock(book);
  if (std::find(loaded.begin(), loaded.end(), generation) != loaded.end()) return {};
  return tl::unexpected(fmt::format("generation {} is not loaded", generation));
}

Result<void> Engine::read_state(const TablesLife& life, u32 generation, u32 table, u64 first,
                                std::span<u32> words) {
  const std::lock_guard telling(impl_->telling);
  if (auto known = impl_->know(generation); !known) return known;
  auto read = impl_->devices.first().read_state(generation, table, first, words);
  // A standby may have answered in the middle.
  if (tables_life() != life) return tl::unexpected(std::string(kOtherLife));
  return read;
}

Result<void> Engine::edit_state(const TablesLife& life, u32 generation, u32 table,
                                const gpu::Device::Edit& edit) {
  const std::lock_guard telling(impl_->telling);
  if (auto known = impl_->know(generation); !known) return known;
  if (tables_life() != life) return tl::unexpected(std::string(kOtherLife));
  return impl_->devices.first().edit_state(generation, table, edit);
}

Result<void> Engine::change_words(u32 generation, std::span<const gpu::ChangedWords> changes) {
  const std::lock_guard telling(impl_->telling);
  if (auto known = impl_->know(generation); !known) return known;
  return impl_->devices.change_words(generation, changes);
}

Engine::TablesLife Engine::tables_life() const {
  return {impl_->tables_life.load(std::memory_order_acquire), impl_->devices.first().degraded()};
}

Result<std::vector<gpu::AlarmEvent>> Engine::alarms(gpu::AlarmWatch& watch) const {
  const auto current = impl_->in_force();
  if (!current.pipelines) return std::vector<gpu::AlarmEvent>{};
  return watch.look(impl_->devices.first(), current.generation, *current.pipelines, monotonic_ns());
}

Result<std::vector<gpu::FlowEvent>> Engine::flow_events(gpu::FlowEventWatch& watch) const {
  const auto current = impl_->in_force();
  if (!current.pipelines) return std::vector<gpu::FlowEvent>{};
  return watch.look(impl_->devices.first(), current.generation, *current.pipelines);
}

}  // namespace xdpgpu::dataplane
