// SPDX-License-Identifier: MIT
//
// bench/path: what the whole path costs against the shortest AF_XDP loops, on one queue of a veth pair
// that this program makes, with the same sender and the same cores for every row; and TCP through PASS
// against plain XDP_PASS. Rows take turns and are repeated; what counts is the median, and that the
// verdicts of the same run were checked.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "bench/machine.hpp"
#include "bench/path/bare.hpp"
#include "bench/path/bed.hpp"
#include "bench/path/tcp.hpp"
#include "tests/netns/lab.hpp"

namespace xdpgpu::bed {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

struct Settings {
  std::vector<std::string> devices{"cpu"};
  int repeats = 5;
  double seconds = 1;
  u32 flows = 64;
  u32 payload = 18;  // bytes of UDP payload: 60-byte frames
  std::string json;
};

struct Row {
  std::string name, device{}, against{};
  double bar = 0;
  bool tcp = false;
  std::vector<double> runs{};  // packets a second, or Gbit/s
  std::string problem{};       // what the check of verdicts found, if anything

  double median() const {
    std::vector<double> sorted = runs;
    std::sort(sorted.begin(), sorted.end());
    return sorted.empty() ? 0 : sorted[sorted.size() / 2];
  }
};

class Lab {
 public:
  explicit Lab(const Settings& settings)
      : settings_(settings), near_(silent("near")), far_(silent("far")), wire_(near_, "n0", far_, "f0") {
    wire_.address("10.9.0.1/24", "10.9.0.2/24");
    wire_.up();
    for (u32 i = 0; i < settings.flows; ++i)
      frames_.push_back(lab::build({.src = wire_.b().mac(),
                                    .dst = wire_.a().mac(),
                                    .src_port = static_cast<u16>(1000 + i),
                                    .dst_port = 4000,
                                    .payload = std::string(settings.payload, 'x')}));
    const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
    worker_cpu_ = static_cast<int>(cores - 1);
  }

  double bare(BareLoop::Action action, std::string& problem) {
    BareLoop loop(wire_.a(), action, worker_cpu_);
    return drive(
        action == BareLoop::Action::forward,
        [&] { return action == BareLoop::Action::forward ? loop.transmitted() : loop.received(); }, problem);
  }

  double pipeline(bool forwards, const std::string& device, std::string& problem) {
    gpu::AclSettings drop;
    drop.otherwise = gpu::AclRule::Action::drop;
    Options options;
    choose(device, options);
    options.overload_drops = true;
    options.stages = {forwards ? gpu::StageSettings{gpu::L2fwdSettings{}} : gpu::StageSettings{drop}};
    Bed bed({&wire_.a()}, options);
    const double rate = drive(
        forwards,
        [&] {
          const xg_worker_counters counts = bed.worker_counts(0);
          return forwards ? counts.transmitted : counts.dropped;
        },
        problem);
    check_accounts(bed, forwards, problem);
    return rate;
  }

  // "cuda", or with the mode that drives it: "cuda/persistent".
  static void choose(const std::string& device, Options& options) {
    const auto slash = device.find('/');
    options.device = device.substr(0, slash);
    if (slash == std::string::npos) return;
    const auto mode = dataplane::compute_mode_of(device.substr(slash + 1));
    if (!mode)
      throw lab::Error(device + " names no mode that there is: auto, inline, split, persistent or graph");
    options.engine.compute_mode = *mode;
  }

  double tcp_plain() {
    std::optional<TinyProgram> program;
    near_.run([&] { program.emplace(wire_.a(), TinyProgram::What::pass); });
    const double rate = tcp_gbit_per_s(far_, near_, "10.9.0.1", settings_.seconds);
    near_.run([&] { program.reset(); });
    return rate;
  }

  double tcp_pipeline(const std::string& device, std::string& problem) {
    gpu::AclSettings pass;
    pass.otherwise = gpu::AclRule::Action::pass;
    Options options;
    choose(device, options);
    options.stages = {pass};
    Bed bed({&wire_.a()}, options);
    const double rate = tcp_gbit_per_s(far_, near_, "10.9.0.1", settings_.seconds);
    const xg_worker_counters counts = bed.worker_counts(0);
    // Every byte must have come through user space: a segment carries at most an MTU.
    const double needed = rate * 1e9 / 8 * settings_.seconds * 0.9 / 1500;
    if (static_cast<double>(counts.passed) < needed)
      problem = fmt::format("only {} packets were passed, at least {:.0f} are needed", counts.passed, needed);
    return rate;
  }

