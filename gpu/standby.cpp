// SPDX-License-Identifier: MIT
#include "gpu/standby.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "gpu/pipelines.hpp"
#include "gpu/slots.hpp"
#include "gpu/thread.hpp"

namespace xdpgpu::gpu {
namespace {

enum class Failure : u8 { none, reported, silent };

// What the queues of a device share.
struct Shared {
  std::atomic<Failure> failure{Failure::none};
  u64 hung_ns = 0;

  bool failed() const noexcept { return failure.load(std::memory_order_acquire) != Failure::none; }
  // The first one counts.
  void fail(Failure how) noexcept {
    Failure none = Failure::none;
    failure.compare_exchange_strong(none, how, std::memory_order_acq_rel);
  }
};

// Slots of its own, whose memory is the device's as long as it works. Of two threads, the one that feeds
// submits to the device, and the one that retires has the standby decide.
class StandbyQueue final : public Queue {
 public:
  StandbyQueue(Shared& shared, const QueueOptions& options, std::unique_ptr<Queue> device,
               std::unique_ptr<Queue> standby)
      : shared_(shared),
        ring_(options),
        batches_(options.depth),
        device_(std::move(device)),
        standby_(std::move(standby)) {
    for (Batch& batch : batches_) {
      batch.descriptors.resize(options.batch_capacity);
      batch.results.resize(options.batch_capacity);
    }
  }

  Slot* acquire() noexcept override {
    Slot* slot = ring_.acquire();
    if (slot == nullptr) return nullptr;
    Batch& batch = batches_[slot->index];
    // As many as there are here are there: it is null only where a failure came between.
    batch.at_device = shared_.failed() ? nullptr : device_->acquire();
    batch.submitted = false;
    slot->standby = false;
    slot->descriptors = batch.at_device != nullptr ? batch.at_device->descriptors : batch.descriptors.data();
    slot->results = batch.at_device != nullptr ? batch.at_device->results : batch.results.data();
    return slot;
  }

  Submit submit(Slot* slot, u32 count, u32 generation) noexcept override {
    Batch& batch = batches_[slot->index];
    if (batch.at_device != nullptr && !shared_.failed()) {
      batch.submitted_ns = monotonic_ns();
      switch (device_->submit(batch.at_device, count, generation)) {
        case Submit::ok:
          batch.submitted = true;
          break;
        case Submit::unknown_generation:
          return Submit::unknown_generation;
        case Submit::device_failed:
          shared_.fail(Failure::reported);
          break;
      }
    }
    ring_.submitted(slot, count, generation);
    return Submit::ok;
  }

  Slot* poll() noexcept override {
    const Slot* oldest = ring_.oldest();
    if (oldest == nullptr) return nullptr;
    Batch& batch = batches_[oldest->index];
    if (batch.submitted && !shared_.failed()) {
      const Slot* done = device_->poll();
      if (done != nullptr && !done->failed) return ring_.retire(false);
      if (done == nullptr && monotonic_ns() < batch.submitted_ns + shared_.hung_ns) return nullptr;
      shared_.fail(done != nullptr ? Failure::reported : Failure::silent);
    }
    return decide(ring_.at(ring_.oldest_ticket()), batch);
  }

  void release(Slot* slot) noexcept override {
    Batch& batch = batches_[slot->index];
    // A failed one's slots stay as they are: it may still write there.
    if (batch.at_device != nullptr && !shared_.failed()) device_->release(batch.at_device);
    batch.at_device = nullptr;
    ring_.release(slot);
  }

  u32 in_flight() const noexcept override { return ring_.in_flight(); }

 private:
  struct Batch {
    Slot* at_device = nullptr;
    bool submitted = false;  // to the device
    u64 submitted_ns = 0;
    // Once the device has failed.
    std::vector<xg_descriptor> descriptors;
    std::vector<xg_result> results;
  };

