// SPDX-License-Identifier: MIT
//
// bench/worker: what a packet costs a worker, in nanoseconds and cycles, by step of its turn: the real
// feeder, batcher, retirer and router over AF_XDP rings in memory. The kernel's side is played between the
// turns and timed apart, and so is what decides. Beside it the shortest loops over the same rings. And
// packets a second from rings to rings, of one worker and of several. A figure counts only as every packet
// and frame of its run was accounted for, and in the rates every verdict was right.
#include <fmt/format.h>
#include <pthread.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <deque>
#include <stdexcept>
#include <tuple>

#include "bench/rows.hpp"
#include "bench/worker/bare.hpp"
#include "bench/worker/bed.hpp"
#include "bench/worker/rates.hpp"
#include "bench/worker/workers.hpp"

namespace xdpgpu::bench {
namespace {

using Cache = AnswerOptions::Cache;

struct Settings {
  std::vector<u32> batches{32, 64, 256, 1024};
  std::vector<std::string> devices{"cpu"};
  std::vector<u32> workers{1};
  double seconds = 0.2;
  int runs = 5;
  u32 packets = 1u << 20;
  int cpu = 0;
  bool huge = false;
  std::string only, json;
};

struct Case {
  std::string name;
  BedOptions bed;
  Row* row = nullptr;
  std::array<std::vector<double>, kSteps.size()> steps{};  // ns a packet, of each run
  std::vector<double> kernel{};
};

const char* name_of(Way way) {
  constexpr std::array kNames{"drop", "transmit", "redirect", "pass", "mixed"};
  return kNames[static_cast<std::size_t>(way)];
}

Case make_case(const Settings& settings, Way way, u32 batch, bool cold, u32 length,
               Cache cache = Cache::none) {
  Case made;
  BedOptions& bed = made.bed;
  bed.answers = {.way = way, .batch = batch, .cache = cache};
  bed.traffic = {.length = length};
  bed.huge = settings.huge;
  if (cold) {
    // Batches are with the device for a while, as with a GPU, and so more frames are about.
    bed.answers.lag = bed.answers.depth - 1;
    bed.answers.cold = bed.traffic.cold = bed.shuffled = true;
    bed.chunks = 16384;
    bed.ring = 4096;
  }
  constexpr std::array kCaches{"", ", verdicts written by the device", ", verdicts there already",
                               ", verdicts written"};
  made.name = fmt::format("{}, {}, {} B, {}{}", name_of(way), cold ? "cold" : "hot", length, batch,
                          kCaches[static_cast<std::size_t>(cache)]);
  return made;
}

std::vector<Case> make_cases(const Settings& settings) {
  std::vector<Case> cases;
  for (const bool cold : {false, true})
    for (const u32 batch : settings.batches)
      for (const Way way : {Way::drop, Way::transmit, Way::redirect, Way::pass, Way::mixed})
        cases.push_back(make_case(settings, way, batch, cold, 64));
  const u32 batch = settings.batches[settings.batches.size() / 2];
  for (const Way way : {Way::drop, Way::transmit})
    cases.push_back(make_case(settings, way, batch, false, 1500));
  for (const Cache cache : {Cache::by_device, Cache::kept, Cache::written})
    cases.push_back(make_case(settings, Way::drop, batch, false, 64, cache));
  for (const bool cold : {false, true})
    for (const auto& [way, telling, what] : {std::tuple(Way::drop, Telling::off, "log off"),
                                             {Way::drop, Telling::over_rate, "log on, all over its rate"},
                                             {Way::drop, Telling::each, "log on, each told"},
                                             {Way::transmit, Telling::off, "log off"},
                                             {Way::transmit, Telling::each, "log on, nothing to tell"}}) {
      Case made = make_case(settings, way, batch, cold, 64);
      made.bed.telling = telling;
      made.name += fmt::format(", {}", what);
      cases.push_back(std::move(made));
    }
  for (const auto& [ruling, in, what] : {std::tuple(Ruling::none, 0u, "no rules"),
                                         {Ruling::alerts, 0u, "rules, none holds"},
                                         {Ruling::alerts, 16u, "a rule holds for one in 16"},
                                         {Ruling::alerts, 1u, "a rule holds for each"},
                                         {Ruling::counts, 16u, "a rule that counts holds for one in 16"},
                                         {Ruling::counts, 1u, "a rule that counts holds for each"},
                                         {Ruling::sets, 16u, "a rule that sets a bit holds for one in 16"},
                                         {Ruling::sets, 1u, "a rule that sets a bit holds for each"}}) {
    Case made = make_case(settings, Way::transmit, batch, true, 64);
    made.bed.ruling = ruling;
    made.bed.answers.rule_in = in;
    made.name += fmt::format(", {}", what);
    cases.push_back(std::move(made));
  }
  for (const std::string& device : settings.devices)
    if (device.find('/') == std::string::npos)
      for (const std::string stage : {"l2fwd", "acl"}) {
        Case made = make_case(settings, Way::drop, batch, false, 64);
        made.bed.device = device;
        made.bed.stage = stage;
        made.name = fmt::format("{}, hot, 64 B, {}", stage, batch);
        cases.push_back(std::move(made));
      }
  if (!settings.only.empty())
    std::erase_if(cases, [&](const Case& one) { return one.name.find(settings.only) == std::string::npos; });
  return cases;
}

void run(const Settings& settings, const Clocks& clocks, Case& one) {
  // Turns are measured in slices; a slice in which something else had the core is far off the median.
  constexpr u32 kSlices = 64;
  Bed bed(one.bed);
  const u32 turns = std::max(1u, settings.packets / kSlices / one.bed.answers.batch);
  bed.turn(turns * 4);
  std::array<std::vector<double>, kSteps.size()> steps;
  std::vector<double> whole, kernel;
  for (u32 i = 0; i < kSlices; i++) {
    const Spent spent = bed.turn(turns);
    if (spent.packets == 0) continue;
    const double scale = 1 / (static_cast<double>(spent.packets) * clocks.ticks_a_ns);
    double sum = 0;
    for (std::size_t step = 0; step < kSteps.size(); step++) {
      const double ns = static_cast<double>(spent.ticks[step]) * scale;
      steps[step].push_back(ns);
      if (step != static_cast<std::size_t>(Step::device)) sum += ns;
    }
    whole.push_back(sum);
    kernel.push_back(static_cast<double>(spent.kernel_ticks) * scale);
  }
  if (const std::string wrong = bed.check(); !wrong.empty()) one.row->problem = wrong;
  one.row->runs.push_back(median(whole));
  for (std::size_t step = 0; step < kSteps.size(); step++) one.steps[step].push_back(median(steps[step]));
  one.kernel.push_back(median(kernel));
}

void pin_to(const std::vector<int>& cores) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  for (const int core : cores) CPU_SET(static_cast<std::size_t>(core), &cpus);
  if (pthread_setaffinity_np(pthread_self(), sizeof(cpus), &cpus) != 0)
    throw std::runtime_error(fmt::format("there is no core {} to run on", cores.front()));
}

void measure_steps(const Settings& settings, std::vector<Case>& cases, Rows& rows) {
  const Clocks clocks = measure_clocks();
  fmt::print("time-stamp counter {:.2f} GHz, core about {:.2f} GHz\n\n", clocks.ticks_a_ns,
             clocks.cycles_a_ns);
  rows["core_ghz"] = clocks.cycles_a_ns;
  std::vector<std::pair<Row*, BareOptions>> bare;
  for (const bool cold : {false, true})
    for (const bool forward : {false, true})
      bare.emplace_back(
          &rows.add({.name = fmt::format("bare loop, {}, {}", forward ? "swap and send" : "recycle",
                                         cold ? "cold" : "hot"),
                     .unit = "ns"}),
          BareOptions{.forward = forward, .cold = cold, .huge = settings.huge});
  for (Case& one : cases) one.row = &rows.add({.name = one.name, .device = one.bed.device, .unit = "ns"});
  for (int i = 0; i < settings.runs; i++) {
    for (auto& [row, options] : bare) row->runs.push_back(bare_loop(options, clocks));
    for (Case& one : cases) run(settings, clocks, one);
  }
  for (Case& one : cases) {
    nlohmann::json& json = rows["steps"][one.name + (one.bed.device.empty() ? "" : ", " + one.bed.device)];
    std::string text = fmt::format("{:.0f} cycles", one.row->median() * clocks.cycles_a_ns);
    for (std::size_t step = 0; step < kSteps.size(); step++) {
      json[kSteps[step]] = median(one.steps[step]);
      text += fmt::format(", {} {:.1f}", kSteps[step], median(one.steps[step]));
    }
    json["kernel"] = median(one.kernel);
    one.row->note = text + fmt::format("; kernel {:.1f}", median(one.kernel));
  }
}

int measure(const Settings& settings) {
  const std::vector<int> cores = own_cores();
  Rows rows("worker");
  // What a turn costs, on the one core; the rates, on as many as there are workers.
  if (std::vector<Case> cases = make_cases(settings); !cases.empty()) {
    pin_to({settings.cpu});
    measure_steps(settings, cases, rows);
    pin_to(cores);
  }
  const RateSettings rates{.devices = settings.devices,
                           .workers = settings.workers,
                           .cores = cores,
                           .runs = settings.runs,
                           .seconds = settings.seconds,
                           .huge = settings.huge,
                           .only = settings.only};
  rows["seconds"] = settings.seconds;
  measure_rates(rates, rows);
  judge_rates(rates, rows);
  return rows.report(settings.json) ? 0 : 1;
}

}  // namespace
}  // namespace xdpgpu::bench

