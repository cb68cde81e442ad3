// SPDX-License-Identifier: MIT
#include "bench/worker/bed.hpp"

#include <fmt/format.h>
#include <x86intrin.h>

#include <algorithm>
#include <stdexcept>

#include "gpu/pipelines.hpp"
#include "userspace/dataplane/clock.hpp"

namespace xdpgpu::bench {
namespace {

using dataplane::monotonic_ns;

constexpr u32 kPorts = 2;
constexpr u32 kFlowEntries = 65536;
constexpr u32 kGeneration = 7;

template <class T>
T value_of(gpu::Result<T> result) {
  if (!result) throw std::runtime_error(result.error());
  return std::move(*result);
}

void must(const gpu::Result<void>& result) {
  if (!result) throw std::runtime_error(result.error());
}

// Whose last rule drops everything.
gpu::StageSettings filter() {
  constexpr u32 kRules = 64;
  gpu::AclSettings acl;
  for (u32 i = 0; i < kRules; i++) {
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

struct Bed::Map {
  std::array<xg_worker_counters, kPorts> counters;
  std::array<xg_queue_state, kPorts> states;
  std::array<xg_queue_metrics, kPorts> metrics;
  std::array<xg_config, kPorts> configs;
  std::array<xg_flow_verdict, kFlowEntries> verdicts;
  std::array<xg_flow_stats, kFlowEntries> stats;
};

Bed::Bed(const BedOptions& options)
    : options_(options),
      region_(dataplane::chunk_of(options.chunks), options.huge),
      maps_(sizeof(Map), false),
      map_(reinterpret_cast<Map*>(maps_.base())),
      near_(options.ring, 0, region_.base(), map_->states[0]),
      far_(options.ring, 1, region_.base(), map_->states[1]),
      host_(options.ring, 0, region_.base(), map_->states[0]) {
  options_.traffic.generation = kGeneration;
  policy_.generation = kGeneration;
  near_.lay(0, options_.chunks, options_.traffic);
  const u64 now_ns = monotonic_ns();
  std::vector<std::unique_ptr<dataplane::PortQueue>> queues;
  for (u32 port = 0; port < kPorts; port++) queues.push_back(make_queue(port, now_ns));
  queues[0]->socket = near_.open();
  queues[0]->reinject = host_.open();
  queues[1]->socket = far_.open();
  // The second port receives nothing, and wants no frames.
  queues[1]->socket->receiver.fill.size = 0;
  dataplane::WorkerOptions worker;
  worker.batch = options_.answers.batch;
  worker.batches_in_flight = options_.answers.depth;
  worker.credit_step = std::max(1u, options_.ring / 16);
  worker_ = std::make_unique<dataplane::Worker>(worker, region_.base(), std::move(queues),
                                                dataplane::FrameShare{0, options_.chunks, -1, 1}, current_,
                                                std::vector<dataplane::EgressLogs>{}, no_fragments_);
  if (!options_.device.empty()) {
    use_device();
  } else {
    auto answers = std::make_unique<Answers>(options_.answers, clock_);
    answers_ = answers.get();
    worker_->use(std::move(answers), options_.answers.cache == AnswerOptions::Cache::by_device);
  }
  worker_->begin(monotonic_ns());
  // Every frame has been sent by then, some more than once, and each time its place is another one.
  if (!options_.shuffled || !answers_) return;
  answers_->answer(Way::transmit);
  for (u32 i = 0; i < 8 * options_.chunks / options_.answers.batch; i++) {
    near_.receive(options_.answers.batch, monotonic_ns());
    worker_->turn(monotonic_ns());
    if (i % 4 == 3) near_.send(true);
  }
  answers_->answer(options_.answers.way);
}

Bed::~Bed() {
  worker_.reset();
  device_.reset();
}

std::unique_ptr<dataplane::PortQueue> Bed::make_queue(u32 port, u64 now_ns) {
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

void Bed::use_device() {
  device_ = value_of(gpu::open_device(options_.device));
  must(device_->register_frames(region_.base(), region_.bytes(), gpu::Frames::automatic));
  gpu::PipelineSettings pipeline;
  pipeline.name = options_.stage;
  pipeline.stages.push_back(options_.stage == "l2fwd" ? gpu::StageSettings{gpu::L2fwdSettings{}} : filter());
  must(device_->load(kGeneration, value_of(gpu::Pipelines::compile({pipeline}))));
  auto queue = value_of(
      device_->open_queue({.batch_capacity = options_.answers.batch, .depth = options_.answers.depth}));
  worker_->use(std::make_unique<Timed>(std::move(queue), clock_), false);
}

void Bed::one_turn(u32 packets) noexcept {
  const u64 begun = StepClock::ticks();
  near_.send();
  far_.send();
  host_.send();
  near_.receive(packets, monotonic_ns());
  _mm_lfence();
  kernel_ticks_ += StepClock::ticks() - begun;
  const u64 now_ns = monotonic_ns();
  clock_.start();
  worker_->turn(now_ns);
  _mm_lfence();
  clock_.stop();
}

Spent Bed::turn(u32 turns) {
  const u64 before = map_->counters[0].received;
  clock_.take();
  kernel_ticks_ = 0;
  for (u32 i = 0; i < turns; i++) one_turn(options_.answers.batch);
  return {map_->counters[0].received - before, clock_.take(), kernel_ticks_};
}

std::string Bed::check() {
  constexpr u64 kPatienceNs = 2'000'000'000;
  const xg_worker_counters& c = map_->counters[0];
  const auto over = [&] { return c.dropped + c.transmitted + c.redirected + c.passed; };
  if (answers_) answers_->let_go();
  const u64 end = monotonic_ns() + kPatienceNs;
  do {
    one_turn(0);
  } while (over() != near_.received() && monotonic_ns() < end);
  one_turn(0);  // what it gave out last is sent
  std::string wrong;
  if (c.received != near_.received())
    wrong += fmt::format("{} of {} received; ", c.received, near_.received());
  if (over() != c.received) wrong += fmt::format("{} of {} are over; ", over(), c.received);
  if (c.error_device + c.error_generation + c.error_target + c.error_ring_full + c.error_invalid != 0)
    wrong += "errors were counted; ";
  if (c.transmitted != near_.sent() || c.redirected != far_.sent() || c.passed != host_.sent())
    wrong += "what was sent is not what was counted; ";
  const auto frames = worker_->reclaim();
  if (frames.free != frames.total)
    wrong += fmt::format("{} of {} frames came back; ", frames.free, frames.total);
  return wrong;
}

Clocks measure_clocks() {
  constexpr u64 kWindowNs = 20'000'000;
  constexpr int kMultiplications = 20'000, kCycles = 3;
  Clocks clocks;
  for (int i = 0; i < 5; i++) {
    const u64 from_ns = monotonic_ns(), from = StepClock::ticks();
    while (monotonic_ns() - from_ns < kWindowNs) continue;
    const u64 to = StepClock::ticks(), to_ns = monotonic_ns();
    clocks.ticks_a_ns =
        std::max(clocks.ticks_a_ns, static_cast<double>(to - from) / static_cast<double>(to_ns - from_ns));
  }
  u64 least = ~u64{0};
  for (int i = 0; i < 400; i++) {
    u64 x = 3;
    const u64 from = StepClock::ticks();
    for (int k = 0; k < kMultiplications; k++) asm volatile("imul %0, %0" : "+r"(x));
    least = std::min(least, StepClock::ticks() - from);
  }
  clocks.cycles_a_ns = kCycles * kMultiplications * clocks.ticks_a_ns / static_cast<double>(least);
  return clocks;
}

}  // namespace xdpgpu::bench
