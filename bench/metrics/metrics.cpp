// SPDX-License-Identifier: MIT
//
// bench/metrics: what it costs a worker to measure its packets: gathering them into batches with and
// without their receive times, and counting the batches that are over. Rounds of the three take turns;
// what counts is the median. The histograms of the same run are checked to hold every packet.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <vector>

#include "bench/machine.hpp"
#include "userspace/dataplane/clock.hpp"
#include "userspace/dataplane/metrics.hpp"

namespace xdpgpu::dataplane {
namespace {

using Clock = std::chrono::steady_clock;

struct Settings {
  u32 ports = 2;
  u32 rounds = 201;
  std::vector<u32> batches{1, 32, 1024};
  std::string json;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Latencies as they come: around 30 us, with a long tail.
std::vector<xg_metadata> packets(u32 count, u64 now_ns) {
  std::mt19937_64 random(1);
  std::lognormal_distribution<> latency(10.3, 0.7);
  std::vector<xg_metadata> out(count);
  for (u32 i = 0; i < count; ++i) {
    out[i].sequence = i;
    out[i].rx_time_ns = now_ns - static_cast<u64>(std::min(latency(random), 1e9));
  }
  return out;
}

// What Batch::add did before it kept the time.
void add_untimed(Batch& batch, u64 offset, u8 port, const xg_metadata& metadata) {
  batch.slot->descriptors[batch.count] = {offset, 60, 0};
  batch.ports[batch.count++] = port;
  batch.port_mask |= 1u << port;
  batch.next_sequence[port] = metadata.sequence + 1;
}

struct Row {
  u32 batch = 0;
  double add_ns = 0, add_untimed_ns = 0, count_ns = 0;  // a packet
};

// Several batches a round, so that the clock that measures does not count.
Row measure(const Settings& settings, u32 size, bool& right) {
  const u32 repeats = std::max(1u, 16384 / size);
  std::vector<xg_descriptor> descriptors(size);
  gpu::Slot slot;
  slot.descriptors = descriptors.data();
  slot.capacity = size;
  Batch batch;
  batch.slot = &slot;
  batch.ports.resize(size);
  batch.rx_times_ns.resize(size);
  std::vector<xg_queue_metrics> records(settings.ports);
  std::vector<xg_queue_metrics*> by_port;
  by_port.reserve(records.size());
  for (auto& record : records) by_port.push_back(&record);
  const u64 now_ns = monotonic_ns();
  const auto metadata = packets(size * repeats, now_ns);

  std::vector<double> timed, untimed, counted;
  const auto per_packet = [&](auto&& one_batch) {
    const auto start = Clock::now();
    for (u32 r = 0; r < repeats; ++r) one_batch(&metadata[r * size]);
    return std::chrono::duration<double, std::nano>(Clock::now() - start).count() / (size * repeats);
  };
  const auto port_of = [&](u32 i) { return static_cast<u8>(i / 64 % settings.ports); };
  const auto keep = [&] { asm volatile("" : : "r"(&batch), "r"(descriptors.data()) : "memory"); };
  for (u32 round = 0; round < settings.rounds; ++round) {
    untimed.push_back(per_packet([&](const xg_metadata* at) {
      batch.count = 0;
      for (u32 i = 0; i < size; ++i) add_untimed(batch, i * u64{XG_CHUNK_SIZE}, port_of(i), at[i]);
      keep();
    }));
    timed.push_back(per_packet([&](const xg_metadata* at) {
      batch.count = 0;
      for (u32 i = 0; i < size; ++i) batch.add(i * u64{XG_CHUNK_SIZE}, 60, port_of(i), at[i]);
      keep();
    }));
    // Two clocks a batch: when it is submitted and when it is over.
    counted.push_back(per_packet([&](const xg_metadata* at) {
      for (u32 i = 0; i < size; ++i) batch.rx_times_ns[i] = at[i].rx_time_ns;
      batch.submitted_ns = monotonic_ns();
      count_batch(batch, monotonic_ns(), by_port);
    }));
  }
  u64 packets_counted = 0, batches = 0;
  for (const auto& record : records) {
    packets_counted += latency_of(record).count;
    batches += record.batches;
  }
  right &=
      packets_counted == u64{size} * repeats * settings.rounds && batches == u64{repeats} * settings.rounds;
  return {size, median(timed), median(untimed), median(counted)};
}

int run(const Settings& settings) {
  bool right = true;
  nlohmann::json json{{"bench", "metrics"}, {"rounds", settings.rounds}, {"ports", settings.ports}};
  fmt::print("ns a packet, one worker with {} ports, median of {} rounds\n\n", settings.ports,
             settings.rounds);
  fmt::print("{:>14}{:>16}{:>16}{:>18}{:>12}\n", "packets a batch", "add, no times", "add", "count when over",
             "in all");
  for (const u32 size : settings.batches) {
    const Row row = measure(settings, size, right);
    const double cost = row.add_ns - row.add_untimed_ns + row.count_ns;
    fmt::print("{:>15}{:>16.2f}{:>16.2f}{:>18.2f}{:>12.2f}\n", row.batch, row.add_untimed_ns, row.add_ns,
               row.count_ns, cost);
    json["rows"].push_back({{"batch", row.batch},
                            {"add_without_times_ns", row.add_untimed_ns},
                            {"add_ns", row.add_ns},
                            {"count_ns", row.count_ns},
                            {"cost_ns", cost}});
  }
  fmt::print("\nin all: what measuring adds to a packet; the two clocks a batch are in it\n");
  if (!right) fmt::print(stderr, "bench-metrics: the histograms do not hold every packet\n");
  return bench::write_json(settings.json, json) && right ? 0 : 1;
}

}  // namespace
}  // namespace xdpgpu::dataplane

int main(int argc, char** argv) {
  xdpgpu::dataplane::Settings settings;
  CLI::App app("What it costs a worker to measure its packets and batches");
  app.add_option("--ports", settings.ports, "ports of the worker")->check(CLI::Range(1, 32));
  app.add_option("--rounds", settings.rounds, "rounds of each row")->check(CLI::Range(1, 100000));
  app.add_option("--batch", settings.batches, "packets a batch")->delimiter(',')->check(CLI::Range(1, 16384));
  app.add_option("--json", settings.json, "write the figures to this file");
  CLI11_PARSE(app, argc, argv);
  return xdpgpu::dataplane::run(settings);
}
