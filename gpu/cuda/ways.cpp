// SPDX-License-Identifier: MIT
#include "gpu/cuda/ways.hpp"

namespace xdpgpu::gpu::cuda {
namespace {

constexpr u64 kLine = 128;

}  // namespace

Result<void> CudaWays::allocate(const QueueOptions& options, SlotRing& ring) {
  return residence_.allocate()
      .and_then([&] { return SlotMemory::create(shared_, options, ring, residence_.stream()); })
      .map([&](SlotMemory&& made) { slots_ = std::move(made); })
      .and_then([] { return Stream::create(); })
      .map([&](Stream&& made) { stream_ = std::move(made); })
      .and_then([&] { return pin(finished_, kLine); })
      .and_then([&] { return DeviceMemory::create(kLine, nullptr, stream_); })
      .map([&](DeviceMemory&& made) {
        blocks_ = std::move(made);
        view_ = slots_.view(shared_, receive_queue_);
        residence_.use(view_);
        shared_.pauses.add(*this);
      });
}

CudaWays::~CudaWays() {
  shared_.pauses.remove(*this);
  (void)cudaSetDevice(shared_.ordinal);
  if (finished_.host() != nullptr)
    progress_.drain_while([&] { return finished() < launched_ && progress_.healthy(); });
  residence_.end();
  if (!shared_.abandoned) return;
  slots_.abandon();
  finished_.abandon();
  blocks_.abandon();
  stream_.abandon();
}

u64 CudaWays::start(Drive drive, const Slot& slot, u32 count, u32 generation, const Loaded& loaded) noexcept {
  slots_.stage(shared_, slot, count, *loaded.pipelines);
  if (drive == Drive::launched) return launch_batch(slot, count, generation, loaded);
  // Where the device fails, poll says so of the batch.
  return residence_.hand_over(slot, loaded, count, generation);
}

u64 CudaWays::launch_batch(const Slot& slot, u32 count, u32 generation, const Loaded& loaded) noexcept {
  const xg_batch batch =
      batch_of(view_, slot.index, reinterpret_cast<u64>(loaded.image.get()), count, generation);
  const Completion completion{reinterpret_cast<u32*>(blocks_.get()),
                              reinterpret_cast<u64*>(finished_.device()), launched_ + 1};
  shared_.pauses.begin_launch(launching_);
  cudaError_t error = cudaSetDevice(shared_.ordinal);
  if (error == cudaSuccess)
    error = launch(*loaded.kernels, batch, view_.flows, {loaded.has(), loaded.inspects()}, view_.scratch,
                   completion, stream_.get());
  Pauses::end(launching_);
  if (error == cudaSuccess) return ++launched_;
  shared_.failed = true;
  return 0;
}

Result<std::unique_ptr<Queue>> create_changing_queue(Shared& shared, const QueueOptions& options) {
  auto queue = std::make_unique<ChangingQueue<CudaWays>>(options, kAlonePackets, shared, options);
  if (auto allocated = queue->ways().allocate(options, queue->ring()); !allocated)
    return tl::unexpected(allocated.error());
  return queue;
}

}  // namespace xdpgpu::gpu::cuda
