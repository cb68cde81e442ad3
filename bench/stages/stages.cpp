// SPDX-License-Identifier: MIT
//
// bench/stages: packets a second that a stage decides, by device and size of a batch, from frames that lie as
// a NIC lays them to verdicts in host memory; for information, from frames that are on the GPU already; what
// another library does of the same frames, on one core and on all; and what a kernel on the GPU does that
// only reads them. All verdicts of every run are checked.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>
#include <set>
#include <thread>

#include "bench/cuda/ceilings.hpp"
#include "bench/rows.hpp"
#include "bench/stages/acl_cases.hpp"
#include "bench/stages/flow_cases.hpp"
#include "bench/stages/frames.hpp"
#include "bench/stages/prefix_cases.hpp"
#include "gpu/reference/reference.hpp"

namespace xdpgpu::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr u32 kPackets = 65536;  // different ones in a case without a table
constexpr u32 kFilterRules = 1000;
constexpr u32 kMostDepth = 64;         // batches in flight
constexpr double kAloneSeconds = 0.1;  // for batches that go to the device one at a time
constexpr u32 kPasses = 20;            // of the plain kernel, a run
// What `auto` is to keep of the better way, at these rates of packets and at the ceiling.
constexpr double kAutoBar = 0.95;
constexpr u32 kAutoBatches[]{1024, 65536};
constexpr u32 kWorkerBatch = 1024, kWorkerDepth = 4, kGrown = 16384;
constexpr double kPacedRates[]{1e3, 1e5};
constexpr u32 kAtOnce = 4;  // queues of one device
constexpr double kAtOnceBar = 3;
constexpr double kLeastPaced = 200;  // packets of a run
constexpr const char* kPlain = "128 B lines, read by a plain kernel";

struct Settings {
  std::vector<std::string> devices{"cpu"};
  std::vector<u32> batches{64, 1024, 16384, 65536};
  std::vector<std::string> stages{"acl", "prefixes", "flows"};
  std::vector<u32> rules{64, 1000, 10000};
  u32 prefixes = 1'000'000;
  u32 entries = 1 << 22;
  u32 flows = 65536;
  u32 frames = 131072;
  u32 reference = 256;
  int repeats = 3;
  double seconds = 0.2;
  bool huge = false;
  std::string json;
};

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

class Bench {
 public:
  Bench(const Settings& settings, Rows& rows)
      : settings_(settings), rows_(rows), frames_(settings.frames, settings.huge) {}

  void measure(const StageCase& one) {
    take(one);
    const auto start = Clock::now();
    const auto pipelines = gpu::Pipelines::compile({{"main", one.stages}});
    const double seconds = since(start);
    const std::string wrong = pipelines ? reference(**pipelines) : pipelines.error();
    const std::string note =
        pipelines ? fmt::format("compiled in {:.0f} ms to {:.1f} MiB", seconds * 1e3,
                                static_cast<double>((*pipelines)->image().size()) * 4 / (1 << 20))
                  : "";
    std::vector<const Row*> largest;  // of each GPU
    for (const std::string& device : settings_.devices)
      for (const u32 batch : settings_.batches) {
        Row row{.name = name_of(one.name, batch), .device = device, .unit = "M/s", .scale = 1e-6};
        if (!one.against.empty()) row.against = name_of(one.against, batch), row.bar = one.bar;
        row.note = note;
        row.problem = wrong;
        const Row* made = wrong.empty() ? decide(frames_, one, *pipelines, batch, std::move(row)) : nullptr;
        if (made == nullptr || batch != settings_.batches.back() || gpu_number(device) < 0) continue;
        largest.push_back(made);
        // Its own memory would have to come back to the host for each part of `before`.
        if (one.before.empty()) resident(one, *pipelines, device, batch);
      }
    if (!wrong.empty()) rows_.add({.name = one.name, .unit = "M/s", .problem = wrong});
    for (const std::string& device : settings_.devices)
      if (one.at_once && wrong.empty()) at_once(one, *pipelines, device);
    for (const Peer& peer : one.peers)
      if (peer.prepare != nullptr) ask(peer);
    for (const Row* row : largest) {
      if (!one.peers.empty()) hold(*row, on_cores(one.peers.front().name, 1), one.peer_bar);
      hold(*row, kPlain, one.plain_bar);
    }
  }