 private:
  // Without IPv6, whose multicast reports would be counted as packets that came back.
  static lab::Namespace silent(std::string name) {
    lab::Namespace ns(std::move(name));
    ns.sysctl("ipv6/conf/all/disable_ipv6", "1");
    ns.sysctl("ipv6/conf/default/disable_ipv6", "1");
    return ns;
  }

  // Packets a second in the middle of a longer run; what came back is counted at the sender's end.
  template <class Count>
  double drive(bool forwards, Count&& count, std::string& problem) {
    const auto before = wire_.b().counters();
    BareSender sender(wire_.b(), frames_, 0);
    std::this_thread::sleep_for(200ms);
    const auto start = Clock::now();
    const u64 first = count();
    std::this_thread::sleep_for(std::chrono::duration<double>(settings_.seconds));
    const u64 last = count();
    const double elapsed = std::chrono::duration<double>(Clock::now() - start).count();
    if (forwards) check_swapped(problem);
    sender.stop();
    std::this_thread::sleep_for(100ms);
    const auto after = wire_.b().counters();
    const u64 came_back = after.rx_packets + after.rx_dropped - before.rx_packets - before.rx_dropped;
    const u64 done = count();
    if (!forwards && came_back)
      problem = fmt::format("{} packets came back from a loop that drops", came_back);
    if (forwards && came_back != done)
      problem = fmt::format("{} packets were sent back, {} came", done, came_back);
    if (last == first) problem = "no packet came through";
    return static_cast<double>(last - first) / elapsed;
  }

  void check_swapped(std::string& problem) {
    lab::Sniffer sniffer(wire_.b());
    const auto seen = sniffer.take(32, 1000ms, lab::udp_to(4000));
    if (seen.empty()) problem = "nothing of what was sent back could be seen";
    for (const auto& captured : seen)
      if (std::find(frames_.begin(), frames_.end(), lab::with_macs_swapped(captured.frame)) == frames_.end())
        problem = fmt::format("a frame came back other than as it was sent, MAC addresses swapped: {:02x}",
                              fmt::join(captured.frame, ""));
  }

  // inspected = received + lost; received = drop + tx: to the packet.
  void check_accounts(Bed& bed, bool forwards, std::string& problem) {
    for (int i = 0; i < 100; ++i) {
      const xg_worker_counters counts = bed.worker_counts(0);
      const u64 decided = forwards ? counts.transmitted : counts.dropped;
      if (bed.kernel_count(0, XG_KERNEL_inspected) == counts.received + counts.lost_in_kernel &&
          counts.received == decided)
        return;
      std::this_thread::sleep_for(10ms);
    }
    const xg_worker_counters counts = bed.worker_counts(0);
    problem = fmt::format("accounts do not add up: inspected {}, received {}, lost {}, dropped {}, sent {}",
                          bed.kernel_count(0, XG_KERNEL_inspected), counts.received, counts.lost_in_kernel,
                          counts.dropped, counts.transmitted);
  }

