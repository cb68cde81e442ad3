// SPDX-License-Identifier: MIT
#include "userspace/control/program_cost.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>
#include <span>
#include <utility>

#include "gpu/device_code.hpp"
#include "gpu/gpu.hpp"
#include "gpu/program_translation.hpp"
#include "maps/parse.h"
#include "userspace/compiler/translations.hpp"
#include "userspace/dataplane/checksum.hpp"
#include "userspace/dataplane/frame_region.hpp"
#include "userspace/host/capture.hpp"

namespace xdpgpu::control {
namespace {

using Clock = std::chrono::steady_clock;

constexpr u32 kGeneration = 1, kDepth = 4;
constexpr u32 kMostFrames = 8192;  // different ones: more than a processor's nearest caches have room for
constexpr std::chrono::milliseconds kMeasured{150};
// A device that is not through by then. Before its first batch it may have to compile: software Vulkan does.
constexpr std::chrono::seconds kLongest{10}, kLongestFirst{90};

constexpr std::size_t kLeastFrame = 14;  // an Ethernet header

// A GPU wants many packets at a time; software is to be through with some of them.
u32 batch_of(const gpu::DeviceInfo& info) {
  if (info.kind == gpu::Kind::cpu) return 1024;
  return info.software ? 32 : kMostFrames;
}

void put16(std::vector<u8>& frame, u32 value) {
  frame.push_back(static_cast<u8>(value >> 8));
  frame.push_back(static_cast<u8>(value));
}

std::vector<u8> made_up_frame(std::mt19937_64& random, bool six, bool tcp) {
  std::vector<u8> frame{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1};
  const u32 l4_bytes = tcp ? 20 : 8;
  put16(frame, six ? 0x86dd : 0x0800);
  const auto put_random = [&](u32 bytes) {
    for (u32 i = 0; i < bytes; i++) frame.push_back(static_cast<u8>(random()));
  };
  const u8 protocol = tcp ? 6 : 17;
  if (six) {
    frame.insert(frame.end(), {0x60, 0, 0, 0, 0, static_cast<u8>(l4_bytes), protocol, 64});
    put_random(32);
  } else {
    const std::size_t header = frame.size();
    frame.insert(frame.end(), {0x45, 0});
    put16(frame, 20 + l4_bytes);
    frame.insert(frame.end(), {0, 0, 0x40, 0, 64, protocol, 0, 0});
    put_random(8);
    const u16 checksum = static_cast<u16>(~dataplane::ones_sum(&frame[header], 20));
    std::memcpy(&frame[header + 10], &checksum, sizeof(checksum));
  }
  put_random(4);  // ports
  if (tcp) {
    put_random(8);
    frame.insert(frame.end(), {0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0});
  } else {
    put16(frame, l4_bytes);
    put16(frame, 0);
  }
  if (frame.size() < 60) frame.resize(60);
  return frame;
}

xg_metadata metadata_of(std::span<const u8> frame, u32 number) {
  xg_packet packet{};
  xg_parse_part(frame.data(), frame.data() + frame.size(), static_cast<u32>(frame.size()), 0, &packet);
  xg_metadata metadata{};
  xg_metadata_from(&metadata, &packet, number);
  metadata.rx_time_ns = u64{number} * 1000;
  metadata.generation = kGeneration;
  metadata.sequence = number;
  return metadata;
}

// Decides them over and over.
class Measurement {
 public:
  Measurement(gpu::Device& device, const CostFrames& frames, const dataplane::FrameRegion& region)
      : device_(device), batch_(std::min(batch_of(device.info()), kMostFrames)) {
    for (u32 i = 0; i < frames.size(); i++) {
      const u64 at = u64{i} * XG_CHUNK_SIZE + XG_FRAME_DATA;
      const xg_metadata metadata = metadata_of(frames[i], i);
      std::memcpy(region.base() + at - XG_METADATA_SIZE, &metadata, sizeof(metadata));
      std::memcpy(region.base() + at, frames[i].data(), frames[i].size());
      packets_.push_back({at, static_cast<u32>(frames[i].size()), 0});
    }
  }

  Result<ProgramCost> run() {
    auto queue = device_.open_queue({.batch_capacity = batch_, .depth = kDepth});
    if (!queue) return Error(queue.error());
    queue_ = std::move(*queue);
    // The first batches are not of it: memory is looked at for the first time, kernels come to the device.
    for (const auto least : {std::chrono::milliseconds(0), kMeasured})
      if (auto done = decide(least); !done) return Error(done.error());
    return ProgramCost{device_.info().name, elapsed_ / static_cast<double>(decided_), batch_};
  }

