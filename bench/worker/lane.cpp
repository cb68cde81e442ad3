// SPDX-License-Identifier: MIT
#include "bench/worker/lane.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "userspace/dataplane/counters.hpp"

namespace xdpgpu::bench {
namespace {

using dataplane::monotonic_ns;

constexpr u32 kPorts = 2;
constexpr u32 kFlowEntries = 65536;

// Whose last rule drops everything.
gpu::StageSettings filter() {
  gpu::AclSettings acl;
  for (u32 i = 0; i < kPassingNets; i++) {
    gpu::AclRule rule;
    rule.name = fmt::format("r{}", i);
    rule.src.push_back({.family = 4, .address = {192, 168, static_cast<u8>(i), 0}, .length = 24});
    rule.protocols = {17};
    rule.action = gpu::AclRule::Action::pass;
    acl.rules.push_back(std::move(rule));
  }
  acl.otherwise = gpu::AclRule::Action::drop;
  return acl;
}

}  // namespace

struct Lane::Map {
  std::array<xg_worker_counters, kPorts> counters;
  std::array<xg_queue_state, kPorts> states;
  std::array<xg_queue_metrics, kPorts> metrics;
  std::array<xg_config, kPorts> configs;
  std::array<xg_flow_verdict, kFlowEntries> verdicts;
  std::array<xg_flow_stats, kFlowEntries> stats;
};

gpu::PipelineSettings Lane::pipeline(const std::string& stage) {
  return {stage, {stage == "l2fwd" ? gpu::StageSettings{gpu::L2fwdSettings{}} : filter()}};
}

Lane::Lane(const LaneOptions& options, u8* region)
    : options_(options),
      region_(region),
      maps_(sizeof(Map), false),
      map_(reinterpret_cast<Map*>(maps_.base())),
      near_(options.ring, options.tx_ring, 0, region, map_->states[0]),
      far_(options.ring, options.tx_ring, 1, region, map_->states[1]),
      host_(options.ring, options.tx_ring, 0, region, map_->states[0]) {
  options_.traffic.generation = kGeneration;
  policy_.generation = kGeneration;
  near_.lay(options_.first, options_.chunks, options_.traffic);
  if (options_.counted)
    for (MemoryPort* port : {&near_, &far_, &host_}) port->count(options_.first, options_.chunks);
  const u64 now_ns = monotonic_ns();
  std::vector<std::unique_ptr<dataplane::PortQueue>> queues;
  for (u32 port = 0; port < kPorts; port++) queues.push_back(make_queue(port, now_ns));
  queues[0]->socket = near_.open();
  queues[0]->reinject = host_.open();
  queues[1]->socket = far_.open();
  // The second port receives nothing, and wants no frames.
  queues[1]->socket->receiver.fill.size = 0;
  dataplane::WorkerOptions worker;
  worker.batch = options_.batch;
  worker.batches_in_flight = options_.depth;
  worker.credit_step = std::max(1u, options_.ring / 16);
  worker.closing = options_.closing;
  worker_ = std::make_unique<dataplane::Worker>(
      worker, region_, std::move(queues), dataplane::FrameShare{options_.first, options_.chunks, -1, 1},
      current_, std::vector<dataplane::EgressLogs>{}, no_fragments_);
}

Lane::~Lane() = default;

const xg_worker_counters& Lane::counters() const noexcept { return map_->counters[0]; }

std::unique_ptr<dataplane::PortQueue> Lane::make_queue(u32 port, u64 now_ns) {
  std::unique_ptr<dataplane::PortQueue> queue(
      new dataplane::PortQueue{.traits = {.repair_checksums = false, .cache_transmit = true},
                               .socket = {},
                               .reinject = {},
                               .flows = gpu::FlowTable(map_->verdicts, map_->stats),
                               .metadata = dataplane::MetadataProbe(static_cast<u8>(port), now_ns, true),
                               .credits = dataplane::Credits(0, options_.ring)});
  queue->port = port;
  queue->config = &map_->configs[port];
  queue->state = &map_->states[port];
  queue->counters = &map_->counters[port];
  queue->metrics = &map_->metrics[port];
  return queue;
}

bool Lane::play(u32 packets) noexcept {
  const u64 before = near_.sent() + far_.sent() + host_.sent();
  near_.send();
  far_.send();
  host_.send();
  return (near_.receive(packets, monotonic_ns()) != 0) |
         (near_.sent() + far_.sent() + host_.sent() != before);
}

bool Lane::over() const noexcept {
  const xg_worker_counters& c = counters();
  return c.dropped + c.transmitted + c.redirected + c.passed == near_.received();
}

std::string Lane::account() {
  const xg_worker_counters& c = counters();
  std::string wrong;
  if (c.received != near_.received())
    wrong += fmt::format("{} of {} received; ", c.received, near_.received());
  const u64 decided = c.dropped + c.transmitted + c.redirected + c.passed;
  if (decided != c.received) wrong += fmt::format("{} of {} are decided; ", decided, c.received);
  for (const auto& counter : dataplane::kWorkerCounters)
    if (counter.outcome == XG_OUTCOME_error && c.*counter.value != 0)
      wrong += fmt::format("{} {}; ", c.*counter.value, counter.words);
  if (c.transmitted != near_.sent() || c.redirected != far_.sent() || c.passed != host_.sent())
    wrong += "what was sent is not what was counted; ";
  const auto frames = worker_->reclaim();
  if (frames.free != frames.total)
    wrong += fmt::format("{} of {} frames came back; ", frames.free, frames.total);
  return wrong;
}

// A frame that l2fwd sent has other MAC addresses each time; one that the acl lets pass goes to the host each
// time, and no other ever does.
std::string Lane::check(const std::string& stage) const {
  u32 bad = 0;
  for (u32 i = 0; i < options_.chunks; i++) {
    const u32 came = near_.came(i);
    if (stage == "l2fwd") {
      const u8* const frame = region_ + dataplane::chunk_of(options_.first + i) + XG_FRAME_DATA;
      const bool swapped = std::memcmp(frame, kFarMac.data(), kFarMac.size()) == 0;
      const bool whole = std::memcmp(frame + 6, (swapped ? kNearMac : kFarMac).data(), 6) == 0 &&
                         (swapped || std::memcmp(frame, kNearMac.data(), 6) == 0);
      bad += near_.went(i) != came || host_.went(i) != 0 || !whole || swapped != (came % 2 != 0);
    } else {
      bad += host_.went(i) != (options_.traffic.passes(i) ? came : 0) || near_.went(i) != 0;
    }
  }
  return bad == 0
             ? ""
             : fmt::format("{} of {} frames did not go where {} sends them; ", bad, options_.chunks, stage);
}

}  // namespace xdpgpu::bench
