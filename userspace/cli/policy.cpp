// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include "userspace/cli/command.hpp"
#include "userspace/control/compiled_policy.hpp"
#include "userspace/policy/fragments.hpp"
#include "userspace/policy/table_stages.hpp"

namespace xdpgpu::cli {
namespace {

// ---- check ------------------------------------------------------------------------------------------

int check(const std::string& file, const std::vector<std::string>& ports, Format format) {
  auto source = control::read_policy(file);
  if (!source) return refuse(source.error().diagnostics, format);
  auto compiled = ports.empty() ? control::compile_policy_anywhere(std::move(*source), "(ingress)")
                                : control::compile_policy(std::move(*source), ports);
  if (!compiled) return refuse(compiled.error().diagnostics, format);
  const auto& tables = compiled->tables;
  const u64 bytes = tables.lines.size() * sizeof(xg_line) + tables.rows.size() * sizeof(xg_class_row);
  std::size_t prefixes = 0;
  for (const auto& [name, list] : compiled->policy.lists) prefixes += list.prefixes.size();
  auto notes = policy::conntrack_notes(compiled->policy);
  for (auto& note : policy::fragment_notes(compiled->policy)) notes.push_back(std::move(note));
  if (format == Format::json) {
    print_json({{"ok", true},
                {"file", file},
                {"hash", fmt::format("{:016x}", compiled->policy.hash)},
                {"rules", compiled->policy.rules.size()},
                {"compiled_rules", tables.header.rule_count},
                {"lists", compiled->policy.lists.size()},
                {"prefixes", prefixes},
                {"pipelines", compiled->policy.pipelines.size()},
                {"table_bytes", bytes},
                {"notes", notes}});
  } else {
    print(
        fmt::format("{} is right: {} rules, {} lists with {} prefixes, {} pipelines; {} KiB of tables, hash "
                    "{:016x}\n",
                    file, compiled->policy.rules.size(), compiled->policy.lists.size(), prefixes,
                    compiled->policy.pipelines.size(), (bytes + 1023) / 1024, compiled->policy.hash));
    for (const auto& note : notes) print(note + "\n");
  }
  return kDone;
}

void add_check(CLI::App& policy, Chosen& chosen) {
  struct Arguments {
    std::string file;
    std::vector<std::string> ports;
  };
  auto arguments = std::make_shared<Arguments>();
  auto* command = policy.add_subcommand("check", "Check a policy; needs no root and changes nothing");
  describe(
      *command,
      "Reads and compiles a policy and everything that it names, and prints every problem with its place:\n"
      "file, line, column and JSON pointer. Exit status 2 if there is one. A policy has 16 MiB of text at "
      "most,\n"
      "4,096 rules and 4,000,000 prefixes, each file 256 MiB, all together 1 GiB.");
  command->add_option("file", arguments->file, "Policy file (JSON)")->required()->type_name("FILE");
  add_interfaces(*command, "--interfaces", arguments->ports,
                 "The interfaces that it is meant for; then every redirect must name one of them");
  const auto format = add_output(*command);
  when_chosen(*command, chosen,
              [arguments, format] { return check(arguments->file, arguments->ports, *format); });
}

// ---- apply ------------------------------------------------------------------------------------------

struct Application {
  std::string ifname, file, confirm;
  bool audit = false;
};

int apply(const Application& application, Format format) {
  const auto& [ifname, file, confirm, audit] = application;
  Json arguments = {{"audit", audit}};
  if (!confirm.empty()) {
    const auto seconds = parse_duration(confirm);
    if (!seconds || *seconds == 0 || *seconds > control::kMaxConfirmSeconds)
      return fail(fmt::format("--confirm {} is not a time from 1s to {}h, such as 60s or 5m", confirm,
                              control::kMaxConfirmSeconds / 3600),
                  kUsage);
    arguments["confirm_s"] = *seconds;
  }
  auto source = control::read_policy(file);
  if (!source) return refuse(source.error().diagnostics, format);
  arguments["file"] = source->file;
  arguments["text"] = std::move(source->text);
  int status = kFailed;
  const auto result = ask(ifname, std::string(control::request::kPolicyApply), std::move(arguments), status,
                          format, std::move(source->files));
  if (!result) return status;
  if (format == Format::json) {
    print_json(*result);
    return kDone;
  }
  print(fmt::format("{} is in force on {}: generation {}, hash {}\n", file, ifname,
                    result->at("generation").get<u32>(), result->at("hash").get<std::string>()));
  if (audit)
    print(
        "it drops nothing: what it would drop is counted (\"xdpgpu status\") and passes, until a policy is "
        "applied without --audit\n");
  if (result->contains("confirm_within_s"))
    print(fmt::format("it is taken back unless \"xdpgpu policy confirm {}\" comes within {} s\n",
                      kernel::names::operand(ifname), result->at("confirm_within_s").get<unsigned>()));
  return kDone;
}

void add_apply(CLI::App& policy, Chosen& chosen) {
  auto arguments = std::make_shared<Application>();
  auto* command = policy.add_subcommand("apply", "Put another policy in force while traffic flows");
  describe(
      *command,
      "Replaces the policy of an attached interface's process in one step: every packet is judged by the "
      "old\n"
      "policy or by the new one, and cached verdicts of the old one end. A policy that is refused changes\n"
      "nothing. The lists that the policy names are read here and sent along.");
  add_interface(*command, "interface", arguments->ifname, "An attached interface")->required();
  command->add_option("file", arguments->file, "Policy file (JSON)")->required()->type_name("FILE");
  command
      ->add_option("--confirm", arguments->confirm,
                   "Take it back by itself unless \"xdpgpu policy confirm IF\" comes within this time (60s, "
                   "5m; 24h at most)")
      ->type_name("TIME");
  command->add_flag("--audit", arguments->audit,
                    "Drop nothing: count what would be dropped, by reason, and let it pass");
  add_netns(*command, chosen);
  const auto format = add_output(*command);
  when_chosen(*command, chosen, [arguments, format] { return apply(*arguments, *format); });
}

// ---- confirm, show ----------------------------------------------------------------------------------

int confirm(const std::string& ifname, Format format) {
  int status = kFailed;
  const auto result = ask(ifname, std::string(control::request::kPolicyConfirm), {}, status);
  if (!result) return status;
  if (format == Format::json)
    print_json(*result);
  else
    print(fmt::format("generation {} stays in force on {}\n", result->at("generation").get<u32>(), ifname));
  return kDone;
}

int show(const std::string& ifname, Format format) {
  int status = kFailed;
  const auto result = ask(ifname, std::string(control::request::kPolicyShow), {}, status);
  if (!result) return status;
  if (format == Format::json)
    print_json(*result);
  else
    print(result->at("text").get<std::string>());
  return kDone;
}

void add_simple(CLI::App& policy, Chosen& chosen, const char* name, const char* about,
                int (*run)(const std::string&, Format)) {
  auto ifname = std::make_shared<std::string>();
  auto* command = policy.add_subcommand(name, about);
  add_interface(*command, "interface", *ifname, "An attached interface")->required();
  add_netns(*command, chosen);
  const auto format = add_output(*command);
  when_chosen(*command, chosen, [ifname, format, run] { return run(*ifname, *format); });
}

}  // namespace

void add_policy(CLI::App& app, Chosen& chosen) {
  auto* policy = app.add_subcommand("policy", "Check, apply, confirm or show a policy");
  policy->require_subcommand(1);
  add_check(*policy, chosen);
  add_apply(*policy, chosen);
  add_simple(*policy, chosen, "confirm", "Keep the policy that was applied with --confirm", confirm);
  add_simple(
      *policy, chosen, "show",
      "Print the policy in force, as it was written (with -o json also every setting as it was understood)",
      show);
}

}  // namespace xdpgpu::cli
