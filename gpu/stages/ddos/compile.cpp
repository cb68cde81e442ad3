// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstring>
#include "gpu/stages/compilers.hpp"

#include "gpu/stages/ddos/device.h"

namespace xdpgpu::gpu {
namespace {

static_assert(kDdosMetrics == XG_DDOS_METRICS);

// A threshold of so many per second, or in a window, as so many in a window: at least one.
u64 in_window(const DdosSettings& stage, u32 metric, u64 threshold) {
  if (metric == XG_DDOS_SOURCE_COUNT) return threshold;
  return std::max<u64>(1, threshold * stage.window_ms / 1000);
}

}  // namespace

Check check(const DdosSettings& stage) {
  if (std::all_of(stage.thresholds.begin(), stage.thresholds.end(), [](u64 one) { return one == 0; }))
    return refuse("it has no threshold: give it one");
  return {};
}

Result<Placed> emit(const DdosSettings& stage, Compiled& to) {
  std::vector<u32>& image = to.image;
  constexpr u64 ticks_per_ms = XG_TICKS_PER_NS * 1'000'000;
  const u32 body = append_stateful(stage.table, to.hash_key, image);
  image[body + XG_BODY_CACHE] = stage.cache ? 1 : 0;
  image[body + XG_BODY_TTL] = stage.cache_ttl_ms;
  image.insert(image.end(), {stage.direction == DdosSettings::Direction::in ? XG_KEY_DST : XG_KEY_SRC,
                             stage.bits4, stage.bits6});
  append64(image, stage.window_ms * ticks_per_ms);
  append64(image, stage.hold_ms * ticks_per_ms);
  append64(image, (u64{stage.hold_ms} + 2 * u64{stage.window_ms}) * ticks_per_ms);
  u32 watched = 0;
  for (u32 m = 0; m < kDdosMetrics; m++) watched |= stage.thresholds[m] != 0 ? 1u << m : 0;
  image.insert(image.end(), {static_cast<u32>(stage.on_detect), stage.share_percent, watched});
  for (u32 m = 0; m < kDdosMetrics; m++) {
    const u64 detect = in_window(stage, m, stage.thresholds[m]);
    append64(image, detect);
    append64(image, std::max<u64>(1, detect * stage.release_percent / 100));
  }
  // Linear counting (Whang et al., 1990).
  image.push_back(0);
  for (u32 zeros = 1; zeros <= XG_DDOS_REGISTERS; zeros++)
    image.push_back(static_cast<u32>(
        std::lround(XG_DDOS_REGISTERS * std::log(static_cast<double>(XG_DDOS_REGISTERS) / zeros))));
  static_assert(static_cast<u32>(DdosSettings::OnDetect::drop_sources) == XG_DDOS_DROPS_SOURCES);
  static_assert(DdosSettings::kRecordWords == XG_DDOS_RECORD);
  return Placed{body, stage.table.entries, body + XG_DDOS_OWN, XG_DDOS_RECORD};
}

u64 ddos_rate(const DdosSettings& settings, DdosMetric metric, u64 in_window) {
  return metric == DdosMetric::sources ? in_window : in_window * 1000 / settings.window_ms;
}

std::span<const Outcome> outcomes(const DdosSettings&) {
  static constexpr Outcome kOutcomes[] = {{"within", XG_DDOS_WITHIN},
                                          {"alarmed", XG_DDOS_ALARMED},
                                          {"dropped", XG_DDOS_DROPPED},
                                          {"no_place", XG_DDOS_NO_PLACE},
                                          {"no_key", XG_DDOS_NO_KEY}};
  return kOutcomes;
}

std::string describe(const DdosSettings&, u32 rule, const xg_result*) {
  return rule != 0 && rule <= kDdosMetrics ? fmt::format(" alarm {}", kDdosMetricNames[rule - 1]) : "";
}

bool drops(const DdosSettings& stage) { return stage.on_detect != DdosSettings::OnDetect::pass; }

void settle(DdosSettings& stage, const Written& written) {
  const u32 cached = stage.cache ? stage.cache_ttl_ms : 0;
  if (!written.has("hold")) {
    stage.hold_ms = std::clamp(cached, stage.hold_ms, kMaxDdosHoldMs);
    if (cached > kMaxDdosHoldMs)
      written.refuse("cache", "alarms are held for at most 8h, and no drop is cached for longer");
  } else if (cached > stage.hold_ms) {
    written.refuse("cache",
                   fmt::format("what the kernel drops ends with the alarm, which \"hold\" ends after "
                               "\"{}\": cache for no longer than that, or hold for longer",
                               written.time(stage.hold_ms)));
  }
}

namespace {

class DdosAlarms : public AlarmReader {
 public:
  explicit DdosAlarms(const DdosSettings& settings) : settings_(settings) {}

