// SPDX-License-Identifier: MIT
#include "gpu/cuda/queue.hpp"

#include "gpu/cuda/kernel.hpp"
#include "gpu/cuda/mirror.hpp"
#include "gpu/staging.hpp"

namespace xdpgpu::gpu::cuda {
namespace {

constexpr u64 kLine = 128;

}  // namespace

Shared::Shared() = default;

Shared::~Shared() {
  if (!abandoned) return;
  control.abandon();
  region.abandon();
  flows.abandon();
  images.abandon();
  if (mirror) mirror->abandon();
  if (kernels) kernels->abandon();
  for (const auto& one : brought) one->abandon();
  tables_turn.abandon();
  generations.each([](Loaded& loaded) { loaded.abandon(); });
}

Result<ScratchMemory> ScratchMemory::create(u32 packets, const Stream& stream) {
  return DeviceMemory::create(scratch_bytes(packets), nullptr, stream).map([&](DeviceMemory&& made) {
    ScratchMemory scratch;
    scratch.memory_ = std::move(made);
    scratch.packets_ = packets;
    return scratch;
  });
}

Scratch ScratchMemory::view(const Shared& shared) const noexcept {
  const u64 packets = packets_;
  Scratch scratch;
  scratch.turn = reinterpret_cast<TablesTurn*>(shared.tables_turn.get());
  scratch.team = reinterpret_cast<Team*>(memory_.get());
  u8* at = memory_.get() + kLine;
  scratch.lines = reinterpret_cast<uint4*>(at);
  at += packets * kLine;
  scratch.descriptors = reinterpret_cast<uint4*>(at);
  at += packets * sizeof(xg_descriptor);
  scratch.bytes = reinterpret_cast<u32*>(at);
  scratch.marks = scratch.bytes + packets;
  return scratch;
}

bool Progress::healthy() noexcept {
  if (shared_.failed.load(std::memory_order_relaxed)) return false;
  const cudaError_t error = cudaStreamQuery(stream_.get());
  if (error == cudaSuccess || error == cudaErrorNotReady) return true;
  shared_.failed = true;
  return false;
}

Slot* Progress::retire_if(bool over, SlotRing& ring) noexcept {
  if (over) {
    idle_polls_ = 0;
    return ring.retire(false);
  }
  if (shared_.failed.load(std::memory_order_relaxed)) return ring.retire(true);
  if (++idle_polls_ % kPollsPerQuery == 0 && !healthy()) return ring.retire(true);
  return nullptr;
}

Result<std::unique_ptr<Queue>> CudaQueue::create(Shared& shared, const QueueOptions& options) {
  std::unique_ptr<CudaQueue> queue(new CudaQueue(shared, options));
  if (auto allocated = queue->allocate(options); !allocated) return tl::unexpected(allocated.error());
  shared.pauses.add(*queue);
  return queue;
}

CudaQueue::CudaQueue(Shared& shared, const QueueOptions& options)
    : shared_(shared), ring_(options), receive_queue_(options.receive_queue) {}

Result<void> CudaQueue::allocate(const QueueOptions& options) {
  const u64 packets = u64{options.depth} * options.batch_capacity;
  const auto allocate_device = [&](DeviceMemory& to, u64 bytes) -> Result<void> {
    return DeviceMemory::create(bytes, nullptr, stream_).map([&](DeviceMemory&& made) {
      to = std::move(made);
    });
  };
  auto done = Stream::create()
                  .map([&](Stream&& made) { stream_ = std::move(made); })
                  .and_then([&] { return pin(finished_, kLine); })
                  .and_then([&] { return allocate_device(blocks_, kLine); })
                  .and_then([&] { return ScratchMemory::create(options.batch_capacity, stream_); })
                  .map([&](ScratchMemory&& made) { scratch_ = std::move(made); })
                  .and_then([&] { return pin(descriptors_, packets * sizeof(xg_descriptor)); })
                  .and_then([&] { return pin(results_, packets * sizeof(xg_result)); })
                  .and_then([&] { return pin(edits_, packets * sizeof(xg_edit)); })
                  .and_then([&] { return pin(adjusts_, packets * sizeof(xg_adjust)); })
                  .and_then([&] { return pin(alerts_, packets * sizeof(xg_alerts)); })
                  .and_then([&] { return pin(patches_, packets * sizeof(xg_patch)); })
                  .and_then([&] { return pin(events_, packets * sizeof(xg_event)); });
  if (done && shared_.frames == Frames::staged) {
    frames_bytes_ = staging_bytes(options.batch_capacity);
    staging_bytes_ = frames_bytes_ + u64{options.batch_capacity} * sizeof(xg_descriptor);
    done = pin(staging_, options.depth * staging_bytes_).and_then([&] {
      return allocate_device(device_staging_, options.depth * staging_bytes_);
    });
  }
  if (!done) return done;
  for (Slot& slot : ring_.all()) {
    const u64 first = u64{slot.index} * slot.capacity;
    slot.descriptors = reinterpret_cast<xg_descriptor*>(descriptors_.host()) + first;
    slot.results = reinterpret_cast<xg_result*>(results_.host()) + first;
    slot.edits = reinterpret_cast<xg_edit*>(edits_.host()) + first;
    slot.adjusts = reinterpret_cast<xg_adjust*>(adjusts_.host()) + first;
    slot.alerts = reinterpret_cast<xg_alerts*>(alerts_.host()) + first;
    slot.patches = reinterpret_cast<xg_patch*>(patches_.host()) + first;
    slot.events = reinterpret_cast<xg_event*>(events_.host()) + first;
  }
  return {};
}

bool CudaQueue::is_over() noexcept {
  return shared_.failed || (!launching_.load() && cudaStreamQuery(stream_.get()) != cudaErrorNotReady);
}

CudaQueue::~CudaQueue() {
  shared_.pauses.remove(*this);
  (void)cudaSetDevice(shared_.ordinal);
  if (finished_.host() != nullptr)
    progress_.drain_while([&] { return finished() < ring_.submitted() && progress_.healthy(); });
  if (!shared_.abandoned) return;
  for (Pinned* pinned :
       {&finished_, &descriptors_, &results_, &edits_, &adjusts_, &alerts_, &patches_, &events_, &staging_})
    pinned->abandon();
  for (DeviceMemory* memory : {&blocks_, &device_staging_}) memory->abandon();
  scratch_.abandon();
  stream_.abandon();
}

cudaError_t CudaQueue::enqueue(const Slot& slot, u32 count, u32 generation, const Loaded& loaded,
                               u64 ticket) {
  if (const cudaError_t error = cudaSetDevice(shared_.ordinal); error != cudaSuccess) return error;
  const u64 first = u64{slot.index} * slot.capacity;
  xg_batch batch{};
  batch.results.v = reinterpret_cast<xg_result*>(results_.device()) + first;
  batch.edits.v = reinterpret_cast<xg_quad*>(edits_.device()) + first;
  batch.adjusts.v = reinterpret_cast<xg_quad*>(adjusts_.device()) + first;
  batch.alerts.v = reinterpret_cast<xg_quad*>(alerts_.device()) + first * sizeof(xg_alerts) / sizeof(xg_quad);
  batch.patches.v =
      reinterpret_cast<xg_quad*>(patches_.device()) + first * sizeof(xg_patch) / sizeof(xg_quad);
  batch.events.v = reinterpret_cast<xg_quad*>(events_.device()) + first * sizeof(xg_event) / sizeof(xg_quad);
  batch.image.v = reinterpret_cast<xg_word*>(loaded.image.get());
  batch.count = count;
  batch.generation = generation;
  if (shared_.frames == Frames::in_place) {
    batch.frames.v = reinterpret_cast<xg_word*>(shared_.region.device());
    batch.frames_bytes = shared_.bytes;
    batch.descriptors.v = reinterpret_cast<xg_descriptor*>(descriptors_.device()) + first;
  } else {
    u8* const host = staging_.host() + slot.index * staging_bytes_;
    u8* const device = device_staging_.get() + slot.index * staging_bytes_;
    const u64 frames_at = u64{count} * sizeof(xg_descriptor);
    const u64 used = stage_frames(shared_.base, shared_.bytes, slot.descriptors, count, *loaded.pipelines,
                                  host + frames_at, reinterpret_cast<xg_descriptor*>(host));
    if (const cudaError_t error =
            cudaMemcpyAsync(device, host, frames_at + used, cudaMemcpyHostToDevice, stream_.get());
        error != cudaSuccess)
      return error;
    batch.frames.v = reinterpret_cast<xg_word*>(device + frames_at);
    batch.frames_bytes = frames_bytes_;
    batch.descriptors.v = reinterpret_cast<xg_descriptor*>(device);
  }
  const Completion completion{reinterpret_cast<u32*>(blocks_.get()),
                              reinterpret_cast<u64*>(finished_.device()), ticket};
  return launch(*loaded.kernels, batch, {shared_.flows.device(), receive_queue_},
                {loaded.has(), loaded.inspects()}, scratch_.view(shared_), completion, stream_.get());
}

Submit CudaQueue::submit(Slot* slot, u32 count, u32 generation) noexcept {
  if (shared_.failed.load(std::memory_order_relaxed)) return Submit::device_failed;
  const Loaded* loaded = shared_.generations.find(generation);
  if (loaded == nullptr) return Submit::unknown_generation;
  const u64 ticket = ring_.submitted() + 1;
  shared_.pauses.begin_launch(launching_);
  const cudaError_t enqueued = enqueue(*slot, count, generation, *loaded, ticket);
  Pauses::end(launching_);
  if (enqueued != cudaSuccess) {
    shared_.failed = true;
    return Submit::device_failed;
  }
  ring_.submitted(slot, count, generation);
  return Submit::ok;
}

}  // namespace xdpgpu::gpu::cuda
