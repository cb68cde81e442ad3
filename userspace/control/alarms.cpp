// SPDX-License-Identifier: MIT
#include "userspace/control/alarms.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace xdpgpu::control {
namespace {

constexpr double kNsPerSecond = 1e9;
constexpr std::size_t kNamed = 3;  // sources, in a sentence

std::string text_of(const std::array<u8, 16>& address, u8 family) {
  char text[INET6_ADDRSTRLEN] = {};
  inet_ntop(family == 6 ? AF_INET6 : AF_INET, address.data(), text, sizeof(text));
  return text;
}

std::string target_text(const gpu::Alarm& alarm) {
  const bool whole = alarm.prefix == (alarm.family == 6 ? 128 : 32);
  return text_of(alarm.target, alarm.family) + (whole ? "" : fmt::format("/{}", alarm.prefix));
}

const char* direction_name(const gpu::Alarm& alarm) { return alarm.outward ? "out" : "in"; }

std::string event_name(const gpu::AlarmEvent& event) {
  const char* const what = event.what == gpu::AlarmEvent::What::detected   ? "detected"
                           : event.what == gpu::AlarmEvent::What::released ? "released"
                                                                           : "forgotten";
  return fmt::format("{}.{}", event.alarm.stage_name, what);
}

}  // namespace

AlarmReport alarm_report(const gpu::Alarm& alarm) {
  AlarmReport report{.pipeline = alarm.pipeline,
                     .stage = alarm.stage + 1,
                     .direction = direction_name(alarm),
                     .target = target_text(alarm),
                     .metric = std::string(alarm.metric),
                     .value = alarm.value,
                     .threshold = alarm.threshold,
                     .peak = alarm.peak,
                     .since_ns = alarm.since_ns,
                     .until_ns = alarm.until_ns,
                     .dropped = alarm.dropped,
                     .sources = {}};
  for (const auto& source : alarm.sources)
    report.sources.push_back({text_of(source.address, alarm.family), source.percent});
  return report;
}

AlarmEventReport alarm_event(const gpu::AlarmEvent& event) {
  return {event_name(event), alarm_report(event.alarm)};
}

std::string alarm_sentence(const gpu::AlarmEvent& event) {
  const gpu::Alarm& alarm = event.alarm;
  const bool in = !alarm.outward;
  const std::string where =
      fmt::format("pipeline \"{}\", stage {} ({}): ", alarm.pipeline, alarm.stage + 1, alarm.stage_name);
  if (event.what != gpu::AlarmEvent::What::detected) {
    const double seconds =
        static_cast<double>(alarm.until_ns - std::min(alarm.since_ns, alarm.until_ns)) / kNsPerSecond;
    if (event.what == gpu::AlarmEvent::What::forgotten)
      return where + fmt::format(
                         "the alarm of {} for {} is given up, as the table or the target's place in it "
                         "is gone; give the stage more \"entries\" if targets have to give way",
                         alarm.metric, target_text(alarm));
    return where + fmt::format(
                       "the alarm of {} for {} has ended after {:.1f} s; at most it was {}, and {} "
                       "packets were dropped here",
                       alarm.metric, target_text(alarm), seconds, alarm.peak, alarm.dropped);
  }
  std::vector<std::string> named;
  for (const auto& source : alarm.sources) {
    if (named.size() == kNamed) break;
    named.push_back(fmt::format("{} ({:.0f} %)", text_of(source.address, alarm.family), source.percent));
  }
  return where + fmt::format("alarm of {} for {}: {} {}, the threshold is {}{}{}", alarm.metric,
                             target_text(alarm), in ? "it receives" : "it sends", alarm.value,
                             alarm.threshold,
                             named.empty() ? ""
                             : in          ? "; most comes from "
                                           : "; most goes to ",
                             fmt::join(named, ", "));
}

void Alarms::add(const std::vector<gpu::AlarmEvent>& events) {
  for (const auto& event : events) {
    last_.push_back(alarm_event(event));
    if (last_.size() > kKept) last_.pop_front();
  }
}

std::optional<AlarmsReport> Alarms::report() const {
  if (watch_.detected() == 0) return std::nullopt;
  AlarmsReport report{watch_.detected(), watch_.ended(), {}, {last_.begin(), last_.end()}};
  for (const auto& alarm : watch_.alarms()) report.on.push_back(alarm_report(alarm));
  return report;
}

std::string alarms_text(const AlarmsReport& alarms) {
  std::string text = fmt::format("\nalarms: {} detected, {} ended\n", alarms.detected, alarms.ended);
  for (const auto& alarm : alarms.on)
    text +=
        fmt::format("  {} {}: {} (threshold {}), {} dropped; pipeline {}, stage {}\n", alarm.target,
                    alarm.metric, alarm.peak, alarm.threshold, alarm.dropped, alarm.pipeline, alarm.stage);
  return text;
}

}  // namespace xdpgpu::control
