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

template <class T>
T value_of(gpu::Result<T> result) {
  if (!result) throw std::runtime_error(result.error());
  return std::move(*result);
}

void must(const gpu::Result<void>& result) {
  if (!result) throw std::runtime_error(result.error());
}

}  // namespace

Bed::Bed(const BedOptions& options)
    : options_(options),
      region_(dataplane::chunk_of(options.chunks), options.huge),
      lane_({.chunks = options.chunks,
             .ring = options.ring,
             .tx_ring = options.ring,
             .batch = options.answers.batch,
             .depth = options.answers.depth,
             .traffic = options.traffic},
            region_.base()) {
  if (!options_.device.empty()) {
    use_device();
  } else {
    auto answers = std::make_unique<Answers>(options_.answers, clock_);
    answers_ = answers.get();
    lane_.worker().use(std::move(answers), options_.answers.cache == AnswerOptions::Cache::by_device);
  }
  constexpr dataplane::EventKind kDrops[] = {dataplane::EventKind::drop};
  constexpr u32 kNoLimit = 1'000'000'000;
  if (options_.telling != Telling::off)
    selection_.tell(kDrops, options_.telling == Telling::each ? kNoLimit : 1, 1, 0);
  lane_.worker().tell(events_);
  use_rule();
  lane_.worker().begin(monotonic_ns());
  // Every frame has been sent by then, some more than once, and each time its place is another one.
  if (!options_.shuffled || !answers_) return;
  answers_->answer(Way::transmit);
  for (u32 i = 0; i < 8 * options_.chunks / options_.answers.batch; i++) {
    lane_.near().receive(options_.answers.batch, monotonic_ns());
    lane_.worker().turn(monotonic_ns());
    if (i % 4 == 3) lane_.near().send(true);
  }
  answers_->answer(options_.answers.way);
  sent_first_ = lane_.received();
}

void Bed::use_device() {
  device_ = value_of(gpu::open_device(options_.device));
  must(device_->register_frames(region_.base(), region_.bytes(), gpu::Frames::automatic));
  must(device_->load(Lane::kGeneration, value_of(gpu::Pipelines::compile({Lane::pipeline(options_.stage)}))));
  auto queue = value_of(
      device_->open_queue({.batch_capacity = options_.answers.batch, .depth = options_.answers.depth}));
  lane_.worker().use(std::make_unique<Timed>(std::move(queue), clock_), false);
}

void Bed::use_rule() {
  if (options_.ruling == Ruling::none) return;
  gpu::RuleHead rule{.sid = 1, .msg = "", .category = ""};
  if (options_.ruling == Ruling::counts) {
    rule.limit = {gpu::AlertLimit::Type::detection_filter, gpu::AlertLimit::Track::by_src,
                  gpu::kMostAlertCount, 60};
    rule.action = gpu::signatures::Action::drop;
    rule.late = true;
  }
  if (options_.ruling == Ruling::sets)
    rule.bits = {
        {.what = gpu::RuleBits::What::set, .on = gpu::RuleBits::On::source, .names = {1}, .seconds = 60}};
  dataplane::AlertRules::Pipeline pipeline{
      .rules = std::make_shared<const std::vector<gpu::RuleHead>>(1, rule), .suppressed = nullptr};
  pipeline.stage = 1;
  selection_.rules().set({{Lane::kGeneration, {pipeline}}}, {});
}

void Bed::one_turn(u32 packets) noexcept {
  const u64 begun = StepClock::ticks();
  lane_.play(packets);
  _mm_lfence();
  kernel_ticks_ += StepClock::ticks() - begun;
  const u64 now_ns = monotonic_ns();
  clock_.start();
  lane_.worker().turn(now_ns);
  _mm_lfence();
  clock_.stop();
  take_events();
}

// The other thread's part.
void Bed::take_events() noexcept {
  for (; events_.oldest() != nullptr; events_.take()) told_++;
}

Spent Bed::turn(u32 turns) {
  const u64 before = lane_.received();
  clock_.take();
  kernel_ticks_ = 0;
  for (u32 i = 0; i < turns; i++) one_turn(options_.answers.batch);
  return {lane_.received() - before, clock_.take(), kernel_ticks_};
}

std::string Bed::check() {
  if (answers_) answers_->let_go();
  std::string wrong = lane_.finish([this] { one_turn(0); });
  const dataplane::EventCounts counts = events_.counts(dataplane::EventKind::drop);
  const u64 dropped = counts.told + counts.over_rate + counts.ring_full;
  const bool drops = options_.telling != Telling::off && options_.answers.way == Way::drop;
  if (const u64 all = drops ? lane_.received() - sent_first_ : 0; dropped != all)
    wrong += fmt::format("{} of {} drops are accounted for in the log; ", dropped, all);
  if (counts.told != told_ || (options_.telling == Telling::each && counts.told != dropped))
    wrong += fmt::format("{} of {} events were told; ", told_, dropped);
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