  // What a kernel on the GPU reads of the frames at most.
  void plain(const std::string& device) {
    const auto number = static_cast<u32>(gpu_number(device));
    const FrameRegion region = frames_.region(frames_.count());
    auto reader = HostReader::open(number, region.base, region.bytes);
    if (!reader) {
      rows_.leave_out(fmt::format("{}: a plain kernel: {}", device, reader.error()));
      return;
    }
    const auto lines = frames_.lines();
    const u32 sum = frames_.sum_of_lines() * kPasses;
    Row& row = rows_.add({.name = kPlain, .device = device, .unit = "M/s", .scale = 1e-6});
    measured_.insert(row.name);
    for (int i = -1; i < settings_.repeats && row.problem.empty(); ++i) {
      const auto read = (*reader)->lines(lines, 128, kPasses);
      if (!read) row.problem = read.error();
      if (read && read->sum != sum) row.problem = "the sum of what was read is wrong";
      if (read && i >= 0) row.runs.push_back(static_cast<double>(lines.size()) / read->seconds);
    }
  }

  // The ways to drive each device, launched and persistent, and `auto` against the better of the two.
  void compare_ways(const StageCase& one) {
    take(one);
    const auto pipelines = gpu::Pipelines::compile({{"main", one.stages}});
    const std::string wrong = pipelines ? reference(**pipelines) : pipelines.error();
    if (!wrong.empty()) {
      rows_.add({.name = one.name, .unit = "M/s", .problem = wrong});
      return;
    }
    for (const std::string& device : settings_.devices) {
      for (const u32 batch : kAutoBatches) {
        if (batch > frames_.count()) continue;
        const auto ceiling = [&](const char* way, const std::string& name, u32 most = 0) {
          return decide(frames_, one, *pipelines, batch,
                        {.name = fmt::format("{}, {}", name_of(one.name, batch), name),
                         .device = device + way,
                         .unit = "M/s",
                         .scale = 1e-6},
                        most);
        };
        const Row* const launched = ceiling("/inline", "launched");
        const Row* const better = better_of(launched, ceiling("/persistent", "persistent"));
        hold_auto(ceiling("/auto", "auto"), better);
        if (batch == kWorkerBatch && frames_.count() >= 2 * kGrown)
          hold_auto(ceiling("/auto", fmt::format("auto, growing to {}", kGrown), kGrown), better);
      }
      compare_paced(one, *pipelines, device);
    }
  }

 private:
  void take(const StageCase& one) {
    frames_.fill(one.packets);
    const std::vector<u32> of_packet = verdicts(one, one.packets);
    verdicts_.resize(frames_.count());
    for (std::size_t i = 0; i < verdicts_.size(); ++i) verdicts_[i] = of_packet[i % of_packet.size()];
  }

  // Either may have been left out.
  static const Row* better_of(const Row* a, const Row* b) {
    if (a == nullptr || b == nullptr) return a == nullptr ? b : a;
    return a->median() < b->median() ? b : a;
  }
  static void hold_auto(Row* row, const Row* better) {
    if (row == nullptr || better == nullptr) return;
    row->against = better->name;
    row->bar = kAutoBar;
  }

