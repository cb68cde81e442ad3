// SPDX-License-Identifier: MIT
#include "gpu/flow_events.hpp"

#include <algorithm>
#include <utility>

#include "gpu/stages/stages.hpp"
#include "gpu/table_reader.hpp"

namespace xdpgpu::gpu {

Result<std::vector<FlowEvent>> FlowEventWatch::look(Device& device, u32 generation,
                                                    const Pipelines& pipelines) {
  std::vector<FlowEvent> events;
  std::map<std::string, Table> known = std::exchange(tables_, {});
  for (u32 i = 0; i < pipelines.states().size(); i++) {
    TableReader reader(device, generation, pipelines, i);
    const auto stage = event_reader(reader.stage());
    if (stage == nullptr) continue;
    Table& table = tables_[reader.spec().identity] = std::move(known[reader.spec().identity]);
    const u64 counter = reader.counter(stage->counter());
    if (!reader.failed() && counter != table.counter) {
      table.told.resize(reader.spec().entries);
      reader.each_entry([&](u64 place, u32 tag, std::span<const u32> entry) {
        const Told now{tag, stage->mark(entry.subspan(XG_ENTRY_VALUE))};
        if (std::exchange(table.told[place], now) == now) return;
        FlowEvent event = stage->event(entry);
        event.pipeline = reader.spec().pipeline;
        event.stage = reader.spec().stage;
        event.stage_name = stage_name(reader.stage());
        events.push_back(std::move(event));
      });
    }
    if (reader.failed()) return tl::unexpected(reader.error());
    table.counter = counter;
  }
  std::stable_sort(events.begin(), events.end(),
                   [](const FlowEvent& a, const FlowEvent& b) { return a.at_ns < b.at_ns; });
  return events;
}

}  // namespace xdpgpu::gpu
