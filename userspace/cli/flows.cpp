// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <optional>

#include "userspace/kernel/names.hpp"

#include "maps/types.h"
#include "userspace/cli/command.hpp"
#include "userspace/control/describe.hpp"

namespace xdpgpu::cli {
namespace {

std::string line_of(const Json& flow) {
  std::string action = flow.at("action").get<std::string>();
  if (flow.contains("target")) action += " to " + flow.at("target").get<std::string>();
  std::string backend =
      flow.contains("backend") ? fmt::format(", backend {}", flow.at("backend").get<std::string>()) : "";
  if (const auto outer = flow.find("encapsulation"); outer != flow.end())
    backend +=
        fmt::format(" by {} to {}", outer->at("type").get<std::string>(), outer->at("to").get<std::string>());
  std::string age;
  if (flow.contains("idle_s")) age = fmt::format(", last {:.1f} s ago", flow.at("idle_s").get<double>());
  if (flow.contains("expires_in_s"))
    age += fmt::format(", ends in {:.0f} s", flow.at("expires_in_s").get<double>());
  return fmt::format("{:>8}  {:<16} {}  ({}{}; {}{})\n", flow.at("index").get<u32>(), action,
                     flow.at("flow").get<std::string>(), flow.at("decided_by").get<std::string>(), backend,
                     control::counted(flow.at("packets").get<u64>(), "packet"), age);
}

// One answer holds a part of them; asks until there are `limit` or no more.
std::optional<Json> ask_for_flows(const std::string& ifname, u64 limit, int& status) {
  std::optional<Json> all;
  Json arguments = {{"interface", ifname}};
  while (true) {
    arguments["limit"] = all ? limit - all->at("flows").size() : limit;
    auto part = ask(ifname, std::string(control::request::kFlowsList), arguments, status);
    if (!part) return std::nullopt;
    if (!all) {
      all = std::move(*part);
    } else {
      for (auto& flow : part->at("flows")) all->at("flows").push_back(std::move(flow));
      for (const char* name : {"current", "left_out"}) all->at(name) = part->at(name);
      all->erase("next");
      if (const auto next = part->find("next"); next != part->end()) (*all)["next"] = *next;
    }
    const auto next = all->find("next");
    if (next == all->end() || all->at("flows").size() >= limit) break;
    arguments["from"] = *next;
  }
  all->at("listed") = all->at("flows").size();
  return all;
}

int list(const std::string& ifname, u64 limit, Format format) {
  int status = kFailed;
  const auto result = ask_for_flows(ifname, limit, status);
  if (!result) return status;
  if (format == Format::json) {
    print_json(*result);
    return kDone;
  }
  const auto& flows = result->at("flows");
  const u64 left_out = result->at("left_out").get<u64>();
  print(fmt::format("{} that {} applies in the kernel{}\n",
                    control::counted(result->at("current").get<u64>(), "flow verdict"), ifname,
                    left_out > 0 ? fmt::format(", the first {}", flows.size()) : ""));
  if (flows.empty()) return kDone;
  print("   index  action           flow  (decided by; handled in the kernel since)\n");
  for (const auto& flow : flows) print(line_of(flow));
  if (left_out > 0)
    print(fmt::format("{} more are left out; list more with \"xdpgpu flows list {} --limit N\"\n", left_out,
                      kernel::names::operand(ifname)));
  print(fmt::format(
      "\nThe first, as the kernel holds it:\n  bpftool map lookup pinned {}/flow_verdicts key {}\n",
      kernel::names::pin_folder(ifname), flows.front().at("bpftool_key").get<std::string>()));
  return kDone;
}

int flush(const std::string& ifname, Format format) {
  int status = kFailed;
  const auto result = ask(ifname, std::string(control::request::kFlowsFlush), {}, status);
  if (!result) return status;
  if (format == Format::json)
    print_json(*result);
  else
    print(fmt::format("all cached verdicts are void: the same policy is in force as generation {}\n",
                      result->at("generation").get<u32>()));
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
  add_interface(*list_command, "interface", arguments->ifname, "An attached interface")->required();
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
  add_interface(*flush_command, "interface", *ifname, "An attached interface")->required();
  add_netns(*flush_command, chosen);
  const auto flush_format = add_output(*flush_command);
  when_chosen(*flush_command, chosen, [ifname, flush_format] { return flush(*ifname, *flush_format); });
}

Registered registered(50, add);

}  // namespace

}  // namespace xdpgpu::cli