  // Packets that come one by one, far below what the device can do: how many of them it would answer one
  // after the other in a millisecond, by the median of the time from a packet's arrival to its verdict.
  void compare_paced(const StageCase& one, const std::shared_ptr<const gpu::Pipelines>& pipelines,
                     const std::string& device) {
    constexpr std::pair<const char*, const char*> kWays[]{
        {"/inline", "launched"}, {"/persistent", "persistent"}, {"/auto", "auto"}};
    const u32 frames = std::min(kWorkerBatch * kWorkerDepth, frames_.count());
    for (const double rate : kPacedRates) {
      const Row* better = nullptr;
      for (const auto& [way, name] : kWays) {
        auto queue = DeviceQueue::open(device + way, frames_.region(frames), gpu::Frames::automatic,
                                       frames / kWorkerDepth, kWorkerDepth);
        auto loaded = queue ? (*queue)->load(pipelines) : gpu::Result<void>();
        if (!queue || !loaded) {
          rows_.leave_out(fmt::format("{}{}: {}", device, way, !queue ? queue.error() : loaded.error()));
          continue;
        }
        (*queue)->expect({verdicts_.begin(), verdicts_.begin() + frames});
        Row& row = rows_.add({.name = fmt::format("{}, {:.0f} packets/s, {}", one.name, rate, name),
                              .device = device + way,
                              .unit = "answers/ms"});
        const double seconds = std::max(settings_.seconds, kLeastPaced / rate);
        for (int i = -1; i < settings_.repeats && row.problem.empty(); ++i) {
          std::vector<double> us = (*queue)->paced(rate, seconds, row.problem);
          if (i < 0 || us.empty() || !row.problem.empty()) continue;
          std::sort(us.begin(), us.end());
          row.runs.push_back(1e3 / us[us.size() / 2]);
          rows_["paced"].push_back({{"row", row.name},
                                    {"device", row.device},
                                    {"packets", us.size()},
                                    {"p50_us", us[us.size() / 2]},
                                    {"p99_us", us[us.size() * 99 / 100]}});
        }
        if (way == std::string_view("/auto"))
          hold_auto(&row, better);
        else
          better = better_of(better, &row);
      }
    }
  }

  static std::vector<u32> verdicts(const StageCase& one, std::span<const StagePacket> packets) {
    std::vector<u32> words;
    words.reserve(packets.size());
    for (const StagePacket& packet : packets) words.push_back(one.verdict(packet));
    return words;
  }

  static std::string name_of(const std::string& one, u32 batch) {
    return fmt::format("{}, batches of {}", one, batch);
  }

  // What the sequential reference says otherwise than the right verdicts.
  std::string reference(const gpu::Pipelines& pipelines) const {
    const FrameRegion region = frames_.region(std::min(settings_.reference, frames_.count()));
    std::vector<xg_result> results(region.descriptors.size());
    gpu::reference::decide({region.base, region.bytes}, region.descriptors, DeviceQueue::kGeneration,
                           pipelines.settings(), results);
    for (std::size_t i = 0; i < results.size(); ++i)
      if (results[i].verdict != verdicts_[i])
        return fmt::format("frame {}: the sequential reference says {:#x}, {:#x} is right", i,
                           results[i].verdict, verdicts_[i]);
    return {};
  }

  static std::string on_cores(const std::string& peer, u32 cores) {
    return fmt::format("{}, {}", peer, cores == 1 ? "one core" : fmt::format("{} cores", cores));
  }

  // The row once more, against another one, if that was measured.
  void hold(const Row& row, const std::string& against, double bar) {
    if (bar == 0 || !measured_.contains(against)) return;
    Row held = row;
    held.name = fmt::format("{}, against {}", row.name, against);
    held.against = against;
    held.bar = bar;
    held.note.clear();
    rows_.add(std::move(held));
  }

  // For information: the same with frames that are in the GPU's memory already, so that the bus carries only
  // descriptors and results.
  void resident(const StageCase& one, const std::shared_ptr<const gpu::Pipelines>& pipelines,
                const std::string& device, u32 batch) {
    const int number = gpu_number(device);
    if (!resident_.contains(number)) {
      auto memory = SharedMemory::create(static_cast<u32>(number), StageFrames::bytes_of(settings_.frames));
      if (!memory) rows_.leave_out(fmt::format("{}: frames on the GPU: {}", device, memory.error()));
      resident_[number] =
          memory ? std::make_unique<StageFrames>(settings_.frames, *std::move(memory)) : nullptr;
    }
    StageFrames* const frames = resident_[number].get();
    if (frames == nullptr) return;
    frames->fill(one.packets);
    if (auto there = frames->settle(); !there) {
      rows_.leave_out(fmt::format("{}: frames on the GPU: {}", device, there.error()));
      return;
    }
    decide(*frames, one, pipelines, batch,
           {.name = fmt::format("{}, frames on the GPU", name_of(one.name, batch)),
            .device = device,
            .unit = "M/s",
            .scale = 1e-6});
  }

