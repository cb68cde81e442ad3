// SPDX-License-Identifier: MIT
#include "gpu/standby.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <system_error>
#include <vector>

#include "gpu/pipelines.hpp"
#include "gpu/slots.hpp"
#include "gpu/thread.hpp"

namespace xdpgpu::gpu {
namespace {

enum class Failure : u8 { none, reported, silent };

// The device, from one opening to its failure.
struct Life {
  std::unique_ptr<Device> device;
  u64 since_ns = monotonic_ns();
  std::atomic<Failure> failure{Failure::none};

  explicit Life(std::unique_ptr<Device> opened) : device(std::move(opened)) {}
  bool failed() const noexcept { return failure.load(std::memory_order_acquire) != Failure::none; }
  // The first one counts.
  void fail(Failure how) noexcept {
    Failure none = Failure::none;
    failure.compare_exchange_strong(none, how, std::memory_order_acq_rel);
  }
};

// A queue of the device's, in one of its lives.
struct LiveQueue {
  Life* life = nullptr;
  std::unique_ptr<Queue> queue;
};

class StandbyQueue;

// The queues that are open.
struct OpenQueues {
  std::mutex mutex;
  std::vector<StandbyQueue*> all;
};

// Slots of its own, whose memory is the device's as long as it works. Of two threads, the one that feeds
// submits to the device, and the one that retires has the standby decide.
class StandbyQueue final : public Queue {
 public:
  StandbyQueue(OpenQueues& open, const QueueOptions& options, u64 hung_ns, LiveQueue first,
               std::unique_ptr<Queue> standby)
      : open_(open),
        options_(options),
        hung_ns_(hung_ns),
        ring_(options),
        batches_(options.depth),
        standby_(std::move(standby)) {
    queues_.push_back(std::move(first));
    now_ = &queues_.back();
    newest_ = now_;
    for (Batch& batch : batches_) {
      batch.descriptors.resize(options.batch_capacity);
      batch.results.resize(options.batch_capacity);
      batch.edits.resize(options.batch_capacity);
      batch.adjusts.resize(options.batch_capacity);
      batch.alerts.resize(options.batch_capacity);
      batch.patches.resize(options.batch_capacity);
      batch.events.resize(options.batch_capacity);
    }
    const std::lock_guard lock(open_.mutex);
    open_.all.push_back(this);
  }
  ~StandbyQueue() override {
    const std::lock_guard lock(open_.mutex);
    std::erase(open_.all, this);
  }

  const QueueOptions& options() const noexcept { return options_; }
  // Control thread: the device is back, and decides what comes once all before it has been released.
  void go_on_with(LiveQueue queue) {
    queues_.push_back(std::move(queue));
    newest_.store(&queues_.back(), std::memory_order_release);
  }

  Slot* acquire() noexcept override {
    if (LiveQueue* newest = newest_.load(std::memory_order_acquire); newest != now_) {
      if (!ring_.idle()) return nullptr;
      now_ = newest;
    }
    Slot* slot = ring_.acquire();
    if (slot == nullptr) return nullptr;
    Batch& batch = batches_[slot->index];
    batch.at = now_;
    // As many as there are here are there: it is null only where a failure came between.
    batch.at_device = now_->life->failed() ? nullptr : now_->queue->acquire();
    batch.submitted = false;
    slot->standby = false;
    if (batch.at_device != nullptr) {
      slot->descriptors = batch.at_device->descriptors;
      slot->results = batch.at_device->results;
      slot->edits = batch.at_device->edits;
      slot->adjusts = batch.at_device->adjusts;
      slot->alerts = batch.at_device->alerts;
      slot->patches = batch.at_device->patches;
      slot->events = batch.at_device->events;
    } else {
      batch.lend(*slot);
    }
    return slot;
  }

