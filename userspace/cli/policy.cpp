// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "userspace/cli/command.hpp"
#include "userspace/cli/policy_commands.hpp"
#include "userspace/compiler/compiled_policy.hpp"
#include "userspace/compiler/refusals.hpp"
#include "userspace/control/client.hpp"
#include "userspace/control/describe.hpp"
#include "userspace/control/first_policy.hpp"
#include "userspace/control/last_end.hpp"
#include "userspace/control/notes.hpp"
#include "userspace/control/program_reader.hpp"
#include "userspace/control/program_verifier.hpp"
#include "userspace/control/request/policy_apply.hpp"
#include "userspace/control/request/policy_confirm.hpp"
#include "userspace/control/request/policy_show.hpp"
#include "userspace/control/summary.hpp"
#include "userspace/host/exposure.hpp"
#include "userspace/kernel/kernel.hpp"
#include "userspace/policy/fragments.hpp"
#include "userspace/policy/kernel_programs.hpp"
#include "userspace/policy/notes.hpp"
#include "userspace/policy/table_stages.hpp"
#include "userspace/policy/values.hpp"

namespace xdpgpu::cli {
namespace {

// ---- init -------------------------------------------------------------------------------------------

struct FirstArguments {
  std::string file = kPolicyFile;
  std::vector<std::string> managers;
  u16 port = 22;
};

struct FirstReport {
  std::string file;
  std::vector<std::string> management;  // prefixes
  u16 management_port = 0;
  std::vector<std::string> uplinks;
  std::vector<u16> tcp_services, udp_services;
  std::vector<std::string> notes;
  static void fields(auto& self, auto& field) {
    field("file", self.file);
    field("management", self.management);
    field("management_port", self.management_port);
    field("uplinks", self.uplinks);
    field("tcp_services", self.tcp_services);
    field("udp_services", self.udp_services);
    field("notes", self.notes);
  }
};

// Whole, or not at all, and never in place of another one.
int write_new(const std::string& file, const std::string& text) {
  const auto failed = [&](const char* what) {
    const int error = errno;
    return fail(
        error == EEXIST
            ? fmt::format("{} is there already, and stays as it is; move it away, or name another file "
                          "behind \"policy init\"",
                          file)
            : fmt::format("cannot {} {}: {}; {}name another file behind \"policy init\"", what, file,
                          std::strerror(error), error == EACCES ? "run it as root, or " : ""));
  };
  const std::string folder = std::filesystem::path(kPolicyFile).parent_path();
  if (file == kPolicyFile && mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST)
    return failed("make the folder of");
  const kernel::Fd fd(open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!fd) return failed("make");
  if (write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) && fsync(fd.get()) == 0)
    return kDone;
  const int status = failed("write");
  unlink(file.c_str());
  return status;
}

// Where cmake --install puts it, from where it puts this program; empty: it is not there.
std::string installed_schema() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  auto schema = program.parent_path().parent_path() / "share/xdpgpu/policy.schema.json";
  return !error && std::filesystem::exists(schema, error) ? schema.string() : std::string();
}

// RFC 1918, 6598 and 4193.
bool is_private(const std::string& prefix) {
  for (const char* start : {"10.", "192.168.", "fd", "fc"})
    if (prefix.starts_with(start)) return true;
  const int second = std::atoi(prefix.c_str() + std::min(prefix.size(), std::size_t{4}));
  return (prefix.starts_with("172.") && second >= 16 && second < 32) ||
         (prefix.starts_with("100.") && second >= 64 && second < 128);
}