int main(int argc, char** argv) {
  xdpgpu::bench::Settings settings;
  CLI::App app(
      "What a packet costs a worker, without a kernel: nanoseconds and cycles, by step of its turn, and "
      "packets a second from rings to rings.",
      "bench-worker");
  app.add_option("--batch", settings.batches, "packets that come in and go to the device together")
      ->delimiter(',');
  app.add_option("--device", settings.devices,
                 "devices that decide in some of the rows (cpu), in the rates with a compute.mode behind: "
                 "cuda,cuda/persistent,cuda/graph,cuda/auto")
      ->delimiter(',');
  app.add_option("--workers", settings.workers,
                 "workers whose rate together is measured, each on a core of its own (1)")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024));
  app.add_option("--seconds", settings.seconds, "length of a run of a rate (0.2)")
      ->check(CLI::Range(0.01, 60.0));
  app.add_option("--runs", settings.runs, "times that each row is measured, in turn with the others (5)");
  app.add_option("--packets", settings.packets, "packets of each run that is timed by step (1048576)");
  app.add_option("--cpu", settings.cpu, "the core that what is timed by step runs on (0)");
  app.add_flag("--huge", settings.huge, "frames on pages of 2 MiB");
  app.add_option("--only", settings.only, "only rows whose name has this in it");
  app.add_option("--json", settings.json, "file for the figures");
  CLI11_PARSE(app, argc, argv);
  try {
    return xdpgpu::bench::measure(settings);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench-worker: {}\n", error.what());
    return 1;
  }
}
