// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <utility>

#include "userspace/cli/command.hpp"
#include "userspace/control/alarms.hpp"
#include "userspace/control/client.hpp"
#include "userspace/control/describe.hpp"
#include "userspace/control/metrics.hpp"
#include "userspace/control/summary.hpp"
#include "userspace/kernel/pins.hpp"
#include "userspace/policy/values.hpp"

namespace xdpgpu::cli {
namespace {

// Where the worker is kept, and its frames if they came to stand elsewhere.
std::string node_text(const Json& queue) {
  const int node = queue.at("numa_node").get<int>(), frames = queue.at("frames_node").get<int>();
  if (node < 0) return "";
  return fmt::format(", NUMA node {}{}", node,
                     frames >= 0 && frames != node ? fmt::format(" (frames of it on node {})", frames) : "");
}

std::string netns_text(const Json& report) {
  const auto netns = report.find("netns");
  if (netns == report.end() || netns->at("initial").get<bool>()) return "";
  return fmt::format(" in network namespace {}", netns->at("inode").get<u64>());
}

// A process without a data plane, for now or for good.
bool is_dead(const Json& report) {
  const auto life = report.find("data_plane");
  return life != report.end() && !life->value("lives", true);
}

std::string last_death_text(const Json& life) {
  const auto last = life.find("last_death");
  if (last == life.end()) return "";
  const auto headers = last->value("headers", std::string());
  return fmt::format("the data plane has died {} time{}, the last one on {}: it {}{}\n",
                     life.at("deaths").get<u64>(), life.at("deaths").get<u64>() == 1 ? "" : "s",
                     last->at("at").get<std::string>(), last->at("how").get<std::string>(),
                     headers.empty() ? "" : "; the headers of the packets that it had are in " + headers);
}

std::string dead_text(const Json& report) {
  const Json& life = report.at("data_plane");
  std::string text = fmt::format(
      "process {}{}, up {:.0f} s: {}\n", report.at("pid").get<int>(), netns_text(report),
      report.at("uptime_s").get<double>(),
      life.value("state", "") == "stopped" ? "THE DATA PLANE IS STOPPED" : "THERE IS NO DATA PLANE");
  for (const auto& port : report.at("ports"))
    text += fmt::format("{} is attached: {} XDP; {}; maps in {}\n", port.at("interface").get<std::string>(),
                        port.at("xdp").get<std::string>(), port.at("state").get<std::string>(),
                        port.at("pins").get<std::string>());
  text += last_death_text(life) + life.at("summary").get<std::string>() + "\n\n";
  return text + control::account_text(report);
}

std::string burst_text(const Json& burst) {
  const u64 frames = burst.at("frames_per_queue").get<u64>(), queues = burst.at("queues").get<u64>();
  return fmt::format(
      "  io.burst {} at {} Gbit/s in frames of 64 bytes ({} on the wire): {} frames a queue x {} queue{} x "
      "{} KiB = "
      "{:.1f} MiB\n",
      policy::write_duration(burst.at("ns").get<u64>()), burst.at("link_mbps").get<double>() / 1000,
      burst.at("wire_bytes").get<u64>(), frames, queues, queues == 1 ? "" : "s",
      burst.at("frame_bytes").get<u64>() >> 10, burst.at("bytes").get<double>() / (1 << 20));
}

std::string text_of(const Json& report) {
  if (is_dead(report)) return dead_text(report);
  std::string text = fmt::format("process {}{}, up {:.0f} s\n", report.at("pid").get<int>(),
                                 netns_text(report), report.at("uptime_s").get<double>());
  text += control::ready_text(report);
  if (const auto life = report.find("data_plane"); life != report.end()) text += last_death_text(*life);
  if (const auto cage = report.find("cage"); cage != report.end() && cage->contains("why"))
    text += fmt::format("the data plane: system calls {}, files {} ({})\n",
                        cage->at("system_calls").get<std::string>(), cage->at("files").get<std::string>(),
                        cage->at("why").get<std::string>());
  const bool several = report.at("devices").size() > 1;
  for (const auto& port : report.at("ports")) {
    const auto name = port.at("interface").get<std::string>();
    text += fmt::format("\n{}: {}; maps in {}\n", name, port.at("state").get<std::string>(),
                        port.at("pins").get<std::string>());
    if (const auto burst = port.find("burst"); burst != port.end()) text += burst_text(*burst);
    for (const auto& queue : port.at("queues")) {
      const auto& counters = queue.at("counters");
      const int cpu = queue.at("cpu").get<int>(), retire_cpu = queue.at("retire_cpu").get<int>();
      text += fmt::format(
          "  queue {}: {}, {}{}{}{}{}{}, {} inspected, {} cached verdicts, {} in user space, {} credits\n",
          queue.at("queue").get<unsigned>(), queue.at("mode").get<std::string>(),
          queue.at("compute_mode").get<std::string>(), cpu >= 0 ? fmt::format(" on core {}", cpu) : "",
          retire_cpu >= 0 ? fmt::format(" and {}", retire_cpu) : "", node_text(queue),
          several ? fmt::format(", device {}", queue.at("device").get<std::string>()) : "",
          queue.at("busy_poll").get<bool>() ? ", polling the driver" : "", counters.at("received").get<u64>(),
          counters.at("flows_cached").get<u64>(), queue.at("in_user_space").get<u64>(),
          queue.at("credits").get<long>());
      text += control::metrics_text(queue);
    }
  }
  text += "\n" + control::account_text(report);
  const auto& latency = report.at("latency_ns");
  if (latency.at("count").get<u64>())
    text += fmt::format("\nfrom receipt to verdict, {}: {}\n",
                        control::counted(latency.at("count").get<u64>(), "packet"),
                        control::durations_text(latency));
  bool header = false;
  for (const auto& rule : report.at("rules")) {
    const u64 packets = rule.at("packets").get<u64>();
    if (packets == 0) continue;
    if (!header) text += "\nrules that matched:\n";
    header = true;
    const control::Json& shed = rule.at("shed");
    const u64 overload = shed.at("overload").get<u64>(), failure = shed.at("failure").get<u64>();
    text += fmt::format("  {:>14}  {}{}{}\n", packets, rule.at("name").get<std::string>(),
                        overload ? fmt::format(", {} of them left to on_overload", overload) : "",
                        failure ? fmt::format(", {} of them left to on_failure", failure) : "");
  }
  text += control::alarms_text(report);
  text += control::tables_text(report);
  const auto& frames = report.at("frames");
  text +=
      fmt::format("\nframes: {} = {} free + {} for receive + {} in batches + {} sent, not yet completed{}\n",
                  frames.at("total").get<u64>(), frames.at("free").get<u64>(), frames.at("fill").get<u64>(),
                  frames.at("batch").get<u64>(), frames.at("tx").get<u64>(),
                  frames.at("conserved").get<bool>() ? "" : " (NOT CONSERVED)");
  return text;
}

bool any(const Json& objects, const char* member, const char* value) {
  return std::any_of(objects.begin(), objects.end(),
                     [&](const Json& one) { return one.value(member, std::string()) == value; });
}

// How it is, as an exit status.
int state_of(const Json& report) {
  if (is_dead(report)) return kDead;
  if (any(report.at("ports"), "state", "bypass")) return kBypassed;
  if (report.at("policy").value("audit", false)) return kAudit;
  const Json& devices = report.at("devices");
  const bool degraded =
      std::any_of(devices.begin(), devices.end(), [](const Json& one) { return one.contains("degraded"); });
  return degraded ? kDegraded : kDone;
}

struct Unanswered {
  std::string sentence;
  int status = kFailed;
  bool gone = false;  // there is no such attach
};

// Why there is no answer: where there is a program on the interface and nobody to go with it, it is dead.
Unanswered unanswered(const std::string& ifname, const kernel::names::Scope& scope, std::string sentence) {
  const auto found = control::look_for_process(ifname, scope);
  const bool allowed = access(kernel::names::socket(ifname, scope).c_str(), W_OK) == 0;
  const bool dead = found == control::Presence::dead || (found != control::Presence::absent && allowed);
  return {std::move(sentence), dead ? kDead : kFailed, found == control::Presence::absent};
}

tl::expected<Json, Unanswered> ask_for_status(const std::string& ifname, const kernel::names::Scope& scope) {
  auto answer = control::ask(ifname, {std::string(control::request::kStatus), {}}, scope);
  if (!answer) return tl::unexpected(unanswered(ifname, scope, answer.error()));
  if (!answer->ok()) return tl::unexpected(Unanswered{answer->error});
  return std::move(answer->result);
}

int run_one(const std::string& ifname, Format format) {
  const auto report = ask_for_status(ifname, kernel::names::own_scope());
  if (!report) return fail(report.error().sentence, report.error().status);
  if (format == Format::json)
    print_json(*report);
  else
    print(text_of(*report));
  return state_of(*report);
}

// Every attached process once, however many interfaces it has.
int run_all(bool only_here, Format format) {
  std::set<int> seen;
  Json reports = Json::array();
  int worst = kDone;
  const auto say_of = [&](const std::string& ifname, const Unanswered& why) {
    worst = std::max(worst, why.status);
    say(why.sentence);
    Json error = control::error_json(why.sentence);
    error["interface"] = ifname;
    reports.push_back(std::move(error));
  };
  const auto ask_those_of = [&](const kernel::names::Scope& scope) {
    const auto attached = kernel::names::interfaces_with_socket(scope);
    // What "detach --keep" has left decides, too.
    for (const auto& ifname : kernel::names::interfaces_with_pins(scope))
      if (std::find(attached.begin(), attached.end(), ifname) == attached.end() &&
          kernel::pinned_link(ifname, scope))
        say_of(ifname, {control::not_attached(ifname, scope)});
    for (const auto& ifname : attached) {
      auto report = ask_for_status(ifname, scope);
      if (!report && report.error().gone) continue;  // detached since it was found
      if (!report) {
        say_of(ifname, report.error());
        continue;
      }
      worst = std::max(worst, state_of(*report));
      if (!seen.insert(report->at("pid").get<int>()).second) continue;
      if (format == Format::text) print((seen.size() > 1 ? "\n" : "") + text_of(*report));
      reports.push_back(std::move(*report));
    }
  };
  ask_those_of(kernel::names::own_scope());
  if (!only_here)
    for (const auto& scope : kernel::names::other_scopes()) ask_those_of(scope);
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
  add_interface(*command, "interface", *ifname, "An attached interface");
  add_netns(*command, chosen);
  const auto format = add_output(*command);
  when_chosen(*command, chosen, [ifname, format, &chosen] {
    return ifname->empty() ? run_all(!chosen.netns.empty(), *format) : run_one(*ifname, *format);
  });
}

Registered registered(30, add);

}  // namespace

}  // namespace xdpgpu::cli
