// SPDX-License-Identifier: MIT
//
// bench/mirror: what it costs the kernel program to show every packet to a compute device, and how long it
// takes until the device's verdict on a new flow stands in the kernel's map, with no user-space program
// in between. On one queue of a veth pair that this program makes. Rows take turns; a figure counts only as
// the verdicts of the same run were checked.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "bench/machine.hpp"
#include "bench/path/bare.hpp"
#include "bench/path/bed.hpp"
#include "gpu/flow_table.hpp"
#include "maps/hash.h"
#include "maps/parse.h"
#include "tests/netns/lab.hpp"
#include "userspace/dataplane/clock.hpp"

namespace xdpgpu::bed {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using dataplane::monotonic_ns;

constexpr double kBar = 0.95;
constexpr u64 kPatienceNs = 1'000'000'000;

struct Settings {
  std::string device = "cpu";
  int repeats = 5;
  double seconds = 1;
  u32 flows = 2000;
  std::string json;
};

template <class T>
double median(std::vector<T> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : static_cast<double>(values[values.size() / 2]);
}

double part(const std::vector<u64>& sorted, double share) {
  if (sorted.empty()) return 0;
  const auto at = static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1));
  return static_cast<double>(sorted[at]);
}

gpu::AclSettings drop(bool cache) {
  gpu::AclSettings stage;
  stage.otherwise = gpu::AclRule::Action::drop;
  stage.cache = cache;
  return stage;
}

// Without IPv6, whose own packets would be counted.
lab::Namespace silent(std::string name) {
  lab::Namespace ns(std::move(name));
  ns.sysctl("ipv6/conf/all/disable_ipv6", "1");
  ns.sysctl("ipv6/conf/default/disable_ipv6", "1");
  return ns;
}

// Where a flow's verdict will stand, and what the XDP program noted of its packet.
class Watch {
 public:
  explicit Watch(const kernel::PortMaps& maps) {
    const u32 rings = value_of(kernel::map_entries(maps.mirror_state.get()));
    config_ = value_of(kernel::MapView<xg_config>::open(maps.config.get(), 1));
    const u32 shards = 2 * config_[0].queues;
    entries_ = config_[0].flow_entries_per_queue;
    slots_ = config_[0].mirror_slots;
    verdicts_ = value_of(kernel::MapView<xg_flow_verdict>::open(maps.flow_verdicts.get(), shards * entries_));
    states_ = value_of(kernel::MapView<xg_mirror_state>::open(maps.mirror_state.get(), rings));
    records_ = value_of(kernel::MapView<xg_mirror_record>::open(maps.mirror_rings.get(), rings * slots_));
  }

  // When the verdict on the frame's flow was seen to stand, CLOCK_MONOTONIC; nothing if it does not come.
  std::optional<u64> stands(const xg_flow_key& key) const {
    const u32 hash = xg_flow_hash(&key, &config_[0].flow_keys);
    const u32 first = config_[0].queues * entries_ + (hash & (entries_ / XG_FLOW_WAYS - 1)) * XG_FLOW_WAYS;
    const u64 end = monotonic_ns() + kPatienceNs;
    for (u64 now = 0; now < end;) {
      now = monotonic_ns();
      for (u32 way = 0; way < XG_FLOW_WAYS; ++way) {
        xg_flow_verdict entry;
        if (gpu::read_entry(verdicts_[first + way], entry) && same(entry.key, key) &&
            entry.verdict == XG_VERDICT(XG_DROP, 0u, 1u, 0u))
          return monotonic_ns();
      }
    }
    return std::nullopt;
  }

  // XDP's timestamp of the flow's packet, which is the last one of its ring.
  std::optional<u64> mirrored(const xg_flow_key& key) const {
    for (u32 ring = 0; ring < states_.size(); ++ring) {
      const u64 head = __atomic_load_n(&states_[ring].head, __ATOMIC_ACQUIRE);
      const xg_mirror_record& last = records_[ring * slots_ + static_cast<u32>((head - 1) % slots_)];
      if (head != 0 && same(last.key, key)) return last.metadata.rx_time_ns;
    }
    return std::nullopt;
  }

 private:
  template <class T>
  static T value_of(kernel::Result<T> result) {
    if (!result) throw lab::Error(result.error());
    return std::move(*result);
  }
  // The mirrored key names its pipeline, the first.
  static bool same(const xg_flow_key& entry, xg_flow_key key) {
    key.mirror = 1;
    return std::memcmp(&entry, &key, sizeof(key)) == 0;
  }

