// SPDX-License-Identifier: MIT
#include "userspace/dataplane/worker.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <cassert>

#include "userspace/dataplane/clock.hpp"

namespace xdpgpu::dataplane {
namespace {

// What is published is read by the XDP program on another core, once a packet: stored every turn it
// would cost each packet some cache misses.
constexpr u64 kPublishEveryNs = 20'000;
// Half of what is looked at was last written by the kernel's core.
constexpr u64 kLevelsEveryNs = 1'000'000;
// Frames that go back together, if they come within kPublishEveryNs.
constexpr u32 kGiveBackStep = 64;
constexpr u32 kKeptForAnswers = 8;  // frames, as some packets are answered to both ends

std::vector<PortQueue*> plain(const std::vector<std::unique_ptr<PortQueue>>& queues) {
  std::vector<PortQueue*> out;
  out.reserve(queues.size());
  for (const auto& queue : queues) out.push_back(queue.get());
  return out;
}

std::vector<PortQueue*> existing(const std::vector<std::unique_ptr<PortQueue>>& queues) {
  std::vector<PortQueue*> out;
  for (const auto& queue : queues)
    if (queue) out.push_back(queue.get());
  return out;
}

// By port: where what is not received there is counted, too.
std::vector<PortQueue*> accounts(const std::vector<std::unique_ptr<PortQueue>>& queues) {
  std::vector<PortQueue*> out = plain(queues);
  for (PortQueue*& queue : out)
    if (!queue) queue = existing(queues).front();
  return out;
}

std::vector<int> receive_fds(const std::vector<PortQueue*>& queues) {
  std::vector<int> out;
  out.reserve(queues.size());
  for (const PortQueue* queue : queues) out.push_back(queue->socket->fd());
  return out;
}

int longest_sleep_ms(u64 beat_timeout_ns) {
  return std::max(1, std::min(20, static_cast<int>(beat_timeout_ns / 4'000'000)));
}

// The core it is pinned to: `cpu`, or -1 if that cannot be.
int pin(std::thread& thread, int cpu) {
  if (cpu < 0) return -1;
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(static_cast<std::size_t>(cpu), &cpus);
  return pthread_setaffinity_np(thread.native_handle(), sizeof(cpus), &cpus) == 0 ? cpu : -1;
}

}  // namespace

Worker::Worker(const WorkerOptions& options, u8* region, std::vector<std::unique_ptr<PortQueue>> queues,
               const FrameShare& frames, const std::atomic<const CurrentPolicy*>& policy,
               std::vector<EgressLogs> egress, const FragmentLogs& fragments)
    : options_(options),
      queues_(std::move(queues)),
      active_(existing(queues_)),
      free_(frames),
      freed_(options.split ? std::optional(FreeList::empty_like(free_)) : std::nullopt),
      returns_(options.split ? std::make_unique<FrameRing>(frames.count) : nullptr),
      egress_(std::move(egress), accounts(queues_), options.index, options.workers, region, free_, policy),
      feeder_(options_, region, active_, free_, returns_.get(), unparsed_, policy, egress_),
      retirer_(region, plain(queues_), freed_ ? *freed_ : free_, returns_.get(), unparsed_, fragments,
               options.index),
      idle_(receive_fds(active_), longest_sleep_ms(options.beat_timeout_ns), options.spin_ns) {
  report_.publish({.frames = feeder_.count({})});
}

Worker::~Worker() { stop(); }

void Worker::use(std::unique_ptr<gpu::Queue> queue, bool publishes, u32 most) {
  batcher_.reset();
  device_queue_ = std::move(queue);
  batcher_.emplace(*device_queue_, options_.batch, options_.batches_in_flight, options_.max_wait_ns,
                   options_.closing, options_.split ? &bell_ : nullptr, most);
  feeder_.use(*batcher_);
  retirer_.use(*batcher_, publishes);
}

void Worker::ask(const u8* region, AlertRules& rules, RuleFinisher& finisher,
                 std::unique_ptr<RuleAsker> asker) {
  // Most frames are for packets that do not wait.
  deferred_.emplace(region, rules, options_.index, free_.capacity() / 4, std::move(asker));
  retirer_.defer_to(*deferred_);
  finisher.defer_to(*deferred_);
}

Result<void> Worker::start() {
  if (!batcher_) return tl::unexpected(std::string("the worker has no device; call use_device first"));
  begin(monotonic_ns());
  stopping_.store(false);
  const std::string name = fmt::format("xdpgpu-{}", options_.index);
  if (deferred_) deferred_->start(name + "h");
  if (options_.split) retire_thread_ = gpu::start_thread(name + "r", [this] { run_retirer(); });
  thread_ = gpu::start_thread(name, [this] { options_.split ? run_feeder() : run(); });
  options_.cpu = pin(thread_, options_.cpu);
  if (options_.split) options_.retire_cpu = pin(retire_thread_, options_.retire_cpu);
  return {};
}

void Worker::begin(u64 now_ns) {
  feeder_.refill();
  if (options_.split) settle(now_ns);
  publish(now_ns, true, retirer_.state(now_ns));
}

void Worker::stop() {
  if (!thread_.joinable() && !retire_thread_.joinable()) return;
  stopping_.store(true);
  idle_.wake();
  bell_.ring();
  if (thread_.joinable()) thread_.join();
  if (retire_thread_.joinable()) {
    retire_thread_.join();
    retirer_.give_back();
    returns_->take(free_);
  }
  if (deferred_) deferred_->stop();
  feeder_.abandon();
  feeder_.publish_levels(monotonic_ns());
  retirer_.publish_levels();
  for (PortQueue* queue : active_) queue->publish_beat(0, 0);
}

void Worker::take_back() noexcept {
  retirer_.take_back();
  if (!options_.split) return;
  retirer_.give_back();
  returns_->take(free_);
}

// ---- One thread ------------------------------------------------------------------------------------

void Worker::run() noexcept {
  while (!stopping_.load(std::memory_order_relaxed)) {
    const u64 now_ns = monotonic_ns();
    idle_.rest(turn(now_ns), now_ns);
  }
}

Load Worker::turn(u64 now_ns) noexcept {
  bool moved = retirer_.collect();
  moved |= retirer_.retire(now_ns);
  const bool received = feeder_.receive(now_ns);
  batcher_->submit_if_due(now_ns, !received);
  moved |= retirer_.retire(now_ns);
  retirer_.kick();
  feeder_.kick();
  if (now_ns - published_ns_ >= kPublishEveryNs) {
    retirer_.settle(now_ns);
    publish(now_ns, !received, retirer_.state(now_ns));
    if (levels_ns_ == now_ns) retirer_.publish_levels();
  } else {
    feeder_.publish_credits();
  }
  if (moved || received) return Load::busy;
  return batcher_->open_batch() ? Load::waiting : attentive(retirer_.load(), now_ns);
}

// No descriptor announces what the host sends.
Load Worker::attentive(Load load, u64 now_ns) const noexcept {
  return load == Load::idle && egress_.flows(now_ns) ? Load::sending : load;
}

void Worker::publish(u64 now_ns, bool rings_empty, const Retired& retired) noexcept {
  published_ns_ = now_ns;
  feeder_.publish(now_ns, rings_empty, retired);
  if (now_ns - levels_ns_ >= kLevelsEveryNs) {
    levels_ns_ = now_ns;
    feeder_.publish_levels(now_ns);
  }
  const WorkerReport report = feeder_.report(retired);
  assert(report.frames.conserved());
  report_.publish(report);
}

// ---- Two threads -----------------------------------------------------------------------------------

void Worker::run_feeder() noexcept {
  while (!stopping_.load(std::memory_order_relaxed)) {
    const u64 now_ns = monotonic_ns();
    idle_.rest(feed(now_ns), now_ns);
  }
}

Load Worker::feed(u64 now_ns) noexcept {
  const bool received = feeder_.receive(now_ns);
  batcher_->submit_if_due(now_ns, !received);
  feeder_.kick();
  if (now_ns - published_ns_ >= kPublishEveryNs)
    publish(now_ns, !received, retired_.read());
  else
    feeder_.publish_credits();
  if (received) return Load::busy;
  if (batcher_->open_batch() || batcher_->waiting()) return Load::waiting;
  // Frames that come back announce themselves to nobody.
  return feeder_.empty_handed(true, retired_.read()) ? attentive(Load::idle, now_ns) : Load::sending;
}

void Worker::run_retirer() noexcept {
  Pace pace(longest_sleep_ms(options_.beat_timeout_ns), options_.spin_ns);
  while (!stopping_.load(std::memory_order_relaxed)) {
    const u64 now_ns = monotonic_ns();
    pace.rest(retire(now_ns), now_ns, [this](int ms) {
      settle(monotonic_ns());
      bell_.sleep([this] { return batcher_->waiting() || retirer_.others_wait() || stopping_.load(); },
                  u64(ms) * 1'000'000);
    });
  }
}

Load Worker::retire(u64 now_ns) noexcept {
  bool moved = retirer_.collect();
  moved |= retirer_.retire(now_ns);
  retirer_.kick();
  if (now_ns - settled_ns_ >= kPublishEveryNs)
    settle(now_ns);
  else if (retirer_.freed() >= kGiveBackStep)
    publish_retired(now_ns);
  return moved ? Load::busy : retirer_.load();
}

void Worker::settle(u64 now_ns) noexcept {
  settled_ns_ = now_ns;
  retirer_.settle(now_ns);
  publish_retired(now_ns);
  if (now_ns - retired_levels_ns_ < kLevelsEveryNs) return;
  retired_levels_ns_ = now_ns;
  retirer_.publish_levels();
}

// Frames are counted before they can be taken.
void Worker::publish_retired(u64 now_ns) noexcept {
  retired_.publish(retirer_.state(now_ns));
  retirer_.give_back(kKeptForAnswers);
}

FrameCount Worker::reclaim() {
  FrameCount frames = feeder_.count(retirer_.state(monotonic_ns()));
  // Descriptors in batches name their frames; frames in rings are given up by the kernel as the
  // sockets close. What the free list holds must be this worker's, each frame once.
  std::vector<bool> seen(free_.span());
  u64 unique = 0;
  for (u32 i = 0; i < free_.size(); ++i) {
    const FrameId frame = free_.storage()[i];
    const u32 at = free_.place(frame);
    if (!free_.owns(frame) || seen[at]) continue;
    seen[at] = true;
    ++unique;
  }
  for (PortQueue* queue : active_) {
    queue->reinject.reset();
    queue->socket.reset();
  }
  frames.free = unique + frames.fill + frames.batch + frames.tx + frames.waiting;
  frames.fill = frames.batch = frames.tx = frames.waiting = 0;
  return frames;
}

}  // namespace xdpgpu::dataplane
