// SPDX-License-Identifier: MIT
#include "userspace/host/doctor.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "userspace/cli/command.hpp"
#include "userspace/control/client.hpp"
#include "userspace/control/report.hpp"

namespace xdpgpu::cli {
namespace {

const char* severity_name(host::Severity severity) {
  switch (severity) {
    case host::Severity::ok:
      return "ok";
    case host::Severity::note:
      return "note";
    case host::Severity::warning:
      return "warning";
    case host::Severity::blocker:
      return "blocks";
  }
  return "unknown";
}

struct FindingReport {
  std::string check, severity, cause, cure;
  static void fields(auto& self, auto& field) {
    field("check", self.check);
    field("severity", self.severity);
    field("cause", self.cause);
    field("cure", self.cure);
  }
};
using FindingReports = std::vector<FindingReport>;
struct DoctorReport {
  bool ready = false;
  std::vector<std::string> attachable, attached;  // interfaces
  control::NetnsReport netns;
  FindingReports host;
  std::map<std::string, FindingReports> interfaces;
  static void fields(auto& self, auto& field) {
    field("ready", self.ready);
    field("attachable", self.attachable);
    field("attached", self.attached);
    field("netns", self.netns);
    field("host", self.host);
    field("interfaces", self.interfaces);
  }
};

FindingReports reports(const std::vector<host::Finding>& findings) {
  FindingReports list;
  for (const auto& finding : findings)
    list.push_back({finding.check, severity_name(finding.severity), finding.cause, finding.cure});
  return list;
}

std::string text_of(const std::string& title, const FindingReports& findings) {
  std::string text = title + ":\n";
  for (const auto& finding : findings) {
    text += fmt::format("  {:<8} {:<16} {}\n", finding.severity, finding.check, finding.cause);
    if (!finding.cure.empty()) text += fmt::format("  {:<8} {:<16} -> {}\n", "", "", finding.cure);
  }
  return text;
}

// names: of the interfaces, in their order.
std::string text_of(const DoctorReport& report, const std::vector<std::string>& names) {
  std::string text = text_of("host", report.host);
  if (!report.netns.initial)
    text += fmt::format("in network namespace {}: pins in {}, control sockets in {}\n", report.netns.inode,
                        kernel::names::pin_root(), kernel::names::run_root());
  for (const auto& name : names) text += text_of(name, report.interfaces.at(name));
  if (!report.ready)
    text += "attach would be refused: see what blocks above\n";
  else if (!report.attachable.empty())
    text += fmt::format("ready to attach to {}\n", fmt::join(report.attachable, ", "));
  if (!report.attached.empty())
    text += fmt::format("{} {} attached already: see \"xdpgpu status\"\n", fmt::join(report.attached, ", "),
                        report.attached.size() == 1 ? "is" : "are");
  return text;
}

// The error is "cause; cure".
host::Finding unreadable(const std::string& why, const std::string& netns) {
  constexpr std::string_view kCommand = "ip link";
  const auto end = why.find("; ");
  std::string cure = end == std::string::npos ? "see \"ip link\"" : why.substr(end + 2);
  if (const auto at = cure.find(kCommand); at != std::string::npos)
    cure.replace(at, kCommand.size(), host::command_in(netns, std::string(kCommand)));
  return {host::Severity::blocker, "interface", why.substr(0, end), std::move(cure)};
}

int run(std::vector<std::string> names, Format format) {
  const auto facts = host::read_host(true);
  host::DoctorOptions options;
  options.foreign_blocks = true;
  options.netns = kernel::names::remembered_netns();
  const auto about_host = host::examine_host(facts, options);
  bool blocked = host::first_blocker(about_host).has_value();
  DoctorReport report;
  report.netns = control::own_netns();
  report.host = reports(about_host);
  const bool all = names.empty();
  if (all) names = host::list_interfaces();
  for (const auto& name : names) {
    const auto interface = host::read_interface(name);
    const auto findings = interface ? host::examine_interface(facts, *interface, options)
                                    : std::vector{unreadable(interface.error(), options.netns)};
    if (interface && control::find_process(name) == control::Presence::running)
      report.attached.push_back(name);
    else if (!host::first_blocker(findings))
      report.attachable.push_back(name);
    else
      // Asked about all, an interface that cannot be attached is news, not a failure.
      blocked = blocked || !all;
    report.interfaces[name] = reports(findings);
  }
  blocked = blocked || (report.attachable.empty() && report.attached.empty());
  report.ready = !blocked;
  if (blocked) report.attachable.clear();
  if (format == Format::json)
    print_record(report);
  else
    print(text_of(report, names));
  return blocked ? kFailed : kDone;
}

void add(CLI::App& app, Chosen& chosen) {
  auto names = std::make_shared<std::vector<std::string>>();
  auto* command =
      app.add_subcommand("doctor", "Check whether this host and its interfaces are ready to attach");
  describe(*command,
           "Checks what attach needs: privileges, kernel, bpffs, locked memory, driver modes, MTU, queues, "
           "offloads,\n"
           "other XDP programs; and names cause and cure of each problem. Changes nothing. Exit status 1 if\n"
           "something blocks attach.");
  add_interfaces(*command, "interface", *names, "Interfaces to examine; default: all");
  add_netns(*command, chosen);
  const auto format = add_output(*command);
  when_chosen(*command, chosen, [names, format] { return run(*names, *format); });
}

Registered registered(80, add);

}  // namespace

}  // namespace xdpgpu::cli
