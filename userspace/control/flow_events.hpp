// SPDX-License-Identifier: MIT
//
// userspace/control/flow_events.hpp: what stages tell of flows (gpu/flow_events.hpp), told: a sentence or a
// line of JSON each, and the last ones in `status`.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "gpu/flow_events.hpp"
#include "userspace/control/fields.hpp"

namespace xdpgpu::control {

// gpu::FlowEvent in words; stages count from 1.
struct FlowEventReport {
  std::string event;  // "sample.sampled"
  std::string pipeline;
  u32 stage = 0;
  std::string flow;  // "10.0.0.1:1234 > 10.0.0.2:80 tcp"
  u64 packets = 0, at_ns = 0;
  static void fields(auto& self, auto& field) {
    field("event", self.event);
    field("pipeline", self.pipeline);
    field("stage", self.stage);
    field("flow", self.flow);
    field("packets", self.packets);
    field("at_ns", self.at_ns);
  }
};
struct FlowEventsReport {
  u64 told = 0;
  std::vector<FlowEventReport> last;  // the newest last
  static void fields(auto& self, auto& field) {
    field("told", self.told);
    field("last", self.last);
  }
};

FlowEventReport event_report(const gpu::FlowEvent& event);
// "pipeline "web", stage 1 (sample): sampled 10.0.0.1:1234 > 10.0.0.2:80 tcp (1 packet so far)"
std::string event_sentence(const gpu::FlowEvent& event);

// Control thread.
class FlowEvents {
 public:
  // Puts events behind the last ones, of which the newest kKept are remembered.
  void add(const std::vector<gpu::FlowEvent>& events);
  gpu::FlowEventWatch& watch() noexcept { return watch_; }
  // Of `status`; nothing where nothing was ever told.
  std::optional<FlowEventsReport> report() const;

  static constexpr std::size_t kKept = 64;
  // That one look makes sentences of, and lines of JSON. What is beyond is counted.
  static constexpr std::size_t kSentences = 16, kLines = 1024;

 private:
  gpu::FlowEventWatch watch_;
  u64 told_ = 0;
  std::deque<FlowEventReport> last_;
};

// As lines: how many, and the newest few.
std::string flow_events_text(const FlowEventsReport& events);

}  // namespace xdpgpu::control
