// SPDX-License-Identifier: MIT
#include "gpu/alarms.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "gpu/stages/stages.hpp"
#include "gpu/table_reader.hpp"

namespace xdpgpu::gpu {
// One stage's table, and what the stage says of it.
struct AlarmWatch::Reader {
  TableReader table;
  const AlarmReader& stage;

  std::vector<u32> record(u64 place) { return table.record(place, stage.record_words()); }
  Alarm alarm_of(const std::vector<u32>& entry, const std::vector<u32>& record, u32 kind) const {
    Alarm alarm = stage.alarm(entry, record, kind);
    alarm.pipeline = table.spec().pipeline;
    alarm.stage = table.spec().stage;
    alarm.stage_name = stage_name(table.stage());
    return alarm;
  }
};

void AlarmWatch::look_at(Reader& reader, Table& table, u64 now_ns, std::vector<AlarmEvent>& events) {
  std::set<u64> places;
  for (const auto& [place, target] : table.targets)
    if (!target.on.empty()) places.insert(place);
  const u64 detected = reader.table.counter(XG_TABLE_OWN + reader.stage.detected_counter());
  if (detected != table.detected)
    reader.table.each_entry([&](u64 place, u32, std::span<const u32> entry) {
      const Begun begun = reader.stage.begun(entry.subspan(XG_ENTRY_VALUE));
      if (begun.count == 0) return;
      const auto known = table.targets.find(place);
      if (known == table.targets.end() || known->second.all != begun) places.insert(place);
    });
  if (reader.table.failed()) return;
  table.detected = detected;

  for (const u64 place : places) {
    const auto entry = reader.table.entry(place);
    const auto record = reader.record(place);
    if (reader.table.failed()) return;
    look_at(reader, table.targets[place], entry, record, now_ns, events);
  }
}

void AlarmWatch::look_at(Reader& reader, Target& target, const std::vector<u32>& entry,
                         const std::vector<u32>& record, u64 now_ns, std::vector<AlarmEvent>& events) {
  const auto tell = [&](AlarmEvent::What what, Alarm alarm) {
    (what == AlarmEvent::What::detected ? detected_ : ended_)++;
    events.push_back({what, std::move(alarm)});
  };
  const auto tell_end = [&](const Alarm& alarm, bool lost) {
    tell(lost && alarm.until_ns > now_ns ? AlarmEvent::What::forgotten : AlarmEvent::What::released, alarm);
  };
  if (!std::equal(target.key.begin(), target.key.end(), entry.begin() + XG_ENTRY_KEY)) {
    for (const auto& [m, alarm] : target.on) tell_end(alarm, true);
    target = {};
    std::copy_n(entry.begin() + XG_ENTRY_KEY, target.key.size(), target.key.begin());
  }
  target.all = reader.stage.begun(std::span(entry).subspan(XG_ENTRY_VALUE));
  for (u32 m = 0; m < reader.stage.kinds(); m++) {
    const Begun begun = reader.stage.begun(record, m);
    const Begun known = std::exchange(target.each[m], begun);
    const auto on = target.on.find(m);
    if (begun == known && on == target.on.end()) continue;
    // One that ended and began again since the last look; or the target came back to its place.
    if (begun != known && on != target.on.end()) {
      tell_end(on->second, begun.count <= known.count);
      target.on.erase(on);
    }
    if (begun.count == 0) continue;
    Alarm alarm = reader.alarm_of(entry, record, m);
    if (begun != known) tell(AlarmEvent::What::detected, alarm);
    if (alarm.until_ns > now_ns) {
      target.on[m] = std::move(alarm);
    } else {
      tell(AlarmEvent::What::released, std::move(alarm));
      target.on.erase(m);
    }
  }
}

Result<std::vector<AlarmEvent>> AlarmWatch::look(Device& device, u32 generation, const Pipelines& pipelines,
                                                 u64 now_ns) {
  std::vector<AlarmEvent> events;
  std::set<std::string> there;
  for (u32 i = 0; i < pipelines.states().size(); i++) {
    const StateSpec& spec = pipelines.states()[i];
    const auto alarms = alarm_reader(stage_of(pipelines, spec));
    if (alarms == nullptr) continue;
    there.insert(spec.identity);
    Reader reader{{device, generation, pipelines, i}, *alarms};
    look_at(reader, tables_[spec.identity], now_ns, events);
    if (reader.table.failed()) return tl::unexpected(reader.table.error());
  }
  // Alarms of tables that a policy took away are over with them.
  for (auto table = tables_.begin(); table != tables_.end();) {
    if (there.contains(table->first)) {
      ++table;
      continue;
    }
    for (auto& [place, target] : table->second.targets)
      for (auto& [m, alarm] : target.on) {
        ended_++;
        events.push_back({AlarmEvent::What::forgotten, std::move(alarm)});
      }
    table = tables_.erase(table);
  }
  return events;
}

std::vector<Alarm> AlarmWatch::alarms() const {
  std::vector<Alarm> all;
  for (const auto& [identity, table] : tables_)
    for (const auto& [place, target] : table.targets)
      for (const auto& [m, alarm] : target.on) all.push_back(alarm);
  return all;
}

}  // namespace xdpgpu::gpu
