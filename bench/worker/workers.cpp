// SPDX-License-Identifier: MIT
#include "bench/worker/workers.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <x86intrin.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "userspace/dataplane/compute_mode.hpp"

namespace xdpgpu::bench {
namespace {

using dataplane::ComputeMode;
using dataplane::monotonic_ns;

constexpr u32 kChunks = 8192, kRing = 2048, kTxRing = 8192;  // of each worker
constexpr u32 kPassing = 64;

template <class T>
T value_of(gpu::Result<T> result) {
  if (!result) throw std::runtime_error(result.error());
  return std::move(*result);
}

void must(const gpu::Result<void>& result) {
  if (!result) throw std::runtime_error(result.error());
}

ComputeMode mode_of(const std::string& device) {
  const auto slash = device.find('/');
  if (slash == std::string::npos) return ComputeMode::inlined;
  const auto mode = dataplane::compute_mode_of(device.substr(slash + 1));
  if (!mode || *mode == ComputeMode::split)
    throw std::runtime_error(fmt::format(
        "{} names no way to drive a worker of one thread: take inline, persistent, graph or auto", device));
  return *mode;
}

enum class Phase { warm, counted, over };

// What one worker's thread does, and has seen.
struct Shift {
  u64 packets = 0, kernel_ticks = 0, ticks = 0, ns = 0;
  bool pinned = false;

  void work(Lane& lane, u32 batch, int core, const std::atomic<Phase>& phase) noexcept {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(static_cast<std::size_t>(core), &cpus);
    pinned = pthread_setaffinity_np(pthread_self(), sizeof(cpus), &cpus) == 0;
    while (phase.load(std::memory_order_relaxed) == Phase::warm) turn(lane, batch);
    const u64 packets_before = lane.received(), ns_before = monotonic_ns(), before = __rdtsc();
    kernel_ticks = 0;
    while (phase.load(std::memory_order_relaxed) == Phase::counted) turn(lane, batch);
    const u64 played = kernel_ticks;
    ticks = __rdtsc() - before;
    ns = monotonic_ns() - ns_before;
    packets = lane.received() - packets_before;
    // Nothing waits for the next time, as if the device had not answered meanwhile.
    for (const u64 end = monotonic_ns() + Lane::kPatienceNs; !lane.over() && monotonic_ns() < end;)
      turn(lane, 0);
    kernel_ticks = played;
  }

 private:
  void turn(Lane& lane, u32 batch) noexcept {
    const u64 begun = __rdtsc();
    if (lane.play(batch)) kernel_ticks += __rdtsc() - begun;
    lane.worker().turn(monotonic_ns());
  }
};

}  // namespace

Workers::Workers(const WorkersOptions& options)
    : options_(options),
      region_(options.cores.size() * dataplane::chunk_of(kChunks), options.huge),
      device_(value_of(gpu::open_device(options.device.substr(0, options.device.find('/'))))) {
  const ComputeMode mode = mode_of(options.device);
  resident_ = mode == ComputeMode::persistent || mode == ComputeMode::automatic;
  must(device_->register_frames(region_.base(), region_.bytes(), gpu::Frames::automatic));
  must(device_->load(Lane::kGeneration, value_of(gpu::Pipelines::compile({Lane::pipeline(options.stage)}))));
  for (u32 i = 0; i < options.cores.size(); i++) {
    lanes_.push_back(std::make_unique<Lane>(
        LaneOptions{.first = i * kChunks,
                    .chunks = kChunks,
                    .ring = kRing,
                    .tx_ring = kTxRing,
                    .batch = options.batch,
                    .depth = options.depth,
                    .closing = mode == ComputeMode::automatic ? dataplane::Closing::by_load
                                                              : dataplane::Closing::patient,
                    .traffic = {.length = options.length, .passing = kPassing},
                    .counted = true},
        region_.base()));
    lanes_.back()->worker().use(value_of(device_->open_queue({.batch_capacity = options.batch,
                                                              .depth = options.depth,
                                                              .drive = dataplane::drive_of(mode),
                                                              .receive_queue = i})),
                                false);
    lanes_.back()->worker().begin(monotonic_ns());
  }
}

Workers::~Workers() { lanes_.clear(); }

Wall Workers::run(u32 count, double seconds) {
  // A resident kernel of a queue that has nothing to do any more is gone after 100 ms.
  const auto warm = std::chrono::milliseconds(resident_ && count < lanes_.size() ? 130 : 30);
  std::atomic<Phase> phase{Phase::warm};
  std::vector<Shift> shifts(count);
  std::vector<std::thread> threads;
  for (u32 i = 0; i < count; i++)
    threads.emplace_back([&, i] { shifts[i].work(*lanes_[i], options_.batch, options_.cores[i], phase); });
  std::this_thread::sleep_for(warm);
  phase = Phase::counted;
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  phase = Phase::over;
  for (std::thread& thread : threads) thread.join();
  Wall wall;
  double kernel = 0, spent = 0;
  u64 packets = 0;
  for (const Shift& shift : shifts) {
    if (!shift.pinned) throw std::runtime_error("a worker cannot be pinned to its core");
    packets += shift.packets;
    wall.packets_a_second += static_cast<double>(shift.packets) * 1e9 / static_cast<double>(shift.ns);
    spent += static_cast<double>(shift.ns);
    kernel += static_cast<double>(shift.kernel_ticks) / static_cast<double>(shift.ticks) *
              static_cast<double>(shift.ns);
  }
  if (packets == 0) return wall;
  wall.ns = spent / static_cast<double>(packets);
  wall.kernel_ns = kernel / static_cast<double>(packets);
  return wall;
}

std::string Workers::check() {
  std::string wrong;
  for (u32 i = 0; i < lanes_.size(); i++) {
    Lane& lane = *lanes_[i];
    std::string found = lane.finish([&] {
      lane.play(0);
      lane.worker().turn(monotonic_ns());
    });
    found += lane.check(options_.stage);
    if (!found.empty() && wrong.empty()) wrong = fmt::format("worker {}: {}", i, found);
  }
  return wrong;
}

std::vector<int> own_cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof(allowed), &allowed);
  std::vector<int> first, second;
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (!CPU_ISSET(static_cast<std::size_t>(cpu), &allowed)) continue;
    int least = cpu;
    std::ifstream(fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu)) >> least;
    (least == cpu ? first : second).push_back(cpu);
  }
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

}  // namespace xdpgpu::bench