int init(const FirstArguments& arguments, Format format) {
  control::FirstPolicy facts;
  facts.exposure = host::look_at_exposure();
  facts.management_port = arguments.port;
  facts.managers_named = !arguments.managers.empty();
  std::erase(facts.exposure.tcp_ports, arguments.port);
  const auto logged_in = host::logged_in_from();
  std::vector<std::string> notes;
  if (!arguments.managers.empty()) {
    for (const auto& manager : arguments.managers)
      if (const auto prefix = policy::read_prefix(manager); !prefix)
        return fail(fmt::format("--management {}: {}", manager, prefix.error()), kUsage);
    facts.managers = arguments.managers;
  } else {
    facts.managers = facts.exposure.networks;
    facts.managers.insert(facts.managers.end(), logged_in.begin(), logged_in.end());
    for (const auto& network : facts.exposure.networks)
      if (!is_private(network))
        notes.push_back(fmt::format(
            "{} may be a network of strangers: narrow \"management\" to who manages this host", network));
  }
  if (facts.managers.empty())
    return fail(
        "there is no default route whose network could manage this host, and nobody is logged in: say who "
        "does, as in \"xdpgpu policy init --management 10.0.0.0/8\"");
  char name[256] = {};
  facts.host = gethostname(name, sizeof(name) - 1) == 0 ? name : "this host";
  if (facts.exposure.forwards)
    notes.emplace_back(
        "this host forwards packets: what it would forward from an attached interface is dropped, but for "
        "answers; add rules for it");
  if (!facts.exposure.udp_unsure.empty())
    notes.push_back(fmt::format(
        "UDP port{} {} may be a service's, or a client's that has it by chance, and gets answers alone; add "
        "what is a service to the rules",
        facts.exposure.udp_unsure.size() == 1 ? "" : "s", fmt::join(facts.exposure.udp_unsure, ", ")));
  facts.schema = installed_schema();
  const std::string text = control::first_policy(facts);
  // What it says of itself is to be true.
  if (auto compiled = compiler::compile_policy_anywhere({arguments.file, text, {}}, "(ingress)"); !compiled)
    return refuse(compiled.error());
  if (arguments.file == "-") {
    print(text);
    for (const auto& note : notes) say(note);
    return kDone;
  }
  if (const int status = write_new(arguments.file, text); status != kDone) return status;
  if (format == Format::json) {
    print_record(FirstReport{arguments.file, facts.managers, facts.management_port, facts.exposure.uplinks,
                             facts.exposure.tcp_ports, facts.exposure.udp_ports, notes});
    return kDone;
  }
  const auto ports = [](const std::vector<u16>& list) {
    return list.empty() ? std::string("none") : fmt::format("{}", fmt::join(list, ", "));
  };
  print(fmt::format(
      "{} is written. It passes TCP port {} from {}; TCP services {}; UDP services {}; ping; and the "
      "answers to what this host asks. The rest is dropped.\n",
      arguments.file, facts.management_port, fmt::join(facts.managers, ", "), ports(facts.exposure.tcp_ports),
      ports(facts.exposure.udp_ports)));
  for (const auto& note : notes) print(note + "\n");
  const std::string named = arguments.file == kPolicyFile ? "" : " --policy " + arguments.file;
  const std::string interface =
      kernel::names::operand(facts.exposure.uplinks.empty() ? "IF" : facts.exposure.uplinks.front());
  print(fmt::format(
      "Read it, try it without dropping anything (sudo xdpgpu attach {}{} --audit), and attach.\n", interface,
      named));
  return kDone;
}

void add_init(CLI::App& policy, Chosen& chosen) {
  auto arguments = std::make_shared<FirstArguments>();
  auto* command = policy.add_subcommand("init", "Write a first policy that is safe for this host");
  describe(
      *command,
      "Looks at this host and writes a policy that lets in management from the networks on the default\n"
      "route's side, what the host serves now, ping, and the answers to what it asks itself; the rest is\n"
      "dropped. Each part says what it is for. A file that is there is never written over, and nothing is\n"
      "attached.");
  command
      ->add_option("file", arguments->file,
                   fmt::format("Where to; - for standard output; default: {}", kPolicyFile))
      ->type_name(kFile);
  command
      ->add_option("--management", arguments->managers,
                   "Who manages this host, a prefix or address, instead of those networks and of who is "
                   "logged in now; may be given several times")
      ->allow_extra_args(false)  // what follows is the file
      ->type_name("NETWORK");
  command->add_option("--management-port", arguments->port, "By which TCP port; default 22")
      ->check(CLI::Range(1, 65535).description(""))
      ->type_name("PORT");
  add_netns(*command, chosen);
  const auto format = add_output(*command);
  when_chosen(*command, chosen, [arguments, format] { return init(*arguments, *format); });
}

// ---- check ------------------------------------------------------------------------------------------

