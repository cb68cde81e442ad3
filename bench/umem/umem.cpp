// SPDX-License-Identifier: MIT
//
// bench/umem: how fast a device decides frames that lie in memory as a NIC lays them, and as the XDP
// program hands them on: from the frames to verdicts in host memory, in place and staged, on pages of 4 KiB
// and of 2 MiB, with one GPU and several. No interface is in it. Held against plain kernels that read the
// same lines, or whole frames, and do nothing with them. All verdicts and all sums are checked.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <thread>

#include "bench/cuda/ceilings.hpp"
#include "bench/rows.hpp"
#include "bench/umem/frames.hpp"

namespace xdpgpu::bench {
namespace {

constexpr double kBar = 0.9;
constexpr double kGatherH200 = 607e6;  // lines of 64 B a second, tried by hand on an H200 host
constexpr u32 kPasses = 20;            // of a kernel that reads lines, a run

struct Settings {
  std::vector<std::string> devices{"cpu"};
  std::vector<u32> gpus;
  u32 batch = 1u << 16;
  u32 depth = 8;
  int repeats = 3;
  double seconds = 0.2;
  std::string json;

  u32 frames() const { return batch * depth; }
};

const char* name_of(bool huge) { return huge ? "2 MiB pages" : "4 KiB pages"; }
std::string name_of_lines(u32 bytes, bool huge) {
  return fmt::format("{} B lines read, {}", bytes, name_of(huge));
}
std::string name_of_region(bool huge) { return fmt::format("all read in order, {}", name_of(huge)); }
std::string name_of(const char* stage, u32 length, gpu::Frames how, bool huge) {
  return fmt::format("{} B {}, {}, {}", length, stage, how == gpu::Frames::in_place ? "in place" : "staged",
                     name_of(huge));
}

gpu::Result<std::unique_ptr<DeviceQueue>> open(const std::string& device, const Frames& frames, Stage stage,
                                               gpu::Frames how, u32 batch, u32 depth) {
  auto pipelines = gpu::Pipelines::compile(Frames::pipelines(stage));
  if (!pipelines) return tl::unexpected(pipelines.error());
  auto queue = DeviceQueue::open(device, frames.region(), how, batch, depth);
  if (!queue) return queue;
  if (auto ok = (*queue)->load(*std::move(pipelines)); !ok) return tl::unexpected(ok.error());
  (*queue)->expect(frames.verdicts(stage));
  return queue;
}

class Bench {
 public:
  Bench(const Settings& settings, Rows& rows) : settings_(settings), rows_(rows) {}

  // What the GPU can read at most of these frames.
  void ceilings(const std::string& device, const Frames& frames, bool huge) {
    auto reader = HostReader::open(static_cast<u32>(gpu_number(device)), frames.base(), frames.bytes());
    if (!reader) {
      rows_.leave_out(fmt::format("{}: plain kernels: {}", device, reader.error()));
      return;
    }
    Row& all = rows_.add({.name = name_of_region(huge), .device = device, .unit = "GB/s", .scale = 1e-9});
    const u32 sum = frames.sum();
    repeat(all, [&](double& rate) -> std::string {
      const auto read = (*reader)->contiguous();
      if (!read) return read.error();
      rate = static_cast<double>(frames.bytes()) / read->seconds;
      return read->sum == sum ? "" : "the sum of what was read is wrong";
    });
    const auto numbers = frames.lines();
    for (const u32 bytes : {128u, 64u}) {
      Row& row =
          rows_.add({.name = name_of_lines(bytes, huge), .device = device, .unit = "M/s", .scale = 1e-6});
      const u32 right = frames.sum_of_lines(bytes) * kPasses;
      repeat(row, [&](double& rate) -> std::string {
        const auto read = (*reader)->lines(numbers, bytes, kPasses);
        if (!read) return read.error();
        rate = static_cast<double>(numbers.size()) / read->seconds;
        return read->sum == right ? "" : "the sum of what was read is wrong";
      });
      row.note = fmt::format("{:.1f} GB/s, {:.2f} of 607 M/s", row.median() * bytes * 1e-9,
                             row.median() / kGatherH200);
    }
  }

  // Whole frames, each summed up by the GPU.
  void whole(const std::string& device, const Frames& frames, bool huge) {
    auto reader = HostReader::open(static_cast<u32>(gpu_number(device)), frames.base(), frames.bytes());
    if (!reader) {
      rows_.leave_out(fmt::format("{}: plain kernels: {}", device, reader.error()));
      return;
    }
    const u32 length = frames.descriptors().front().length;
    Row& row = rows_.add({.name = fmt::format("{} B summed up, in place, {}", length, name_of(huge)),
                          .device = device,
                          .unit = "GB/s",
                          .scale = 1e-9,
                          .against = name_of_region(huge),
                          .bar = kBar});
    const auto right = frames.frame_sums();
    std::vector<u32> sums(right.size());
    repeat(row, [&](double& rate) -> std::string {
      std::fill(sums.begin(), sums.end(), 0u);
      const auto read = (*reader)->frames(frames.descriptors(), sums);
      if (!read) return read.error();
      rate = static_cast<double>(sums.size()) * length / read->seconds;
      return sums == right ? "" : "a frame's sum is wrong";
    });
    row.note = fmt::format("{:.1f} M/s", row.median() / length * 1e-6);
  }

