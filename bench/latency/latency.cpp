// SPDX-License-Identifier: MIT
//
// bench/latency: how long packets take from XDP's timestamp until their verdict is known in user space, at
// low rates and at parts of the capacity that the same run finds, in bursts of several lengths, for each
// way in which the device can be driven: as the product's own map queue_metrics has it. At low load it is
// held against the shortest round trip there is between a core and a kernel that stays on the GPU.
//
// And what `signatures` adds: packets of HTTP text at 100,000 a second, with so many rules and without.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "bench/cuda/ceilings.hpp"
#include "bench/machine.hpp"
#include "bench/path/bare.hpp"
#include "bench/path/bed.hpp"
#include "bench/signatures/traffic.hpp"
#include "tests/netns/lab.hpp"
#include "userspace/dataplane/counters.hpp"
#include "userspace/dataplane/metrics.hpp"

namespace xdpgpu::bed {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using dataplane::Durations;

constexpr double kLowRate = 1'000, kMidRate = 100'000;
constexpr double kBarP50 = 3, kBarP99 = 6;
constexpr u32 kRoundTrips = 20'000;
// Microseconds that rules add to the p99, at kMidRate.
constexpr double kBarAdded = 30;
constexpr u32 kPayloadBytes = 1'446, kPayloads = 256;

struct Settings {
  std::vector<std::string> devices{"cpu"};
  std::vector<u32> bursts{1, 16, 32, 64, 128};
  double seconds = 0.15;     // of a cell
  double low_seconds = 0.5;  // of a cell at kLowRate
  u64 spin_us = 20;          // io.spin
  u32 rules = 5'000;         // that are added; 0: none are
  bool only_rules = false;
  std::string json;
};

struct Cell {
  std::string way;
  double part = 0;  // of the capacity; 0: a rate of its own
  double rate = 0;  // packets a second, asked for
  u32 burst = 1;
  double came = 0;       // packets a second
  double batch = 0;      // packets, mean
  double device_us = 0;  // from a batch's submission until it was seen to be over, mean
  Durations latency{};
};

// What came between two readings of the map. The maximum is known to the width of a bucket.
xg_queue_metrics between(const xg_queue_metrics& before, const xg_queue_metrics& after) {
  xg_queue_metrics out{};
  out.batches = after.batches - before.batches;
  out.batch_packets = after.batch_packets - before.batch_packets;
  out.device_ns_sum = after.device_ns_sum - before.device_ns_sum;
  out.latency_ns_sum = after.latency_ns_sum - before.latency_ns_sum;
  for (u32 i = 0; i < XG_LATENCY_BUCKETS; ++i) {
    out.latency_ns[i] = after.latency_ns[i] - before.latency_ns[i];
    if (out.latency_ns[i] != 0)
      out.latency_ns_most = std::min(after.latency_ns_most, xg_latency_floor(i + 1));
  }
  return out;
}

// Rules that look for one pattern each, and payloads in which some of them stand.
struct Inspected {
  gpu::SignaturesSettings stage;
  std::vector<std::string> payloads;
};
Inspected inspected(u32 rules) {
  const auto real = bench::without_the_usual(bench::patterns_of_rules(bench::usual_rule_files()));
  const auto patterns = bench::choose_patterns(real, rules).all;
  const bench::PlainSearch search(patterns);
  Inspected made;
  made.stage.rules.signatures =
      std::make_shared<const std::vector<gpu::signatures::Signature>>(bench::signatures_of(patterns));
  made.payloads = bench::make_payloads({bench::Like::http, bench::Hits::real}, patterns, search, kPayloads,
                                       kPayloadBytes);
  return made;
}

double us(u64 ns) { return static_cast<double>(ns) / 1e3; }

// Of one way, a packet at a time.
struct Added {
  Cell without, with;
  double p50_us() const { return us(with.latency.p50_ns) - us(without.latency.p50_ns); }
  double p99_us() const { return us(with.latency.p99_ns) - us(without.latency.p99_ns); }
};

class Lab {
 public:
  Lab() : near_(silent("near")), far_(silent("far")), wire_(near_, "n0", far_, "f0") {
    wire_.up();
    for (u16 i = 0; i < 64; ++i) frames_.push_back(frame(static_cast<u16>(1000 + i), std::string(18, 'x')));
  }