struct CheckReport {
  bool ok = true;
  std::string file, hash;
  std::size_t rules = 0;
  u32 compiled_rules = 0;
  std::size_t lists = 0, prefixes = 0, names = 0, pipelines = 0;
  std::vector<std::string> in_kernel;  // pipelines, whose programs XDP itself runs
  u64 table_bytes = 0;
  std::vector<std::string> notes;
  static void fields(auto& self, auto& field) {
    field("ok", self.ok);
    field("file", self.file);
    field("hash", self.hash);
    field("rules", self.rules);
    field("compiled_rules", self.compiled_rules);
    field("lists", self.lists);
    field("prefixes", self.prefixes);
    field("names", self.names);
    field("pipelines", self.pipelines);
    field("in_kernel", self.in_kernel);
    field("table_bytes", self.table_bytes);
    field("notes", self.notes);
  }
};

std::string text_of(const CheckReport& report) {
  std::string text = fmt::format(
      "{} is right: {}, {} with {} prefix{}{}, {}; {} KiB of tables, hash {}\n", report.file,
      control::counted(report.rules, "rule"), control::counted(report.lists, "list"), report.prefixes,
      report.prefixes == 1 ? "" : "es",
      report.names == 0 ? "" : " and " + control::counted(report.names, "name"),
      control::counted(report.pipelines, "pipeline"), (report.table_bytes + 1023) / 1024, report.hash);
  if (!report.in_kernel.empty())
    text += fmt::format("in the kernel: pipeline{} {}\n", report.in_kernel.size() == 1 ? "" : "s",
                        fmt::join(report.in_kernel, ", "));
  for (const auto& note : report.notes) text += "note: " + note + "\n";
  return text;
}

// Where one of the interfaces is attached and whoever asks may know: what its process would not take.
std::optional<std::string> ignored_there(const policy::Policy& policy,
                                         const std::vector<std::string>& ports) {
  for (const auto& name : ports) {
    if (control::find_process(name) != control::Presence::running) continue;
    if (const auto shown = control::ask<control::PolicyShow>(name))
      return control::ignored_by_apply(shown->at_attach, policy);
  }
  return std::nullopt;
}

std::vector<std::string> notes_of(const policy::Policy& policy, const std::vector<std::string>& ports) {
  auto notes = control::notes_here(policy, ports);
  if (auto missing = control::missing_interfaces_note(ports)) notes.push_back(std::move(*missing));
  if (auto ignored = ignored_there(policy, ports)) notes.push_back(std::move(*ignored));
  return notes;
}

