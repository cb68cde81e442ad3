// SPDX-License-Identifier: MIT
//
// gpu/ddos_watch.hpp: which alarms of `ddos` stages began and ended, for whoever tells of them.
//
//   DdosWatch watch;
//   every so often: for (const DdosEvent& event : watch.look(device, generation, pipelines, now_ns))
//   tell(event);
//
// The device keeps everything in its tables (gpu/stages/ddos/device.h); a look reads a counter of each table,
// and more where that says that an alarm began, or where one is known to be on.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "gpu/pipelines.hpp"

namespace xdpgpu::gpu {

struct DdosSource {
  std::array<u8, 16> address{};  // IPv4 in the first four
  double percent = 0;            // of the packets that were counted, by the sketch
};

// An alarm of one target and metric.
struct DdosAlarm {
  std::string pipeline;
  u32 stage = 0;  // position in it, from 0
  DdosSettings::Direction direction = DdosSettings::Direction::in;
  u8 family = 4;
  std::array<u8, 16> target{};  // address
  u8 prefix = 32;               // bits of it that count
  DdosMetric metric = DdosMetric::syn;
  // As policies have them: per second, or in a window.
  u64 value = 0;  // that began the alarm
  u64 threshold = 0;
  u64 peak = 0;
  u64 since_ns = 0;  // CLOCK_MONOTONIC, by the packets' times
  u64 until_ns = 0;  // its end, unless it is prolonged
  u64 dropped = 0;   // packets, by this stage; what the kernel dropped by cached verdicts is not among them
  std::vector<DdosSource> sources;  // with most packets, first; for `out` destinations
};

struct DdosEvent {
  enum class What {
    detected,
    released,   // the alarm ended
    forgotten,  // the target gave its place in the table to another one, and its alarm with it
  } what = What::detected;
  DdosAlarm alarm;
};

class DdosWatch {
 public:
  // What is new since the last look, in the order of tables and of their entries. Tables are known by their
  // identity, so that generations may come and go. now_ns: CLOCK_MONOTONIC. Control thread, while queues may
  // be running: what is read of one alarm may be a moment apart. Fails where the device does.
  Result<std::vector<DdosEvent>> look(Device& device, u32 generation, const Pipelines& pipelines, u64 now_ns);

  // Alarms that are on, as last looked at.
  std::vector<DdosAlarm> alarms() const;
  u64 detected() const noexcept { return detected_; }
  u64 ended() const noexcept { return ended_; }

 private:
  struct Begun {
    u32 count = 0;
    u64 last = 0;  // ticks
    bool operator==(const Begun&) const = default;
  };
  struct Target {
    std::array<u32, 10> key{};
    // Alarms that began, and when the last one did: of all metrics, and of each. A target that comes back to
    // its place counts anew.
    Begun all;
    std::array<Begun, kDdosMetrics> each{};
    std::map<u32, DdosAlarm> on;  // by metric
  };
  struct Table {
    u64 detected = 0;
    std::map<u64, Target> targets;  // by place
  };
  struct Reader;

  void look_at(const Reader& reader, Table& table, u64 now_ns, std::vector<DdosEvent>& events);
  void look_at(const Reader& reader, Target& target, const std::vector<u32>& entry,
               const std::vector<u32>& record, u64 now_ns, std::vector<DdosEvent>& events);

  std::map<std::string, Table> tables_;  // by identity
  u64 detected_ = 0, ended_ = 0;
};

}  // namespace xdpgpu::gpu
