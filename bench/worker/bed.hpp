// SPDX-License-Identifier: MIT
//
// bench/worker/bed.hpp: one worker as the engine makes it, over rings in memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/pages.hpp"
#include "bench/worker/answers.hpp"
#include "bench/worker/lane.hpp"
#include "gpu/gpu.hpp"
#include "userspace/dataplane/event_log.hpp"

namespace xdpgpu::bench {

// What is told of packets, for a log: nothing is asked for; drops are, and none is within the rate; each is,
// and is taken between the turns.
enum class Telling { off, over_rate, each };

// The one rule that may hold for packets: there is none; it alerts; it drops behind so many of a source that
// there never are; it sets a bit on the source.
enum class Ruling { none, alerts, counts, sets };

struct BedOptions {
  AnswerOptions answers{};
  Traffic traffic{};
  u32 chunks = 8192;  // frames of the worker
  u32 ring = 2048;
  bool shuffled = false;  // the list of free frames is in no order
  bool huge = false;      // pages of 2 MiB
  // Decides in place of the answers; empty: nobody does. "l2fwd" and "acl" (64 rules, drops) are what it
  // runs.
  std::string device{}, stage{};
  Telling telling = Telling::off;
  Ruling ruling = Ruling::none;
};

struct Spent {
  u64 packets = 0;
  std::array<u64, kSteps.size()> ticks{};
  u64 kernel_ticks = 0;
};

class Bed {
 public:
  // Throws std::runtime_error, a sentence.
  explicit Bed(const BedOptions& options);
  Bed(const Bed&) = delete;
  Bed& operator=(const Bed&) = delete;

  // So many turns, each after as many packets as a batch has have come in.
  Spent turn(u32 turns);
  // Lets what is under way come out, and counts; what is wrong, or nothing. Once, at the end.
  std::string check();

 private:
  void use_device();
  void use_rule();
  void one_turn(u32 packets) noexcept;
  void take_events() noexcept;

  BedOptions options_;
  Pages region_;
  StepClock clock_;
  std::unique_ptr<gpu::Device> device_;
  dataplane::EventSelection selection_;
  dataplane::EventLog events_{selection_};
  u64 told_ = 0;
  u64 sent_first_ = 0;  // packets that were sent to shuffle their frames
  Lane lane_;
  Answers* answers_ = nullptr;
  u64 kernel_ticks_ = 0;
};

// Ticks of the time-stamp counter in a nanosecond, and of the core's clock: a chain of multiplications tells
// (three cycles each, Agner Fog's tables, Intel since Nehalem and AMD since Zen).
struct Clocks {
  double ticks_a_ns = 0, cycles_a_ns = 0;
};
Clocks measure_clocks();

}  // namespace xdpgpu::bench
