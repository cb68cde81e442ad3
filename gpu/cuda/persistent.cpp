// SPDX-License-Identifier: MIT
#include "gpu/cuda/persistent.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "gpu/staging.hpp"

namespace xdpgpu::gpu::cuda {
namespace {

constexpr u64 kLine = 128;
constexpr u64 kBeatAt = 0, kEndedAt = kLine, kFinishedAt = 2 * kLine, kJobsAt = 3 * kLine;
constexpr u64 kLeaseNs = 100'000'000;
// Blocks that stay: enough for a batch at once, few enough to leave the GPU to others.
constexpr u32 kMostBlocks = 8;
constexpr u32 kPollsPerQuery = 4096;
constexpr std::chrono::seconds kDrainTimeout{5};

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
      capacity_(options.batch_capacity),
      receive_queue_(options.receive_queue),
      blocks_(std::clamp((options.batch_capacity + kResidentBlock - 1) / kResidentBlock, 1u, kMostBlocks)) {}

Result<void> PersistentQueue::allocate(const QueueOptions& options) {
  const u64 packets = u64{options.depth} * options.batch_capacity;
  const auto pin = [](Pinned& to, u64 bytes) -> Result<void> {
    return Pinned::create(bytes).map([&](Pinned&& made) { to = std::move(made); });
  };
  auto done = Stream::create()
                  .map([&](Stream&& made) { stream_ = std::move(made); })
                  .and_then([&] { return DeviceMemory::create(sizeof(Command), nullptr, stream_); })
                  .map([&](DeviceMemory&& made) { command_ = std::move(made); })
                  .and_then([&] { return pin(mailbox_, kJobsAt + depth_ * sizeof(Job)); })
                  .and_then([&] { return pin(descriptors_, packets * sizeof(xg_descriptor)); })
                  .and_then([&] { return pin(results_, packets * sizeof(xg_result)); });
  if (done && shared_.frames == Frames::staged) {
    staging_bytes_ = staging_bytes(options.batch_capacity);
    unstaged_.resize(packets);
    done = pin(staging_, depth_ * staging_bytes_);
  }
  if (!done) return done;
  for (Slot& slot : ring_.all()) {
    const u64 first = u64{slot.index} * slot.capacity;
    slot.descriptors =
        (unstaged_.empty() ? reinterpret_cast<xg_descriptor*>(descriptors_.host()) : unstaged_.data()) +
        first;
    slot.results = reinterpret_cast<xg_result*>(results_.host()) + first;
  }
  return {};
}

PersistentQueue::~PersistentQueue() {
  (void)cudaSetDevice(shared_.ordinal);
  const auto deadline = std::chrono::steady_clock::now() + kDrainTimeout;
  const auto wait_while = [&](auto&& condition) {
    while (!shared_.abandoned && condition()) {
      if (std::chrono::steady_clock::now() > deadline) {
        shared_.failed = true;
        shared_.abandoned = true;
      }
      std::this_thread::yield();
    }
  };
  if (mailbox_.host() != nullptr) {
    wait_while([&] { return finished() < ring_.submitted() && keep_resident(); });
    reinterpret_cast<volatile u32&>(*(mailbox_.host() + kBeatAt)) = kResidentStop;
    wait_while([&] { return running_ && !ended() && healthy(); });
    wait_while([&] { return running_ && cudaStreamQuery(stream_.get()) == cudaErrorNotReady; });
  }
  if (!shared_.abandoned) return;
  for (Pinned* pinned : {&mailbox_, &descriptors_, &results_, &staging_}) pinned->abandon();
  command_.abandon();
  stream_.abandon();
}

u64 PersistentQueue::finished() const noexcept {
  return std::atomic_ref(*reinterpret_cast<u64*>(mailbox_.host() + kFinishedAt))
      .load(std::memory_order_acquire);
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

// Whether the device still works, by the driver's word.
bool PersistentQueue::healthy() noexcept {
  if (shared_.failed.load(std::memory_order_relaxed)) return false;
  const cudaError_t error = cudaStreamQuery(stream_.get());
  if (error == cudaSuccess || error == cudaErrorNotReady) return true;
  shared_.failed = true;
  return false;
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
  resident.capacity = capacity_;
  if (shared_.frames == Frames::in_place) {
    resident.frames.v = reinterpret_cast<xg_word*>(shared_.region.device());
    resident.frames_bytes = shared_.bytes;
  } else {
    resident.frames.v = reinterpret_cast<xg_word*>(staging_.device());
    resident.frames_bytes = resident.frames_stride = staging_bytes_;
  }
  resident.descriptors.v = reinterpret_cast<xg_descriptor*>(descriptors_.device());
  resident.results.v = reinterpret_cast<xg_result*>(results_.device());
  resident.flows = {shared_.flows.device(), receive_queue_};
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
  const DeviceMemory* image = shared_.generations.find(generation);
  if (image == nullptr) return Submit::unknown_generation;
  if (staging_.host() != nullptr)
    stage_frames(shared_.base, shared_.bytes, slot->descriptors, count,
                 staging_.host() + slot->index * staging_bytes_,
                 reinterpret_cast<xg_descriptor*>(descriptors_.host()) + u64{slot->index} * capacity_);
  beat();
  put_job(*slot, *image, count, generation);
  ring_.submitted(slot, count, generation);
  (void)keep_resident();  // where the device fails, poll says so of the batch
  return Submit::ok;
}

Slot* PersistentQueue::poll() noexcept {
  if (ring_.oldest() == nullptr) return nullptr;
  if (finished() >= ring_.oldest_ticket()) {
    idle_polls_ = 0;
    return ring_.retire(false);
  }
  if (shared_.failed.load(std::memory_order_relaxed)) return ring_.retire(true);
  if (++idle_polls_ % kPollsPerQuery == 0) {
    beat();
    if (!healthy()) return ring_.retire(true);
  }
  // The kernel may have ended just before it saw the batch.
  if (ended() && !keep_resident()) return ring_.retire(true);
  return nullptr;
}

}  // namespace xdpgpu::gpu::cuda
