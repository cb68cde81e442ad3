// SPDX-License-Identifier: MIT
//
// gpu/way_chooser.hpp: which way a queue of Drive::automatic takes, batch by batch: persistent, which is the
// quicker one to answer, or launched, which has all of the GPU for a batch.
//
//   * A batch of a pipeline with tables is one block's there if it is small, in either way; a larger one a
//     resident kernel still takes by one block, a launched one by many. So the first such batch is launched.
//   * Which way decides more where all slots are in flight otherwise depends on the GPU, the driver and the
//     pipeline: both are tried for some milliseconds, and again after a second; between it is as was found.
//   * The quick way again once neither has been so for a while: 20 ms, twice as long each time that this was
//     right for less than a second, at most 5 s.
//   * The quick way is persistent, unless launched batches were seen to be back sooner, as where a small one
//     keeps one block busy for long. Each so many batches a few go the other way to see: one in ten of them
//     at most, one in a thousand after a while, and as at first once batches are of another size.
//
//   WayChooser chooser(depth, 256);
//   const Choice choice = chooser.next({.tables = true, .packets = count, .in_flight = 2, .now_ns = now});
#pragma once

#include "gpu/gpu.hpp"

namespace xdpgpu::gpu {

// The feeding thread's. No allocation, no call of the system.
class WayChooser {
 public:
  // What has come back so far.
  struct Answers {
    u64 batches = 0, ns = 0;  // from submit to poll, all of them together
  };
  // A batch that is about to be submitted.
  struct Batch {
    bool tables = false;  // its generation's pipelines have some
    u32 packets = 0;
    u32 in_flight = 0;  // batches before it
    u64 now_ns = 0;     // never runs backwards
    Answers persistent{}, launched{};
  };

  static constexpr u64 kHoldNs = 20'000'000, kMostHoldNs = 5'000'000'000;
  static constexpr u64 kCalmNs = 1'000'000'000;  // persistent for so long: it was right to go back
  static constexpr u32 kRun = 8;               // batches that find all slots in flight: the device is behind
  static constexpr u64 kWindowNs = 2'000'000;  // of a trial, each way, and at least so many batches
  static constexpr u32 kWindowBatches = 8;
  static constexpr u64 kAgainNs = 1'000'000'000;           // from one trial to the next
  static constexpr u32 kProbe = 24, kProbeSkip = 8;        // batches each way, and before they count
  static constexpr u32 kFirstGap = 256, kMostGap = 32768;  // batches from one probe to the next

  // depth: slots of the queue. most_alone: packets of a batch with tables that one block takes in either way.
  WayChooser(u32 depth, u32 most_alone) noexcept : depth_(depth), most_alone_(most_alone) {}

  // How it is to be submitted, and those after it until this is asked again.
  Choice next(const Batch& batch) noexcept;

 private:
  // One way after the other. The batches of a way are counted from when those before it are through.
  struct Trial {
    enum class Step : u8 { none, first, second } step = Step::none;
    Choice before{};
    u32 skip = 0;  // batches that are still to come until it counts
    u32 batches = 0, behind = 0;
    u64 packets = 0, since_ns = 0;
    double rate = 0;  // of the first way, packets a nanosecond
  };

  // Of the two ways: which is back sooner.
  struct Probe {
    enum class Step : u8 { none, first, second } step = Step::none;
    u32 given = 0;  // batches, of this step
    Answers from{};
    double ns = 0;  // the first way's mean
  };

  void go(Choice choice, u64 now_ns) noexcept;
  void probe(const Batch& batch) noexcept;
  void end_probe() noexcept;
  bool quick() const noexcept { return choice_ == quick_; }
  void begin(Trial::Step step, u32 skip) noexcept;
  void try_on(const Batch& batch, bool behind) noexcept;

  const u32 depth_, most_alone_;
  Choice choice_{Drive::persistent, Reason::keeps_up};
  Choice quick_ = choice_;  // while the device keeps up
  Trial trial_;
  Probe probe_;
  u32 gap_ = kFirstGap, since_probe_ = 0;  // batches
  double size_ = 0, probed_size_ = 0;      // packets of a batch: of late, and when it was last probed
  u32 run_ = 0;                            // batches in a row that found all slots in flight
  u64 busy_ns_ = 0;                        // when there was last a reason not to go back
  u64 hold_ns_ = kHoldNs;
  u64 back_ns_ = 0;                   // when it was quick again; 0: never
  u64 tried_ns_ = 0;                  // when the last trial was over; 0: never
  Drive better_ = Drive::persistent;  // what it found
};

}  // namespace xdpgpu::gpu