int check(const std::string& file, const std::vector<std::string>& ports, Format format) {
  for (auto port = ports.begin(); port != ports.end(); ++port)
    if (std::find(ports.begin(), port, *port) != port)
      return fail(fmt::format("--interfaces: {} is named twice", *port), kUsage);
  auto source = compiler::read_policy(file, control::object_reader());
  if (!source) return refuse(source.error());
  auto compiled = ports.empty() ? compiler::compile_policy_anywhere(std::move(*source), "(ingress)")
                                : compiler::compile_policy(std::move(*source), ports);
  if (!compiled) return refuse(compiled.error());
  auto verified = control::verify_here(*compiled);
  if (!verified.refused.empty())
    return refuse(compiler::refusal(compiler::placed(std::move(verified.refused), compiled->source)));
  const auto& tables = compiled->tables;
  CheckReport report{
      .file = compiled->source.file,
      .hash = fmt::format("{:016x}", compiled->policy.hash),
      .rules = compiled->policy.rules.size(),
      .compiled_rules = tables.header.rule_count,
      .lists = compiled->policy.lists.size(),
      .prefixes = 0,
      .names = 0,
      .pipelines = compiled->policy.pipelines.size(),
      .in_kernel = policy::names_in_kernel(compiled->policy),
      .table_bytes = tables.lines.size() * sizeof(xg_line) + tables.rows.size() * sizeof(xg_class_row),
      .notes = notes_of(compiled->policy, ports)};
  for (const auto& [name, list] : compiled->policy.lists) {
    report.prefixes += list.prefixes.size();
    report.names += list.names.count;
  }
  report.notes.insert(report.notes.end(), verified.notes.begin(), verified.notes.end());
  if (format == Format::json)
    print_record(report);
  else
    print(text_of(report));
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
      "file, line, column and JSON pointer. Exit status 2 if there is one. What is legal and likely not\n"
      "meant is a note, and fails nothing. Pipelines are named that run in the kernel. A policy has 16 MiB "
      "of text at most, 4,096 rules and 4,000,000\n"
      "prefixes, each file 256 MiB, all together 1 GiB.");
  command->add_option("file", arguments->file, kPolicyFileHelp)->required()->type_name(kFile);
  add_interfaces(*command, "--interfaces", arguments->ports,
                 "The interfaces that it is meant for; then every redirect must name one of them, and it is "
                 "noted which of them are not here, and what \"policy apply\" would not change on them");
  add_netns(*command, chosen);
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
  control::PolicyApply::Arguments arguments{.text = {}, .file = {}, .audit = audit};
  if (!confirm.empty()) {
    const auto seconds = parse_duration(confirm);
    if (!seconds || *seconds == 0 || *seconds > control::PolicyApply::kMostConfirmSeconds)
      return fail(fmt::format("--confirm {} is not a time from 1s to {}h, such as 60s or 5m", confirm,
                              control::PolicyApply::kMostConfirmSeconds / 3600),
                  kUsage);
    arguments.confirm_s = *seconds;
  }
  auto source = compiler::read_policy(file, control::object_reader());
  if (!source) return refuse(source.error());
  arguments.file = source->file;
  arguments.text = std::move(source->text);
  int status = kFailed;
  const auto answer = ask<control::PolicyApply>(ifname, status, arguments, std::move(source->files));
  if (!answer) return status;
  if (format == Format::json) {
    print_record(*answer);
    return kDone;
  }
  print(fmt::format("{} is in force on {}: generation {}, hash {}\n", arguments.file, ifname,
                    answer->generation, answer->hash));
  if (answer->audit)
    print(
        "it drops nothing: what it would drop is counted (\"xdpgpu status\") and passes, until a policy is "
        "applied without --audit\n");
  for (const auto& note : answer->notes) print(fmt::format("note: {}\n", note));
  if (answer->confirm_within_s)
    print(fmt::format("it is taken back unless \"xdpgpu policy confirm {}\" comes within {} s\n",
                      kernel::names::operand(ifname), *answer->confirm_within_s));
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
  add_attached_interface(*command, arguments->ifname)->required();
  command->add_option("file", arguments->file, kPolicyFileHelp)->required()->type_name(kFile);
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
  const auto answer = ask<control::PolicyConfirm>(ifname, status);
  if (!answer) return status;
  if (format == Format::json)
    print_record(*answer);
  else
    print(fmt::format("generation {} stays in force on {}\n", answer->generation, ifname));
  return kDone;
}

int show(const std::string& ifname, Format format) {
  int status = kFailed;
  const auto answer = ask<control::PolicyShow>(ifname, status);
  if (!answer) return status;
  if (format == Format::json) {
    print_record(*answer);
    return kDone;
  }
  print(answer->text);
  // Beside the text, which may go to a file.
  if (std::string trial = control::trial_text(answer->trial, ifname); !trial.empty()) {
    trial.pop_back();
    say(trial);
  }
  if (answer->last_end) say("the attach before this one " + control::last_end_text(answer->last_end));
  return kDone;
}

void add_simple(CLI::App& policy, Chosen& chosen, const char* name, const char* about,
                int (*run)(const std::string&, Format)) {
  auto ifname = std::make_shared<std::string>();
  auto* command = policy.add_subcommand(name, about);
  add_attached_interface(*command, *ifname)->required();
  add_netns(*command, chosen);
  const auto format = add_output(*command);
  when_chosen(*command, chosen, [ifname, format, run] { return run(*ifname, *format); });
}

void add(CLI::App& app, Chosen& chosen) {
  auto* policy = app.add_subcommand("policy", "Write, check, test, compare, apply, confirm or show a policy");
  policy->require_subcommand(1);
  add_init(*policy, chosen);
  add_check(*policy, chosen);
  add_policy_test(*policy, chosen);
  add_policy_diff(*policy, chosen);
  add_apply(*policy, chosen);
  add_simple(*policy, chosen, "confirm", "Keep the policy that was applied with --confirm", confirm);
  add_simple(
      *policy, chosen, "show",
      "Print the policy in force, as it was written (with -o json also every setting as it was understood, "
      "and \"io\" and \"compute\" as they were taken at attach)",
      show);
}

Registered registered(40, add);

}  // namespace

}  // namespace xdpgpu::cli
