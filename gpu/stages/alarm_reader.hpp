// SPDX-License-Identifier: MIT
//
// gpu/stages/alarm_reader.hpp: what a stage with the trait `alarms` says of the alarms in its table. Its
// compile.cpp makes the reader; gpu/alarms.hpp has the use of it.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "maps/types.h"

namespace xdpgpu::gpu {

struct AlarmSource {
  std::array<u8, 16> address{};  // IPv4 in the first four
  double percent = 0;            // of the packets that were counted
};

// An alarm of one target and metric.
struct Alarm {
  std::string pipeline;
  u32 stage = 0;                // position in it, from 0
  std::string_view stage_name;  // "ddos"
  bool outward = false;         // the target is where packets come from; else where they go
  u8 family = 4;
  std::array<u8, 16> target{};  // address
  u8 prefix = 32;               // bits of it that count
  std::string_view metric;      // as policies name it
  // As policies have them: per second, or in a window.
  u64 value = 0;  // that began the alarm
  u64 threshold = 0;
  u64 peak = 0;
  u64 since_ns = 0;  // CLOCK_MONOTONIC, by the packets' times
  u64 until_ns = 0;  // its end, unless it is prolonged
  u64 dropped = 0;   // packets, by this stage; what the kernel dropped by cached verdicts is not among them
  std::vector<AlarmSource> sources;  // with most packets, first; with `outward` destinations
};

// Of one stage. Entries are XG_ENTRY_WORDS words with their key (gpu/stages/table.h), records what the stage
// keeps behind the sets. Any thread.
class AlarmReader {
 public:
  // How many alarms began, and when the last one did, in ticks.
  struct Begun {
    u32 count = 0;
    u64 last = 0;
    bool operator==(const Begun&) const = default;
  };
  virtual ~AlarmReader() = default;
  virtual u32 kinds() const = 0;             // alarms that a target can have at once
  virtual u32 record_words() const = 0;      // of each entry
  virtual u32 detected_counter() const = 0;  // the table's counter of alarms: XG_TABLE_OWN + this
  virtual Begun begun(std::span<const u32> value) const = 0;  // of all kinds; value: from XG_ENTRY_VALUE on
  virtual Begun begun(std::span<const u32> record, u32 kind) const = 0;
  // Without pipeline, stage and its name.
  virtual Alarm alarm(std::span<const u32> entry, std::span<const u32> record, u32 kind) const = 0;
};

}  // namespace xdpgpu::gpu
