// SPDX-License-Identifier: MIT
#include "bench/umem/queue.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "bench/device_name.hpp"

namespace xdpgpu::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kPatience = std::chrono::seconds(5);

}  // namespace

gpu::Result<std::unique_ptr<DeviceQueue>> DeviceQueue::open(const std::string& device, FrameRegion frames,
                                                            gpu::Frames how, u32 batch, u32 depth) {
  const auto name = device_name(device);
  if (!name) return tl::unexpected(name.error());
  auto opened = gpu::open_device(name->device);
  if (!opened) return tl::unexpected(opened.error());
  std::unique_ptr<DeviceQueue> made(new DeviceQueue(*std::move(opened), frames, batch, depth));
  if (auto ready = made->prepare(name->drive, how); !ready) return tl::unexpected(ready.error());
  return made;
}

gpu::Result<void> DeviceQueue::prepare(gpu::Drive drive, gpu::Frames how) {
  if (auto ok = device_->register_frames(frames_.base, frames_.bytes, how); !ok) return ok;
  auto queue = device_->open_queue({.batch_capacity = batch_, .depth = depth_, .drive = drive});
  if (!queue) return tl::unexpected(queue.error());
  queue_ = *std::move(queue);
  std::vector<gpu::Slot*> slots;
  while (gpu::Slot* slot = queue_->acquire()) {
    std::copy_n(frames_.descriptors.begin() + slot->index * batch_, batch_, slot->descriptors);
    slots.push_back(slot);
  }
  for (gpu::Slot* slot : slots) queue_->release(slot);
  return {};
}

gpu::Result<void> DeviceQueue::load(std::shared_ptr<const gpu::Pipelines> pipelines) {
  if (loaded_) device_->unload(kGeneration);
  loaded_ = false;
  if (auto ok = device_->load(kGeneration, std::move(pipelines)); !ok) return ok;
  loaded_ = true;
  return {};
}

gpu::Slot* DeviceQueue::wait(std::string& problem) {
  const auto start = Clock::now();
  for (u32 looks = 1;; ++looks) {
    if (gpu::Slot* slot = queue_->poll()) {
      if (slot->failed) problem = "the device failed under a batch";
      return slot;
    }
    if (looks % 1024 == 0 && Clock::now() - start > kPatience) {
      problem = "the device has answered nothing for 5 s";
      return nullptr;
    }
  }
}

// False: no slot is free.
bool DeviceQueue::submit(std::string& problem, bool forget) {
  gpu::Slot* slot = queue_->acquire();
  if (slot == nullptr) return false;
  // What is found there later is to be what the device writes, not what it wrote.
  for (u32 i = 0; forget && i < batch_; ++i) slot->results[i].verdict = ~0u;
  if (queue_->submit(slot, batch_, kGeneration) == gpu::Submit::ok) return true;
  problem = "the device takes no batch: it is lost";
  return false;
}

void DeviceQueue::drain(std::string& problem) {
  while (problem.empty() && queue_->in_flight() != 0)
    if (gpu::Slot* slot = wait(problem)) queue_->release(slot);
}

void DeviceQueue::check(std::string& problem) {
  while (problem.empty() && submit(problem, true)) {
  }
  while (problem.empty() && queue_->in_flight() != 0) {
    gpu::Slot* slot = wait(problem);
    if (slot == nullptr) return;
    for (u32 i = 0; i < batch_ && problem.empty(); ++i) {
      const u32 frame = slot->index * batch_ + i;
      if (slot->results[i].verdict != expected_[frame])
        problem = fmt::format("frame {} got the verdict {:#x}, {:#x} is right", frame,
                              slot->results[i].verdict, expected_[frame]);
    }
    queue_->release(slot);
  }
}

std::vector<double> DeviceQueue::alone(double seconds, std::string& problem) {
  constexpr std::size_t kMost = 10'000;
  std::vector<double> microseconds;
  const auto begin = Clock::now();
  const auto since = [](Clock::time_point then) {
    return std::chrono::duration<double>(Clock::now() - then).count();
  };
  while (problem.empty() && microseconds.size() < kMost && since(begin) < seconds) {
    const auto start = Clock::now();
    if (!submit(problem, false)) break;
    gpu::Slot* slot = wait(problem);
    if (slot == nullptr) break;
    microseconds.push_back(since(start) * 1e6);
    queue_->release(slot);
  }
  return microseconds;
}

Rate DeviceQueue::run(double seconds) {
  Rate rate;
  check(rate.problem);
  u64 packets = 0;
  const auto start = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  while (rate.problem.empty() && elapsed() < seconds) {
    while (submit(rate.problem, false)) {
    }
    gpu::Slot* slot = rate.problem.empty() ? wait(rate.problem) : nullptr;
    if (slot == nullptr) break;
    packets += batch_;
    queue_->release(slot);
  }
  rate.packets_per_second = static_cast<double>(packets) / elapsed();
  drain(rate.problem);
  check(rate.problem);
  return rate;
}

}  // namespace xdpgpu::bench
