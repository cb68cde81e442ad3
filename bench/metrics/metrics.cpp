// SPDX-License-Identifier: MIT
//
// bench/metrics: what it costs a worker to measure its packets: gathering them into batches with and
// without their receive times, and counting the batches that are over. The histograms of the same run are
// checked to hold every packet.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "bench/machine.hpp"
#include "userspace/dataplane/clock.hpp"
#include "userspace/dataplane/metrics.hpp"

namespace xdpgpu::dataplane {
namespace {

constexpr u32 kPorts = 2;        // of the worker
constexpr u32 kPackets = 16384;  // that take turns, so that the histograms' places do too

// Latencies as they come: around 30 us, with a long tail.
std::vector<xg_metadata> packets(u64 now_ns) {
  std::mt19937_64 random(1);
  std::lognormal_distribution<> latency(10.3, 0.7);
  std::vector<xg_metadata> out(kPackets);
  for (u32 i = 0; i < kPackets; ++i) {
    out[i].sequence = i;
    out[i].rx_time_ns = now_ns - static_cast<u64>(std::min(latency(random), 1e9));
  }
  return out;
}

// A worker's batch of `size` packets, filled again and again.
struct Bed {
  explicit Bed(u32 packets_a_batch) : size(packets_a_batch), descriptors(size) {
    slot.descriptors = descriptors.data();
    slot.capacity = size;
    batch.slot = &slot;
    batch.ports.resize(size);
    batch.arrivals.resize(size);
  }
  // The next batch's packets.
  const xg_metadata* next() {
    at = at + size <= kPackets - size ? at + size : 0;
    return metadata.data() + at;
  }
  static u8 port_of(u32 i) { return static_cast<u8>(i / 64 % kPorts); }

  u32 size;
  u32 at = 0;
  std::vector<xg_descriptor> descriptors;
  gpu::Slot slot;
  Batch batch;
  std::vector<xg_metadata> metadata = packets(monotonic_ns());
};

bool all_right = true;  // what main() says with its exit status

void per_packet(benchmark::State& state, u32 size) {
  using benchmark::Counter;
  state.counters["packet"] =
      Counter(static_cast<double>(state.iterations()) * size, Counter::kIsRate | Counter::kInvert);
}

// What Batch::add did before it kept the time.
void add_untimed(Batch& batch, u64 offset, u8 port, const xg_metadata& metadata) {
  batch.slot->descriptors[batch.count] = {offset, 60, 0};
  batch.ports[batch.count++] = port;
  batch.port_mask |= 1u << port;
  batch.next_sequence[port] = metadata.sequence + 1;
}

void gather_untimed(benchmark::State& state) {
  Bed bed(static_cast<u32>(state.range(0)));
  while (state.KeepRunning()) {
    const xg_metadata* at = bed.next();
    bed.batch.count = 0;
    for (u32 i = 0; i < bed.size; ++i) add_untimed(bed.batch, i * u64{XG_CHUNK_SIZE}, Bed::port_of(i), at[i]);
    benchmark::ClobberMemory();
  }
  per_packet(state, bed.size);
}

void gather(benchmark::State& state) {
  Bed bed(static_cast<u32>(state.range(0)));
  while (state.KeepRunning()) {
    const xg_metadata* at = bed.next();
    bed.batch.count = bed.batch.arrivals_count = 0;
    for (u32 i = 0; i < bed.size; ++i) bed.batch.add(i * u64{XG_CHUNK_SIZE}, 60, Bed::port_of(i), at[i]);
    benchmark::ClobberMemory();
  }
  per_packet(state, bed.size);
}

// With two clocks a batch: when it is submitted and when it is over.
void count_when_over(benchmark::State& state) {
  Bed bed(static_cast<u32>(state.range(0)));
  for (u32 i = 0; i < bed.size; ++i)
    bed.batch.add(i * u64{XG_CHUNK_SIZE}, 60, Bed::port_of(i), bed.metadata[i]);
  std::vector<xg_queue_metrics> records(kPorts);
  std::vector<xg_queue_metrics*> by_port;
  by_port.reserve(kPorts);
  for (auto& record : records) by_port.push_back(&record);
  while (state.KeepRunning()) {
    const xg_metadata* at = bed.next();
    bed.batch.arrivals_count = 0;
    for (u32 i = 0; i < bed.size; ++i)
      bed.batch.arrived({1, Bed::port_of(i), at[i].rx_time_ns, at[i].rx_time_ns});
    bed.batch.submitted_ns = monotonic_ns();
    count_batch(bed.batch, monotonic_ns(), by_port);
  }
  per_packet(state, bed.size);
  u64 counted = 0, batches = 0;
  for (const auto& record : records) {
    counted += latency_of(record).count;
    batches += record.batches;
  }
  const auto rounds = static_cast<u64>(state.iterations());
  if (counted == rounds * bed.size && batches == rounds) return;
  state.SkipWithError("WRONG: the histograms do not hold every packet");
  all_right = false;
}

void sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgName("batch")->Arg(1)->Arg(32)->Arg(1024)->Repetitions(5)->ReportAggregatesOnly();
}
BENCHMARK(gather_untimed)->Apply(sizes);
BENCHMARK(gather)->Apply(sizes);
BENCHMARK(count_when_over)->Apply(sizes);

}  // namespace
}  // namespace xdpgpu::dataplane

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  const nlohmann::json circumstances = xdpgpu::bench::circumstances();
  for (const char* key : {"commit", "trees", "machine"}) {
    const nlohmann::json& value = circumstances.at(key);
    benchmark::AddCustomContext(key, value.is_string() ? value.get<std::string>() : value.dump());
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return xdpgpu::dataplane::all_right ? 0 : 1;
}
