// SPDX-License-Identifier: MIT
#include "userspace/control/replay.hpp"
#include "userspace/control/program_reader.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <optional>

#include "maps/control.h"
#include "userspace/cli/command.hpp"
#include "userspace/control/describe.hpp"
#include "userspace/control/verdict_text.hpp"
#include "userspace/host/capture.hpp"
#include "userspace/policy/kernel_programs.hpp"

namespace xdpgpu::cli {
namespace {

struct Arguments {
  std::string capture, policy, device = "auto";
  std::optional<u64> seed;
  bool no_kernel = false;
  bool verbose = false;
};

struct PacketReport {
  u64 packet = 0;  // from 1
  double time_s = 0;
  u32 length = 0;
  std::string flow, verdict, why, reason;
  std::optional<std::string> target, rule, pipeline, decided_by;
  std::optional<std::vector<std::string>> mirrored_to;
  std::optional<std::vector<control::RuleAlert>> alerts;
  std::optional<u32> changed_length;
  std::optional<bool> headers_cut, more_alerts;
  static void fields(auto& self, auto& field) {
    field("packet", self.packet);
    field("time_s", self.time_s);
    field("length", self.length);
    field("flow", self.flow);
    field("verdict", self.verdict);
    field("changed_length", self.changed_length);
    field("why", self.why);
    field("reason", self.reason);
    field("target", self.target);
    field("rule", self.rule);
    field("pipeline", self.pipeline);
    field("decided_by", self.decided_by);
    field("mirrored_to", self.mirrored_to);
    field("alerts", self.alerts);
    field("more_alerts", self.more_alerts);
    field("headers_cut", self.headers_cut);
  }
};
struct SummaryReport {
  std::string event = "summary";
  u64 packets = 0;
  std::map<std::string, u64> verdicts, why;
  std::map<std::string, u64> alerts;  // by "gid:sid signature"
  std::vector<std::string> notes;
  bool complete = true;  // all of the capture could be read
  static void fields(auto& self, auto& field) {
    field("event", self.event);
    field("packets", self.packets);
    field("verdicts", self.verdicts);
    field("why", self.why);
    field("alerts", self.alerts);
    field("notes", self.notes);
    field("complete", self.complete);
  }
};

PacketReport packet_report(const control::PacketVerdict& verdict, u64 start_ns) {
  PacketReport report;
  report.packet = verdict.number;
  report.time_s = static_cast<double>(verdict.time_ns - start_ns) / 1e9;
  report.length = verdict.length;
  report.flow = verdict.flow;
  report.verdict = control::action_name(verdict.action);
  report.changed_length = verdict.changed_length;
  report.why = control::why_of(verdict);
  report.reason = verdict.reason;
  if (!verdict.target.empty()) report.target = verdict.target;
  if (!verdict.rule.empty()) report.rule = verdict.rule;
  if (!verdict.pipeline.empty()) report.pipeline = verdict.pipeline;
  if (!verdict.stage.empty()) report.decided_by = verdict.stage;
  if (!verdict.mirrors.empty()) report.mirrored_to = verdict.mirrors;
  if (verdict.headers_cut) report.headers_cut = true;
  if (verdict.more_alerts) report.more_alerts = true;
  if (!verdict.alerts.empty()) report.alerts = verdict.alerts;
  return report;
}

std::string text_of(const control::RuleAlert& alert) {
  return fmt::format("{}:{} {}", alert.gid, alert.sid, alert.signature);
}

std::string text_of(const PacketReport& packet) {
  const std::string action = packet.verdict + (packet.target ? " to " + *packet.target : "");
  std::string text = fmt::format("{:>7} {:>12.6f} s {:>5} bytes  {:<10} {}  ({})\n", packet.packet,
                                 packet.time_s, packet.length, action, packet.flow, packet.why);
  if (packet.changed_length) text += fmt::format("{:>14}changed to {} bytes\n", "", *packet.changed_length);
  if (packet.alerts)
    for (const auto& alert : *packet.alerts) text += fmt::format("{:>14}alert {}\n", "", text_of(alert));
  if (packet.more_alerts) text += fmt::format("{:>14}more rules than seven hold\n", "");
  return text;
}

std::string text_of(const SummaryReport& summary) {
  std::string text = fmt::format("{} packet{}:", summary.packets, summary.packets == 1 ? "" : "s");
  for (const auto& [action, count] : summary.verdicts) text += fmt::format(" {} {}", count, action);
  text += "\n";
  for (const auto& [why, count] : summary.why) text += fmt::format("  {:>10}  {}\n", count, why);
  for (const auto& [rule, count] : summary.alerts) text += fmt::format("  {:>10}  alert {}\n", count, rule);
  for (const auto& note : summary.notes) text += "note: " + note + "\n";
  return text;
}

template <class T>
std::string json_line(const T& record) {
  return control::as_json(record).dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
}

// Counts verdicts and prints them as wanted.
class Account {
 public:
  Account(bool each, Format format) : each_(each), format_(format) {}

