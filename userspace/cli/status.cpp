// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "userspace/cli/command.hpp"
#include "userspace/control/alarms.hpp"
#include "userspace/control/describe.hpp"
#include "userspace/control/eve_log.hpp"
#include "userspace/control/metrics.hpp"
#include "userspace/control/statuses.hpp"
#include "userspace/control/summary.hpp"
#include "userspace/policy/values.hpp"

namespace xdpgpu::cli {
namespace {

using control::StatusReport;

// Where the worker is kept, and its frames if they came to stand elsewhere.
std::string node_text(const control::QueueService& service) {
  const int node = service.numa_node, frames = service.frames_node;
  if (node < 0) return "";
  return fmt::format(", NUMA node {}{}", node,
                     frames >= 0 && frames != node ? fmt::format(" (frames of it on node {})", frames) : "");
}

std::string netns_text(const StatusReport& report) {
  return report.netns.initial ? "" : fmt::format(" in network namespace {}", report.netns.inode);
}

// A process without a data plane, for now or for good.
bool is_dead(const StatusReport& report) { return !report.service; }

std::string last_death_text(const control::LifeReport& life) {
  if (!life.last_death) return "";
  const auto& last = *life.last_death;
  return fmt::format("the data plane has died {} time{}, the last one on {}: it {}{}\n", life.deaths,
                     life.deaths == 1 ? "" : "s", last.at, last.how,
                     last.headers ? "; the headers of the packets that it had are in " + *last.headers : "");
}

std::string bypass_text(const StatusReport& report) {
  if (!report.bypass) return "";
  return fmt::format("bypass is on, and ends by itself in {} s, at {}\n", report.bypass->ends_in_s,
                     report.bypass->ends_at);
}

std::string dead_text(const StatusReport& report) {
  const control::LifeReport life = report.data_plane.value_or(control::LifeReport{});
  std::string text =
      fmt::format("process {}{}, up {:.0f} s: {}\n", report.pid, netns_text(report), report.uptime_s,
                  life.state == "stopped" ? "THE DATA PLANE IS STOPPED" : "THERE IS NO DATA PLANE");
  for (const auto& port : report.ports)
    text += fmt::format("{} is attached: {} XDP; {}; maps in {}\n", port.interface, port.xdp, port.state,
                        port.pins);
  text += bypass_text(report) + last_death_text(life) + life.summary.value_or("") + "\n\n";
  return text + control::account_text(report);
}

std::string burst_text(const control::BurstReport& burst) {
  return fmt::format(
      "  io.burst {} at {} Gbit/s in frames of 64 bytes ({} on the wire): {} frames a queue x {} queue{} x "
      "{} KiB = "
      "{:.1f} MiB\n",
      policy::write_duration(burst.ns), static_cast<double>(burst.link_mbps) / 1000, burst.wire_bytes,
      burst.frames_per_queue, burst.queues, burst.queues == 1 ? "" : "s", burst.frame_bytes >> 10,
      static_cast<double>(burst.bytes) / (1 << 20));
}

std::string queue_text(const control::QueueReport& queue, bool several_devices) {
  const control::QueueService& service = *queue.service;
  return fmt::format(
             "  queue {}: {}, {}{}{}{}{}{}, {} inspected, {} cached verdicts, {} in user space, {} credits\n",
             queue.queue, service.mode, service.compute_mode,
             service.cpu >= 0 ? fmt::format(" on core {}", service.cpu) : "",
             service.retire_cpu >= 0 ? fmt::format(" and {}", service.retire_cpu) : "", node_text(service),
             several_devices ? fmt::format(", device {}", service.device) : "",
             service.busy_poll ? ", polling the driver" : "", queue.counters.received,
             queue.counters.flows_cached, service.in_user_space, service.credits) +
         control::metrics_text(queue);
}

std::string port_text(const control::PortReport& port, bool several_devices) {
  std::string text = fmt::format("\n{}: {}; maps in {}\n", port.interface, port.state, port.pins);
  if (port.burst) text += burst_text(*port.burst);
  for (const auto& queue : port.queues)
    if (queue.service) text += queue_text(queue, several_devices);
  return text;
}

std::string rules_text(const std::vector<control::RuleReport>& rules) {
  std::string text;
  for (const auto& rule : rules) {
    if (rule.packets == 0) continue;
    if (text.empty()) text += "\nrules that matched:\n";
    text += fmt::format(
        "  {:>14}  {}{}{}\n", rule.packets, rule.name,
        rule.shed.overload ? fmt::format(", {} of them left to on_overload", rule.shed.overload) : "",
        rule.shed.failure ? fmt::format(", {} of them left to on_failure", rule.shed.failure) : "");
  }
  return text;
}

std::string text_of(const StatusReport& report) {
  if (is_dead(report)) return dead_text(report);
  const control::ServiceReport& service = *report.service;
  std::string text =
      fmt::format("process {}{}, up {:.0f} s\n", report.pid, netns_text(report), report.uptime_s);
  text += control::ready_text(report);
  text += bypass_text(report);
  if (report.data_plane) text += last_death_text(*report.data_plane);
  if (report.cage && report.cage->why)
    text += fmt::format("the data plane: system calls {}, files {} ({})\n", report.cage->system_calls,
                        report.cage->files, *report.cage->why);
  for (const auto& port : report.ports) text += port_text(port, service.devices.size() > 1);
  text += "\n" + control::account_text(report);
  if (service.latency.count)
    text +=
        fmt::format("\nfrom receipt to verdict, {}: {}\n", control::counted(service.latency.count, "packet"),
                    control::durations_text(service.latency));
  text += rules_text(service.rules);
  if (report.alarms) text += control::alarms_text(*report.alarms);
  if (report.flow_events) text += control::flow_events_text(*report.flow_events);
  if (report.log) text += control::log_text(*report.log);
  text += control::tables_text(service);
  text += control::programs_text(service.programs);
  const auto& frames = service.frames;
  text += fmt::format(
      "\nframes: {} = {} free + {} for receive + {} in batches + {} sent, not yet completed{}{}\n",
      frames.total, frames.free, frames.fill, frames.batch, frames.tx,
      frames.waiting ? fmt::format(" + {} waiting for other fragments", frames.waiting) : "",
      frames.conserved() ? "" : " (NOT CONSERVED)");
  return text;
}

// How it is, as an exit status.
int state_of(const StatusReport& report) {
  if (is_dead(report)) return kDead;
  if (std::any_of(report.ports.begin(), report.ports.end(),
                  [](const auto& port) { return port.state == "bypass"; }))
    return kBypassed;
  if (report.policy.in_force && report.policy.in_force->audit) return kAudit;
  const auto& devices = report.service->devices;
  const bool degraded =
      std::any_of(devices.begin(), devices.end(), [](const auto& device) { return device.degraded; });
  return degraded ? kDegraded : kDone;
}

int state_of(const control::Unanswered& why) {
  return why.why == control::Unanswered::Why::dead ? kDead : kFailed;
}

int run_one(const std::string& ifname, Format format) {
  const auto report = control::ask_for_status(ifname);
  if (!report) return fail(report.error().sentence, state_of(report.error()));
  if (format == Format::json)
    print_record(*report);
  else
    print(text_of(*report));
  return state_of(*report);
}

// Every attached process once, however many interfaces it has.
int run_all(bool only_here, Format format) {
  std::set<int> seen;
  Json reports = Json::array();
  int worst = kDone;
  control::each_status(only_here, [&](const auto& ifname, const auto&, control::Answered report) {
    if (!report) {
      worst = std::max(worst, state_of(report.error()));
      say(report.error().sentence);
      auto failure = control::failure_report(report.error().sentence);
      failure.interface = ifname;
      reports.push_back(control::as_json(failure));
      return;
    }
    worst = std::max(worst, state_of(*report));
    if (!seen.insert(report->pid).second) return;
    if (format == Format::text) print((seen.size() > 1 ? "\n" : "") + text_of(*report));
    reports.push_back(control::as_json(*report));
  });
  if (format == Format::json)
    print_json(reports);
  else if (reports.empty())
    print("no interface is attached; attach one with \"xdpgpu attach IF\"\n");
  return worst;
}

void add(CLI::App& app, Chosen& chosen) {
  auto ifname = std::make_shared<std::string>();
  auto* command = app.add_subcommand("status", "What became of the packets, and how they are handled");
  describe(
      *command,
      "Prints the modes in use, what became of every packet and why, rules that matched, and who holds the\n"
      "frames; for each queue how full its rings are and were at most, and how long packets took from their\n"
      "receipt to their verdict; for each stage that remembers packets how full its table is and what it "
      "took\n"
      "them for. Without an interface: every attached process, in every\n"
      "network namespace unless one is named.");
  command->footer(
      "\nExit status: 0 all is well, 1 it could not be asked, 2 wrong usage; of what was asked, the worst:\n"
      "3 degraded (the CPU stands in for a device), 4 audit (nothing is dropped), 5 bypassed (everything\n"
      "passes), 6 dead (no data plane, or none that answers: on_failure decides).");
  add_attached_interface(*command, *ifname);
  add_netns(*command, chosen);
  const auto format = add_output(*command);
  when_chosen(*command, chosen, [ifname, format, &chosen] {
    return ifname->empty() ? run_all(!chosen.netns.empty(), *format) : run_one(*ifname, *format);
  });
}

Registered registered(30, add);

}  // namespace

}  // namespace xdpgpu::cli