  kernel::MapView<xg_config> config_;
  kernel::MapView<xg_flow_verdict> verdicts_;
  kernel::MapView<xg_mirror_state> states_;
  kernel::MapView<xg_mirror_record> records_;
  u32 entries_ = 0, slots_ = 0;
};

struct Latency {
  std::vector<u64> ns;  // sorted
  std::string problem;
};

class Lab {
 public:
  explicit Lab(const Settings& settings)
      : settings_(settings), near_(silent("near")), far_(silent("far")), wire_(near_, "n0", far_, "f0") {
    wire_.address("10.9.0.1/24", "10.9.0.2/24");
    wire_.up();
  }

  // Packets a second that the rules drop; with `mirror`, each is shown to the device first.
  double rate(bool mirror, std::string& problem) {
    Bed bed({&wire_.a()}, options(mirror ? Rules::mirror_and_drop : Rules::drop, false));
    std::vector<lab::Frame> frames;
    for (u16 flow = 0; flow < 64; ++flow) frames.push_back(frame(flow));
    BareSender sender(wire_.b(), frames, 0);
    std::this_thread::sleep_for(200ms);
    const auto start = Clock::now();
    const u64 first = bed.kernel_count(0, XG_KERNEL_drop_rule);
    std::this_thread::sleep_for(std::chrono::duration<double>(settings_.seconds));
    const u64 last = bed.kernel_count(0, XG_KERNEL_drop_rule);
    const double elapsed = std::chrono::duration<double>(Clock::now() - start).count();
    sender.stop();
    if (last == first) problem = "no packet came through";
    if (mirror) check(bed, problem);
    return static_cast<double>(last - first) / elapsed;
  }

  // From XDP's timestamp of each new flow's first packet to its verdict; flows come `gap` after one another.
  Latency latency(std::chrono::microseconds gap) {
    Bed bed({&wire_.a()}, options(Rules::mirror_and_drop, true));
    const Watch watch(bed.maps(0));
    lab::Sender sender(wire_.b(), true);
    Latency latency;
    for (u32 flow = 0; flow < settings_.flows; ++flow) {
      std::this_thread::sleep_for(gap);
      const lab::Frame packet = frame(static_cast<u16>(flow));
      xg_packet parsed;
      xg_parse(packet.data(), packet.data() + packet.size(), 0, &parsed);
      sender.send(packet);
      const auto stands = watch.stands(parsed.key);
      const auto mirrored = watch.mirrored(parsed.key);
      if (!stands || !mirrored) {
        latency.problem = fmt::format("no right verdict on flow {} within a second", flow);
        break;
      }
      latency.ns.push_back(*stands - *mirrored);
    }
    std::sort(latency.ns.begin(), latency.ns.end());
    if (latency.problem.empty()) check_dropped(bed, sender, latency.problem);
    return latency;
  }

 private:
  Options options(Rules rules, bool cache) const {
    Options options;
    options.devices = {settings_.device};
    options.rules = rules;
    options.stages = {drop(cache)};
    options.flow_entries_per_queue = 1 << 17;  // so that none of the flows has to give way to another
    return options;
  }
  lab::Frame frame(u16 flow) const {
    return lab::build({.src = wire_.b().mac(),
                       .dst = wire_.a().mac(),
                       .src_port = static_cast<u16>(1000 + flow),
                       .dst_port = 4000,
                       .payload = std::string(18, 'x')});
  }

  // Every packet that was dropped had been shown or had overrun, and what was shown was judged.
  static void check(Bed& bed, std::string& problem) {
    for (int i = 0; i < 200; ++i) {
      const auto mirror = bed.engine().status().mirror;
      const u64 dropped = bed.kernel_count(0, XG_KERNEL_drop_rule);
      if (mirror && mirror->mirrored + mirror->overruns == dropped && mirror->taken == mirror->mirrored &&
          mirror->undecided == 0)
        return;
      std::this_thread::sleep_for(10ms);
    }
    problem = "the packets that were shown do not add up with those that were dropped";
  }
  // The kernel acts by all those verdicts.
  void check_dropped(Bed& bed, lab::Sender& sender, std::string& problem) const {
    const u64 before = bed.kernel_count(0, XG_KERNEL_drop_flow);
    for (u32 flow = 0; flow < settings_.flows; ++flow) sender.send(frame(static_cast<u16>(flow)));
    std::this_thread::sleep_for(100ms);
    if (const u64 dropped = bed.kernel_count(0, XG_KERNEL_drop_flow) - before; dropped != settings_.flows)
      problem = fmt::format("the kernel dropped {} of {} packets by the verdicts", dropped, settings_.flows);
  }

