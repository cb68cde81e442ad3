// SPDX-License-Identifier: MIT
//
// bench/umem/queue.hpp: a device with one queue that decides the same frames over and over. The descriptors
// stand in the slots from the start, as it is the device that is measured and not who writes them.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gpu/pipelines.hpp"

namespace xdpgpu::bench {

struct Rate {
  double packets_per_second = 0;
  std::string problem;  // what the verdicts say, or why it came to an end
};

// Frames in their region, metadata in front of each, whose generation is kGeneration.
struct FrameRegion {
  u8* base = nullptr;
  u64 bytes = 0;
  std::span<const xg_descriptor> descriptors;  // in the order of receipt
};

class DeviceQueue {
 public:
  static constexpr u32 kGeneration = 1;

  // device: "cuda:1", or with the way it is driven behind, "cuda/persistent". The frames outlive it; they
  // are `depth` times `batch`, or times `most`: if that is more, a batch that takes the last free slot is so
  // large, as a worker's is in compute.mode auto. Fails with a sentence.
  static gpu::Result<std::unique_ptr<DeviceQueue>> open(const std::string& device, FrameRegion frames,
                                                        gpu::Frames how, u32 batch, u32 depth, u32 most = 0);

  // A further queue of that one's device, driven alike, for other frames of the same region, which are
  // `depth` times `batch`. What the other one loads decides here, too.
  static gpu::Result<std::unique_ptr<DeviceQueue>> open_beside(const DeviceQueue& other, FrameRegion frames,
                                                               u32 batch, u32 depth);

  // Makes these the pipelines that decide, in place of those before.
  gpu::Result<void> load(std::shared_ptr<const gpu::Pipelines> pipelines);
  // The right verdicts, in the order of receipt; and, of the first frames, what rules are to be told, all
  // zero where none are.
  void expect(std::vector<u32> verdicts, std::vector<xg_alerts> alerts = {}) {
    expected_ = std::move(verdicts);
    alerts_ = std::move(alerts);
  }

  // Called with the frames of each batch in front of its submission, by the thread that runs: for packets
  // that are not the same each time.
  void before_each(std::function<void(std::span<const xg_descriptor>)> prepare) {
    prepare_ = std::move(prepare);
  }

  // Decides for so many seconds, or until the device has answered nothing for five; before and behind it,
  // all frames once with their verdicts checked.
  Rate run(double seconds);
  // Batches one at a time, for so many seconds and 10,000 at most: of each the microseconds from handing it
  // over until its verdicts are there.
  std::vector<double> alone(double seconds, std::string& problem);
  // Packets that come so many a second, evenly, for so many seconds, gathered into batches as a worker does
  // in compute.mode auto: of each the microseconds from its time until its verdict is there. All are checked.
  std::vector<double> paced(double packets_per_second, double seconds, std::string& problem);
  // All frames once, but for those of slots that are larger than batches. Sets `problem` if a verdict is
  // wrong.
  void check(std::string& problem);

 private:
  gpu::Result<void> open_queue(gpu::Drive drive);
  void describe_frames();
  // The next batch that is over; nullptr where none is for five seconds.
  gpu::Slot* wait(std::string& problem);
  bool submit(std::string& problem, bool forget);
  void drain(std::string& problem);
  // Sets `problem` if this is not the frame's verdict.
  void hold(u32 verdict, u32 frame, std::string& problem) const;
  // Likewise of a place in the slot that has been told of other rules than the frame's.
  void hold_alerts(const gpu::Slot& slot, u32 place, std::string& problem) const;

  DeviceQueue(std::shared_ptr<gpu::Device> device, FrameRegion frames, u32 batch, u32 depth, u32 most)
      : frames_(frames), batch_(batch), depth_(depth), most_(most), device_(std::move(device)) {}

  FrameRegion frames_;
  u32 batch_, depth_, most_;
  bool loaded_ = false;
  std::vector<u32> expected_;  // by slot and place
  std::vector<xg_alerts> alerts_;
  std::function<void(std::span<const xg_descriptor>)> prepare_;
  gpu::Drive drive_ = gpu::Drive::launched;
  std::shared_ptr<gpu::Device> device_;
  std::unique_ptr<gpu::Queue> queue_;
};

}  // namespace xdpgpu::bench
