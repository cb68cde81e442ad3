// SPDX-License-Identifier: MIT
//
// gpu/stages/event_reader.hpp: what a stage with the trait `flow_events` tells of flows in its table. Its
// compile.cpp makes the reader; gpu/flow_events.hpp has the use of it.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "maps/flow.h"

namespace xdpgpu::gpu {

struct FlowEvent {
  std::string pipeline;
  u32 stage = 0;                // position in it, from 0
  std::string_view stage_name;  // "sample"
  std::string_view what;        // a word: "sampled"
  // In the direction of the packet that it is told of. Of ICMP without type and identifier.
  xg_flow_key flow{};
  u64 packets = 0;  // of the flow, that it was told of so far, this one included
  u64 at_ns = 0;    // the packet's receive time, CLOCK_MONOTONIC
};

// Of one stage. Entries are XG_ENTRY_WORDS words with their key (gpu/stages/table.h). Any thread.
class EventReader {
 public:
  virtual ~EventReader() = default;
  // The table's counter that grows whenever an entry has something to tell.
  virtual u32 counter() const = 0;
  // Differs between any two things that an entry tells of its key. value: from XG_ENTRY_VALUE on.
  virtual u64 mark(std::span<const u32> value) const = 0;
  // The newest one. Without pipeline, stage and its name.
  virtual FlowEvent event(std::span<const u32> entry) const = 0;
};

}  // namespace xdpgpu::gpu
