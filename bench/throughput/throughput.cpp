// SPDX-License-Identifier: MIT
//
// bench/throughput: how many frames a second a host forwards without losing one, and how long they take, from
// one namespace's wire to another's, by RFC 2544: through xdpgpu, through the kernel's other ways to hand
// packets to a program, and through the kernel alone. The sender is not ours.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <map>

#include "bench/rows.hpp"
#include "bench/throughput/forwarders.hpp"

namespace xdpgpu::throughput {
namespace {

using Clock = std::chrono::steady_clock;

std::atomic<int> stop_signal{0};

constexpr const char* kReference = "af_packet";

struct Interrupted : std::exception {};
struct OutOfTime : std::exception {};

struct Way {
  std::string name, device;
  std::function<std::unique_ptr<Dut>(const Site&)> forwarder;
  bool may_lack = false;  // the host may be without it: then it is left out
};

std::vector<Way> ways(const Settings& settings) {
  std::vector<Way> all{{kReference, "", af_packet}};
  // Before Linux 6.3 the kernel program sends nothing out of a veth.
  const bool kernel_sends = lab::kernel_at_least(6, 3) && settings.interfaces.empty();
  for (const std::string& device : settings.devices)
    for (const bool cached : {false, true})
      if (!cached || kernel_sends)
        all.push_back({cached ? "xdpgpu, cached" : "xdpgpu", device,
                       [device, cached](const Site& site) { return xdpgpu_attached(site, device, cached); },
                       device != "cpu"});
  all.insert(all.end(), {{"af_xdp", "", af_xdp},
                         {"recvmmsg", "", recvmmsg_loop},
                         {"nfqueue", "", nfqueue, true},
                         {"linux", "", linux_forwarding}});
  // On NICs a driver may lack what one of them wants.
  for (Way& way : all) way.may_lack |= !settings.interfaces.empty() && !way.name.starts_with("xdpgpu");
  if (settings.only.empty()) return all;
  std::vector<Way> chosen;
  for (Way& way : all)
    if (way.name == kReference || std::find(settings.only.begin(), settings.only.end(),
                                            way.name.substr(0, way.name.find(','))) != settings.only.end())
      chosen.push_back(std::move(way));
  return chosen;
}

std::string said(const Latency& latency) {
  return latency.problem.empty() ? fmt::format("{:>10.1f}{:>10.1f}", latency.p50_us, latency.p99_us)
                                 : fmt::format("{:>20}", "-");
}

class Run {
 public:
  explicit Run(const Settings& settings)
      : settings_(settings),
        end_(Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                std::chrono::duration<double>(settings.most_seconds))),
        site_(settings, [this] { check(); }) {
    rows_["seconds"] = settings.seconds;
    rows_["resolution"] = settings.resolution;
    rows_["attempts"] = settings.attempts;
    rows_["repeats"] = settings.repeats;
    rows_["receive_core"] = settings.receive_core;
    rows_["sender"] = settings.sender;
    rows_["interfaces"] = settings.interfaces;
  }

  bool all() {
    if (!settings_.interfaces.empty())
      rows_.leave_out(
          "xdpgpu, cached: on NICs in zero-copy, where user space sent all frames on (tried on virtio's)");
    else if (!lab::kernel_at_least(6, 3))
      rows_.leave_out("xdpgpu, cached: before Linux 6.3 the kernel program sends nothing out of a veth");
    fmt::print(
        "sender -> {} -> device under test -> receiver; 64 UDP flows; frames/s at no loss in "
        "trials of "
        "{} s, bounds within {:.0f} %; {} trials may show it; sender: {}; us between the kernel's "
        "timestamps "
        "on both far ends, of one flow\n\n{:<28}{:<8}{:>7}{:>12}{:>12}{:>10}{:>10}{:>10}{:>10}\n",
        settings_.interfaces.empty() ? "veth" : "wire", settings_.seconds, settings_.resolution * 100,
        settings_.attempts, settings_.sender, "way", "device", "bytes", "sender's", "no loss", "p50 50 %",
        "p99 50 %", "p50", "p99");
    try {
      for (int repeat = 0; repeat < settings_.repeats; ++repeat)
        for (const unsigned size : settings_.sizes)
          for (const Way& way : ways(settings_)) measure(way, size);
    } catch (const OutOfTime&) {
      rows_.leave_out(
          fmt::format("what was not measured in {:.0f} s (--most-seconds)", settings_.most_seconds));
    }
    fmt::print("\n");
    return rows_.report(settings_.json);
  }

 private:
  void check() const {
    if (stop_signal != 0) throw Interrupted();
    if (Clock::now() > end_) throw OutOfTime();
  }

  void measure(const Way& way, unsigned size) {
    check();
    const u64 before = site_.came();
    std::unique_ptr<Dut> dut;
    try {
      dut = way.forwarder(site_);
    } catch (const lab::Error& error) {
      if (!way.may_lack) throw;
      rows_.leave_out(
          fmt::format("{}{}{}: {}", way.name, way.device.empty() ? "" : ", ", way.device, error.what()));
      return;
    }
    site_.use_size(size);
    site_.wait_for_links();
    std::string problem = site_.check_contents();
    Throughput found;
    Latency half, full;
    half.problem = full.problem = "no rate was without loss";
    if (problem.empty()) {
      found = site_.search();
      problem = found.problem;
    }
    if (problem.empty() && found.rate > 0) {
      half = site_.latency(found.rate / 2);
      full = site_.latency(found.rate);
    }
    if (problem.empty()) problem = half.wrong + full.wrong;
    if (problem.empty()) problem = dut->account(site_.came() - before);
    dut.reset();
    for (const std::string& left : lab::leftovers(site_.ns(), {site_.in().ifname(), site_.out().ifname()}))
      if (problem.empty()) problem = "left behind: " + left;

    bench::Row& row = row_of(way, size);
    row.runs.push_back(found.rate);
    if (row.problem.empty()) row.problem = problem;
    row.note = found.senders_most ? "the sender's most" : found.rate == 0 ? "no rate was without loss" : "";
    fmt::print("{:<28}{:<8}{:>7}{:>12.0f}{:>12.0f}{}{}\n", way.name, way.device, size, found.most, found.rate,
               said(half), said(full));
    std::fflush(stdout);
    note(way, size, found, half, 0.5);
    note(way, size, found, full, 1);
  }