  Submit submit(Slot* slot, u32 count, u32 generation) noexcept override {
    Batch& batch = batches_[slot->index];
    if (batch.at_device != nullptr && !batch.at->life->failed()) {
      batch.submitted_ns = monotonic_ns();
      switch (batch.at->queue->submit(batch.at_device, count, generation)) {
        case Submit::ok:
          batch.submitted = true;
          break;
        case Submit::unknown_generation:
          return Submit::unknown_generation;
        case Submit::device_failed:
          batch.at->life->fail(Failure::reported);
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
    Life& life = *batch.at->life;
    if (batch.submitted && !life.failed()) {
      const Slot* done = batch.at->queue->poll();
      if (done != nullptr && !done->failed) return ring_.retire(false);
      if (done == nullptr && monotonic_ns() < batch.submitted_ns + hung_ns_) return nullptr;
      life.fail(done != nullptr ? Failure::reported : Failure::silent);
    }
    return decide(ring_.at(ring_.oldest_ticket()), batch);
  }

  void release(Slot* slot) noexcept override {
    Batch& batch = batches_[slot->index];
    // A failed one's slots stay as they are: it may still write there.
    if (batch.at_device != nullptr && !batch.at->life->failed()) batch.at->queue->release(batch.at_device);
    batch.at_device = nullptr;
    ring_.release(slot);
  }

  u32 in_flight() const noexcept override { return ring_.in_flight(); }
  Choice choice() const noexcept override { return newest_.load(std::memory_order_acquire)->queue->choice(); }

 private:
  struct Batch {
    LiveQueue* at = nullptr;
    Slot* at_device = nullptr;
    bool submitted = false;  // to the device
    u64 submitted_ns = 0;
    // Once the device has failed.
    std::vector<xg_descriptor> descriptors;
    std::vector<xg_result> results;
    std::vector<xg_edit> edits;
    std::vector<xg_adjust> adjusts;
    std::vector<xg_alerts> alerts;
    std::vector<xg_patch> patches;
    std::vector<xg_event> events;
    void lend(Slot& slot) noexcept {
      slot.descriptors = descriptors.data();
      slot.results = results.data();
      slot.edits = edits.data();
      slot.adjusts = adjusts.data();
      slot.alerts = alerts.data();
      slot.patches = patches.data();
      slot.events = events.data();
    }
  };

  // The oldest batch, by the standby.
  Slot* decide(const Slot& oldest, Batch& batch) noexcept {
    Slot* at_standby = standby_->acquire();
    std::copy_n(oldest.descriptors, oldest.count, at_standby->descriptors);
    const bool taken = standby_->submit(at_standby, oldest.count, oldest.generation) == Submit::ok;
    if (taken) {
      const Slot* done = standby_->poll();
      std::copy_n(done->results, oldest.count, batch.results.data());
      std::copy_n(done->edits, oldest.count, batch.edits.data());
      std::copy_n(done->adjusts, oldest.count, batch.adjusts.data());
      std::copy_n(done->alerts, oldest.count, batch.alerts.data());
      // They are large, and few packets have one.
      for (u32 i = 0; i < oldest.count; i++) {
        if ((done->results[i].flags & XG_RES_PATCH) != 0) batch.patches[i] = done->patches[i];
        if ((done->results[i].flags & XG_RES_EVENT) != 0) batch.events[i] = done->events[i];
      }
    }
    std::copy_n(oldest.descriptors, oldest.count, batch.descriptors.data());
    standby_->release(at_standby);
    Slot* slot = ring_.retire(!taken);
    batch.lend(*slot);
    slot->standby = true;
    return slot;
  }

  OpenQueues& open_;
  const QueueOptions options_;
  const u64 hung_ns_;
  SlotRing ring_;
  std::vector<Batch> batches_;   // by slot
  std::list<LiveQueue> queues_;  // the control thread's, the newest last; a batch may be at an older one
  std::atomic<LiveQueue*> newest_;
  LiveQueue* now_;  // the feeding thread's
  std::unique_ptr<Queue> standby_;
};

// What a device has to be told to decide here.
struct Known {
  void* base = nullptr;
  u64 bytes = 0;
  Frames frames = Frames::automatic;
  std::optional<std::vector<FlowTables>> ports;  // once they were offered
  bool publishes = false;
  std::map<u32, std::shared_ptr<const Pipelines>> generations;  // loosened
  std::map<u32, std::vector<ChangedWords>> changes;             // of these, in their order

  Result<void> load(Device& device, u32 generation, const std::shared_ptr<const Pipelines>& pipelines) const {
    auto loaded = device.load(generation, pipelines);
    const auto changed = changes.find(generation);
    return !loaded || changed == changes.end() ? loaded : device.change_words(generation, changed->second);
  }
  void remember(u32 generation, std::span<const ChangedWords> more) {
    auto& all = changes[generation];
    for (const ChangedWords& one : more) {
      const auto before =
          std::find_if(all.begin(), all.end(), [&](const auto& other) { return other.first == one.first; });
      if (before == all.end()) {
        all.push_back(one);
      } else {
        before->words.resize(std::max(before->words.size(), one.words.size()));
        std::copy(one.words.begin(), one.words.end(), before->words.begin());
      }
    }
  }
};

// One try to have the device back. The thread's alone until `done`; it may never be.
struct Attempt {
  std::function<Result<std::unique_ptr<Device>>()> reopen;
  Known known;
  std::vector<StandbyQueue*> open;    // as the attempt began
  std::vector<QueueOptions> options;  // theirs

  Result<std::unique_ptr<Device>> device = tl::unexpected(std::string("it has not answered yet"));
  std::vector<std::unique_ptr<Queue>> queues;  // as `open`
  std::atomic<bool> done{false};

  void run() {
    device = reopen();
    if (device) {
      if (auto ready = make_ready(**device); !ready) {
        queues.clear();
        device = tl::unexpected(ready.error());
      }
    }
    done.store(true, std::memory_order_release);
  }

 private:
  Result<void> make_ready(Device& opened) {
    if (auto registered = opened.register_frames(known.base, known.bytes, known.frames); !registered)
      return registered;
    if (known.ports) {
      const auto published = opened.publish_flows(*known.ports);
      if (!published) return tl::unexpected(published.error());
      if (*published != known.publishes)
        return tl::unexpected(std::string("it deals with flow verdicts in another way than before"));
    }
    for (const auto& [generation, pipelines] : known.generations)
      if (auto loaded = known.load(opened, generation, pipelines); !loaded) return loaded;
    for (const QueueOptions& one : options) {
      auto queue = opened.open_queue(one);
      if (!queue) return tl::unexpected(queue.error());
      queues.push_back(*std::move(queue));
    }
    return {};
  }
};

class WithStandby final : public Device {
 public:
  WithStandby(std::unique_ptr<Device> device, std::unique_ptr<Device> standby, StandbyOptions options)
      : options_(std::move(options)), standby_(std::move(standby)), wait_ns_(first_wait_ns()) {
    begin(std::move(device));
  }
  ~WithStandby() override {
    give_up();
    // What one borrows of an earlier one (gpu.hpp) it has until it is gone.
    while (!lives_.empty()) lives_.pop_back();
  }

  const DeviceInfo& info() const noexcept override { return lives_.front().device->info(); }

  Result<void> register_frames(void* base, u64 bytes, Frames frames) override {
    if (auto registered = standby_->register_frames(base, bytes, Frames::in_place); !registered)
      return registered;
    known_.base = base;
    known_.bytes = bytes;
    known_.frames = frames;
    return device().register_frames(base, bytes, frames);
  }
  Frames frames() const noexcept override { return lives_.front().device->frames(); }

  Result<void> load(u32 generation, std::shared_ptr<const Pipelines> pipelines) override {
    auto loose = Pipelines::loosened(pipelines);
    if (auto loaded = standby_->load(generation, loose); !loaded) return loaded;
    // Nothing is to be had of a device that has failed; one that is back knows no connection that was open.
    const bool strict = lives_.size() == 1;
    if (auto loaded = life().failed() ? Result<void>()
                                      : device().load(generation, strict ? std::move(pipelines) : loose);
        !loaded) {
      if (!device().lost()) {
        standby_->unload(generation);
        return loaded;
      }
      // It is not the policy's fault, and there may never be a batch that shows it.
      life().fail(Failure::reported);
    }
    known_.generations[generation] = std::move(loose);
    return {};
  }
  std::shared_ptr<const DeviceCode> code() const override { return lives_.front().device->code(); }
  Result<void> read_state(u32 generation, u32 table, u64 first, std::span<u32> words) override {
    return (life().failed() ? *standby_ : device()).read_state(generation, table, first, words);
  }
  // Of whoever decides. The other one's are as they were at first: edits are made again where degraded()
  // says something new.
  Result<void> edit_state(u32 generation, u32 table, const Edit& edit) override {
    return (life().failed() ? *standby_ : device()).edit_state(generation, table, edit);
  }
  // Of both.
  Result<void> change_words(u32 generation, std::span<const ChangedWords> changes) override {
    if (auto changed = standby_->change_words(generation, changes); !changed) return changed;
    known_.remember(generation, changes);
    auto changed = life().failed() ? Result<void>() : device().change_words(generation, changes);
    if (changed || !device().lost()) return changed;
    life().fail(Failure::reported);
    return {};
  }
  void unload(u32 generation) noexcept override {
    // What a failed one has loaded it may still read.
    if (!life().failed()) device().unload(generation);
    standby_->unload(generation);
    known_.generations.erase(generation);
    known_.changes.erase(generation);
  }

  Result<bool> publish_flows(const std::vector<FlowTables>& ports) override {
    auto published = device().publish_flows(ports);
    known_.ports = ports;
    known_.publishes = published && *published;
    return published;
  }

  Result<std::unique_ptr<Queue>> open_queue(const QueueOptions& options) override {
    auto queue = device().open_queue(options);
    if (!queue) return queue;
    // It is given one batch at a time.
    auto standby = standby_->open_queue({options.batch_capacity, 1, Drive::launched, options.receive_queue});
    if (!standby) return standby;
    return std::make_unique<StandbyQueue>(open_, options, options_.hung_ns,
                                          LiveQueue{&life(), *std::move(queue)}, *std::move(standby));
  }

  Result<std::unique_ptr<Mirror>> open_mirror(const MirrorOptions& options) override {
    if (life().failed())
      return tl::unexpected(fmt::format(
          "{} has failed, and mirrored packets are looked at by no standby: attach again", info().name));
    return device().open_mirror(options);
  }

  std::string degraded() const override {
    switch (life().failure.load(std::memory_order_acquire)) {
      case Failure::none:
        break;
      case Failure::reported:
        return fmt::format("{} failed, and {} decides in its place", info().name, standby_->info().name);
      case Failure::silent:
        return fmt::format("{} has not answered for {} ms, and {} decides in its place", info().name,
                           options_.hung_ns / 1'000'000, standby_->info().name);
    }
    return {};
  }

  std::string try_again() override {
    if (!options_.reopen || !life().failed()) return {};
    const u64 now = monotonic_ns();
    if (attempt_) return attempt_->done.load(std::memory_order_acquire) ? end_attempt(now) : std::string();
    if (!noted_) {
      noted_ = true;
      failed_ns_ = now;
      // A device that had decided for long before it failed is no device that fails each time.
      if (now - life().since_ns > kPatienceNs) wait_ns_ = first_wait_ns();
      next_ns_ = now + wait_ns_;
      if (lives_.size() < kStandbyLives) return {};
      return fmt::format("{} has failed {} times, and is not tried again: attach again once it works",
                         info().name, lives_.size());
    }
    if (lives_.size() >= kStandbyLives || now < next_ns_) return {};
    begin_attempt();
    return {};
  }

 private:
  static constexpr u64 kPatienceNs = std::chrono::nanoseconds(kStandbyPatience).count();

  u64 first_wait_ns() const noexcept { return static_cast<u64>(options_.retry.count()); }
  Life& life() const noexcept { return *life_.load(std::memory_order_acquire); }
  Device& device() const noexcept { return *life().device; }
  void begin(std::unique_ptr<Device> opened) {
    lives_.emplace_back(std::move(opened));
    life_.store(&lives_.back(), std::memory_order_release);
  }

  void begin_attempt() {
    attempt_ = std::make_shared<Attempt>();
    attempt_->reopen = options_.reopen;
    attempt_->known = known_;
    const std::lock_guard lock(open_.mutex);
    attempt_->open = open_.all;
    for (const StandbyQueue* queue : attempt_->open) attempt_->options.push_back(queue->options());
    try {
      trying_ = start_thread("xdpgpu-retry", [attempt = attempt_] { attempt->run(); });
    } catch (const std::system_error& error) {
      attempt_->device = tl::unexpected(fmt::format("no thread can be started for it: {}", error.what()));
      attempt_->done = true;
    }
  }

  // It is done: what came of it.
  std::string end_attempt(u64 now) {
    if (trying_.joinable()) trying_.join();
    const std::shared_ptr<Attempt> attempt = std::move(attempt_);
    attempt_.reset();
    wait_ns_ = std::min(2 * wait_ns_, std::max(kPatienceNs, first_wait_ns()));
    next_ns_ = now + wait_ns_;
    if (auto taken = take(*attempt); !taken) {
      if (taken.error() == said_) return {};
      said_ = taken.error();
      return fmt::format(
          "{} was tried again, in vain: {}; {} goes on in its place, and it is tried from time to time",
          info().name, said_, standby_->info().name);
    }
    noted_ = false;
    said_.clear();
    return fmt::format("{} decides again, after {:.1f} s", info().name,
                       static_cast<double>(now - failed_ns_) * 1e-9);
  }

  Result<void> take(Attempt& attempt) {
    if (!attempt.device) return tl::unexpected(attempt.device.error());
    // What has come and gone meanwhile.
    for (const auto& [generation, pipelines] : attempt.known.generations)
      if (!known_.generations.contains(generation)) (*attempt.device)->unload(generation);
    for (const auto& [generation, pipelines] : known_.generations)
      if (!attempt.known.generations.contains(generation))
        if (auto loaded = known_.load(**attempt.device, generation, pipelines); !loaded) return loaded;
    for (const auto& [generation, changes] : known_.changes)
      if (auto changed = (*attempt.device)->change_words(generation, changes); !changed) return changed;
    const std::lock_guard lock(open_.mutex);
    if (attempt.open != open_.all)
      return tl::unexpected(std::string("its queues were opened or closed meanwhile"));
    begin(*std::move(attempt.device));
    for (std::size_t i = 0; i < attempt.open.size(); i++)
      attempt.open[i]->go_on_with({&life(), std::move(attempt.queues[i])});
    return {};
  }

  // One that a driver does not let go of is left to the end of the process.
  void give_up() {
    if (!attempt_) return;
    const u64 deadline = monotonic_ns() + options_.hung_ns;
    while (!attempt_->done.load(std::memory_order_acquire) && monotonic_ns() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (trying_.joinable()) {
      if (attempt_->done.load(std::memory_order_acquire))
        trying_.join();
      else
        trying_.detach();
    }
    attempt_.reset();
  }

  const StandbyOptions options_;
  std::unique_ptr<Device> standby_;
  OpenQueues open_;
  Known known_;
  std::list<Life> lives_;  // the last one is now
  std::atomic<Life*> life_;
  std::shared_ptr<Attempt> attempt_;
  std::thread trying_;
  bool noted_ = false;  // the failure of this life
  u64 failed_ns_ = 0, wait_ns_, next_ns_ = 0;
  std::string said_;  // why the last attempt came to nothing
};

}  // namespace

std::unique_ptr<Device> with_standby(std::unique_ptr<Device> device, std::unique_ptr<Device> standby,
                                     const StandbyOptions& options) {
  return std::make_unique<WithStandby>(std::move(device), std::move(standby), options);
}

}  // namespace xdpgpu::gpu