  // nullptr: it was left out. most: DeviceQueue's.
  Row* decide(StageFrames& frames, const StageCase& one,
              const std::shared_ptr<const gpu::Pipelines>& pipelines, u32 batch, Row made, u32 most = 0) {
    const u32 slot = std::max(batch, most);
    const u32 depth = std::clamp(frames.count() / slot, 1u, kMostDepth);
    auto queue = DeviceQueue::open(made.device, frames.region(slot * depth), gpu::Frames::automatic, batch,
                                   depth, most);
    auto loaded = queue ? (*queue)->load(pipelines) : gpu::Result<void>();
    if (!queue || !loaded) {
      rows_.leave_out(fmt::format("{}: {}", made.device, !queue ? queue.error() : loaded.error()));
      return nullptr;
    }
    Row& row = rows_.add(std::move(made));
    for (std::size_t first = 0; first < one.before.size() && row.problem.empty(); first += slot * depth) {
      std::vector<StagePacket> part(slot * depth);
      for (std::size_t i = 0; i < part.size(); ++i) part[i] = one.before[(first + i) % one.before.size()];
      frames.fill(part);
      (*queue)->expect(verdicts(one, part));
      (*queue)->check(row.problem);
    }
    if (!one.before.empty()) frames.fill(one.packets);
    (*queue)->expect({verdicts_.begin(), verdicts_.begin() + slot * depth});
    for (int i = -1; i < settings_.repeats && row.problem.empty(); ++i) {
      const Rate rate = (*queue)->run(settings_.seconds);
      row.problem = rate.problem;
      if (i >= 0) row.runs.push_back(rate.packets_per_second);
    }
    std::vector<double> alone = (*queue)->alone(std::min(settings_.seconds, kAloneSeconds), row.problem);
    if (!alone.empty() && row.problem.empty()) {
      std::sort(alone.begin(), alone.end());
      rows_["alone"].push_back({{"row", row.name},
                                {"device", row.device},
                                {"batches", alone.size()},
                                {"p50_us", alone[alone.size() / 2]},
                                {"p99_us", alone[alone.size() * 99 / 100]}});
    }
    return &row;
  }

  // One queue, and several at the same time at the same tables, each with packets of its own. What they
  // decide together; each queue's verdicts are checked in front and behind.
  void at_once(const StageCase& one, const std::shared_ptr<const gpu::Pipelines>& pipelines,
               const std::string& device) {
    constexpr u32 kEach = kWorkerBatch * kWorkerDepth;
    if (frames_.count() < kAtOnce * kEach) return;
    std::string alone;
    for (const u32 number : {1u, kAtOnce}) {
      std::vector<std::unique_ptr<DeviceQueue>> queues;
      std::string problem;
      for (u32 i = 0; i < number && problem.empty(); ++i) {
        const FrameRegion region = frames_.region(i * kEach, kEach);
        auto queue =
            i == 0 ? DeviceQueue::open(device, region, gpu::Frames::automatic, kWorkerBatch, kWorkerDepth)
                   : DeviceQueue::open_beside(*queues.front(), region, kWorkerBatch, kWorkerDepth);
        auto loaded = queue && i == 0 ? (*queue)->load(pipelines) : gpu::Result<void>();
        problem = !queue ? queue.error() : !loaded ? loaded.error() : "";
        if (!problem.empty()) break;
        (*queue)->expect({verdicts_.begin() + i * kEach, verdicts_.begin() + (i + 1) * kEach});
        queues.push_back(std::move(*queue));
      }
      if (!problem.empty()) return rows_.leave_out(fmt::format("{}: {}", device, problem));
      Row& row = rows_.add({.name = fmt::format("{}, {} at once", name_of(one.name, kWorkerBatch),
                                                number == 1 ? "1 queue" : fmt::format("{} queues", number)),
                            .device = device,
                            .unit = "M/s",
                            .scale = 1e-6});
      if (number == 1)
        alone = row.name;
      else
        row.against = alone, row.bar = at_once_bar(device);
      for (int i = -1; i < settings_.repeats && row.problem.empty(); ++i) {
        const double rate = run_at_once(queues, row.problem);
        if (i >= 0) row.runs.push_back(rate);
      }
    }
  }

