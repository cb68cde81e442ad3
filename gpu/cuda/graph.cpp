// SPDX-License-Identifier: MIT
#include "gpu/cuda/graph.hpp"

#include <algorithm>
#include <bit>

#include "gpu/cuda/stream_wait.hpp"
#include "gpu/thread.hpp"

namespace xdpgpu::gpu::cuda {
namespace {

// Blocks of a post: it does not know yet how large its batch is.
constexpr u32 kMostBlocks = 64;
constexpr u64 kLookEveryNs = 50'000'000;
constexpr u64 kIdleNs = 100'000'000;
constexpr u64 kLongNs = 3'600'000'000'000;

}  // namespace

Result<std::unique_ptr<Queue>> GraphQueue::create(Shared& shared, const QueueOptions& options) {
  std::unique_ptr<GraphQueue> queue(new GraphQueue(shared, options));
  if (auto done = queue->allocate(options).and_then([&] { return queue->try_wait(); }); !done)
    return tl::unexpected(done.error());
  queue->prepare();
  shared.pauses.add(*queue);
  try {
    queue->watcher_ = start_thread("xdpgpu-posts", [raw = queue.get()] { raw->watch(); });
  } catch (const std::exception& error) {
    return tl::unexpected("the queue has no thread to watch its posts: " + std::string(error.what()) +
                          "; free some threads, or set compute.mode to auto");
  }
  return queue;
}

GraphQueue::GraphQueue(Shared& shared, const QueueOptions& options)
    : shared_(shared),
      ring_(options),
      depth_(options.depth),
      places_(std::bit_ceil(options.depth)),
      receive_queue_(options.receive_queue),
      grid_(std::clamp((options.batch_capacity + kPostedBlock - 1) / kPostedBlock, 1u, kMostBlocks)),
      kernels_(shared.kernels) {}

Result<void> GraphQueue::allocate(const QueueOptions& options) {
  return Stream::create()
      .map([&](Stream&& made) { stream_ = std::move(made); })
      .and_then([&] { return DeviceMemory::create(kLine, nullptr, stream_); })
      .map([&](DeviceMemory&& made) { blocks_ = std::move(made); })
      .and_then([&] { return pin(mailbox_, kOrdersAt + places_ * sizeof(Order)); })
      .and_then([&] { return SlotMemory::create(shared_, options, ring_, stream_); })
      .map([&](SlotMemory&& made) { slots_ = std::move(made); });
}

// A wait that is over before it begins.
Result<void> GraphQueue::try_wait() {
  cudaError_t error = wait_for(stream_.get(), reinterpret_cast<const u32*>(mailbox_.device() + kBellAt), 0);
  if (error == cudaSuccess) error = cudaStreamSynchronize(stream_.get());
  if (error == cudaErrorNotSupported)
    return tl::unexpected(std::string(
        "the NVIDIA driver or this GPU cannot let a stream wait for memory (stream memory "
        "operations), which compute.mode graph is made of: set compute.mode to persistent or auto"));
  if (error != cudaSuccess) return failure("letting a stream wait for memory", error);
  return {};
}

// What all posts have in common.
void GraphQueue::prepare() {
  posted_.orders = reinterpret_cast<const Order*>(mailbox_.device() + kOrdersAt);
  posted_.places = places_;
  posted_.slots = slots_.view(shared_, receive_queue_);
  posted_.withdrawn = reinterpret_cast<const u64*>(mailbox_.device() + kWithdrawnAt);
  posted_.finished = reinterpret_cast<u64*>(mailbox_.device() + kFinishedAt);
  posted_.ran = reinterpret_cast<u64*>(mailbox_.device() + kRanAt);
  posted_.blocks = reinterpret_cast<u32*>(blocks_.get());
}

GraphQueue::~GraphQueue() {
  shared_.pauses.remove(*this);
  stopping_ = true;
  watched_.ring();
  if (watcher_.joinable()) watcher_.join();
  (void)cudaSetDevice(shared_.ordinal);
  if (mailbox_.host() != nullptr) {
    progress_.drain_while([&] { return finished() < ring_.submitted() && progress_.healthy(); });
    progress_.drain_while([&] { return ran() < rung_ && progress_.healthy(); });
    withdraw();
    progress_.drain_while([&] { return cudaStreamQuery(stream_.get()) == cudaErrorNotReady; });
  }
  if (!shared_.abandoned) return;
  mailbox_.abandon();
  slots_.abandon();
  blocks_.abandon();
  stream_.abandon();
}

// All that was written for these posts is there before them. The waits compare 32 bits, as numbers that wrap.
void GraphQueue::ring(u64 post) noexcept {
  rung_.store(post, std::memory_order_relaxed);
  std::atomic_ref(*reinterpret_cast<u32*>(mailbox_.host() + kBellAt))
      .store(static_cast<u32>(post), std::memory_order_release);
}

Order& GraphQueue::order(u64 post) const noexcept {
  return reinterpret_cast<Order*>(mailbox_.host() + kOrdersAt)[post & (places_ - 1)];
}

bool GraphQueue::try_post() noexcept { return !posting_.exchange(true, std::memory_order_acquire); }

// There are posts that somebody may have to withdraw.
void GraphQueue::end_posting() noexcept {
  posting_.store(false, std::memory_order_release);
  watched_.ring();
}

// While posting_ is this thread's. Every number has its post, whether it is rung for already or not. False:
// the device failed.
bool GraphQueue::post_up_to(u64 number) noexcept {
  if (cudaSetDevice(shared_.ordinal) != cudaSuccess) shared_.failed = true;
  while (!shared_.failed.load(std::memory_order_relaxed) && last_ < number) {
    posted_.post = last_ + 1;
    if (wait_for(stream_.get(), reinterpret_cast<const u32*>(mailbox_.device() + kBellAt),
                 static_cast<u32>(posted_.post)) != cudaSuccess ||
        launch_posted(*kernels_, posted_, grid_, stream_.get()) != cudaSuccess) {
      shared_.failed = true;
      return false;
    }
    last_.store(posted_.post, std::memory_order_release);
  }
  return !shared_.failed.load(std::memory_order_relaxed);
}

Submit GraphQueue::submit(Slot* slot, u32 count, u32 generation) noexcept {
  if (shared_.failed.load(std::memory_order_relaxed)) return Submit::device_failed;
  const Loaded* loaded = shared_.generations.find(generation);
  if (loaded == nullptr) return Submit::unknown_generation;
  slots_.stage(shared_, *slot, count, *loaded->pipelines);
  Order made{};
  made.image = reinterpret_cast<u64>(loaded->image.get());
  made.ticket = ring_.submitted() + 1;
  made.count = count;
  made.generation = generation;
  made.slot = slot->index;
  // Before it can be finished: poll looks for the ticket once it is in there.
  ring_.submitted(slot, count, generation);
  shared_.pauses.begin(handing_over_);
  if (loaded->kernels != kernels_) post_others(loaded->kernels);
  submitting_.store(true);
  while (withdrawing_.load()) relax();
  const u64 post = rung_.load(std::memory_order_relaxed) + 1;
  order(post) = made;
  ring(post);
  submitting_.store(false, std::memory_order_release);
  // After a pause the post is not there. What another thread is posting meanwhile may be it.
  while (last_.load(std::memory_order_acquire) < post) {
    if (!try_post()) {
      relax();
      continue;
    }
    const bool good = post_up_to(post);
    end_posting();
    if (!good) break;  // poll says so of the batch
  }
  Pauses::end(handing_over_);
  return Submit::ok;
}

// The posts that stand there are other kernels' ones: those that were rung for run, the rest is withdrawn.
void GraphQueue::post_others(const std::shared_ptr<const Kernels>& kernels) noexcept {
  for (;;) {
    if (shared_.failed.load(std::memory_order_relaxed)) break;
    if (!all_ran()) withdraw();
    if (!try_post()) continue;
    const bool none = all_ran();
    if (none) kernels_ = kernels;
    posting_.store(false, std::memory_order_release);
    if (none) break;
  }
}

bool GraphQueue::send_away() noexcept {
  if (shared_.failed) return true;
  if (handing_over_.load()) return false;
  if (!all_ran()) withdraw();
  // Whoever is posting has seen no pause yet.
  if (!try_post()) return false;
  const bool none = all_ran();
  posting_.store(false, std::memory_order_release);
  return none && cudaStreamQuery(stream_.get()) != cudaErrorNotReady;
}

void GraphQueue::release(Slot* slot) noexcept {
  ring_.release(slot);
  const u64 wanted = rung_.load(std::memory_order_relaxed) + depth_;
  if (shared_.failed.load(std::memory_order_relaxed) || last_ >= wanted || !try_post()) return;
  if (!shared_.pauses.any()) (void)post_up_to(wanted);
  end_posting();
}

// Lets the posts that nobody has rung for run, and do nothing. Only while the posts that were rung for have
// run, so that there is one range at a time; not while a batch is being submitted, which is to have the first
// of them.
void GraphQueue::withdraw() noexcept {
  if (!try_post()) return;
  withdrawing_.store(true);
  const u64 rung = rung_.load(std::memory_order_relaxed);
  const u64 last = last_.load(std::memory_order_relaxed);
  if (!submitting_.load() && ran() == rung && rung != last) {
    auto* const withdrawn = reinterpret_cast<u64*>(mailbox_.host() + kWithdrawnAt);
    std::atomic_ref(withdrawn[0]).store(rung, std::memory_order_relaxed);
    std::atomic_ref(withdrawn[1]).store(last, std::memory_order_relaxed);
    ring(last);
  }
  withdrawing_.store(false);
  posting_.store(false, std::memory_order_release);
}

bool GraphQueue::all_ran() const noexcept { return ran() == last_.load(std::memory_order_acquire); }

void GraphQueue::watch() noexcept {
  u64 seen = 0;
  u64 since_ns = monotonic_ns();
  while (!stopping_) {
    const bool nothing_posted = all_ran();
    watched_.sleep([&] { return stopping_.load() || (nothing_posted && !all_ran()); },
                   nothing_posted ? kLongNs : kLookEveryNs);
    const u64 rung = rung_.load(std::memory_order_relaxed);
    const u64 now_ns = monotonic_ns();
    if (rung != seen) {
      seen = rung;
      since_ns = now_ns;
    } else if (now_ns - since_ns >= kIdleNs && !shared_.failed) {
      withdraw();
    }
  }
}

}  // namespace xdpgpu::gpu::cuda
