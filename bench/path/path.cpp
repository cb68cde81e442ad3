// SPDX-License-Identifier: MIT
//
// bench/path: what the whole path costs against the shortest AF_XDP loops, on one queue of a veth pair
// that this program makes, with the same sender and the same cores for every row; several queues against
// one; and TCP through PASS against plain XDP_PASS. Rows take turns and are repeated; what counts is the
// median, and that the verdicts of the same run were checked.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <thread>

#include "bench/path/measure.hpp"
#include "bench/rows.hpp"

namespace xdpgpu::bed {
namespace {

struct Measured {
  bench::Row& row;
  std::function<Run()> run;
};

std::vector<Measured> rows_of(bench::Rows& rows, PathLab& lab, const Settings& settings) {
  std::vector<Measured> out;
  const auto add = [&](bench::Row row, bool tcp, std::function<Run()> run) {
    row.unit = tcp ? "Gbit/s" : "Mpps";
    row.scale = tcp ? 1 : 1e-6;
    out.push_back({rows.add(std::move(row)), std::move(run)});
  };
  add({.name = "bare drop"}, false, [&] { return lab.bare(BareLoop::Action::drop); });
  add({.name = "bare forward"}, false, [&] { return lab.bare(BareLoop::Action::forward); });
  for (const bool gro : {true, false})
    add({.name = gro ? "plain pass" : "plain pass, no GRO"}, true,
        [&lab, gro] { return lab.tcp_plain(gro); });
  for (const std::string& device : settings.devices) {
    for (const bool forwards : {false, true}) {
      const std::string name = forwards ? "pipeline l2fwd" : "pipeline drop";
      add({.name = name, .device = device, .against = forwards ? "bare forward" : "bare drop", .bar = 0.95},
          false, [=, &lab] { return lab.pipeline(forwards, device, 1); });
      if (settings.queues > 1)
        add({.name = fmt::format("{}, {} queues", name, settings.queues),
             .device = device,
             .against = name,
             .bar = 0.9 * settings.queues},
            false, [=, &lab, &settings] { return lab.pipeline(forwards, device, settings.queues); });
    }
    for (const bool gro : {true, false})
      add({.name = gro ? "pipeline pass" : "pipeline pass, no GRO",
           .device = device,
           .against = gro ? "plain pass" : "plain pass, no GRO",
           .bar = 0.5,
           .aim = 0.8},
          true, [=, &lab] { return lab.tcp_pipeline(device, gro); });
  }
  return out;
}

int run(const Settings& settings) {
  if (const std::string reason = lab::why_unavailable(); !reason.empty()) {
    fmt::print(stderr, "bench-path needs network namespaces and veth: {}\n", reason);
    return 1;
  }
  bench::Rows rows("path");
  rows["repeats"] = settings.repeats;
  rows["seconds"] = settings.seconds;
  rows["queues"] = settings.queues;
  PathLab lab(settings);
  const auto measured = rows_of(rows, lab, settings);
  for (int i = 0; i < settings.repeats; ++i)
    for (const Measured& one : measured) {
      const Run run = one.run();
      one.row.runs.push_back(run.rate);
      if (run.cpu_ns > 0) one.row.cpu_ns.push_back(run.cpu_ns);
      if (!run.problem.empty()) one.row.problem = run.problem;
    }
  fmt::print("veth, {}-byte frames of {} flows a queue; median of {} runs of {} s, rows taking turns\n",
             settings.payload + 42, settings.flows, settings.repeats, settings.seconds);
  fmt::print(
      "bare loops: libxdp under bpf_redirect_map(xsks, rx_queue_index, XDP_PASS); plain pass: return "
      "XDP_PASS; ns/packet: CPU time of the threads that receive\n");
  const unsigned cores = std::thread::hardware_concurrency();
  if (settings.queues > 1 && cores < 2 * settings.queues)
    fmt::print("{} queues want {} cores, half of them for the senders; here are {}\n", settings.queues,
               2 * settings.queues, cores);
  fmt::print("\n");
  return rows.report(settings.json) ? 0 : 1;
}

}  // namespace
}  // namespace xdpgpu::bed

int main(int argc, char** argv) {
  xdpgpu::bed::Settings settings;
  CLI::App app("Packets per second of the whole path against bare AF_XDP loops, and TCP through PASS");
  app.add_option("--device", settings.devices,
                 "compute devices, as `xdpgpu devices` names them, or with the mode that drives one, as in "
                 "cpu/split: inline (not said), split, persistent or auto")
      ->delimiter(',');
  app.add_option("--queues", settings.queues, "also this many queues, a worker and a sender each")
      ->check(CLI::Range(1, 32));
  app.add_option("--repeats", settings.repeats, "runs of each row")->check(CLI::Range(1, 100));
  app.add_option("--seconds", settings.seconds, "length of a run")->check(CLI::Range(0.1, 60.0));
  app.add_option("--flows", settings.flows, "UDP flows sent on each queue")->check(CLI::Range(1, 1024));
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