  // The CPU device's queues need a core each.
  static double at_once_bar(const std::string& device) {
    return device.starts_with("cpu") && std::thread::hardware_concurrency() > kAtOnce ? kAtOnceBar : 0;
  }

  double run_at_once(const std::vector<std::unique_ptr<DeviceQueue>>& queues, std::string& problem) const {
    std::vector<Rate> rates(queues.size());
    std::vector<std::thread> threads;
    threads.reserve(queues.size());
    for (std::size_t i = 0; i < queues.size(); ++i)
      threads.emplace_back([&, i] { rates[i] = queues[i]->run(settings_.seconds); });
    for (std::thread& thread : threads) thread.join();
    double sum = 0;
    for (const Rate& rate : rates) {
      sum += rate.packets_per_second;
      if (problem.empty()) problem = rate.problem;
    }
    return sum;
  }

  void ask(const Peer& peer) {
    const auto start_building = Clock::now();
    auto decide = peer.prepare();
    if (!decide) {
      rows_.leave_out(fmt::format("{}: {}", peer.name.substr(0, peer.name.find(',')), decide.error()));
      return;
    }
    const std::string note = fmt::format("built in {:.0f} ms", since(start_building) * 1e3);
    for (const u32 cores : std::set<u32>{1, std::max(1u, std::thread::hardware_concurrency())}) {
      Row& row =
          rows_.add({.name = on_cores(peer.name, cores), .device = "CPU", .unit = "M/s", .scale = 1e-6});
      row.note = note;
      measured_.insert(row.name);
      for (int i = -1; i < settings_.repeats && row.problem.empty(); ++i) {
        const double rate = run(*decide, cores, peer, row.problem);
        if (i >= 0) row.runs.push_back(rate);
      }
    }
  }

  // Packets a second of so many threads, each with its part of the frames.
  double run(const Peer::Decide& decide, u32 cores, const Peer& peer, std::string& problem) const {
    const FrameRegion region = frames_.region(frames_.count());
    std::vector<u32> answers(region.descriptors.size());
    std::vector<double> rates(cores);
    std::vector<std::thread> threads;
    for (u32 core = 0; core < cores; ++core)
      threads.emplace_back([&, core] {
        const std::size_t first = answers.size() * core / cores;
        const auto part = region.descriptors.subspan(first, answers.size() * (core + 1) / cores - first);
        u64 packets = 0;
        const auto start = Clock::now();
        do {
          decide(region.base, part, answers.data() + first);
          packets += part.size();
        } while (since(start) < settings_.seconds);
        rates[core] = static_cast<double>(packets) / since(start);
      });
    for (std::thread& thread : threads) thread.join();
    for (std::size_t f = 0; f < answers.size() && problem.empty(); ++f)
      if (answers[f] != peer.answer_of(verdicts_[f]))
        problem = fmt::format("frame {} got the answer {}, {} is right", f, answers[f],
                              peer.answer_of(verdicts_[f]));
    return std::accumulate(rates.begin(), rates.end(), 0.0);
  }

  const Settings& settings_;
  Rows& rows_;
  StageFrames frames_;
  std::map<int, std::unique_ptr<StageFrames>> resident_;  // by GPU; nullptr: it has no place for them
  std::vector<u32> verdicts_;                             // by frame, in the order of receipt
  std::set<std::string> measured_;                        // names of rows that others may be held against
};