 private:
  Result<void> decide(std::chrono::milliseconds least) {
    const auto start = Clock::now();
    const auto longest = least.count() == 0 ? kLongestFirst : kLongest;
    decided_ = 0;
    for (u32 under_way = 0; under_way != 0 || decided_ == 0;) {
      const auto now = Clock::now() - start;
      if (now > longest)
        return Error(fmt::format("{} is not through with {} packets after {} s", device_.info().name,
                                 batch_ * kDepth, longest.count()));
      if (decided_ == 0 || now < least)
        while (gpu::Slot* const slot = queue_->acquire()) {
          for (u32 i = 0; i < batch_; i++) slot->descriptors[i] = packets_[next_++ % packets_.size()];
          if (queue_->submit(slot, batch_, kGeneration) != gpu::Submit::ok) return failed();
          under_way++;
        }
      gpu::Slot* const slot = queue_->poll();
      if (slot == nullptr) continue;
      if (slot->failed) return failed();
      queue_->release(slot);
      decided_ += batch_;
      under_way--;
    }
    elapsed_ = std::chrono::duration<double, std::nano>(Clock::now() - start).count();
    return {};
  }
  Result<void> failed() const {
    return Error(fmt::format("{} failed over them: they may take more instructions than it gets through",
                             device_.info().name));
  }

  gpu::Device& device_;
  const u32 batch_;
  std::vector<xg_descriptor> packets_;
  std::unique_ptr<gpu::Queue> queue_;
  std::size_t next_ = 0;
  u64 decided_ = 0;
  double elapsed_ = 0;  // nanoseconds
};

// As a data plane has it there: translated where that can be had.
std::shared_ptr<const gpu::Pipelines> for_device(const gpu::Device& device,
                                                 std::shared_ptr<const gpu::Pipelines> pipelines) {
  const auto built_in = device.code();
  if (built_in == nullptr || !compiler::load_translator()) return pipelines;
  auto made =
      compiler::Translations().translate(gpu::programs::programs_of(*pipelines), built_in->architecture);
  if (!made) return pipelines;
  return gpu::Pipelines::with_code(pipelines, std::make_shared<const gpu::DeviceCode>(*std::move(made)));
}

}  // namespace

CostFrames made_up_frames() {
  std::mt19937_64 random(1);  // NOLINT(cert-msc51-cpp): the same ones each time
  CostFrames frames;
  for (u32 i = 0; i < kMostFrames; i++) frames.push_back(made_up_frame(random, i % 4 == 0, i % 2 == 0));
  return frames;
}

Result<CostFrames> frames_of_capture(const std::string& path) {
  auto capture = host::Capture::open(path);
  if (!capture) return Error(capture.error());
  CostFrames frames;
  while (frames.size() < kMostFrames) {
    const auto packet = (*capture)->next();
    if (!packet) break;
    const auto shown = packet->frame.first(std::min<std::size_t>(packet->frame.size(), XG_FRAME_MAX));
    if (shown.size() >= kLeastFrame) frames.emplace_back(shown.begin(), shown.end());
  }
  if (frames.empty())
    return Error(fmt::format("{} has no packet: name a capture that has some{}", path,
                             (*capture)->problem().empty() ? "" : "; " + (*capture)->problem()));
  return frames;
}

Result<ProgramCost> cost_on(const std::string& device, std::shared_ptr<const gpu::Pipelines> pipelines,
                            const CostFrames& frames) {
  if (frames.empty() || frames.size() > kMostFrames)
    return Error(fmt::format("1 to {} packets can be measured with", kMostFrames));
  auto region = dataplane::FrameRegion::create(static_cast<u32>(frames.size()), false);
  if (!region) return Error(region.error());
  auto opened = gpu::open_device(device);
  if (!opened) return Error(opened.error());
  gpu::Device& one = **opened;
  if (auto done = one.register_frames((*region)->base(), (*region)->bytes(), gpu::Frames::automatic); !done)
    return Error(done.error());
  if (auto done = one.load(kGeneration, for_device(one, std::move(pipelines))); !done)
    return Error(done.error());
  return Measurement(one, frames, **region).run();
}

}  // namespace xdpgpu::control
