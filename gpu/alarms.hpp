// SPDX-License-Identifier: MIT
//
// gpu/alarms.hpp: which alarms of stages with the trait `alarms` began and ended, for whoever tells of them.
//
//   AlarmWatch watch;
//   every so often: for (const AlarmEvent& event : watch.look(device, generation, pipelines, now_ns))
//   tell(event);
//
// The device keeps everything in the stages' tables; a look reads a counter of each table, and more where
// that says that an alarm began, or where one is known to be on.
#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/pipelines.hpp"
#include "gpu/stages/alarm_reader.hpp"

namespace xdpgpu::gpu {

struct AlarmEvent {
  enum class What {
    detected,
    released,   // the alarm ended
    forgotten,  // the target gave its place in the table to another one, and its alarm with it
  } what = What::detected;
  Alarm alarm;
};

class AlarmWatch {
 public:
  // What is new since the last look, in the order of tables and of their entries. Tables are known by their
  // identity, so that generations may come and go. now_ns: CLOCK_MONOTONIC. Control thread, while queues may
  // be running: what is read of one alarm may be a moment apart. Fails where the device does.
  Result<std::vector<AlarmEvent>> look(Device& device, u32 generation, const Pipelines& pipelines,
                                       u64 now_ns);

  // Alarms that are on, as last looked at.
  std::vector<Alarm> alarms() const;
  u64 detected() const noexcept { return detected_; }
  u64 ended() const noexcept { return ended_; }

 private:
  using Begun = AlarmReader::Begun;
  struct Target {
    std::array<u32, 10> key{};
    // Alarms that began, and when the last one did: of all kinds, and of each. A target that comes back to
    // its place counts anew.
    Begun all;
    std::map<u32, Begun> each;
    std::map<u32, Alarm> on;  // by kind
  };
  struct Table {
    u64 detected = 0;
    std::map<u64, Target> targets;  // by place
  };
  struct Reader;

  void look_at(Reader& reader, Table& table, u64 now_ns, std::vector<AlarmEvent>& events);
  void look_at(Reader& reader, Target& target, const std::vector<u32>& entry, const std::vector<u32>& record,
               u64 now_ns, std::vector<AlarmEvent>& events);

  std::map<std::string, Table> tables_;  // by identity
  u64 detected_ = 0, ended_ = 0;
};

}  // namespace xdpgpu::gpu
