// SPDX-License-Identifier: MIT
//
// tests/soak: one attach after the other under traffic of all kinds, while policies are swapped, links flap
// on either end, bypass goes on and off, devices break and the data plane stands still; each ends in another
// way. At every rest, and at each end, all packets and frames are accounted for, memory and descriptors stand
// where they stood, and nothing is left behind. It ends with 1 where any of that is not so.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "bench/machine.hpp"
#include "tests/soak/life.hpp"

namespace xdpgpu::soak {
namespace {

using Clock = std::chrono::steady_clock;
using lab::Json;

struct Settings {
  double seconds = 20, life_seconds = 4, sample_seconds = 5;
  std::uint64_t packets = 0, seed = 1;
  unsigned pairs = 2, queues = 1, pps = 20000;
  std::string device = lab::device_under_test(), json;
};

struct Way {
  End end;
  const char* fault;
  bool stands_still = false;
};
// What each life is like, in turn. The next attach takes over from a killed one, or a detach cleans up. A
// data plane that is started again has the fault again: a detach while its device is silent would lose what
// that has.
constexpr std::array kWays{Way{End::detached, "", true},    Way{End::data_plane_killed, ""},
                           Way{End::detached, "fail:20"},   Way{End::all_killed, ""},
                           Way{End::detached, "refuse:20"}, Way{End::all_killed, "", true},
                           Way{End::detached, "hang:20"}};

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

int run(const Settings& settings) {
  if (const std::string reason = lab::why_unavailable(); !reason.empty())
    throw lab::Error("cannot make network namespaces here: " + reason);
  const lab::Namespace host("host"), far("far");
  std::vector<std::unique_ptr<lab::Veth>> wires;
  std::vector<const lab::Veth*> all;
  std::vector<Traffic::Wire> ways;
  std::vector<std::string> links;
  for (unsigned i = 0; i < settings.pairs; ++i) {
    const std::string prefix = fmt::format("xs{:x}{}", getpid(), i);
    wires.push_back(std::make_unique<lab::Veth>(host, prefix + "h", far, prefix + "f",
                                                lab::VethOptions{.queues = settings.queues}));
    const auto& wire = *wires.back();
    wire.address(fmt::format("10.{}.0.1/24", 20 + i), fmt::format("10.{}.0.2/24", 20 + i));
    wire.up();
    wire.checksums_in_software();
    all.push_back(&wire);
    ways.push_back({wire.b(), wire.a()});
    links.push_back(wire.a().ifname());
  }
  std::mt19937_64 random(settings.seed);
  Traffic traffic(ways, "10.20.0.1", settings.queues, settings.pps, settings.seed);
  fmt::print("seed {}, {} wires, {} queues each, device {}\n", settings.seed, settings.pairs, settings.queues,
             settings.device);

  Sampler sampler(lab::Millis(static_cast<std::int64_t>(settings.sample_seconds * 1000)));
  Found sum;
  Json lives = Json::array();
  const auto start = Clock::now();
  std::size_t number = 0;
  const auto clean_up = [&] {
    for (const auto& link : links) lab::product(host, {"detach", link});
  };
  while (since(start) < settings.seconds && (settings.packets == 0 || sum.in < settings.packets)) {
    const Way& way = kWays[number % kWays.size()];
    const Plan plan{.length = lab::Millis(static_cast<std::int64_t>(settings.life_seconds * 1000)),
                    .end = way.end,
                    .fault = way.fault,
                    .stands_still = way.stands_still,
                    .device = settings.device,
                    .queues = settings.queues};
    Found found = live(host, all, traffic, plan, sampler, random);
    if (way.end == End::all_killed && number % 2 == 1) clean_up();
    if (way.end != End::all_killed || number % 2 == 1)
      for (const auto& left : lab::leftovers(host, links)) found.problems.push_back("left behind: " + left);
    ++number;
    fmt::print(
        "life {:3} {:17} {:10} {:9} in, {:6} in flight at death, {:3} swaps, {} flaps, {} bypasses, "
        "{} standstills, {} past the program; memory {} KiB ({:+}), {} descriptors ({:+}){}\n",
        number, name_of(way.end), way.fault, found.in, found.in_flight_at_death, found.swaps, found.flaps,
        found.bypasses, found.standstills, found.past_the_program, found.rss_kib, found.rss_growth_kib,
        found.descriptors, found.descriptor_growth, found.problems.empty() ? "" : "; PROBLEMS:");
    for (const auto& problem : found.problems) fmt::print("  {}\n", problem);
    std::fflush(stdout);
    Json line = to_json(found);
    line["end"] = name_of(way.end);
    line["fault"] = way.fault;
    lives.push_back(std::move(line));
    sum.in += found.in;
    sum.swaps += found.swaps;
    sum.flaps += found.flaps;
    sum.bypasses += found.bypasses;
    sum.standstills += found.standstills;
    sum.past_the_program += found.past_the_program;
    sum.in_flight_at_death += found.in_flight_at_death;
    sum.rss_growth_kib = std::max(sum.rss_growth_kib, found.rss_growth_kib);
    sum.problems.insert(sum.problems.end(), found.problems.begin(), found.problems.end());
  }
  const double seconds = since(start);
  clean_up();
  for (const auto& left : lab::leftovers(host, links)) sum.problems.push_back("left behind: " + left);
  if (const std::string broken = traffic.broken_transfer(); !broken.empty()) sum.problems.push_back(broken);
  if (sampler.taken() == 0) sum.problems.push_back("no sample was taken");
  if (traffic.transfers() == 0) sum.problems.push_back("no TCP transfer came to its end");
  fmt::print(
      "{} lives in {:.0f} s: {} packets ({:.0f} a second), {} swaps, {} flaps, {} standstills, {} TCP "
      "transfers; all accounted for but {} that were in flight when their data plane was killed, and {} "
      "that the kernel let past as their interface went down; memory grew "
      "by {} KiB at most in a life; {} "
      "problems\n",
      number, seconds, sum.in, static_cast<double>(sum.in) / seconds, sum.swaps, sum.flaps, sum.standstills,
      traffic.transfers(), sum.in_flight_at_death, sum.past_the_program, sum.rss_growth_kib,
      sum.problems.size());
  for (const auto& problem : sum.problems) fmt::print("PROBLEM: {}\n", problem);
  const bool written = bench::write_json(settings.json, {{"bench", "soak"},
                                                         {"seed", settings.seed},
                                                         {"device", settings.device},
                                                         {"pairs", settings.pairs},
                                                         {"queues", settings.queues},
                                                         {"seconds", seconds},
                                                         {"packets", sum.in},
                                                         {"swaps", sum.swaps},
                                                         {"flaps", sum.flaps},
                                                         {"standstills", sum.standstills},
                                                         {"tcp_transfers", traffic.transfers()},
                                                         {"in_flight_at_death", sum.in_flight_at_death},
                                                         {"past_the_program", sum.past_the_program},
                                                         {"rss_growth_kib", sum.rss_growth_kib},
                                                         {"problems", sum.problems},
                                                         {"pps", settings.pps},
                                                         {"lives", lives},
                                                         {"samples", sampler.json()}});
  return sum.problems.empty() && written ? 0 : 1;
}

}  // namespace
}  // namespace xdpgpu::soak

