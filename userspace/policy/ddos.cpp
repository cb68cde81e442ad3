// SPDX-License-Identifier: MIT
#include "userspace/policy/ddos.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "userspace/policy/table_stages.hpp"
#include "userspace/policy/values.hpp"

namespace xdpgpu::policy {
namespace {

constexpr u64 kGiga = 1'000'000'000;
constexpr u64 kTera = 1'000'000'000'000;
constexpr u64 kNanosecondsPerMs = 1'000'000;
constexpr u32 kMaxTargets = 1u << 20;
constexpr u32 kDefaultHoldMs = 60'000;
constexpr u32 kMaxHoldMs = 8 * 3'600'000;

// Whole milliseconds.
void read_ms(Report& report, const Place& place, u64 least, u64 most, const char* range, u32& ms) {
  const auto ns = read_time(report, place, "1s");
  if (!ns) return;
  if (*ns % kNanosecondsPerMs != 0 || *ns / kNanosecondsPerMs < least || *ns / kNanosecondsPerMs > most)
    report.at(place, fmt::format("this time is whole milliseconds, {}", range));
  else
    ms = static_cast<u32>(*ns / kNanosecondsPerMs);
}

void read_percent(Report& report, const Fields& fields, const char* key, u32& percent) {
  if (auto place = fields.get(key))
    if (auto value = read_integer(report, *place, 1, 100)) percent = static_cast<u32>(*value);
}

void read_hold(Report& report, const Fields& fields, DdosStage& stage) {
  stage.hold_ms = std::clamp(stage.cache_ms.value_or(0), kDefaultHoldMs, kMaxHoldMs);
  if (auto hold = fields.get("hold")) {
    read_ms(report, *hold, 1, kMaxHoldMs, "from 1ms to 8h", stage.hold_ms);
    if (stage.cache_ms.value_or(0) > stage.hold_ms)
      report.at(*fields.get("cache"),
                fmt::format("what the kernel drops ends with the alarm, which \"hold\" ends after \"{}\": "
                            "cache for no longer than that, or hold for longer",
                            write_duration(u64{stage.hold_ms} * kNanosecondsPerMs)));
  } else if (stage.cache_ms.value_or(0) > kMaxHoldMs) {
    report.at(*fields.get("cache"), "alarms are held for at most 8h, and no drop is cached for longer");
  }
}

}  // namespace

DdosStage read_ddos(Report& report, const Place& place) {
  DdosStage stage;
  Fields fields(report, place, keys::kDdos, "the stage ddos");
  if (!fields.is_object()) return stage;
  if (auto direction = fields.get("direction"))
    if (auto word = read_word(report, *direction, words::kDdosDirection))
      stage.direction = words::kDdosDirection[*word];
  for (const auto& [key, most, to] :
       {std::tuple("prefix4", u64{32}, &stage.prefix4), std::tuple("prefix6", u64{128}, &stage.prefix6)})
    if (auto prefix = fields.get(key))
      if (auto value = read_integer(report, *prefix, 1, most)) *to = static_cast<u8>(*value);
  if (auto window = fields.get("window"))
    read_ms(report, *window, 10, 60'000, "from 10ms to 1m", stage.window_ms);
  bool watches = false;
  for (std::size_t i = 0; i < words::kDdosMetric.size(); i++) {
    const std::string_view metric = words::kDdosMetric[i];
    const auto threshold = fields.get(metric);
    if (!threshold) continue;
    watches = true;
    const u64 most = metric.ends_with("bytes_per_second") ? kTera : kGiga;
    if (auto value = read_integer(report, *threshold, 1, most)) stage.thresholds[i] = *value;
  }
  if (!watches)
    report.at(place, fmt::format("the stage ddos needs a threshold: one or more of {}",
                                 quoted_list(words::kDdosMetric)));
  read_percent(report, fields, "release_percent", stage.release_percent);
  if (auto action = fields.get("on_detect"))
    if (auto word = read_word(report, *action, words::kOnDetect)) stage.on_detect = words::kOnDetect[*word];
  read_percent(report, fields, "share_percent", stage.share_percent);
  if (auto share = fields.get("share_percent"); share && stage.on_detect != "drop_sources")
    report.at(*share,
              "only \"on_detect\": \"drop_sources\" looks at what share of the packets a source has: "
              "take this out, or say that");
  stage.cache_ms = read_cache(report, fields);
  if (stage.cache_ms && stage.on_detect == "pass")
    report.at(*fields.get("cache"),
              "this stage drops nothing, so there is nothing to cache: take this out, "
              "or let \"on_detect\" drop");
  read_hold(report, fields, stage);
  if (auto entries = fields.get("entries"))
    if (auto value = read_integer(report, *entries, 1, kMaxTargets))
      stage.table.entries = static_cast<u32>(*value);
  if (auto evict = fields.get("evict"))
    if (auto word = read_word(report, *evict, words::kEvict)) stage.table.evict = words::kEvict[*word];
  return stage;
}

}  // namespace xdpgpu::policy