int run(const Settings& settings) {
  Rows rows("stages");
  rows["frames"] = settings.frames;
  rows["flows"] = settings.flows;
  rows["seconds"] = settings.seconds;
  rows["repeats"] = settings.repeats;
  const auto wanted = [&](const char* stage) {
    return std::find(settings.stages.begin(), settings.stages.end(), stage) != settings.stages.end();
  };
  const u32 packets = std::min(kPackets, settings.frames);
  Bench bench(settings, rows);
  std::set<int> gpus;
  for (const std::string& device : settings.devices)
    if (gpu_number(device) >= 0 && gpus.insert(gpu_number(device)).second) bench.plain(device);
  if (wanted("acl"))
    for (const AclShape shape : {AclShape::mixed, AclShape::overlapping, AclShape::crossing})
      for (const StageCase& one : acl_cases(shape, settings.rules, packets)) bench.measure(one);
  if (wanted("prefixes"))
    for (const StageCase& one : prefix_cases(settings.prefixes, packets)) bench.measure(one);
  if (wanted("flows") || wanted("auto")) {
    const u32 flows = std::min(settings.flows, settings.entries);
    const u32 shown = std::min(flows, settings.frames);
    const StageCase feed = prefix_cases(settings.prefixes, shown).front();
    const StageCase filter = acl_cases(AclShape::mixed, {kFilterRules}, shown).front();
    for (StageCase& one : flow_cases(settings.entries, flows, shown, feed, filter)) {
      if (wanted("flows")) bench.measure(one);
      // The ways are told apart by the frames that there are.
      one.before.clear();
      if (wanted("auto")) bench.compare_ways(one);
    }
  }
  fmt::print(
      "up to {} frames in chunks of {} bytes, in no order; up to {} batches in flight; median of {} runs of "
      "{} "
      "s\n\n",
      settings.frames, XG_CHUNK_SIZE, kMostDepth, settings.repeats, settings.seconds);
  return rows.report(settings.json) ? 0 : 1;
}

}  // namespace
}  // namespace xdpgpu::bench

int main(int argc, char** argv) {
  xdpgpu::bench::Settings settings;
  CLI::App app("Packets a second that a stage decides, frames in host memory to verdicts in host memory");
  app.add_option("--device", settings.devices,
                 "compute devices, as `xdpgpu devices` names them; with /persistent behind, driven by a "
                 "resident kernel, with /auto as the load asks; without, for --stages auto")
      ->delimiter(',');
  app.add_option("--batch", settings.batches, "packets a batch")
      ->delimiter(',')
      ->check(CLI::Range(64, 65536));
  app.add_option(
         "--stages", settings.stages,
         "what is measured: acl, prefixes, flows; auto: compute.mode auto against what it chooses from, in "
         "the cases of flows")
      ->delimiter(',')
      ->check(CLI::IsMember({"acl", "prefixes", "flows", "auto"}));
  app.add_option("--rules", settings.rules, "rules of acl; the others are held against the first")
      ->delimiter(',')
      ->check(CLI::Range(1, 16384));
  app.add_option("--prefixes", settings.prefixes, "prefixes of reputation, routes of forward")
      ->check(CLI::Range(100, 1 << 21));
  app.add_option(
         "--flows", settings.flows,
         "different flows that rate_limit and conntrack have in their tables; the frames are of as many "
         "of them as there are frames")
      ->check(CLI::Range(64, 1 << 22));
  app.add_option("--entries", settings.entries, "flows that rate_limit and conntrack have room for")
      ->check(CLI::Range(1, 1 << 26));
  app.add_option("--frames", settings.frames, "frames in memory, of 2 KiB each")
      ->check(CLI::Range(64, 1 << 22));
  app.add_option("--reference", settings.reference,
                 "packets of a case that the sequential reference is asked about")
      ->check(CLI::Range(1, 1 << 16));
  app.add_option("--seconds", settings.seconds, "length of a run")->check(CLI::Range(0.01, 60.0));
  app.add_option("--repeats", settings.repeats, "runs of each row")->check(CLI::Range(1, 100));
  app.add_flag("--huge", settings.huge, "frames on pages of 2 MiB");
  app.add_option("--json", settings.json, "write the figures to this file");
  CLI11_PARSE(app, argc, argv);
  try {
    return xdpgpu::bench::run(settings);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench-stages: {}\n", error.what());
    return 1;
  }
}
