// SPDX-License-Identifier: MIT
#include "userspace/control/replay.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "userspace/cli/command.hpp"
#include "userspace/control/describe.hpp"
#include "userspace/host/capture.hpp"

namespace xdpgpu::cli {
namespace {

struct Arguments {
  std::string capture, policy, device = "auto";
  bool no_kernel = false;
  bool verbose = false;
};

std::string why_of(const control::PacketVerdict& verdict) {
  std::string why = verdict.reason;
  if (!verdict.rule.empty()) why += fmt::format(" by rule \"{}\"", verdict.rule);
  if (!verdict.pipeline.empty()) why += fmt::format(" in pipeline {}: {}", verdict.pipeline, verdict.stage);
  if (!verdict.mirrors.empty()) why += fmt::format("; mirrored to {}", fmt::join(verdict.mirrors, ", "));
  return why;
}

Json to_json(const control::PacketVerdict& verdict, u64 start_ns) {
  Json json = {{"packet", verdict.number},
               {"time_s", static_cast<double>(verdict.time_ns - start_ns) / 1e9},
               {"length", verdict.length},
               {"flow", verdict.flow},
               {"verdict", control::action_name(verdict.action)},
               {"why", why_of(verdict)},
               {"reason", verdict.reason}};
  if (!verdict.target.empty()) json["target"] = verdict.target;
  if (!verdict.rule.empty()) json["rule"] = verdict.rule;
  if (!verdict.pipeline.empty()) json["pipeline"] = verdict.pipeline;
  if (!verdict.stage.empty()) json["decided_by"] = verdict.stage;
  if (!verdict.mirrors.empty()) json["mirrored_to"] = verdict.mirrors;
  return json;
}

std::string json_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

// Counts verdicts and prints them as wanted.
class Account {
 public:
  Account(bool each, Format format) : each_(each), format_(format) {}

  void take(const std::vector<control::PacketVerdict>& verdicts) {
    for (const auto& verdict : verdicts) {
      if (packets_++ == 0) start_ns_ = verdict.time_ns;
      std::string action = control::action_name(verdict.action);
      by_action_[action]++;
      by_why_[action + ": " + why_of(verdict)]++;
      if (!each_) continue;
      if (format_ == Format::json) {
        print(json_line(to_json(verdict, start_ns_)));
        continue;
      }
      if (!verdict.target.empty()) action += " to " + verdict.target;
      print(fmt::format("{:>7} {:>12.6f} s {:>5} bytes  {:<10} {}  ({})\n", verdict.number,
                        static_cast<double>(verdict.time_ns - start_ns_) / 1e9, verdict.length, action,
                        verdict.flow, why_of(verdict)));
    }
  }

  Json summary() const { return {{"packets", packets_}, {"verdicts", by_action_}, {"why", by_why_}}; }
  std::string text() const {
    std::string text = fmt::format("{} packet{}:", packets_, packets_ == 1 ? "" : "s");
    for (const auto& [action, count] : by_action_) text += fmt::format(" {} {}", count, action);
    text += "\n";
    for (const auto& [why, count] : by_why_) text += fmt::format("  {:>10}  {}\n", count, why);
    return text;
  }

 private:
  bool each_;
  Format format_;
  u64 packets_ = 0;
  u64 start_ns_ = 0;
  std::map<std::string, u64> by_action_;
  std::map<std::string, u64> by_why_;
};

struct Oddities {
  u64 cut = 0;    // by the capture's snapshot length
  u64 long_ = 0;  // than a frame chunk
};

std::vector<std::string> notes_of(const host::Capture& capture, const control::Replay& replay,
                                  const Oddities& odd) {
  std::vector<std::string> notes;
  notes.push_back(
      fmt::format("kernel part {}; pipelines on device {}", replay.kernel_part(), replay.device()));
  if (capture.link_type() != "Ethernet") notes.push_back("link type " + capture.link_type());
  if (odd.cut)
    notes.push_back(fmt::format("{} packets were cut by the capture and judged by what is there", odd.cut));
  if (odd.long_)
    notes.push_back(fmt::format("{} packets are longer than {} bytes and judged by their first bytes",
                                odd.long_, XG_PACKET_MAX));
  if (capture.clamped())
    notes.push_back(fmt::format("the time of {} packets ran backwards and was held", capture.clamped()));
  return notes;
}

int run(const Arguments& arguments, Format format) {
  auto source = arguments.policy.empty()
                    ? tl::expected<control::PolicySource, control::Refusal>(control::pass_everything())
                    : control::read_policy(arguments.policy);
  if (!source) return fail(source.error().sentence, kUsage);
  auto policy = control::compile_policy_anywhere(std::move(*source), "(capture)");
  if (!policy) return fail(policy.error().sentence, kUsage);
  auto capture = host::Capture::open(arguments.capture);
  if (!capture) return fail(capture.error());
  control::ReplayOptions options;
  options.device = arguments.device;
  options.kernel = !arguments.no_kernel;
  auto replay = control::Replay::open(*policy, options);
  if (!replay) return fail(replay.error());

  Account account(arguments.verbose || format == Format::json, format);
  Oddities odd;
  while (const auto packet = (*capture)->next()) {
    odd.cut += packet->cut;
    odd.long_ += packet->frame.size() > XG_PACKET_MAX;
    if (auto fed = (*replay)->feed(packet->frame, packet->original_length, packet->time_ns); !fed)
      return fail(fed.error());
    account.take((*replay)->take());
  }
  if (auto finished = (*replay)->finish(); !finished) return fail(finished.error());
  account.take((*replay)->take());

  const auto notes = notes_of(**capture, **replay, odd);
  if (format == Format::json) {
    Json summary = account.summary();
    summary["event"] = "summary";
    summary["notes"] = notes;
    summary["complete"] = (*capture)->problem().empty();
    print(json_line(summary));
  } else {
    print(account.text());
    for (const auto& note : notes) print("note: " + note + "\n");
  }
  if (!(*capture)->problem().empty()) return fail((*capture)->problem());
  return kDone;
}

}  // namespace

void add_replay(CLI::App& app, Chosen& chosen) {
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
      "With -o json: one object a line, each packet's and at the end a summary "
      "({\"event\":\"summary\",...}).\n"
      "Exit status 1 if the capture is damaged, after what could be read.");
  command->add_option("capture", arguments->capture, "Capture file")->required()->type_name("FILE");
  command->add_option("-p,--policy", arguments->policy, "Policy file (JSON); without one, everything passes")
      ->type_name("FILE");
  command->add_option("--device", arguments->device, "Compute device (see \"xdpgpu devices\"); default auto")
      ->check(device_name())
      ->type_name("NAME");
  command->add_flag("--no-kernel", arguments->no_kernel, "Walk the rules in user space, also as root");
  command->add_flag("-v,--verbose", arguments->verbose, "A line for each packet (always so with -o json)");
  const auto format = add_output(*command);
  when_chosen(*command, chosen, [arguments, format] { return run(*arguments, *format); });
}

}  // namespace xdpgpu::cli