  bench::Row& row_of(const Way& way, unsigned size) {
    const auto key = std::make_tuple(way.name, way.device, size);
    if (const auto at = known_.find(key); at != known_.end()) return *at->second;
    const auto name = [&](const std::string& of) { return fmt::format("{}, {} bytes", of, size); };
    bench::Row& row = rows_.add({.name = name(way.name),
                                 .device = way.device,
                                 .unit = "k/s",
                                 .scale = 1e-3,
                                 .against = way.name == kReference ? "" : name(kReference)});
    known_.emplace(key, &row);
    return row;
  }

  void note(const Way& way, unsigned size, const Throughput& found, const Latency& latency, double part) {
    nlohmann::json entry{{"way", way.name},
                         {"device", way.device},
                         {"bytes", size},
                         {"part", part},
                         {"rate", latency.asked},
                         {"no_loss", found.rate},
                         {"trials", found.trials},
                         {"senders_most", found.most},
                         {"frames", latency.frames},
                         {"unit", "us"}};
    if (latency.problem.empty())
      entry.update({{"p50", latency.p50_us}, {"p99", latency.p99_us}});
    else
      entry["left_out"] = latency.problem;
    rows_["latency"].push_back(entry);
  }

  const Settings& settings_;
  Clock::time_point end_;
  bench::Rows rows_{"throughput"};
  std::map<std::tuple<std::string, std::string, unsigned>, bench::Row*> known_;
  Site site_;
};

// Children end and pins go on the way out of main, whatever ends the run.
void end_well_on_signals() {
  struct sigaction action {};
  action.sa_handler = [](int number) { stop_signal = number; };
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaction(number, &action, nullptr);
}

int run(const Settings& settings) {
  if (const std::string reason = lab::why_unavailable(); !reason.empty()) {
    fmt::print(stderr, "bench-throughput needs network namespaces and veth: {}\n", reason);
    return 1;
  }
  end_well_on_signals();
  return Run(settings).all() ? 0 : 1;
}

}  // namespace
}  // namespace xdpgpu::throughput

int main(int argc, char** argv) {
  xdpgpu::throughput::Settings settings;
  CLI::App app("Frames a second that are forwarded without loss, and how long they take, by RFC 2544");
  app.add_option("--device", settings.devices, "compute devices, as `xdpgpu devices` names them")
      ->delimiter(',');
  app.add_option("--sizes", settings.sizes, "bytes of a frame, with its FCS")
      ->delimiter(',')
      ->check(CLI::Range(64, 1518));
  app.add_option("--only", settings.only,
                 "of the ways these, and af_packet: recvmmsg, af_xdp, nfqueue, linux, xdpgpu")
      ->delimiter(',')
      ->check(CLI::IsMember({"af_packet", "recvmmsg", "af_xdp", "nfqueue", "linux", "xdpgpu"}));
  app.add_option("--seconds", settings.seconds, "length of a trial")->check(CLI::Range(0.1, 300.0));
  app.add_option("--resolution", settings.resolution, "part of a rate to which it is found")
      ->check(CLI::Range(0.001, 0.9));
  app.add_option("--attempts", settings.attempts, "trials in which a rate may show that it loses nothing")
      ->check(CLI::Range(1, 100));
  app.add_option("--repeats", settings.repeats, "searches for each row")->check(CLI::Range(1, 100));
  app.add_option("--most-seconds", settings.most_seconds,
                 "length of all of it; what is not done then is left out")
      ->check(CLI::Range(1.0, 86400.0));
  app.add_option(
         "--receive-core", settings.receive_core,
         "core on which the device under test receives, by a thread of the kernel; not said: as veth has it, "
         "on the sender's")
      ->check(CLI::Range(0, 1023));
  app.add_option(
         "--interfaces", settings.interfaces,
         "four of the host's interfaces in place of veth pairs, wired by twos: the sender's and the one "
         "that receives, the one that sends and the receiver's")
      ->delimiter(',')
      ->expected(4);
  app.add_option("--sender", settings.sender, "who sends: tcpreplay, or pktgen where its module is loaded")
      ->check(CLI::IsMember({"tcpreplay", "pktgen"}));
  app.add_option("--heartbeat", settings.heartbeat,
                 "io.heartbeat of xdpgpu's policy, where processors stand still now and then, as \"5s\"");
  app.add_option("--json", settings.json, "write the figures to this file");
  CLI11_PARSE(app, argc, argv);
  try {
    return xdpgpu::throughput::run(settings);
  } catch (const xdpgpu::throughput::Interrupted&) {
    fmt::print(stderr, "bench-throughput: interrupted\n");
    return 128 + xdpgpu::throughput::stop_signal;
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench-throughput: {}\n", error.what());
    return 1;
  }
}
