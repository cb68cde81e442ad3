// SPDX-License-Identifier: MIT
#include "gpu/alarms.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "gpu/image_words.hpp"
#include "gpu/stages/stages.hpp"
#include "gpu/stages/table.h"

namespace xdpgpu::gpu {
namespace {

// Sets that are read at a time: some 150 KiB.
constexpr u64 kSetsAtATime = 256;

}  // namespace

// One stage's table.
struct AlarmWatch::Reader {
  Device& device;
  u32 generation;
  u32 number;
  const StateSpec& spec;
  const AlarmReader& stage;
  std::string_view name;
  mutable bool failed;
  mutable std::string error;

  u64 sets() const { return spec.entries / XG_WAYS; }

  std::vector<u32> words(u64 first, u64 count) const {
    std::vector<u32> read(count);
    if (auto done = device.read_state(generation, number, first, read); !done) {
      failed = true;
      error = done.error();
    }
    return read;
  }
  std::vector<u32> entry(u64 place) const {
    return words(
        XG_TABLE_HEAD + place / XG_WAYS * XG_SET_WORDS + XG_SET_HEAD + place % XG_WAYS * XG_ENTRY_WORDS,
        XG_ENTRY_WORDS);
  }
  std::vector<u32> record(u64 place) const {
    return words(XG_TABLE_HEAD + sets() * XG_SET_WORDS + place * stage.record_words(), stage.record_words());
  }

  Alarm alarm_of(const std::vector<u32>& entry, const std::vector<u32>& record, u32 kind) const {
    Alarm alarm = stage.alarm(entry, record, kind);
    alarm.pipeline = spec.pipeline;
    alarm.stage = spec.stage;
    alarm.stage_name = name;
    return alarm;
  }

  // Calls each(place, its alarms) for targets that had any.
  template <class Each>
  void each_alarmed(Each each) const {
    for (u64 first = 0; first < sets() && !failed; first += kSetsAtATime) {
      const u64 count = std::min(kSetsAtATime, sets() - first);
      const auto read = words(XG_TABLE_HEAD + first * XG_SET_WORDS, count * XG_SET_WORDS);
      for (u64 set = 0; set < count; set++)
        for (u32 way = 0; way < XG_WAYS; way++) {
          const u64 at = set * XG_SET_WORDS;
          const u64 value = at + XG_SET_HEAD + u64{way} * XG_ENTRY_WORDS + XG_ENTRY_VALUE;
          if (read[at + XG_SET_TAGS + way] != 0 && read[value] != 0)
            each((first + set) * XG_WAYS + way, stage.begun(std::span(read).subspan(value)));
        }
    }
  }
};

void AlarmWatch::look_at(const Reader& reader, Table& table, u64 now_ns, std::vector<AlarmEvent>& events) {
  std::set<u64> places;
  for (const auto& [place, target] : table.targets)
    if (!target.on.empty()) places.insert(place);
  const auto head = reader.words(0, XG_TABLE_HEAD);
  const u64 detected = word_pair_at(head, 2 * u64{XG_TABLE_OWN + reader.stage.detected_counter()});
  if (detected != table.detected)
    reader.each_alarmed([&](u64 place, const Begun& begun) {
      const auto known = table.targets.find(place);
      if (known == table.targets.end() || known->second.all != begun) places.insert(place);
    });
  if (reader.failed) return;
  table.detected = detected;

  for (const u64 place : places) {
    const auto entry = reader.entry(place);
    const auto record = reader.record(place);
    if (reader.failed) return;
    look_at(reader, table.targets[place], entry, record, now_ns, events);
  }
}

void AlarmWatch::look_at(const Reader& reader, Target& target, const std::vector<u32>& entry,
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
    const auto pipeline = std::find_if(pipelines.settings().begin(), pipelines.settings().end(),
                                       [&](const auto& one) { return one.name == spec.pipeline; });
    const StageSettings& stage = pipeline->stages[spec.stage];
    const auto alarms = alarm_reader(stage);
    if (alarms == nullptr) continue;
    there.insert(spec.identity);
    const Reader reader{device, generation, i, spec, *alarms, stage_name(stage), false, {}};
    look_at(reader, tables_[spec.identity], now_ns, events);
    if (reader.failed) return tl::unexpected(reader.error);
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