  void take(const std::vector<control::PacketVerdict>& verdicts) {
    for (const auto& verdict : verdicts) {
      if (summary_.packets++ == 0) start_ns_ = verdict.time_ns;
      headers_cut_ += verdict.headers_cut;
      const PacketReport packet = packet_report(verdict, start_ns_);
      summary_.verdicts[packet.verdict]++;
      summary_.why[packet.verdict + ": " + packet.why]++;
      for (const auto& alert : verdict.alerts) summary_.alerts[text_of(alert)]++;
      if (each_) print(format_ == Format::json ? json_line(packet) : text_of(packet));
    }
  }

  u64 headers_cut() const { return headers_cut_; }
  SummaryReport& summary() { return summary_; }

 private:
  bool each_;
  Format format_;
  u64 start_ns_ = 0;
  u64 headers_cut_ = 0;
  SummaryReport summary_;
};

struct Oddities {
  u64 cut = 0;          // by the capture's snapshot length
  u64 headers_cut = 0;  // of them
  u64 long_ = 0;        // longer than a device is shown
};

// "1 packet was", "2 packets were"
std::string packets(u64 count, const char* one, const char* several) {
  return fmt::format("{} packet{} {}", count, count == 1 ? "" : "s", count == 1 ? one : several);
}

std::vector<std::string> notes_of(const host::Capture& capture, const control::Replay& replay,
                                  const Oddities& odd) {
  std::vector<std::string> notes;
  notes.push_back(
      fmt::format("kernel part {}; pipelines on device {}", replay.kernel_part(), replay.device()));
  if (capture.link_type() != "Ethernet") notes.push_back("link type " + capture.link_type());
  if (const u64 behind = odd.cut - odd.headers_cut)
    notes.push_back(packets(behind, "was", "were") +
                    " cut by the capture, and judged by the headers and the length on the wire");
  if (odd.headers_cut)
    notes.push_back(
        packets(odd.headers_cut, "was", "were") +
        " cut by the capture within the headers, and judged by what is there: on the wire something "
        "else may come of that; capture with a larger snapshot length (tcpdump -s 0)");
  if (odd.long_)
    notes.push_back(fmt::format(
        "{} longer than {} bytes, as hosts have them that segment late (TSO, GRO): no wire carries such, and "
        "pipelines see the first {} bytes",
        packets(odd.long_, "is", "are"), XG_PACKET_MAX, XG_PACKET_MAX));
  if (capture.clamped())
    notes.push_back(fmt::format("the time of {} and was held",
                                packets(capture.clamped(), "ran backwards", "ran backwards")));
  return notes;
}

int run(const Arguments& arguments, Format format) {
  auto source = arguments.policy.empty()
                    ? tl::expected<compiler::PolicySource, control::Refusal>(compiler::pass_everything())
                    : compiler::read_policy(arguments.policy, control::object_reader());
  if (!source) return refuse(source.error());
  auto policy = compiler::compile_policy_anywhere(std::move(*source), "(capture)", arguments.seed);
  if (!policy) return refuse(policy.error());
  auto capture = host::Capture::open(arguments.capture);
  if (!capture) return fail(capture.error());
  control::ReplayOptions options;
  options.device = arguments.device;
  options.kernel = !arguments.no_kernel;
  options.repeatable = arguments.seed.has_value();
  auto replay = control::Replay::open(*policy, options);
  if (!replay) return fail(replay.error());

  Account account(arguments.verbose || format == Format::json, format);
  Oddities odd;
  while (const auto packet = (*capture)->next()) {
    odd.cut += packet->cut;
    odd.long_ += packet->original_length > XG_PACKET_MAX;
    if (auto fed = (*replay)->feed(packet->frame, packet->original_length, packet->time_ns); !fed)
      return fail(fed.error());
    account.take((*replay)->take());
  }
  if (auto finished = (*replay)->finish(); !finished) return fail(finished.error());
  account.take((*replay)->take());

  odd.headers_cut = account.headers_cut();
  SummaryReport& summary = account.summary();
  summary.notes = notes_of(**capture, **replay, odd);
  if (const auto names = policy::names_in_kernel(policy->policy); !names.empty())
    summary.notes.push_back(
        fmt::format("pipeline{} {}, whose program{} in the kernel where the policy is in force: "
                    "here the device ran {}",
                    names.size() == 1 ? "" : "s", fmt::join(names, ", "),
                    names.size() == 1 ? " runs" : "s run", names.size() == 1 ? "it" : "them"));
  summary.complete = (*capture)->problem().empty();
  print(format == Format::json ? json_line(summary) : text_of(summary));
  if (!(*capture)->problem().empty()) return fail((*capture)->problem());
  return kDone;
}

void add(CLI::App& app, Chosen& chosen) {
  auto arguments = std::make_shared<Arguments>();
  auto* command = app.add_subcommand("replay", "Say what a policy would do to the packets of a capture");
  describe(
      *command,
      "Runs a capture (pcap, pcapng) through the real XDP program (BPF_PROG_TEST_RUN, as root; otherwise "
      "the\n"
      "rules are walked in user space, with the same answers) and the real pipelines, and prints what would\n"
      "become of the packets and why. Needs no interface and sends nothing. A pipeline's time is the "
      "capture's;\n"
      "limits run by the kernel's clock in the kernel part, and by the capture's where the rules are "
      "walked.\n"
      "Packets that rules mirror are named; what a mirror's pipeline would say of them has no effect, as "
      "the\n"
      "moment at which it would be known is not in the capture.\n"
      "Of packets that a pipeline's program changes the new length is named. Programs that the policy has "
      "in\n"
      "the kernel are run by the device.\n"
      "Rules of files that alert (signatures), the first seven, are named with each packet and counted at "
      "the end; their\n"
      "thresholds run by the capture's clock. Without a log of the policy's they are, too; nothing is "
      "logged.\n"
      "Flows are hashed by a random key, so that load balancing and what does not fit into a table differ "
      "from run\n"
      "to run; with --seed N they do not. Packets that the capture has cut are judged by their length on the "
      "wire,\n"
      "and by what is there where headers were cut.\n"
      "With -o json: one object a line, each packet's and at the end a summary "
      "({\"event\":\"summary\",...}).\n"
      "Exit status 1 if the capture is damaged or goes on with packets of another link type, after what "
      "could be "
      "read.");
  command->add_option("capture", arguments->capture, "Capture file")->required()->type_name(kFile);
  command
      ->add_option("-p,--policy", arguments->policy,
                   "Policy file (JSON), or - for standard input; without one, everything passes")
      ->type_name(kFile);
  command->add_option("--device", arguments->device, "Compute device (see \"xdpgpu devices\"); default auto")
      ->check(device_name())
      ->type_name(kDevice);
  command
      ->add_option(
          "--seed", arguments->seed,
          "Hash flows by a key that is made of this number: the same capture, policy and number give the "
          "same answer each time (limits then run by the capture's clock)")
      ->check(whole_number())
      ->type_name("N");
  command->add_flag("--no-kernel", arguments->no_kernel, "Walk the rules in user space, also as root");
  command->add_flag("-v,--verbose", arguments->verbose, "A line for each packet (always so with -o json)");
  const auto format = add_output(*command);
  when_chosen(*command, chosen, [arguments, format] { return run(*arguments, *format); });
}

Registered registered(70, add);

}  // namespace

}  // namespace xdpgpu::cli