  // The packets' latency where the stage is in front of what drops them, and where it is not.
  Added measure_added(const std::string& way, const Settings& settings, const Inspected& what,
                      std::string& problem) {
    std::vector<lab::Frame> frames;
    for (std::size_t i = 0; i < what.payloads.size(); ++i)
      frames.push_back(frame(static_cast<u16>(1000 + i % 64), what.payloads[i]));
    Added added;
    for (Cell* const cell : {&added.without, &added.with}) {
      Options options = options_of(way, settings);
      if (cell == &added.with) options.stages.insert(options.stages.begin(), what.stage);
      Bed bed({&wire_.a()}, options);
      *cell = run(bed, {.packets_per_second = kMidRate, .burst = 1}, settings.low_seconds, frames);
      cell->way = way;
      cell->rate = kMidRate;
      check(bed, problem);
    }
    return added;
  }

  // All cells of one way; `capacity`: packets a second at most. `problem`: what the accounts say.
  std::vector<Cell> measure(const std::string& way, const Settings& settings, double& capacity,
                            std::string& problem) {
    Bed bed({&wire_.a()}, options_of(way, settings));
    capacity = run(bed, {}, 2 * settings.seconds, frames_).came;
    std::vector<Cell> cells;
    for (const double rate : {kLowRate, kMidRate})
      for (const u32 burst : settings.bursts) cells.push_back({.way = way, .rate = rate, .burst = burst});
    for (const double part : {0.25, 0.5, 0.8})
      for (const u32 burst : settings.bursts)
        cells.push_back({.way = way, .part = part, .rate = part * capacity, .burst = burst});
    for (Cell& cell : cells) {
      const Cell seen = run(bed, {.packets_per_second = cell.rate, .burst = cell.burst},
                            cell.rate <= kLowRate ? settings.low_seconds : settings.seconds, frames_);
      cell.came = seen.came;
      cell.batch = seen.batch;
      cell.device_us = seen.device_us;
      cell.latency = seen.latency;
      if (cell.latency.count == 0)
        problem = fmt::format("no packet came through at {:.0f} packets/s", cell.rate);
    }
    check(bed, problem);
    return cells;
  }

 private:
  // Without IPv6, whose own packets would be among those measured.
  static lab::Namespace silent(std::string name) {
    lab::Namespace ns(std::move(name));
    ns.sysctl("ipv6/conf/all/disable_ipv6", "1");
    ns.sysctl("ipv6/conf/default/disable_ipv6", "1");
    return ns;
  }

  lab::Frame frame(u16 port, std::string payload) const {
    return lab::build({.src = wire_.b().mac(),
                       .dst = wire_.a().mac(),
                       .src_port = port,
                       .dst_port = 4000,
                       .payload = std::move(payload)});
  }

  static Options options_of(const std::string& way, const Settings& settings) {
    Options options;
    choose_device(way, options);
    options.engine.spin_ns = settings.spin_us * 1000;
    options.overload_drops = true;
    gpu::AclSettings drop;
    drop.otherwise = gpu::AclRule::Action::drop;
    options.stages = {drop};
    return options;
  }

  Cell run(Bed& bed, const Pace& pace, double seconds, const std::vector<lab::Frame>& frames) {
    const auto metrics = [&] { return bed.engine().status().queues.front().metrics; };
    BareSender sender(wire_.b(), frames, 0, 0, pace);
    // The first packets find the worker asleep and the caches cold.
    std::this_thread::sleep_for(20ms);
    const auto start = Clock::now();
    const xg_queue_metrics before = metrics();
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    const xg_queue_metrics seen = between(before, metrics());
    const double elapsed = std::chrono::duration<double>(Clock::now() - start).count();
    sender.stop();
    Cell cell;
    cell.came = static_cast<double>(seen.batch_packets) / elapsed;
    if (seen.batches != 0) {
      cell.batch = static_cast<double>(seen.batch_packets) / static_cast<double>(seen.batches);
      cell.device_us = static_cast<double>(seen.device_ns_sum) / static_cast<double>(seen.batches) / 1e3;
    }
    cell.latency = dataplane::latency_of(seen);
    return cell;
  }

  // inspected = received + lost; received = drop: to the packet.
  static void check(Bed& bed, std::string& problem) {
    xg_worker_counters counts{};
    for (int i = 0; i < 100; ++i) {
      counts = bed.worker_counts(0);
      if (bed.kernel_count(0, XG_KERNEL_inspected) == dataplane::packets_handed(counts) &&
          counts.received == counts.dropped)
        return;
      std::this_thread::sleep_for(10ms);
    }
    problem = fmt::format("accounts do not add up: inspected {}, received {}, lost {}, dropped {}",
                          bed.kernel_count(0, XG_KERNEL_inspected), counts.received, counts.lost_in_kernel,
                          counts.dropped);
  }

