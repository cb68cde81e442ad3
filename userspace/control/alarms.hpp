// SPDX-License-Identifier: MIT
//
// userspace/control/alarms.hpp: what stages detect, told: a sentence or a line of JSON for each alarm
// that begins or ends, and those that are on in `status`.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "gpu/alarms.hpp"
#include "userspace/control/fields.hpp"

namespace xdpgpu::control {

struct AlarmSource {
  std::string address;
  double percent = 0;  // of the packets
  static void fields(auto& self, auto& field) {
    field("address", self.address);
    field("percent", self.percent);
  }
};
// gpu::Alarm in words; stages count from 1.
struct AlarmReport {
  std::string pipeline;
  u32 stage = 0;
  std::string direction, target, metric;
  u64 value = 0, threshold = 0, peak = 0, since_ns = 0, until_ns = 0, dropped = 0;
  std::vector<AlarmSource> sources;
  static void fields(auto& self, auto& field) {
    field("pipeline", self.pipeline);
    field("stage", self.stage);
    field("direction", self.direction);
    field("target", self.target);
    field("metric", self.metric);
    field("value", self.value);
    field("threshold", self.threshold);
    field("peak", self.peak);
    field("since_ns", self.since_ns);
    field("until_ns", self.until_ns);
    field("dropped", self.dropped);
    field("sources", self.sources);
  }
};
struct AlarmEventReport {
  std::string event;  // "ddos.detected", "ddos.released", "ddos.forgotten"
  AlarmReport alarm;  // its fields stand beside
  static void fields(auto& self, auto& field) {
    field("event", self.event);
    Fields<AlarmReport>::fields(self.alarm, field);
  }
};
struct AlarmsReport {
  u64 detected = 0, ended = 0;
  std::vector<AlarmReport> on;
  std::vector<AlarmEventReport> last;
  static void fields(auto& self, auto& field) {
    field("detected", self.detected);
    field("ended", self.ended);
    field("on", self.on);
    field("last", self.last);
  }
};

AlarmReport alarm_report(const gpu::Alarm& alarm);
AlarmEventReport alarm_event(const gpu::AlarmEvent& event);
// "pipeline "scrub", stage 1 (ddos): 192.0.2.7 receives 25000 syn_pps, ..."
std::string alarm_sentence(const gpu::AlarmEvent& event);

// Control thread.
class Alarms {
 public:
  // Puts events behind the last ones, of which the newest kKept are remembered.
  void add(const std::vector<gpu::AlarmEvent>& events);
  gpu::AlarmWatch& watch() noexcept { return watch_; }
  // Of `status`; nothing where there was never an alarm.
  std::optional<AlarmsReport> report() const;

  static constexpr std::size_t kKept = 64;

 private:
  gpu::AlarmWatch watch_;
  std::deque<AlarmEventReport> last_;
};

// As lines.
std::string alarms_text(const AlarmsReport& alarms);

}  // namespace xdpgpu::control
