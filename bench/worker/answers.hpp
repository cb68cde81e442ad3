// SPDX-License-Identifier: MIT
//
// bench/worker/answers.hpp: what stands behind the worker: a queue to a device that answers at once, and the
// clock that says on which step of a turn the time went. A worker tells it by its calls: from acquire to
// submit it feeds, from a poll that has a batch to its release it routes; before it has fed it takes back
// frames and gives them to the kernel again, and behind that it publishes.
#pragma once

#include <array>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "gpu/gpu.hpp"

namespace xdpgpu::bench {

// Of a turn. device: what the queue's own calls took, which no worker has to answer for.
enum class Step { recycle, route, feed, device, rest };
inline constexpr std::array kSteps{"recycle", "route", "feed", "device", "rest"};

// Ticks of the time-stamp counter, by step.
class StepClock {
 public:
  void begin(Step step) noexcept {
    const u64 now = ticks();
    spent_[static_cast<std::size_t>(step_)] += now - since_;
    since_ = now;
    step_ = step;
  }
  // Neither feeds nor routes, from now on.
  void otherwise() noexcept { begin(fed_ ? Step::rest : Step::recycle); }
  void fed() noexcept {
    fed_ = true;
    begin(Step::rest);
  }
  // The turn begins, and ends.
  void start() noexcept {
    since_ = ticks();
    step_ = Step::recycle;
    fed_ = false;
  }
  void stop() noexcept { begin(Step::rest); }
  std::array<u64, kSteps.size()> take() noexcept { return std::exchange(spent_, {}); }
  static u64 ticks() noexcept;

 private:
  std::array<u64, kSteps.size()> spent_{};
  Step step_ = Step::rest;
  bool fed_ = false;
  u64 since_ = 0;
};

enum class Way { drop, transmit, redirect, pass, mixed };

struct AnswerOptions {
  Way way = Way::drop;
  u32 batch = 256;
  u32 depth = 4;
  u32 lag = 0;        // so many batches stay with the device
  bool cold = false;  // results are taken out of the caches, as those are that a device wrote
  // Verdicts for the kernel: none; written by the device; the worker finds them there; the worker writes
  // them.
  enum class Cache { none, by_device, kept, written } cache = Cache::none;
  u32 rule_in = 0;  // the first rule holds for one packet in so many, and is told; 0: for none
};

class Answers final : public gpu::Queue {
 public:
  Answers(const AnswerOptions& options, StepClock& clock);
  gpu::Slot* acquire() noexcept override;
  gpu::Submit submit(gpu::Slot* slot, u32 count, u32 generation) noexcept override;
  gpu::Slot* poll() noexcept override;
  void release(gpu::Slot* slot) noexcept override;
  u32 in_flight() const noexcept override { return static_cast<u32>(submitted_ - polled_); }

  // From the next batch on.
  void answer(Way way) noexcept { options_.way = way; }
  // Nothing is kept back from now on.
  void let_go() noexcept { options_.lag = 0; }

 private:
  void write(gpu::Slot& slot) noexcept;

  AnswerOptions options_;
  StepClock& clock_;
  std::vector<xg_descriptor> descriptors_;
  std::vector<xg_result> results_;
  std::vector<xg_edit> edits_;
  std::vector<xg_adjust> adjusts_;
  std::vector<xg_alerts> alerts_;
  std::vector<xg_patch> patches_;
  std::vector<gpu::Slot> slots_;
  std::vector<u32> free_, order_;
  std::minstd_rand random_;
  u32 number_ = 0;
  u64 submitted_ = 0, polled_ = 0;
};

// A device's own queue, timed.
class Timed final : public gpu::Queue {
 public:
  Timed(std::unique_ptr<gpu::Queue> queue, StepClock& clock) : queue_(std::move(queue)), clock_(clock) {}
  gpu::Slot* acquire() noexcept override {
    clock_.begin(Step::feed);
    return queue_->acquire();
  }
  gpu::Submit submit(gpu::Slot* slot, u32 count, u32 generation) noexcept override {
    clock_.begin(Step::device);
    const auto submitted = queue_->submit(slot, count, generation);
    clock_.fed();
    return submitted;
  }
  gpu::Slot* poll() noexcept override {
    clock_.begin(Step::device);
    gpu::Slot* slot = queue_->poll();
    if (slot)
      clock_.begin(Step::route);
    else
      clock_.otherwise();
    return slot;
  }
  void release(gpu::Slot* slot) noexcept override {
    clock_.begin(Step::device);
    queue_->release(slot);
    clock_.otherwise();
  }
  u32 in_flight() const noexcept override { return queue_->in_flight(); }

 private:
  std::unique_ptr<gpu::Queue> queue_;
  StepClock& clock_;
};

}  // namespace xdpgpu::bench
