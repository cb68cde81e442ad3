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

Result<std::unique_ptr<Queue>> PersistentQueue::create(Shared& shared, const QueueOptions& options) {
  std::unique_ptr<PersistentQueue> queue(new PersistentQueue(shared, options));
  if (auto allocated = queue->allocate(options); !allocated) return tl::unexpected(allocated.error());
  return queue;
}

PersistentQueue::PersistentQueue(Shared& shared, const QueueOptions& options)
    : shared_(shared),
      ring_(options),
      depth_(options.depth),
      receive_queue_(options.receive_queue),
      blocks_(std::clamp((options.batch_capacity + kResidentBlock - 1) / kResidentBlock, 1u, kMostBlocks)) {}

Result<void> PersistentQueue::allocate(const QueueOptions& options) {
  return Stream::create()
      .map([&](Stream&& made) { stream_ = std::move(made); })
      .and_then([&] { return DeviceMemory::create(sizeof(Command), nullptr, stream_); })
      .map([&](DeviceMemory&& made) { command_ = std::move(made); })
      .and_then([&] { return pin(mailbox_, kJobsAt + depth_ * sizeof(Job)); })
      .and_then([&] { return SlotMemory::create(shared_, options, ring_, stream_); })
      .map([&](SlotMemory&& made) { slots_ = std::move(made); });
}

PersistentQueue::~PersistentQueue() {
  (void)cudaSetDevice(shared_.ordinal);
  if (mailbox_.host() != nullptr) {
    progress_.drain_while([&] { return finished() < ring_.submitted() && keep_resident(); });
    reinterpret_cast<volatile u32&>(*(mailbox_.host() + kBeatAt)) = kResidentStop;
    progress_.drain_while([&] { return running_ && !ended() && progress_.healthy(); });
    progress_.drain_while([&] { return running_ && cudaStreamQuery(stream_.get()) == cudaErrorNotReady; });
  }
  if (!shared_.abandoned) return;
  mailbox_.abandon();
  slots_.abandon();
  command_.abandon();
  stream_.abandon();
}

bool PersistentQueue::ended() const noexcept {
  return std::atomic_ref(*reinterpret_cast<u32*>(mailbox_.host() + kEndedAt))
             .load(std::memory_order_acquire) == launch_;
}

// Where both threads beat at once, one beat counts: it is there all the same.
void PersistentQueue::beat() noexcept {
  const std::atomic_ref at(*reinterpret_cast<u32*>(mailbox_.host() + kBeatAt));
  const u32 now = at.load(std::memory_order_relaxed);
  at.store(now + 1 == kResidentStop ? 0 : now + 1, std::memory_order_relaxed);
}

// Starts the kernel where there is none. False: the device failed. From either thread.
bool PersistentQueue::keep_resident() noexcept {
  if (shared_.failed.load(std::memory_order_relaxed)) return false;
  if (running_ && !ended()) return true;
  // The kernel that the other thread is starting finds this one's batch, too.
  if (starting_.exchange(true, std::memory_order_acquire)) return true;
  const bool good = (running_ && !ended()) || start();
  starting_.store(false, std::memory_order_release);
  return good;
}

// From the first batch that is not finished.
bool PersistentQueue::start() noexcept {
  Resident resident;
  resident.jobs = reinterpret_cast<const Job*>(mailbox_.device() + kJobsAt);
  resident.depth = depth_;
  resident.slots = slots_.view(shared_, receive_queue_);
  resident.beat = reinterpret_cast<const u32*>(mailbox_.device() + kBeatAt);
  resident.finished = reinterpret_cast<u64*>(mailbox_.device() + kFinishedAt);
  resident.ended = reinterpret_cast<u32*>(mailbox_.device() + kEndedAt);
  resident.command = reinterpret_cast<Command*>(command_.get());
  resident.first = finished() + 1;
  resident.lease_ns = kLeaseNs;
  resident.launch = launch_ + 1;
  launch_ = resident.launch;
  if (cudaSetDevice(shared_.ordinal) != cudaSuccess ||
      launch_resident(resident, blocks_, stream_.get()) != cudaSuccess) {
    shared_.failed = true;
    return false;
  }
  running_ = true;
  return true;
}

void PersistentQueue::put_job(const Slot& slot, const DeviceMemory& image, u32 count,
                              u32 generation) noexcept {
  const u64 address = reinterpret_cast<u64>(image.get());
  const u64 number = ring_.submitted() + 1;
  const u32 ticket = static_cast<u32>(number);
  u8* const at = mailbox_.host() + kJobsAt + number % depth_ * sizeof(Job);
  // What the job is about is there before it.
  std::atomic_thread_fence(std::memory_order_release);
  store_half(at, Half{static_cast<u32>(address), static_cast<u32>(address >> 32), count, ticket});
  store_half(at + 16, Half{generation, slot.index, 0, ticket});
}

Submit PersistentQueue::submit(Slot* slot, u32 count, u32 generation) noexcept {
  if (shared_.failed.load(std::memory_order_relaxed)) return Submit::device_failed;
  const Loaded* loaded = shared_.generations.find(generation);
  if (loaded == nullptr) return Submit::unknown_generation;
  slots_.stage(shared_, *slot, count);
  beat();
  put_job(*slot, loaded->image, count, generation);
  ring_.submitted(slot, count, generation);
  (void)keep_resident();  // where the device fails, poll says so of the batch
  return Submit::ok;
}

Slot* PersistentQueue::poll() noexcept {
  Slot* slot = progress_.poll(ring_, finished());
  if (slot != nullptr || ring_.oldest() == nullptr) return slot;
  if (progress_.asked()) beat();
  // The kernel may have ended just before it saw the batch.
  if (ended() && !keep_resident()) return ring_.retire(true);
  return nullptr;
}

}  // namespace xdpgpu::gpu::cuda