  void stage(const std::string& device, const Frames& frames, Stage which, gpu::Frames how, bool huge) {
    const u32 length = frames.descriptors().front().length;
    auto queue = open(device, frames, which, how, settings_.batch, settings_.depth);
    if (!queue) {
      rows_.leave_out(fmt::format("{}: {}", device, queue.error()));
      return;
    }
    Row row{.name = name_of(which == Stage::acl ? "acl" : "l2fwd", length, how, huge),
            .device = device,
            .unit = "M/s",
            .scale = 1e-6};
    if (gpu_number(device) >= 0) row.against = name_of_lines(128, huge);
    if (gpu_number(device) >= 0 && how == gpu::Frames::in_place) row.bar = kBar;
    Row& kept = rows_.add(std::move(row));
    repeat(kept, [&](double& rate) {
      const Rate run = (*queue)->run(settings_.seconds);
      rate = run.packets_per_second;
      return run.problem;
    });
    kept.note = fmt::format("{:.1f} GB/s of headers and metadata", kept.median() * 128e-9);
  }

  // Each GPU with frames of its own.
  void several(u32 count) {
    const std::string what = fmt::format("{} GPUs", count);
    std::vector<std::unique_ptr<Frames>> frames;
    std::vector<std::unique_ptr<DeviceQueue>> queues;
    for (u32 i = 0; i < count; ++i) {
      frames.push_back(std::make_unique<Frames>(settings_.frames(), 64, false));
      auto queue = open(fmt::format("cuda:{}", i), *frames.back(), Stage::acl, gpu::Frames::in_place,
                        settings_.batch, settings_.depth);
      if (!queue) {
        rows_.leave_out(fmt::format("{}: {}", what, queue.error()));
        return;
      }
      queues.push_back(*std::move(queue));
    }
    Row& row = rows_.add({.name = name_of("acl", 64, gpu::Frames::in_place, false) + ", " + what,
                          .device = what,
                          .unit = "M/s",
                          .scale = 1e-6,
                          .against = name_of("acl", 64, gpu::Frames::in_place, false),
                          .bar = count == 2 ? 1.9 : 0.925 * count});
    repeat(row, [&](double& rate) {
      std::vector<Rate> rates(count);
      std::vector<std::thread> threads;
      for (u32 i = 0; i < count; ++i)
        threads.emplace_back([&, i] { rates[i] = queues[i]->run(settings_.seconds); });
      for (std::thread& thread : threads) thread.join();
      std::string problem;
      for (const Rate& one : rates) {
        rate += one.packets_per_second;
        if (!one.problem.empty()) problem = one.problem;
      }
      return problem;
    });
  }

 private:
  template <class Run>
  void repeat(Row& row, Run&& run) const {
    for (int i = -1; i < settings_.repeats && row.problem.empty(); ++i) {
      double rate = 0;
      row.problem = run(rate);
      if (i >= 0) row.runs.push_back(rate);
    }
  }

  const Settings& settings_;
  Rows& rows_;
};

void measure(const Settings& settings, Rows& rows) {
  Bench bench(settings, rows);
  for (const bool huge : {false, true})
    for (const u32 length : {64u, 1500u}) {
      std::unique_ptr<Frames> frames;
      try {
        frames = std::make_unique<Frames>(settings.frames(), length, huge);
      } catch (const std::runtime_error& none) {
        rows.leave_out(none.what());
        continue;
      }
      for (const std::string& device : settings.devices) {
        const bool gpu = gpu_number(device) >= 0;
        if (gpu && length == 64) bench.ceilings(device, *frames, huge);
        if (gpu && length != 64) bench.whole(device, *frames, huge);
        for (const gpu::Frames how : {gpu::Frames::in_place, gpu::Frames::staged})
          bench.stage(device, *frames, Stage::acl, how, huge);
        if (length == 64) bench.stage(device, *frames, Stage::l2fwd, gpu::Frames::in_place, huge);
      }
    }
  for (const u32 count : settings.gpus) bench.several(count);
}

int run(const Settings& settings) {
  Rows rows("umem");
  rows["frames"] = settings.frames();
  rows["batch"] = settings.batch;
  rows["depth"] = settings.depth;
  rows["seconds"] = settings.seconds;
  rows["repeats"] = settings.repeats;
  measure(settings, rows);
  fmt::print(
      "{} frames in chunks of {} bytes, in no order; batches of {}, {} in flight; median of {} runs of {} "
      "s\n\n",
      settings.frames(), XG_CHUNK_SIZE, settings.batch, settings.depth, settings.repeats, settings.seconds);
  return rows.report(settings.json) ? 0 : 1;
}

}  // namespace
}  // namespace xdpgpu::bench

int main(int argc, char** argv) {
  xdpgpu::bench::Settings settings;
  CLI::App app("Frames laid as a NIC lays them to verdicts in host memory, a second");
  app.add_option("--device", settings.devices,
                 "compute devices, as `xdpgpu devices` names them; with /persistent behind, driven by a "
                 "resident kernel")
      ->delimiter(',');
  app.add_option("--devices", settings.gpus, "also so many GPUs at once, e.g. 2,4")
      ->delimiter(',')
      ->check(CLI::Range(2, 64));
  app.add_option("--batch", settings.batch, "packets a batch")->check(CLI::Range(64, 65536));
  app.add_option("--depth", settings.depth, "batches in flight")->check(CLI::Range(1, 64));
  app.add_option("--seconds", settings.seconds, "length of a run")->check(CLI::Range(0.01, 60.0));
  app.add_option("--repeats", settings.repeats, "runs of each row")->check(CLI::Range(1, 100));
  app.add_option("--json", settings.json, "write the figures to this file");
  CLI11_PARSE(app, argc, argv);
  try {
    return xdpgpu::bench::run(settings);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench-umem: {}\n", error.what());
    return 1;
  }
}