  const Settings& settings_;
  lab::Namespace near_, far_;
  lab::Veth wire_;
};

nlohmann::json report_latency(const char* name, const Latency& latency) {
  const double p50 = part(latency.ns, 0.5) / 1e3, p99 = part(latency.ns, 0.99) / 1e3,
               most = part(latency.ns, 1) / 1e3;
  fmt::print("{:<28}{:>10.1f}{:>10.1f}{:>10.1f}  {}\n", name, p50, p99, most,
             latency.problem.empty() ? "right" : latency.problem);
  return {{"row", name}, {"unit", "us"}, {"flows", latency.ns.size()}, {"p50", p50},
          {"p99", p99},  {"max", most},  {"problem", latency.problem}};
}

int run(const Settings& settings) {
  if (const std::string reason = lab::why_unavailable(); !reason.empty()) {
    fmt::print(stderr, "bench-mirror needs network namespaces and veth: {}\n", reason);
    return 1;
  }
  Lab lab(settings);
  std::vector<double> plain, mirrored;
  std::string problem;
  for (int i = 0; i < settings.repeats; ++i) {
    plain.push_back(lab.rate(false, problem));
    mirrored.push_back(lab.rate(true, problem));
  }
  const double ratio = median(mirrored) / median(plain);
  fmt::print("one veth queue, 60-byte frames, device {}; median of {} runs of {} s, rows taking turns\n\n",
             settings.device, settings.repeats, settings.seconds);
  fmt::print("{:<28}{:>10}{:>10}{:>10}  {}\n", "row", "Mpps", "ratio", "bar", "verdicts");
  fmt::print("{:<28}{:>10.3f}\n", "drop", median(plain) * 1e-6);
  fmt::print("{:<28}{:>10.3f}{:>10.2f}{:>10.2f}  {}\n\n", "mirror, then drop", median(mirrored) * 1e-6, ratio,
             kBar,
             !problem.empty() ? problem
             : ratio >= kBar  ? "right"
                              : "right, bar MISSED");
  fmt::print("{:<28}{:>10}{:>10}{:>10}  {}\n", "from XDP to the verdict, us", "p50", "p99", "max",
             "verdicts");
  const Latency busy = lab.latency(0us), idle = lab.latency(5ms);
  nlohmann::json json{{"bench", "mirror"},
                      {"device", settings.device},
                      {"repeats", settings.repeats},
                      {"seconds", settings.seconds}};
  json["rows"] = {{{"row", "drop"}, {"unit", "packets/s"}, {"median", median(plain)}, {"runs", plain}},
                  {{"row", "mirror, then drop"},
                   {"unit", "packets/s"},
                   {"median", median(mirrored)},
                   {"runs", mirrored},
                   {"against", "drop"},
                   {"ratio", ratio},
                   {"bar", kBar},
                   {"met", ratio >= kBar},
                   {"problem", problem}}};
  json["rows"].push_back(report_latency("a flow after the other", busy));
  json["rows"].push_back(report_latency("a flow every 5 ms", idle));
  const bool good = problem.empty() && busy.problem.empty() && idle.problem.empty();
  return bench::write_json(settings.json, json) && good ? 0 : 1;
}

}  // namespace
}  // namespace xdpgpu::bed

int main(int argc, char** argv) {
  xdpgpu::bed::Settings settings;
  CLI::App app("What mirroring costs the kernel program, and how soon a verdict stands in the kernel's map");
  app.add_option("--device", settings.device, "compute device, as `xdpgpu devices` names it");
  app.add_option("--repeats", settings.repeats, "runs of each row")->check(CLI::Range(1, 100));
  app.add_option("--seconds", settings.seconds, "length of a run")->check(CLI::Range(0.1, 60.0));
  app.add_option("--flows", settings.flows, "new flows to time")->check(CLI::Range(10, 10000));
  app.add_option("--json", settings.json, "write the figures to this file");
  CLI11_PARSE(app, argc, argv);
  try {
    return xdpgpu::bed::run(settings);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench-mirror: {}\n", error.what());
    return 1;
  }
}
