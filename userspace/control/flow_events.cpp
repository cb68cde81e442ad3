// SPDX-License-Identifier: MIT
#include "userspace/control/flow_events.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "maps/parse.h"
#include "userspace/control/describe.hpp"

namespace xdpgpu::control {
namespace {

constexpr std::size_t kShown = 8;

std::string flow_of(const gpu::FlowEvent& event) {
  const xg_flow_key& flow = event.flow;
  // Which type it is of is not known.
  if (flow.protocol == XG_IPPROTO_ICMP || flow.protocol == XG_IPPROTO_ICMPV6)
    return fmt::format("{} > {} {}", address_text(flow.src, flow.family), address_text(flow.dst, flow.family),
                       protocol_name(flow.protocol));
  return flow_text(flow);
}

}  // namespace

FlowEventReport event_report(const gpu::FlowEvent& event) {
  return {.event = fmt::format("{}.{}", event.stage_name, event.what),
          .pipeline = event.pipeline,
          .stage = event.stage + 1,
          .flow = flow_of(event),
          .packets = event.packets,
          .at_ns = event.at_ns};
}

std::string event_sentence(const gpu::FlowEvent& event) {
  return fmt::format("pipeline \"{}\", stage {} ({}): {} {} ({} so far)", event.pipeline, event.stage + 1,
                     event.stage_name, event.what, flow_of(event), counted(event.packets, "packet"));
}

void FlowEvents::add(const std::vector<gpu::FlowEvent>& events) {
  told_ += events.size();
  for (std::size_t i = events.size() - std::min(events.size(), kKept); i < events.size(); i++)
    last_.push_back(event_report(events[i]));
  while (last_.size() > kKept) last_.pop_front();
}

std::optional<FlowEventsReport> FlowEvents::report() const {
  if (told_ == 0) return std::nullopt;
  return FlowEventsReport{told_, {last_.begin(), last_.end()}};
}

std::string flow_events_text(const FlowEventsReport& events) {
  std::string text =
      fmt::format("\nevents of flows: {}{}\n", events.told, events.told > kShown ? ", the last" : "");
  for (std::size_t i = events.last.size() - std::min(events.last.size(), kShown); i < events.last.size();
       i++) {
    const FlowEventReport& event = events.last[i];
    text += fmt::format("  {} {}, {}; pipeline {}, stage {}\n", event.event, event.flow,
                        counted(event.packets, "packet"), event.pipeline, event.stage);
  }
  return text;
}

}  // namespace xdpgpu::control
