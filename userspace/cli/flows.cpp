// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>

#include "maps/types.h"
#include "userspace/cli/command.hpp"
#include "userspace/control/describe.hpp"
#include "userspace/control/request/flows_flush.hpp"
#include "userspace/control/request/flows_list.hpp"
#include "userspace/kernel/names.hpp"

namespace xdpgpu::cli {
namespace {

using control::FlowReport;
using control::FlowsReport;

std::string line_of(const FlowReport& flow) {
  const std::string action = flow.action + (flow.target ? " to " + *flow.target : "");
  std::string backend = flow.backend ? fmt::format(", backend {}", *flow.backend) : "";
  if (flow.encapsulation)
    backend += fmt::format(" by {} to {}", flow.encapsulation->type, flow.encapsulation->to);
  std::string age;
  if (flow.idle_s) age = fmt::format(", last {:.1f} s ago", *flow.idle_s);
  if (flow.expires_in_s) age += fmt::format(", ends in {:.0f} s", *flow.expires_in_s);
  return fmt::format("{:>8}  {:<16} {}  ({}{}; {}{})\n", flow.index, action, flow.flow, flow.decided_by,
                     backend, control::counted(flow.packets, "packet"), age);
}

// One answer holds a part of them; asks until there are `limit` or no more.
std::optional<FlowsReport> ask_for_flows(const std::string& ifname, u64 limit, int& status) {
  FlowsReport all;
  do {
    auto part = ask<control::FlowsList>(
        ifname, status, {.interface = ifname, .limit = limit - all.flows.size(), .from = all.next});
    if (!part) return std::nullopt;
    std::move(part->flows.begin(), part->flows.end(), std::back_inserter(all.flows));
    all.current = part->current;
    all.left_out = part->left_out;
    all.next = part->next;
  } while (all.next && all.flows.size() < limit);
  all.listed = all.flows.size();
  return all;
}

int list(const std::string& ifname, u64 limit, Format format) {
  int status = kFailed;
  const auto all = ask_for_flows(ifname, limit, status);
  if (!all) return status;
  if (format == Format::json) {
    print_record(*all);
    return kDone;
  }
  print(fmt::format("{} that {} applies in the kernel{}\n", control::counted(all->current, "flow verdict"),
                    ifname, all->left_out > 0 ? fmt::format(", the first {}", all->listed) : ""));
  if (all->flows.empty()) return kDone;
  print("   index  action           flow  (decided by; handled in the kernel since)\n");
  for (const auto& flow : all->flows) print(line_of(flow));
  if (all->left_out > 0)
    print(fmt::format("{} more are left out; list more with \"xdpgpu flows list {} --limit N\"\n",
                      all->left_out, kernel::names::operand(ifname)));
  print(fmt::format(
      "\nThe first, as the kernel holds it:\n  bpftool map lookup pinned {}/flow_verdicts key {}\n",
      kernel::names::pin_folder(ifname), all->flows.front().bpftool_key));
  return kDone;
}

int flush(const std::string& ifname, Format format) {
  int status = kFailed;
  const auto answer = ask<control::FlowsFlush>(ifname, status);
  if (!answer) return status;
  if (format == Format::json)
    print_record(*answer);
  else
    print(fmt::format("all cached verdicts are void: the same policy is in force as generation {}\n",
                      answer->generation));
  return kDone;
}

void add(CLI::App& app, Chosen& chosen) {
  auto* flows = app.add_subcommand("flows", "List or void the verdicts that the kernel remembers for flows");
  flows->require_subcommand(1);

  struct Arguments {
    std::string ifname;
    u64 limit = 1000;
  };
  auto arguments = std::make_shared<Arguments>();
  auto* list_command = flows->add_subcommand("list", "Print cached verdicts");
  describe(
      *list_command,
      "Prints the flows whose packets the kernel now handles by itself: what it does, who decided it, which\n"
      "backend a load balancer chose, how many packets it has handled so, and the entry's index for\n"
      "bpftool.");
  add_attached_interface(*list_command, arguments->ifname)->required();
  list_command
      ->add_option("--limit", arguments->limit,
                   "Print at most so many, and say how many are left out; default 1000")
      ->check(CLI::Range(std::int64_t{1}, std::numeric_limits<std::int64_t>::max()).description(""))
      ->type_name("N");
  add_netns(*list_command, chosen);
  const auto list_format = add_output(*list_command);
  when_chosen(*list_command, chosen,
              [arguments, list_format] { return list(arguments->ifname, arguments->limit, *list_format); });

  auto ifname = std::make_shared<std::string>();
  auto* flush_command = flows->add_subcommand("flush", "Void all cached verdicts at once");
  describe(
      *flush_command,
      "Puts the policy in force as a new generation: every flow's next packet goes through the pipelines "
      "again.");
  add_attached_interface(*flush_command, *ifname)->required();
  add_netns(*flush_command, chosen);
  const auto flush_format = add_output(*flush_command);
  when_chosen(*flush_command, chosen, [ifname, flush_format] { return flush(*ifname, *flush_format); });
}

Registered registered(50, add);

}  // namespace

}  // namespace xdpgpu::cli
