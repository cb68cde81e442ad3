// SPDX-License-Identifier: MIT
#include "userspace/report/top_looker.hpp"

#include <utility>
#include <vector>

#include "userspace/control/client.hpp"
#include "userspace/control/request/flows_count.hpp"
#include "userspace/control/request/flows_list.hpp"
#include "userspace/control/request/rules_top.hpp"
#include "userspace/control/statuses.hpp"
#include "userspace/kernel/names.hpp"

namespace xdpgpu::report {
namespace {

constexpr u64 kFileRules = 200;  // of an attach

Answers ask_one(const std::string& ifname) {
  Answers answers;
  auto status = control::ask_for_status(ifname);
  if (status)
    answers.attaches.push_back({ifname, kernel::names::own_scope(), std::move(*status)});
  else if (status.error().why == control::Unanswered::Why::dead)
    answers.attaches.push_back({ifname, kernel::names::own_scope(), std::nullopt});
  else
    answers.refused.push_back(std::move(status.error().sentence));
  return answers;
}

}  // namespace

double Looker::now_s() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

Look Looker::look(More more) {
  Look look{.answers = ifname_.empty() ? ask_all(only_here_) : ask_one(ifname_), .more = more};
  if (more == More::file_rules) look_at_file_rules(look);
  if (more == More::flows) {
    look_at_flows(look.answers);
    look.flows = watch_.seen();
  }
  return look;
}

void Looker::look_at_file_rules(Look& look) {
  for (const Attach& attach : look.answers.attaches) {
    if (!attach.status || !attach.status->service) continue;
    auto rules = control::ask<control::RulesTop>(attach.name, {.limit = kFileRules}, {}, attach.netns);
    if (rules && rules->rules != 0)
      look.file_rules.emplace(std::pair(attach.netns, attach.name), std::move(*rules));
  }
}

void Looker::look_at_flows(const Answers& answers) {
  std::vector<FlowPlace> places;
  for (const Attach& attach : answers.attaches)
    if (attach.status && attach.status->service)
      for (const auto& port : attach.status->ports)
        places.push_back({port.interface, attach.netns, attach.status->pid});
  watch_.set_places(std::move(places));
  const auto next = watch_.next();
  if (!next) return;
  const auto counts = control::ask<control::FlowsCount>(next->place.interface,
                                                        {.interface = next->place.interface,
                                                         .from = next->from,
                                                         .entries = next->entries,
                                                         .since_ns = next->since_ns},
                                                        {}, next->place.netns);
  if (counts)
    watch_.counted(*next, *counts, now_s());
  else
    watch_.failed(*next);
  for (const auto& [place, indices] : watch_.wanted())
    if (const auto flows = control::ask<control::FlowsList>(
            place.interface, {.interface = place.interface, .limit = indices.size(), .indices = indices}, {},
            place.netns))
      watch_.described(place, indices, *flows, now_s());
}

}  // namespace xdpgpu::report
