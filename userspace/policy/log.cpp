// SPDX-License-Identifier: MIT
#include "userspace/policy/log.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "userspace/policy/values.hpp"

namespace xdpgpu::policy {
namespace {

constexpr u64 kMinStatsNs = 1'000'000'000, kMaxStatsNs = 3'600'000'000'000;

// What can be opened by this name alone: nothing in it depends on who opens it, and where.
void check_path(Report& report, const Place& place, const std::string& path) {
  if (path.size() > kMaxLogPath)
    return report.at(place, fmt::format("this path has {} bytes; at most {}", path.size(), kMaxLogPath));
  if (path.front() != '/' || path.back() == '/' || (path + "/").find("/../") != std::string::npos)
    report.at(place,
              "must be a path from the root, such as \"/var/log/xdpgpu/eve.json\", without \"..\", and of no "
              "folder");
}

LogOutput read_output(Report& report, const Place& place) {
  LogOutput output;
  Fields fields(report, place, keys::kLogOutput, "a log's output");
  if (!fields.is_object()) return output;
  const auto file = fields.get("file"), socket = fields.get("socket"), journald = fields.get("journald");
  if (int{file.has_value()} + int{socket.has_value()} + int{journald.has_value()} != 1) {
    report.at(place,
              "an output is one of {\"file\": PATH}, {\"socket\": PATH} and {\"journald\": true}; write one "
              "for each");
    return output;
  }
  if (journald) {
    output.kind = LogOutput::Kind::journald;
    if (const auto on = read_bool(report, *journald); on && !*on)
      report.at(*journald, "is true or is not there: leave the output out");
    return output;
  }
  output.kind = file ? LogOutput::Kind::file : LogOutput::Kind::socket;
  const Place& named = file ? *file : *socket;
  if (auto path = read_string(report, named, 4096)) {
    check_path(report, named, *path);
    output.path = std::move(*path);
  }
  return output;
}

void read_outputs(Report& report, const Place& place, Log& log) {
  const auto* items = place.node->as<Array>();
  if (items != nullptr && (items->empty() || items->size() > kMaxLogOutputs))
    return report.at(place,
                     fmt::format("a log has 1 to {} outputs, here are {}", kMaxLogOutputs, items->size()));
  each_element(report, place, [&](const Place& one) {
    LogOutput output = read_output(report, one);
    if (std::find(log.outputs.begin(), log.outputs.end(), output) != log.outputs.end())
      report.at(one, "this output stands here twice; name each once");
    log.outputs.push_back(std::move(output));
  });
}

void read_events(Report& report, const Place& place, Log& log) {
  log.drop = log.dns = log.stats = log.alert = log.program = false;
  const auto* items = place.node->as<Array>();
  if (items != nullptr && items->empty())
    report.at(place, "names no event, so nothing would be logged; leave \"log\" out");
  each_element(report, place, [&](const Place& one) {
    const auto word = read_word(report, one, words::kLogEvents);
    if (!word) return;
    bool& on = *std::array{&log.alert, &log.drop, &log.dns, &log.program, &log.stats}[*word];
    if (on) report.at(one, "this event stands here twice; name each once");
    on = true;
  });
}

}  // namespace

Log read_log(Report& report, const Place& place) {
  Log log;
  Fields fields(report, place, keys::kLog, "\"log\"");
  if (auto outputs = fields.require("outputs")) read_outputs(report, *outputs, log);
  if (auto events = fields.get("events")) read_events(report, *events, log);
  if (auto rate = fields.get("rate"))
    if (auto value = read_integer(report, *rate, 1, 1'000'000)) log.rate = static_cast<u32>(*value);
  if (auto rate = fields.get("alert_rate"))
    if (auto value = read_integer(report, *rate, 1, 1'000'000)) log.alert_rate = static_cast<u32>(*value);
  if (auto payload = fields.get("payload"))
    if (auto value = read_integer(report, *payload, 0, kMaxLogPayload))
      log.payload_bytes = static_cast<u32>(*value);
  if (auto every = fields.get("stats_every"))
    if (auto ns = read_time(report, *every, "10s")) {
      if (*ns < kMinStatsNs || *ns > kMaxStatsNs)
        report.at(*every, fmt::format("must be {} to {}, is {}", write_duration(kMinStatsNs),
                                      write_duration(kMaxStatsNs), *every->node->as<std::string>()));
      else
        log.stats_every_ns = *ns;
    }
  return log;
}

std::vector<LogOutput> log_outputs_of(std::string_view text) {
  const auto document = read_document(text);
  if (!document) return {};
  const auto* members = document->as<Object>();
  if (members == nullptr) return {};
  const Place root{&*document};
  for (const Member& member : *members) {
    if (member.key != "log") continue;
    Report report(text, "");
    const Place place{&member.value, &root, member.key};
    Log log = read_log(report, place);
    return report.empty() ? std::move(log.outputs) : std::vector<LogOutput>{};
  }
  return {};
}

}  // namespace xdpgpu::policy
