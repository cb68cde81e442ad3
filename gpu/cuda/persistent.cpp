// SPDX-License-Identifier: MIT
#include "gpu/cuda/persistent.hpp"

#include <algorithm>
#include <cstring>

namespace xdpgpu::gpu::cuda {
namespace {

constexpr u64 kLeaseNs = 100'000'000;
// Blocks that stay: enough for a batch at once, few enough to leave the GPU to others.
constexpr u32 kMostBlocks = 8;

// 16 bytes that are stored in one piece.
typedef u32 Half __attribute__((vector_size(16)));
void store_half(void* to, Half half) noexcept { *static_cast<volatile Half*>(to) = half; }

}  // namespace

Residence::Residence(Shared& shared, const QueueOptions& options)
    : shared_(shared),
      depth_(options.depth),
      blocks_(std::clamp((options.batch_capacity + kResidentBlock - 1) / kResidentBlock, 1u, kMostBlocks)),
      deciders_(options.depth) {
  shared_.pauses.add(*this);
}

Result<void> Residence::allocate() {
  return Stream::create()
      .map([&](Stream&& made) { stream_ = std::move(made); })
      .and_then([&] { return DeviceMemory::create(sizeof(Command), nullptr, stream_); })
      .map([&](DeviceMemory&& made) { command_ = std::move(made); })
      .and_then([&] { return pin(mailbox_, kJobsAt + depth_ * sizeof(Job)); });
}

void Residence::end() noexcept {
  if (mailbox_.host() != nullptr) {
    progress_.drain_while([&] { return finished() < handed_ && keep(); });
    stop();
    progress_.drain_while([&] { return running_ && !ended() && progress_.healthy(); });
    progress_.drain_while([&] { return running_ && cudaStreamQuery(stream_.get()) == cudaErrorNotReady; });
  }
  if (!shared_.abandoned) return;
  mailbox_.abandon();
  command_.abandon();
  stream_.abandon();
}

void Residence::stop() noexcept {
  std::atomic_ref(*reinterpret_cast<u32*>(mailbox_.host() + kBeatAt))
      .store(kResidentStop, std::memory_order_relaxed);
}

bool Residence::send_away() noexcept {
  if (mailbox_.host() == nullptr || shared_.failed) return true;
  if (handing_over_.load()) return false;
  if (finished() < handed_) {
    (void)keep();
    return false;
  }
  if (!running_) return true;
  stop();
  return ended() && cudaStreamQuery(stream_.get()) != cudaErrorNotReady;
}

bool Residence::ended() const noexcept {
  return std::atomic_ref(*reinterpret_cast<u32*>(mailbox_.host() + kEndedAt))
             .load(std::memory_order_acquire) == launch_;
}

// Where both threads beat at once, one beat counts: it is there all the same.
void Residence::beat() noexcept {
  const std::atomic_ref at(*reinterpret_cast<u32*>(mailbox_.host() + kBeatAt));
  const u32 now = at.load(std::memory_order_relaxed);
  at.store(now + 1 == kResidentStop ? 0 : now + 1, std::memory_order_relaxed);
}

bool Residence::keep() noexcept {
  if (shared_.failed.load(std::memory_order_relaxed)) return false;
  if (running_ && !ended()) return true;
  // The kernel that the other thread is starting finds this one's batch, too.
  if (starting_.exchange(true, std::memory_order_acquire)) return true;
  const bool good = (running_ && !ended()) || start();
  starting_.store(false, std::memory_order_release);
  return good;
}

// From the first batch that is not finished.
bool Residence::start() noexcept {
  const u64 first = finished() + 1;
  if (first > handed_.load(std::memory_order_acquire)) return true;
  const Kernels& kernels = *deciders_[first % depth_].load(std::memory_order_relaxed);
  Resident resident;
  resident.jobs = reinterpret_cast<const Job*>(mailbox_.device() + kJobsAt);
  resident.depth = depth_;
  resident.slots = view_;
  resident.beat = reinterpret_cast<const u32*>(mailbox_.device() + kBeatAt);
  resident.finished = reinterpret_cast<u64*>(mailbox_.device() + kFinishedAt);
  resident.ended = reinterpret_cast<u32*>(mailbox_.device() + kEndedAt);
  resident.command = reinterpret_cast<Command*>(command_.get());
  resident.first = first;
  resident.lease_ns = kLeaseNs;
  resident.launch = launch_ + 1;
  launch_ = resident.launch;
  if (cudaSetDevice(shared_.ordinal) != cudaSuccess ||
      launch_resident(kernels, resident, blocks_, stream_.get()) != cudaSuccess) {
    shared_.failed = true;
    return false;
  }
  running_ = true;
  return true;
}

u64 Residence::hand_over(const Slot& slot, const Loaded& loaded, u32 count, u32 generation) noexcept {
  shared_.pauses.begin(handing_over_);
  beat();
  const u64 address = reinterpret_cast<u64>(loaded.image.get());
  const u64 number = handed_.load(std::memory_order_relaxed) + 1;
  deciders_[number % depth_].store(loaded.kernels.get(), std::memory_order_relaxed);
  const u32 ticket = static_cast<u32>(number);
  u8* const at = mailbox_.host() + kJobsAt + number % depth_ * sizeof(Job);
  // What the job is about is there before it.
  std::atomic_thread_fence(std::memory_order_release);
  store_half(at, Half{static_cast<u32>(address), static_cast<u32>(address >> 32), count, ticket});
  store_half(at + 16, Half{generation, slot.index, loaded.kernels->number(), ticket});
  handed_.store(number, std::memory_order_release);
  (void)keep();
  Pauses::end(handing_over_);
  return number;
}

Slot* Residence::poll(SlotRing& ring, u64 number) noexcept {
  if (Slot* slot = progress_.retire_if(finished() >= number, ring)) return slot;
  if (progress_.asked()) beat();
  // The kernel may have ended just before it saw the batch.
  if (ended() && !keep()) return ring.retire(true);
  return nullptr;
}

Result<std::unique_ptr<Queue>> PersistentQueue::create(Shared& shared, const QueueOptions& options) {
  std::unique_ptr<PersistentQueue> queue(new PersistentQueue(shared, options));
  if (auto allocated = queue->allocate(options); !allocated) return tl::unexpected(allocated.error());
  return queue;
}

PersistentQueue::PersistentQueue(Shared& shared, const QueueOptions& options)
    : shared_(shared), ring_(options), residence_(shared, options), receive_queue_(options.receive_queue) {}

Result<void> PersistentQueue::allocate(const QueueOptions& options) {
  return residence_.allocate()
      .and_then([&] { return SlotMemory::create(shared_, options, ring_, residence_.stream()); })
      .map([&](SlotMemory&& made) {
        slots_ = std::move(made);
        residence_.use(slots_.view(shared_, receive_queue_));
      });
}

PersistentQueue::~PersistentQueue() {
  (void)cudaSetDevice(shared_.ordinal);
  residence_.end();
  if (shared_.abandoned) slots_.abandon();
}

Submit PersistentQueue::submit(Slot* slot, u32 count, u32 generation) noexcept {
  if (shared_.failed.load(std::memory_order_relaxed)) return Submit::device_failed;
  const Loaded* loaded = shared_.generations.find(generation);
  if (loaded == nullptr) return Submit::unknown_generation;
  slots_.stage(shared_, *slot, count, *loaded->pipelines);
  // Before it can be finished: poll looks for it once it is in there. Where the device fails, it says so.
  ring_.submitted(slot, count, generation);
  residence_.hand_over(*slot, *loaded, count, generation);
  return Submit::ok;
}

}  // namespace xdpgpu::gpu::cuda
