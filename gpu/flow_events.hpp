// SPDX-License-Identifier: MIT
//
// gpu/flow_events.hpp: what stages with the trait `flow_events` tell of flows in their tables.
//
//   FlowEventWatch watch;
//   every so often: for (const FlowEvent& event : watch.look(device, generation, pipelines)) tell(event);
//
// The device keeps everything in the stages' tables. A look reads a counter of each, and the whole table
// where that has grown.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "gpu/pipelines.hpp"
#include "gpu/stages/event_reader.hpp"

namespace xdpgpu::gpu {

class FlowEventWatch {
 public:
  // What is new since the last look, the oldest first. Of an entry that had several things to tell since, the
  // newest; what had to give its place to another flow since is not told. Tables are known by their identity,
  // so that generations may come and go. Control thread, while queues may be running. Fails where the device
  // does.
  Result<std::vector<FlowEvent>> look(Device& device, u32 generation, const Pipelines& pipelines);

 private:
  struct Told {
    u32 tag = 0;
    u64 mark = 0;
    bool operator==(const Told&) const = default;
  };
  struct Table {
    u64 counter = 0;
    std::vector<Told> told;  // by place
  };
  std::map<std::string, Table> tables_;  // by identity
};

}  // namespace xdpgpu::gpu
