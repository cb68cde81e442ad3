// SPDX-License-Identifier: MIT
#include "bench/umem/queue.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "bench/device_name.hpp"
#include "gpu/thread.hpp"
#include "userspace/dataplane/batcher.hpp"

namespace xdpgpu::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kPatience = std::chrono::seconds(5);

}  // namespace

gpu::Result<std::unique_ptr<DeviceQueue>> DeviceQueue::open(const std::string& device, FrameRegion frames,
                                                            gpu::Frames how, u32 batch, u32 depth, u32 most) {
  const auto name = device_name(device);
  if (!name) return tl::unexpected(name.error());
  auto opened = gpu::open_device(name->device);
  if (!opened) return tl::unexpected(opened.error());
  std::unique_ptr<DeviceQueue> made(
      new DeviceQueue(*std::move(opened), frames, batch, depth, std::max(batch, most)));
  auto ready = made->device_->register_frames(frames.base, frames.bytes, how).and_then([&] {
    return made->open_queue(name->drive);
  });
  if (!ready) return tl::unexpected(ready.error());
  return made;
}

gpu::Result<std::unique_ptr<DeviceQueue>> DeviceQueue::open_beside(const DeviceQueue& other,
                                                                   FrameRegion frames, u32 batch, u32 depth) {
  std::unique_ptr<DeviceQueue> made(new DeviceQueue(other.device_, frames, batch, depth, batch));
  if (auto ready = made->open_queue(other.drive_); !ready) return tl::unexpected(ready.error());
  return made;
}

gpu::Result<void> DeviceQueue::open_queue(gpu::Drive drive) {
  drive_ = drive;
  auto queue = device_->open_queue({.batch_capacity = most_, .depth = depth_, .drive = drive});
  if (!queue) return tl::unexpected(queue.error());
  queue_ = *std::move(queue);
  describe_frames();
  return {};
}

void DeviceQueue::describe_frames() {
  std::vector<gpu::Slot*> slots;
  while (gpu::Slot* slot = queue_->acquire()) {
    std::copy_n(frames_.descriptors.begin() + slot->index * most_, most_, slot->descriptors);
    slots.push_back(slot);
  }
  for (gpu::Slot* slot : slots) queue_->release(slot);
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
  const u32 count = depth_ > 1 && queue_->in_flight() + 1 >= depth_ ? most_ : batch_;
  // What is found there later is to be what the device writes, not what it wrote.
  for (u32 i = 0; forget && i < count; ++i) slot->results[i].verdict = ~0u;
  if (prepare_) prepare_({slot->descriptors, count});
  if (queue_->submit(slot, count, kGeneration) == gpu::Submit::ok) return true;
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
    for (u32 i = 0; i < slot->count && problem.empty(); ++i) {
      hold(slot->results[i].verdict, slot->index * most_ + i, problem);
      hold_alerts(*slot, i, problem);
    }
    queue_->release(slot);
  }
}

void DeviceQueue::hold(u32 verdict, u32 frame, std::string& problem) const {
  if (verdict != expected_[frame])
    problem = fmt::format("frame {} got the verdict {:#x}, {:#x} is right", frame, verdict, expected_[frame]);
}

void DeviceQueue::hold_alerts(const gpu::Slot& slot, u32 place, std::string& problem) const {
  const u32 frame = slot.index * most_ + place;
  if (frame >= alerts_.size() || !problem.empty()) return;
  const bool told = (slot.results[place].flags & XG_RES_ALERTS) != 0;
  const xg_alerts got = told ? slot.alerts[place] : xg_alerts{};
  if (std::memcmp(&got, &alerts_[frame], sizeof(got)) != 0)
    problem = fmt::format(
        "frame {} has {:#x} as its number of rules told, the first of them {}; {:#x} and {} are right", frame,
        u32{got.count}, u32{got.rules[0]}, u32{alerts_[frame].count}, u32{alerts_[frame].rules[0]});
}

std::vector<double> DeviceQueue::paced(double packets_per_second, double seconds, std::string& problem) {
  constexpr u64 kMaxWaitNs = 50'000;
  constexpr u64 kPatienceNs = std::chrono::nanoseconds(kPatience).count();
  dataplane::Batcher batcher(*queue_, batch_, depth_, kMaxWaitNs, dataplane::Closing::by_load, nullptr,
                             most_);
  const auto all = static_cast<u64>(packets_per_second * seconds);
  const auto frames = frames_.descriptors.size();
  std::vector<u64> firsts(depth_);  // packets, by slot
  std::vector<double> microseconds;
  microseconds.reserve(all);
  const u64 start_ns = gpu::monotonic_ns();
  const auto due_ns = [&](u64 packet) {
    return start_ns + static_cast<u64>(static_cast<double>(packet) * 1e9 / packets_per_second);
  };
  u64 sent = 0, answered_ns = start_ns;
  while (problem.empty() && microseconds.size() < all) {
    const u64 now_ns = gpu::monotonic_ns();
    for (; sent < all && due_ns(sent) <= now_ns; ++sent) {
      dataplane::Batch* batch = batcher.open(kGeneration, now_ns);
      if (batch == nullptr) break;
      if (batch->count == 0) firsts[batch->slot->index] = sent;
      const xg_descriptor& frame = frames_.descriptors[sent % frames];
      xg_metadata metadata{};
      metadata.rx_time_ns = due_ns(sent);
      batch->add(frame.offset, frame.length, 0, metadata);
    }
    batcher.submit_if_due(now_ns, true);
    while (dataplane::Batch* batch = batcher.poll()) {
      answered_ns = gpu::monotonic_ns();
      batcher.took(answered_ns - batch->submitted_ns);
      if (batch->outcome != dataplane::Outcome::decided) problem = "the device failed under a batch";
      for (u32 i = 0; i < batch->count && problem.empty(); ++i) {
        const u64 packet = firsts[batch->slot->index] + i;
        hold(batch->slot->results[i].verdict, static_cast<u32>(packet % frames), problem);
        microseconds.push_back(static_cast<double>(answered_ns - due_ns(packet)) / 1e3);
      }
      batcher.release(batch);
    }
    if (now_ns > answered_ns + kPatienceNs) problem = "the device has answered nothing for 5 s";
  }
  describe_frames();
  return microseconds;
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
    packets += slot->count;
    queue_->release(slot);
  }
  rate.packets_per_second = static_cast<double>(packets) / elapsed();
  drain(rate.problem);
  check(rate.problem);
  return rate;
}

}  // namespace xdpgpu::bench
