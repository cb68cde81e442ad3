// SPDX-License-Identifier: MIT
//
// userspace/control/alarms.hpp: what `ddos` stages detect, told: a sentence or a line of JSON for each alarm
// that begins or ends, and those that are on in `status`.
#pragma once

#include <deque>
#include <string>

#include "gpu/ddos_watch.hpp"
#include "userspace/control/protocol.hpp"

namespace xdpgpu::control {

// {"event": "ddos.detected" | "ddos.released" | "ddos.forgotten", target, metric, value, threshold, sources,
// ...}
Json alarm_json(const gpu::DdosEvent& event);
// "pipeline "scrub", stage 1 (ddos): 192.0.2.7 receives 25000 syn_pps, ..."
std::string alarm_sentence(const gpu::DdosEvent& event);

// Control thread.
class Alarms {
 public:
  // Puts events behind the last ones, of which the newest kKept are remembered.
  void add(const std::vector<gpu::DdosEvent>& events);
  gpu::DdosWatch& watch() noexcept { return watch_; }
  // Of `status`; null where there was never an alarm.
  Json report() const;

  static constexpr std::size_t kKept = 64;

 private:
  gpu::DdosWatch watch_;
  std::deque<Json> last_;
};

// The alarms in a status report, as lines; empty where there is none.
std::string alarms_text(const Json& report);

}  // namespace xdpgpu::control
