// SPDX-License-Identifier: MIT
#include "userspace/host/doctor.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "userspace/cli/command.hpp"
#include "userspace/control/client.hpp"

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

Json to_json(const std::vector<host::Finding>& findings) {
  Json list = Json::array();
  for (const auto& finding : findings)
    list.push_back({{"check", finding.check},
                    {"severity", severity_name(finding.severity)},
                    {"cause", finding.cause},
                    {"cure", finding.cure}});
  return list;
}

void print_findings(const std::string& title, const std::vector<host::Finding>& findings) {
  print(title + ":\n");
  for (const auto& finding : findings) {
    print(fmt::format("  {:<8} {:<16} {}\n", severity_name(finding.severity), finding.check, finding.cause));
    if (!finding.cure.empty()) print(fmt::format("  {:<8} {:<16} -> {}\n", "", "", finding.cure));
  }
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
  Json interfaces = Json::object();
  if (format == Format::text) {
    print_findings("host", about_host);
    if (const auto& netns = kernel::names::own(); !netns.initial)
      print(fmt::format("in network namespace {}: pins in {}, control sockets in {}\n", netns.inode,
                        kernel::names::pin_root(), kernel::names::run_root()));
  }
  const bool all = names.empty();
  if (all) names = host::list_interfaces();
  std::vector<std::string> ready, attached;
  for (const auto& name : names) {
    const auto interface = host::read_interface(name);
    const auto findings = interface ? host::examine_interface(facts, *interface, options)
                                    : std::vector{unreadable(interface.error(), options.netns)};
    if (interface && control::find_process(name) == control::Presence::running)
      attached.push_back(name);
    else if (!host::first_blocker(findings))
      ready.push_back(name);
    else
      // Asked about all, an interface that cannot be attached is news, not a failure.
      blocked = blocked || !all;
    interfaces[name] = to_json(findings);
    if (format == Format::text) print_findings(name, findings);
  }
  blocked = blocked || (ready.empty() && attached.empty());
  if (blocked) ready.clear();
  if (format == Format::json)
    print_json({{"ready", !blocked},
                {"attachable", ready},
                {"attached", attached},
                {"netns", netns_json()},
                {"host", to_json(about_host)},
                {"interfaces", interfaces}});
  else if (blocked)
    print("attach would be refused: see what blocks above\n");
  else if (!ready.empty())
    print(fmt::format("ready to attach to {}\n", fmt::join(ready, ", ")));
  if (format == Format::text && !attached.empty())
    print(fmt::format("{} {} attached already: see \"xdpgpu status\"\n", fmt::join(attached, ", "),
                      attached.size() == 1 ? "is" : "are"));
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
