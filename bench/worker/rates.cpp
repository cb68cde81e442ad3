// SPDX-License-Identifier: MIT
#include "bench/worker/rates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <numeric>
#include <random>
#include <stdexcept>

#include "bench/cuda/ceilings.hpp"
#include "bench/worker/workers.hpp"

namespace xdpgpu::bench {
namespace {

constexpr const char* kPlain = "128 B lines read, 16 B results written, by a plain kernel";
constexpr double kBarOne = 20e6, kBarAll = 100e6;  // packets a second
constexpr double kBarOfOne = 7.0 / 8, kBarOfPlain = 0.85;
constexpr unsigned kBarWorkers = 8;
constexpr u32 kBitsAStep = 1024 * 8;

std::string name_of(const std::string& stage, unsigned workers) {
  return fmt::format("rings to rings, {}, {} worker{}", stage, workers, workers == 1 ? "" : "s");
}
std::string name_of_step(u32 packets) {
  return fmt::format("rings to rings, l2fwd, 1024 B, {} packets a step", packets);
}

// Lines of which each is the one in which a frame's metadata and headers are, in no order.
class Plain {
 public:
  Plain(const std::string& device, bool huge)
      : region_(dataplane::chunk_of(kLines), huge), numbers_(kLines), results_(kLines) {
    constexpr u32 kLine = 128;
    std::mt19937 random(20261124);
    for (u32& word : words()) word = static_cast<u32>(random());
    for (u32 i = 0; i < kLines; i++)
      numbers_[i] = static_cast<u32>((dataplane::chunk_of(i) + XG_FRAME_DATA - XG_METADATA_SIZE) / kLine);
    std::shuffle(numbers_.begin(), numbers_.end(), random);
    auto reader = HostReader::open(static_cast<u32>(gpu_number(device)), region_.base(), region_.bytes());
    if (!reader) throw std::runtime_error(reader.error());
    reader_ = *std::move(reader);
  }

  // Lines a second; sets `problem` if one was not read or its result not written.
  double run(std::string& problem) {
    constexpr u32 kPasses = 20, kWords = 32;
    std::fill(results_.begin(), results_.end(), xg_result{});
    const auto read = reader_->answers(numbers_, results_, kPasses);
    if (!read) {
      problem = read.error();
      return 0;
    }
    for (u32 i = 0; i < kLines && problem.empty(); i++) {
      const u32* const line = words().data() + u64{numbers_[i]} * kWords;
      const u32 sum = std::accumulate(line, line + kWords, 0u);
      std::array<u32, sizeof(xg_result) / sizeof(u32)> written{};
      std::memcpy(written.data(), &results_[i], sizeof(written));
      for (const u32 word : written)
        if (word != sum) problem = "the sum of a line is wrong";
    }
    return kLines / read->seconds;
  }

 private:
  static constexpr u32 kLines = 65536;
  std::span<u32> words() const { return region_.as<u32>(region_.bytes() / sizeof(u32)); }

  Pages region_;
  std::vector<u32> numbers_;
  std::vector<xg_result> results_;
  std::unique_ptr<HostReader> reader_;
};

class Rates {
 public:
  Rates(const RateSettings& settings, Rows& rows) : settings_(settings), rows_(rows) {}

  void several(const std::string& stage) {
    std::vector<unsigned> counts;
    for (const unsigned count : settings_.workers) {
      if (!wanted(name_of(stage, count))) continue;
      if (count <= settings_.cores.size())
        counts.push_back(count);
      else
        rows_.leave_out(fmt::format("{} workers: each wants a core of its own, and there are {}", count,
                                    settings_.cores.size()));
    }
    if (counts.empty()) return;
    const unsigned most = *std::max_element(counts.begin(), counts.end());
    const std::vector<int> cores(settings_.cores.begin(), settings_.cores.begin() + most);
    std::vector<Way> ways;
    for (const std::string& device : settings_.devices) {
      auto workers = open({.device = device, .stage = stage, .cores = cores, .huge = settings_.huge});
      if (!workers) continue;
      for (const unsigned count : counts)
        ways.push_back({.workers = workers,
                        .count = count,
                        .row = &rows_.add({.name = name_of(stage, count),
                                           .device = device,
                                           .unit = "M/s",
                                           .scale = 1e-6,
                                           .against = count > 1 ? name_of(stage, 1) : ""})});
    }
    measure(ways);
  }

  void steps() {
    for (const u32 packets : {16u, 32u, 64u, 128u}) {
      if (!wanted(name_of_step(packets))) continue;
      std::vector<Way> ways;
      for (const std::string& device : settings_.devices) {
        // As many packets are under way as with batches of 1,024, as far as the policy allows.
        auto workers = open({.device = device,
                             .stage = "l2fwd",
                             .cores = {settings_.cores.front()},
                             .batch = packets,
                             .depth = kMostDepth,
                             .length = 1024,
                             .huge = settings_.huge});
        if (workers)
          ways.push_back({.workers = workers,
                          .row = &rows_.add({.name = name_of_step(packets),
                                             .device = device,
                                             .unit = "Gb/s",
                                             .scale = kBitsAStep * 1e-9})});
      }
      measure(ways);
    }
  }

