// SPDX-License-Identifier: MIT
//
// bench/events: verdicts a second on parsed headers, from host memory to verdicts of 4 bytes in host
// memory, everything in between included: in records of 40 bytes as the "XDP on GPU" prototype has them, by
// a simple filter and by a hash load balancer; and in records of 16 bytes, with their packing and without.
// Held against the rate at which the same GPU reads the same records and does nothing with them. All
// verdicts of every run are checked.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>

#include "bench/cuda/ceilings.hpp"
#include "bench/events/records.hpp"
#include "bench/rows.hpp"

namespace xdpgpu::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Run = std::function<gpu::Result<double>()>;  // seconds

constexpr double kBar = 0.9;
constexpr const char* kRead = "records read and not decided";

struct Settings {
  std::vector<std::string> devices{"cpu"};
  u64 events = 10'000'000;
  int repeats = 5;
  u32 threads = std::clamp(std::thread::hardware_concurrency(), 1u, 8u);
  std::string json;
};

const char* name_of(EventStage stage) { return stage == EventStage::filter ? "filter" : "load balancer"; }

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

class Bench {
 public:
  explicit Bench(const Settings& settings) : settings_(settings), records_(settings.events) {}

  void on_cpu(Rows& rows) {
    const auto decide = [&](EventStage stage, auto&& headers, auto&& compact) -> Run {
      return [=, this] {
        const auto start = Clock::now();
        for (u64 i = 0; i < records_.count(); ++i)
          records_.verdicts()[i] = xg_event_verdict(stage, compact(headers[i]));
        return gpu::Result<double>(since(start));
      };
    };
    for (const EventStage stage : {EventStage::filter, EventStage::load_balance}) {
      measure(rows, {.name = fmt::format("{}, 40 bytes", name_of(stage)), .device = "cpu"}, stage,
              decide(stage, records_.parsed(),
                     [](const ParsedHeader& header) { return xg_event_compact(header); }));
      measure(rows, {.name = fmt::format("{}, 16 bytes", name_of(stage)), .device = "cpu"}, stage,
              decide(stage, records_.compact(), [](const CompactHeader& header) { return header; }));
    }
    Row& row = rows.add({.name = "packing to 16 bytes", .device = "cpu", .unit = "M/s", .scale = 1e-6});
    row.note = fmt::format("{} threads", settings_.threads);
    for (int i = 0; i < settings_.repeats; ++i) {
      const auto start = Clock::now();
      records_.pack(settings_.threads, [](u64, u64) {});
      row.runs.push_back(static_cast<double>(records_.count()) / since(start));
    }
  }

  // Why not, or nothing.
  std::string on_gpu(Rows& rows, const std::string& device) {
    auto opened = EventDecider::open(static_cast<u32>(gpu_number(device)), records_.parsed(),
                                     records_.compact(), records_.verdicts());
    if (!opened) return opened.error();
    EventDecider& decider = **opened;
    Row& read = rows.add({.name = kRead, .device = device, .unit = "GB/s", .scale = 1e-9});
    for (int i = -1; i < settings_.repeats && read.problem.empty(); ++i) {
      const auto seconds = decider.read();
      if (!seconds)
        read.problem = seconds.error();
      else if (i >= 0)
        read.runs.push_back(static_cast<double>(records_.parsed().size_bytes()) / *seconds);
    }
    for (const EventStage stage : {EventStage::filter, EventStage::load_balance}) {
      const auto row = [&](const char* how, double bytes, double bar) {
        return Row{.name = fmt::format("{}, {}", name_of(stage), how),
                   .device = device,
                   .against = kRead,
                   .against_part = 1 / bytes,
                   .bar = bar};
      };
      measure(rows, row("40 bytes, read in place", 40, kBar), stage,
              [&, stage] { return decider.parsed(stage); });
      measure(rows, row("40 bytes, copied in parts", 40, kBar), stage,
              [&, stage] { return decider.copied(stage); });
      measure(rows, row("16 bytes", 16, 0), stage, [&, stage] { return decider.compact(stage); });
      measure(
          rows, row("16 bytes, packing included", 16, 0), stage,
          [&, stage] { return packed(decider, stage); }, fmt::format("{} threads pack", settings_.threads));
    }
    return "";
  }

 private:
  gpu::Result<double> packed(EventDecider& decider, EventStage stage) {
    gpu::Result<void> begun;
    const auto start = Clock::now();
    records_.pack(settings_.threads, [&](u64 first, u64 count) {
      if (begun) begun = decider.begin_compact(stage, first, count);
    });
    const auto done = decider.wait();
    if (!begun) return tl::unexpected(begun.error());
    if (!done) return tl::unexpected(done.error());
    return since(start);
  }

  // The first run is not counted.
  void measure(Rows& rows, Row row, EventStage stage, const Run& run, std::string note = "") {
    row.unit = "M/s";
    row.scale = 1e-6;
    row.note = std::move(note);
    Row& kept = rows.add(std::move(row));
    for (int i = -1; i < settings_.repeats && kept.problem.empty(); ++i) {
      records_.clear();
      const auto seconds = run();
      if (!seconds) {
        kept.problem = seconds.error();
        return;
      }
      kept.problem = records_.check(stage);
      if (i >= 0) kept.runs.push_back(static_cast<double>(records_.count()) / *seconds);
    }
  }

  const Settings& settings_;
  Records records_;
};

int run(const Settings& settings) {
  Bench bench(settings);
  Rows rows("events");
  rows["events"] = settings.events;
  rows["repeats"] = settings.repeats;
  rows["threads"] = settings.threads;
  for (const std::string& device : settings.devices) {
    if (device == "cpu") {
      bench.on_cpu(rows);
      continue;
    }
    std::string reason = "only the CPU and CUDA are measured here, in builds that have it";
    if (device.find('/') != std::string::npos)
      reason = "the kernels are the bench's own, so that there is no way to choose of driving the device";
    else if (gpu_number(device) >= 0)
      reason = bench.on_gpu(rows, device);
    if (!reason.empty()) rows.leave_out(fmt::format("{}: {}", device, reason));
  }
  fmt::print(
      "{} parsed headers a run, verdicts of 4 bytes; median of {} runs; from host memory to host memory. "
      "cpu: "
      "one thread\n\n",
      settings.events, settings.repeats);
  return rows.report(settings.json) ? 0 : 1;
}

}  // namespace
}  // namespace xdpgpu::bench

int main(int argc, char** argv) {
  xdpgpu::bench::Settings settings;
  CLI::App app("Verdicts a second on parsed headers, from host memory to host memory");
  app.add_option("--device", settings.devices, "cpu, cuda, cuda:<n>")->delimiter(',');
  app.add_option("--events", settings.events, "headers a run")->check(CLI::Range(1 << 10, 1 << 28));
  app.add_option("--threads", settings.threads, "threads that pack")->check(CLI::Range(1, 256));
  app.add_option("--repeats", settings.repeats, "runs of each row")->check(CLI::Range(1, 100));
  app.add_option("--json", settings.json, "write the figures to this file");
  CLI11_PARSE(app, argc, argv);
  settings.events &= ~u64{1};  // two records of 40 bytes are whole loads
  try {
    return xdpgpu::bench::run(settings);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench-events: {}\n", error.what());
    return 1;
  }
}