  lab::Namespace near_, far_;
  lab::Veth wire_;
  std::vector<lab::Frame> frames_;
};

void print(const Cell& cell) {
  const std::string rate =
      cell.part > 0 ? fmt::format("{:.0f} %", cell.part * 100) : fmt::format("{:.0f} k/s", cell.rate / 1e3);
  fmt::print("{:<18}{:>8}{:>7}{:>12.0f}{:>9.1f}{:>9.1f}{:>10.1f}{:>10.1f}{:>10.1f}{:>10.1f}\n", cell.way,
             rate, cell.burst, cell.came, cell.batch, cell.device_us, us(cell.latency.p50_ns),
             us(cell.latency.p99_ns), us(cell.latency.p99_9_ns), us(cell.latency.most_ns));
}

nlohmann::json json_of(const Cell& cell) {
  return {{"way", cell.way},
          {"part_of_capacity", cell.part},
          {"rate", cell.rate},
          {"burst", cell.burst},
          {"came", cell.came},
          {"packets", cell.latency.count},
          {"mean_batch", cell.batch},
          {"mean_device_us", cell.device_us},
          {"unit", "us"},
          {"p50", us(cell.latency.p50_ns)},
          {"p99", us(cell.latency.p99_ns)},
          {"p99_9", us(cell.latency.p99_9_ns)},
          {"max", us(cell.latency.most_ns)}};
}

// The cells at low load, one packet at a time: `auto`'s where the device has it, else the quickest way's.
const Cell* at_low_load(const std::vector<Cell>& cells) {
  const Cell* best = nullptr;
  for (const Cell& cell : cells) {
    if (cell.rate != kLowRate || cell.burst != cells.front().burst) continue;
    if (cell.way.ends_with("/auto")) return &cell;
    if (best == nullptr || cell.latency.p50_ns < best->latency.p50_ns) best = &cell;
  }
  return best;
}

// Against a bare round trip of the same GPU.
nlohmann::json hold_against_round_trip(const std::string& device, const Cell& cell) {
  auto trips = bench::round_trips_ns(static_cast<u32>(bench::gpu_number(device)), kRoundTrips);
  if (!trips) {
    fmt::print("\nleft out: {}: the bare round trip: {}\n", device, trips.error());
    return {{"device", device}, {"left_out", trips.error()}};
  }
  std::sort(trips->begin(), trips->end());
  const auto at = [&](double share) {
    return us((*trips)[static_cast<std::size_t>(share * static_cast<double>(trips->size() - 1))]);
  };
  const double p50 = us(cell.latency.p50_ns) / at(0.5), p99 = us(cell.latency.p99_ns) / at(0.99);
  const auto verdict = [](double ratio, double bar) { return ratio <= bar ? "met" : "MISSED"; };
  fmt::print("\n{}: bare persistent round trip: p50 {:.1f} us, p99 {:.1f} us, max {:.1f} us\n", device,
             at(0.5), at(0.99), at(1));
  fmt::print("{} at low load against it: p50 {:.2f} x, bar {:.0f}: {}; p99 {:.2f} x, bar {:.0f}: {}\n",
             cell.way, p50, kBarP50, verdict(p50, kBarP50), p99, kBarP99, verdict(p99, kBarP99));
  return {{"device", device},           {"way", cell.way},  {"round_trip_p50", at(0.5)},
          {"round_trip_p99", at(0.99)}, {"p50_ratio", p50}, {"p50_bar", kBarP50},
          {"p50_met", p50 <= kBarP50},  {"p99_ratio", p99}, {"p99_bar", kBarP99},
          {"p99_met", p99 <= kBarP99}};
}

nlohmann::json json_of(const Added& added, u32 rules) {
  return {{"way", added.with.way},
          {"rules", rules},
          {"payload_bytes", kPayloadBytes},
          {"rate", added.with.rate},
          {"came", added.with.came},
          {"came_without", added.without.came},
          {"mean_batch", added.with.batch},
          {"mean_device_us", added.with.device_us},
          {"unit", "us"},
          {"p50", us(added.with.latency.p50_ns)},
          {"p99", us(added.with.latency.p99_ns)},
          {"p50_without", us(added.without.latency.p50_ns)},
          {"p99_without", us(added.without.latency.p99_ns)},
          {"added_p50", added.p50_us()},
          {"added_p99", added.p99_us()},
          {"added_p99_bar", kBarAdded},
          {"added_p99_met", added.p99_us() <= kBarAdded}};
}

// What rules add, for each way of a device. False: the accounts do not add up.
bool add_rules(Lab& lab, const std::vector<std::string>& ways, const Settings& settings,
               nlohmann::json& json) {
  const Inspected what = inspected(settings.rules);
  fmt::print("\n{} rules in front, HTTP text of {} bytes with hits, {:.0f} packets/s one by one:\n",
             settings.rules, kPayloadBytes, kMidRate);
  bool good = true;
  for (const std::string& way : ways) {
    std::string problem;
    try {
      const Added added = lab.measure_added(way, settings, what, problem);
      fmt::print(
          "{:<18}batches of {:.1f}, {:.1f} us on the device; p50 {:.1f} us (without {:.1f}), p99 {:.1f} us "
          "(without {:.1f}): {:.1f} us more, bar {:.0f}: {}; verdicts {}\n",
          way, added.with.batch, added.with.device_us, us(added.with.latency.p50_ns),
          us(added.without.latency.p50_ns), us(added.with.latency.p99_ns), us(added.without.latency.p99_ns),
          added.p99_us(), kBarAdded, added.p99_us() <= kBarAdded ? "met" : "MISSED",
          problem.empty() ? "right" : "WRONG: " + problem);
      json["added_by_rules"].push_back(json_of(added, settings.rules));
    } catch (const lab::Error& refused) {
      fmt::print("left out: {}: {}\n", way, refused.what());
      json["left_out"].push_back(refused.what());
    }
    good &= problem.empty();
  }
  return good;
}

int run(const Settings& settings) {
  if (const std::string reason = lab::why_unavailable(); !reason.empty()) {
    fmt::print(stderr, "bench-latency needs network namespaces and veth: {}\n", reason);
    return 1;
  }
  nlohmann::json json{{"bench", "latency"}, {"seconds", settings.seconds}, {"spin_us", settings.spin_us}};
  bool good = true;
  Lab lab;
  fmt::print(
      "one veth queue, 60-byte frames, DROP; us from XDP's timestamp to the verdict in user space;"
      " device: mean of the batches' own time there; workers sleep {} us after the last packet\n\n",
      settings.spin_us);
  fmt::print("{:<18}{:>8}{:>7}{:>12}{:>9}{:>9}{:>10}{:>10}{:>10}{:>10}\n", "way", "rate", "burst",
             "packets/s", "a batch", "device", "p50", "p99", "p99.9", "max");
  for (const std::string& device : settings.devices) {
    std::vector<std::string> ways;
    try {
      ways = ways_of(device);
    } catch (const lab::Error& none) {
      fmt::print("\nleft out: {}: {}\n", device, none.what());
      json["left_out"].push_back(none.what());
      continue;
    }
    std::vector<Cell> all;
    if (settings.rules != 0) good &= add_rules(lab, ways, settings, json);
    if (settings.only_rules) continue;
    for (const std::string& way : ways) {
      double capacity = 0;
      std::string problem;
      std::vector<Cell> cells;
      try {
        cells = lab.measure(way, settings, capacity, problem);
      } catch (const lab::Error& refused) {
        fmt::print("left out: {}: {}\n", way, refused.what());
        json["left_out"].push_back(refused.what());
        continue;
      }
      for (const Cell& cell : cells) {
        print(cell);
        json["rows"].push_back(json_of(cell));
      }
      fmt::print("{:<18}{:>8}{:>7}{:>12.0f}  verdicts {}\n", way, "100 %", "", capacity,
                 problem.empty() ? "right" : "WRONG: " + problem);
      json["capacity"].push_back({{"way", way}, {"packets_per_second", capacity}, {"problem", problem}});
      good &= problem.empty();
      all.insert(all.end(), cells.begin(), cells.end());
    }
    if (const Cell* low = at_low_load(all); low != nullptr && bench::gpu_number(device) >= 0)
      json["bars"].push_back(hold_against_round_trip(device, *low));
  }
  return bench::write_json(settings.json, json) && good ? 0 : 1;
}

}  // namespace
}  // namespace xdpgpu::bed

int main(int argc, char** argv) {
  xdpgpu::bed::Settings settings;
  CLI::App app("How long packets take through user space, by rate, burst and the way the device is driven");
  app.add_option("--device", settings.devices, "compute devices, as `xdpgpu devices` names them")
      ->delimiter(',');
  app.add_option("--burst", settings.bursts, "packets a burst")->delimiter(',')->check(CLI::Range(1, 1024));
  app.add_option("--seconds", settings.seconds, "length of a run")->check(CLI::Range(0.05, 60.0));
  app.add_option("--low-seconds", settings.low_seconds, "length of a run at a thousand packets a second")
      ->check(CLI::Range(0.05, 60.0));
  app.add_option("--spin", settings.spin_us, "io.spin in microseconds")->check(CLI::Range(1, 1'000'000));
  app.add_option("--rules", settings.rules, "rules of which it is measured what they add (0: it is not)");
  app.add_flag("--only-rules", settings.only_rules, "and nothing else");
  app.add_option("--json", settings.json, "write the figures to this file");
  CLI11_PARSE(app, argc, argv);
  try {
    return xdpgpu::bed::run(settings);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench-latency: {}\n", error.what());
    return 1;
  }
}