  // The oldest batch, by the standby.
  Slot* decide(const Slot& oldest, Batch& batch) noexcept {
    Slot* at_standby = standby_->acquire();
    std::copy_n(oldest.descriptors, oldest.count, at_standby->descriptors);
    const bool taken = standby_->submit(at_standby, oldest.count, oldest.generation) == Submit::ok;
    if (taken) {
      const Slot* done = standby_->poll();
      std::copy_n(done->results, oldest.count, batch.results.data());
    }
    std::copy_n(oldest.descriptors, oldest.count, batch.descriptors.data());
    standby_->release(at_standby);
    Slot* slot = ring_.retire(!taken);
    slot->descriptors = batch.descriptors.data();
    slot->results = batch.results.data();
    slot->standby = true;
    return slot;
  }

  Shared& shared_;
  SlotRing ring_;
  std::vector<Batch> batches_;  // by slot
  std::unique_ptr<Queue> device_;
  std::unique_ptr<Queue> standby_;
};

class WithStandby final : public Device {
 public:
  WithStandby(std::unique_ptr<Device> device, std::unique_ptr<Device> standby, const StandbyOptions& options)
      : device_(std::move(device)), standby_(std::move(standby)) {
    shared_.hung_ns = options.hung_ns;
  }

  const DeviceInfo& info() const noexcept override { return device_->info(); }

  Result<void> register_frames(void* base, u64 bytes, Frames frames) override {
    if (auto registered = standby_->register_frames(base, bytes, Frames::in_place); !registered)
      return registered;
    return device_->register_frames(base, bytes, frames);
  }
  Frames frames() const noexcept override { return device_->frames(); }

  Result<void> load(u32 generation, std::shared_ptr<const Pipelines> pipelines) override {
    if (auto loaded = standby_->load(generation, Pipelines::loosened(pipelines)); !loaded) return loaded;
    // Nothing is to be had of a device that has failed.
    if (shared_.failed()) return {};
    auto loaded = device_->load(generation, std::move(pipelines));
    if (!loaded) standby_->unload(generation);
    return loaded;
  }
  Result<void> read_state(u32 generation, u32 table, u64 first, std::span<u32> words) override {
    return (shared_.failed() ? standby_ : device_)->read_state(generation, table, first, words);
  }
  void unload(u32 generation) noexcept override {
    // What a failed one has loaded it may still read.
    if (!shared_.failed()) device_->unload(generation);
    standby_->unload(generation);
  }

  Result<bool> publish_flows(const std::vector<FlowTables>& ports) override {
    return device_->publish_flows(ports);
  }

  Result<std::unique_ptr<Queue>> open_queue(const QueueOptions& options) override {
    auto device = device_->open_queue(options);
    if (!device) return device;
    // It is given one batch at a time.
    auto standby = standby_->open_queue({options.batch_capacity, 1, Drive::launched, options.receive_queue});
    if (!standby) return standby;
    return std::make_unique<StandbyQueue>(shared_, options, std::move(*device), std::move(*standby));
  }

  Result<std::unique_ptr<Mirror>> open_mirror(const MirrorOptions& options) override {
    if (shared_.failed())
      return tl::unexpected(fmt::format(
          "{} has failed, and mirrored packets are looked at by no standby: attach again", info().name));
    return device_->open_mirror(options);
  }

  std::string degraded() const override {
    switch (shared_.failure.load(std::memory_order_acquire)) {
      case Failure::none:
        break;
      case Failure::reported:
        return fmt::format("{} failed, and {} decides in its place", info().name, standby_->info().name);
      case Failure::silent:
        return fmt::format("{} has not answered for {} ms, and {} decides in its place", info().name,
                           shared_.hung_ns / 1'000'000, standby_->info().name);
    }
    return {};
  }

 private:
  Shared shared_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Device> standby_;
};

}  // namespace

std::unique_ptr<Device> with_standby(std::unique_ptr<Device> device, std::unique_ptr<Device> standby,
                                     const StandbyOptions& options) {
  return std::make_unique<WithStandby>(std::move(device), std::move(standby), options);
}

}  // namespace xdpgpu::gpu