  u32 kinds() const override { return kDdosMetrics; }
  u32 record_words() const override { return XG_DDOS_RECORD; }
  u32 detected_counter() const override { return XG_DDOS_DETECTED; }
  Begun begun(std::span<const u32> value) const override { return {value[0], word_pair_at(value, 1)}; }
  Begun begun(std::span<const u32> record, u32 kind) const override {
    const u64 at = metric_at(kind);
    return {record[at + XG_DDOS_COUNT], word_pair_at(record, at + XG_DDOS_SINCE)};
  }
  Alarm alarm(std::span<const u32> entry, std::span<const u32> record, u32 kind) const override {
    Alarm alarm;
    alarm.outward = settings_.direction == DdosSettings::Direction::out;
    alarm.family = static_cast<u8>(entry[XG_ENTRY_KEY + 9] & 0xff);
    std::memcpy(alarm.target.data(), &entry[XG_ENTRY_KEY], 16);
    alarm.prefix = alarm.family == 4 ? settings_.bits4 : settings_.bits6;
    alarm.metric = kDdosMetricNames[kind];
    const auto metric = static_cast<DdosMetric>(kind);
    const u64 at = metric_at(kind);
    alarm.value = ddos_rate(settings_, metric, word_pair_at(record, at + XG_DDOS_VALUE));
    alarm.threshold = settings_.thresholds[kind];
    alarm.peak = ddos_rate(settings_, metric, word_pair_at(record, at + XG_DDOS_PEAK));
    alarm.since_ns = word_pair_at(record, at + XG_DDOS_SINCE) / XG_TICKS_PER_NS;
    alarm.until_ns = word_pair_at(record, at + XG_DDOS_UNTIL) / XG_TICKS_PER_NS;
    alarm.dropped = word_pair_at(record, at + XG_DDOS_DROPPED_IN);
    alarm.sources = sources_of(record);
    return alarm;
  }

 private:
  static u64 metric_at(u32 kind) { return XG_DDOS_METRIC_AT + u64{kind} * XG_DDOS_METRIC; }
  static std::vector<AlarmSource> sources_of(std::span<const u32> record) {
    std::vector<std::pair<u32, AlarmSource>> found;
    for (u32 i = 0; i < XG_DDOS_TOP; i++) {
      const u32* const top = &record[XG_DDOS_TOP_AT + i * XG_DDOS_TOP_WORDS];
      if (top[XG_DDOS_TOP_PACKETS] == 0) continue;
      AlarmSource source;
      std::memcpy(source.address.data(), top, 16);
      source.percent =
          std::min(100.0, 100.0 * top[XG_DDOS_TOP_PACKETS] / std::max(1u, record[XG_DDOS_TOTAL]));
      found.emplace_back(top[XG_DDOS_TOP_PACKETS], source);
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<AlarmSource> sources;
    sources.reserve(found.size());
    for (const auto& [packets, source] : found) sources.push_back(source);
    return sources;
  }
  const DdosSettings settings_;
};

}  // namespace

std::unique_ptr<AlarmReader> alarm_reader(const DdosSettings& stage) {
  return std::make_unique<DdosAlarms>(stage);
}

}  // namespace xdpgpu::gpu