int main(int argc, char** argv) {
  xdpgpu::soak::Settings settings;
  CLI::App app(
      "Attaches, disturbs and ends xdpgpu over and over under traffic of all kinds, in network namespaces "
      "of\n"
      "its own (root), and accounts for every packet and frame. Exits 1 where anything does not add up.");
  app.footer(
      "Two hours at a bounded rate, and what they look like: --seconds 7200 --life-seconds 600 --pps 2000\n"
      "--sample-seconds 15 --json soak.json, then bench/plot soak.json.\n"
      "A billion packets: --packets 1000000000 --seconds 86400 --life-seconds 60 --pps 0 --pairs 8\n"
      "--queues 8. That took six minutes on 16 cores with an H200 (--device cuda).");
  app.add_option("--seconds", settings.seconds, "how long; the life that has begun is finished")
      ->capture_default_str();
  app.add_option("--life-seconds", settings.life_seconds, "how long each attach lives")
      ->check(CLI::Range(1.0, 86400.0))
      ->capture_default_str();
  app.add_option("--packets", settings.packets, "end after so many packets, if that comes first; 0: by time");
  app.add_option("--pairs", settings.pairs, "wires, each a port of the one process, with a sender of its own")
      ->check(CLI::Range(1, 16))
      ->capture_default_str();
  app.add_option("--queues", settings.queues, "receive queues of each")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--pps", settings.pps,
                 "packets a second of each sender, TCP among them; 0: as fast as it can")
      ->capture_default_str();
  app.add_option("--sample-seconds", settings.sample_seconds,
                 "seconds between two samples of memory, frames and queues; they are in the JSON")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  app.add_option("--device", settings.device, "compute device, as `xdpgpu devices` names it")
      ->capture_default_str();
  app.add_option("--seed", settings.seed, "of frames and disturbances")->capture_default_str();
  app.add_option("--json", settings.json, "write the figures of each life to this file");
  CLI11_PARSE(app, argc, argv);
  try {
    return xdpgpu::soak::run(settings);
  } catch (const std::exception& error) {
    fmt::print(stderr, "soak: {}\n", error.what());
    return 1;
  }
}
