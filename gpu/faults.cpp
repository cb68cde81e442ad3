// SPDX-License-Identifier: MIT
#include "gpu/faults.hpp"

#include <fmt/format.h>

#include <atomic>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <vector>

namespace xdpgpu::gpu {
namespace {

enum class Fault { fail, refuse, hang, lose, die };

struct Plan {
  Fault fault = Fault::fail;
  u64 from = 0;
};

constexpr u8 kScribble = 0xee;

std::optional<Plan> read_plan(std::string_view text) {
  Plan plan;
  const auto colon = text.find(':');
  const auto word = text.substr(0, colon);
  if (word == "fail")
    plan.fault = Fault::fail;
  else if (word == "refuse")
    plan.fault = Fault::refuse;
  else if (word == "hang")
    plan.fault = Fault::hang;
  else if (word == "lose")
    plan.fault = Fault::lose;
  else if (word == "die")
    plan.fault = Fault::die;
  else
    return std::nullopt;
  const auto number = colon == text.npos ? std::string_view{} : text.substr(colon + 1);
  const auto read = std::from_chars(number.data(), number.data() + number.size(), plan.from);
  if (read.ec != std::errc{} || read.ptr != number.data() + number.size() || plan.from == 0)
    return std::nullopt;
  return plan;
}

void scribble(const Slot& slot) {
  std::memset(static_cast<void*>(slot.results), kScribble, slot.count * sizeof(xg_result));
  std::memset(static_cast<void*>(slot.edits), kScribble, slot.count * sizeof(xg_edit));
  std::memset(static_cast<void*>(slot.adjusts), kScribble, slot.count * sizeof(xg_adjust));
  std::memset(static_cast<void*>(slot.alerts), kScribble, slot.count * sizeof(xg_alerts));
  std::memset(static_cast<void*>(slot.patches), kScribble, slot.count * sizeof(xg_patch));
  std::memset(static_cast<void*>(slot.events), kScribble, slot.count * sizeof(xg_event));
}

class FaultyQueue final : public Queue {
 public:
  FaultyQueue(const Plan& plan, std::atomic<u64>& batches, std::unique_ptr<Queue> queue)
      : plan_(plan), batches_(batches), queue_(std::move(queue)) {}

  Slot* acquire() noexcept override { return queue_->acquire(); }
  Submit submit(Slot* slot, u32 count, u32 generation) noexcept override {
    const bool broken = batches_.fetch_add(1) + 1 >= plan_.from;
    if (broken && plan_.fault == Fault::die) std::abort();
    if (broken && (plan_.fault == Fault::refuse || plan_.fault == Fault::lose)) return Submit::device_failed;
    const Submit submitted = queue_->submit(slot, count, generation);
    if (submitted != Submit::ok) return submitted;
    if (!broken)
      sound_.fetch_add(1, std::memory_order_release);
    else
      broken_.store(slot, std::memory_order_release);
    return submitted;
  }
  // Once a batch of a queue is broken, so are those after it.
  Slot* poll() noexcept override {
    if (polled_ == sound_.load(std::memory_order_acquire) && plan_.fault == Fault::hang) {
      if (const Slot* slot = broken_.load(std::memory_order_acquire)) scribble(*slot);
      return nullptr;
    }
    const bool sound = polled_ < sound_.load(std::memory_order_acquire);
    Slot* slot = queue_->poll();
    if (slot == nullptr) return nullptr;
    ++polled_;
    if (!sound) {
      slot->failed = true;
      scribble(*slot);
    }
    return slot;
  }
  void release(Slot* slot) noexcept override { queue_->release(slot); }
  u32 in_flight() const noexcept override { return queue_->in_flight(); }
  Choice choice() const noexcept override { return queue_->choice(); }

 private:
  const Plan plan_;
  std::atomic<u64>& batches_;
  std::unique_ptr<Queue> queue_;
  std::atomic<u64> sound_{0};  // batches that were submitted before the fault
  std::atomic<const Slot*> broken_{nullptr};
  u64 polled_ = 0;
};

class FaultyDevice final : public Device {
 public:
  FaultyDevice(std::unique_ptr<Device> device, const Plan& plan) : device_(std::move(device)), plan_(plan) {}

  const DeviceInfo& info() const noexcept override { return device_->info(); }
  Result<void> register_frames(void* base, u64 bytes, Frames frames) override {
    return device_->register_frames(base, bytes, frames);
  }
  Frames frames() const noexcept override { return device_->frames(); }
  Result<void> load(u32 generation, std::shared_ptr<const Pipelines> pipelines) override {
    if (plan_.fault == Fault::lose && batches_.fetch_add(1) + 1 >= plan_.from)
      return tl::unexpected(fmt::format("{} is lost", info().name));
    return device_->load(generation, std::move(pipelines));
  }
  Result<void> read_state(u32 generation, u32 table, u64 first, std::span<u32> words) override {
    return device_->read_state(generation, table, first, words);
  }
  Result<void> edit_state(u32 generation, u32 table, const Edit& edit) override {
    return device_->edit_state(generation, table, edit);
  }
  Result<void> change_words(u32 generation, std::span<const ChangedWords> changes) override {
    return device_->change_words(generation, changes);
  }
  void unload(u32 generation) noexcept override { device_->unload(generation); }
  std::shared_ptr<const DeviceCode> code() const override { return device_->code(); }
  Result<bool> publish_flows(const std::vector<FlowTables>& ports) override {
    return device_->publish_flows(ports);
  }
  Result<std::unique_ptr<Queue>> open_queue(const QueueOptions& options) override {
    auto queue = device_->open_queue(options);
    if (!queue) return queue;
    return std::make_unique<FaultyQueue>(plan_, batches_, std::move(*queue));
  }
  Result<std::unique_ptr<Mirror>> open_mirror(const MirrorOptions& options) override {
    return device_->open_mirror(options);
  }
  bool lost() noexcept override {
    return device_->lost() || (plan_.fault == Fault::lose && batches_ >= plan_.from);
  }

 private:
  std::unique_ptr<Device> device_;
  const Plan plan_;
  std::atomic<u64> batches_{0};  // lose: and policies
};

}  // namespace

Result<std::unique_ptr<Device>> with_fault(std::unique_ptr<Device> device, std::string_view fault) {
  const auto plan = read_plan(fault);
  if (!plan)
    return tl::unexpected(fmt::format(
        "\"{}\" is no fault: it must be fail:N, refuse:N, hang:N, lose:N or die:N, N counting batches from 1",
        fault));
  return std::make_unique<FaultyDevice>(std::move(device), *plan);
}

}  // namespace xdpgpu::gpu