  const Settings& settings_;
  lab::Namespace near_, far_;
  lab::Veth wire_;
  std::vector<lab::Frame> frames_;
  int worker_cpu_;
};

std::vector<Row> rows_of(const Settings& settings) {
  std::vector<Row> rows{{.name = "bare drop"}, {.name = "bare forward"}, {.name = "plain pass", .tcp = true}};
  for (const std::string& device : settings.devices) {
    rows.push_back({.name = "pipeline drop", .device = device, .against = "bare drop", .bar = 0.9});
    rows.push_back({.name = "pipeline l2fwd", .device = device, .against = "bare forward", .bar = 0.9});
    rows.push_back(
        {.name = "pipeline pass", .device = device, .against = "plain pass", .bar = 0.5, .tcp = true});
  }
  return rows;
}

double run_once(Lab& lab, const Row& row, std::string& problem) {
  if (row.name == "bare drop") return lab.bare(BareLoop::Action::drop, problem);
  if (row.name == "bare forward") return lab.bare(BareLoop::Action::forward, problem);
  if (row.name == "plain pass") return lab.tcp_plain();
  if (row.name == "pipeline drop") return lab.pipeline(false, row.device, problem);
  if (row.name == "pipeline l2fwd") return lab.pipeline(true, row.device, problem);
  return lab.tcp_pipeline(row.device, problem);
}

const Row& row_named(const std::vector<Row>& rows, const std::string& name) {
  return *std::find_if(rows.begin(), rows.end(), [&](const Row& row) { return row.name == name; });
}

// True if every verdict was right; a bar that is missed is printed, and no error.
bool report(const std::vector<Row>& rows, const Settings& settings) {
  bool good = true;
  nlohmann::json json{{"bench", "path"}, {"repeats", settings.repeats}, {"seconds", settings.seconds}};
  fmt::print("one veth queue, {}-byte frames of {} flows; median of {} runs of {} s, rows taking turns\n",
             settings.payload + 42, settings.flows, settings.repeats, settings.seconds);
  fmt::print(
      "bare loops: libxdp under bpf_redirect_map(xsks, rx_queue_index, XDP_PASS); plain pass: return "
      "XDP_PASS\n\n");
  fmt::print("{:<16}{:<17}{:>16}{:>10}{:>8}  {}\n", "row", "device", "median", "ratio", "bar", "verdicts");
  for (const Row& row : rows) {
    const double ratio = row.against.empty() ? 0 : row.median() / row_named(rows, row.against).median();
    const bool met = row.against.empty() || ratio >= row.bar;
    good &= row.problem.empty();
    const std::string figure = row.tcp ? fmt::format("{:.2f} Gbit/s", row.median())
                                       : fmt::format("{:.3f} Mpps", row.median() * 1e-6);
    fmt::print("{:<16}{:<17}{:>16}{:>10}{:>8}  {}\n", row.name, row.device, figure,
               row.against.empty() ? "" : fmt::format("{:.2f}", ratio),
               row.against.empty() ? "" : fmt::format("{:.2f}", row.bar),
               row.problem.empty() ? (met ? "right" : "right, bar MISSED") : row.problem);
    nlohmann::json entry{{"row", row.name},
                         {"unit", row.tcp ? "Gbit/s" : "packets/s"},
                         {"median", row.median()},
                         {"runs", row.runs},
                         {"problem", row.problem}};
    if (!row.against.empty())
      entry.update({{"device", row.device},
                    {"against", row.against},
                    {"ratio", ratio},
                    {"bar", row.bar},
                    {"met", met}});
    json["rows"].push_back(entry);
  }
  return bench::write_json(settings.json, json) && good;
}

int run(const Settings& settings) {
  if (const std::string reason = lab::why_unavailable(); !reason.empty()) {
    fmt::print(stderr, "bench-path needs network namespaces and veth: {}\n", reason);
    return 1;
  }
  std::vector<Row> rows = rows_of(settings);
  Lab lab(settings);
  for (int i = 0; i < settings.repeats; ++i)
    for (Row& row : rows) {
      std::string problem;
      row.runs.push_back(run_once(lab, row, problem));
      if (!problem.empty()) row.problem = problem;
    }
  return report(rows, settings) ? 0 : 1;
}

}  // namespace
}  // namespace xdpgpu::bed

int main(int argc, char** argv) {
  xdpgpu::bed::Settings settings;
  CLI::App app("Packets per second of the whole path against bare AF_XDP loops, and TCP through PASS");
  app.add_option("--device", settings.devices,
                 "compute devices, as `xdpgpu devices` names them, or with the mode that drives one, as in "
                 "cpu/split: inline (not said), split, persistent, graph or auto")
      ->delimiter(',');
  app.add_option("--repeats", settings.repeats, "runs of each row")->check(CLI::Range(1, 100));
  app.add_option("--seconds", settings.seconds, "length of a run")->check(CLI::Range(0.1, 60.0));
  app.add_option("--flows", settings.flows, "UDP flows sent")->check(CLI::Range(1, 4096));
  app.add_option("--payload", settings.payload, "UDP payload bytes")->check(CLI::Range(0, 1400));
  app.add_option("--json", settings.json, "write the figures to this file");
  CLI11_PARSE(app, argc, argv);
  try {
    return xdpgpu::bed::run(settings);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench-path: {}\n", error.what());
    return 1;
  }
}