  void plain(const std::string& device) {
    Row& row = rows_.add({.name = kPlain, .device = device, .unit = "M/s", .scale = 1e-6});
    try {
      Plain plain(device, settings_.huge);
      plain.run(row.problem);
      for (int i = 0; i < settings_.runs && row.problem.empty(); i++)
        row.runs.push_back(plain.run(row.problem));
    } catch (const std::exception& error) {
      row.problem = error.what();
    }
  }

 private:
  static constexpr u32 kMostDepth = 16;
  struct Way {
    std::shared_ptr<Workers> workers;
    unsigned count = 1;
    Row* row = nullptr;
    std::vector<double> ns{}, kernel_ns{};
  };

  bool wanted(const std::string& name) const { return name.find(settings_.only) != std::string::npos; }

  std::shared_ptr<Workers> open(const WorkersOptions& options) {
    try {
      return std::make_shared<Workers>(options);
    } catch (const std::runtime_error& error) {
      rows_.leave_out(fmt::format("rings to rings: {}: {}", options.device, error.what()));
      return nullptr;
    }
  }

  // In turn, so that what the host does meanwhile falls on all. The devices go in the opposite order to that
  // in which they came.
  void measure(std::vector<Way>& ways) {
    for (int i = 0; i < settings_.runs; i++)
      for (Way& way : ways) {
        const Wall wall = way.workers->run(way.count, settings_.seconds);
        way.row->runs.push_back(wall.packets_a_second);
        way.ns.push_back(wall.ns);
        way.kernel_ns.push_back(wall.kernel_ns);
      }
    std::map<const Workers*, std::string> problems;
    for (const Way& way : ways)
      if (!problems.contains(way.workers.get())) problems[way.workers.get()] = way.workers->check();
    while (!ways.empty()) {
      const Way& way = ways.back();
      way.row->problem = problems[way.workers.get()];
      note(way);
      ways.pop_back();
    }
  }

  void note(const Way& way) {
    const double ns = median(way.ns), kernel_ns = median(way.kernel_ns);
    const double without = ns > kernel_ns ? 1e9 * way.count / (ns - kernel_ns) : 0;
    way.row->note = fmt::format(
        "{:.1f} ns a packet and worker, of them {:.1f} the kernel, played; without that {:.1f} {}", ns,
        kernel_ns, without * way.row->scale, way.row->unit);
    rows_["rates"][way.row->name][way.row->device] = {
        {"ns", ns}, {"kernel_ns", kernel_ns}, {"without_kernel", without}, {"workers", way.count}};
  }

  const RateSettings& settings_;
  Rows& rows_;
};

}  // namespace

void measure_rates(const RateSettings& settings, Rows& rows) {
  Rates rates(settings, rows);
  std::vector<std::string> gpus;
  for (const std::string& device : settings.devices)
    if (const auto gpu = device.substr(0, device.find('/'));
        gpu_number(gpu) >= 0 && std::find(gpus.begin(), gpus.end(), gpu) == gpus.end())
      gpus.push_back(gpu);
  if (std::string(kPlain).find(settings.only) != std::string::npos || settings.only.starts_with("rings"))
    for (const std::string& gpu : gpus) rates.plain(gpu);
  for (const std::string stage : {"l2fwd", "acl"}) rates.several(stage);
  rates.steps();
}

void judge_rates(const RateSettings& settings, Rows& rows) {
  const auto find = [&](const std::string& name, const std::string& device) {
    const Row* row = rows.find(name, device);
    return row && row->problem.empty() && !row->runs.empty() ? row->median() : 0;
  };
  const auto judge = [&](const std::string& name, const std::string& device, double ratio, double bar,
                         const std::string& text) {
    fmt::print("{}, {}: {}: {}\n", name, device, text, ratio >= bar ? "met" : "MISSED");
    rows["bars"].push_back(
        {{"name", name}, {"device", device}, {"ratio", ratio}, {"bar", bar}, {"met", ratio >= bar}});
  };
  for (const std::string& device : settings.devices) {
    if (gpu_number(device) < 0) continue;
    const double plain = find(kPlain, device.substr(0, device.find('/')));
    for (const std::string stage : {"l2fwd", "acl"}) {
      const double one = find(name_of(stage, 1), device), all = find(name_of(stage, kBarWorkers), device);
      if (one > 0)
        judge(name_of(stage, 1), device, one / 1e6, kBarOne / 1e6,
              fmt::format("{:.1f} M/s, bar {:.0f}", one / 1e6, kBarOne / 1e6));
      if (one <= 0 || all <= 0) continue;
      const double of_one = all / (one * kBarWorkers) / kBarOfOne;
      const double of_plain = plain > 0 ? all / plain / kBarOfPlain : 0;
      judge(name_of(stage, kBarWorkers) + ", as they add up", device, std::max(of_one, of_plain), 1,
            fmt::format("{:.2f} of one (bar {:.0f}), {:.2f} of the plain kernel (bar {:.2f}), either",
                        all / one, kBarOfOne * kBarWorkers, plain > 0 ? all / plain : 0, kBarOfPlain));
      judge(name_of(stage, kBarWorkers), device, all / 1e6, kBarAll / 1e6,
            fmt::format("{:.1f} M/s, bar {:.0f}", all / 1e6, kBarAll / 1e6));
    }
  }
}

}  // namespace xdpgpu::bench
