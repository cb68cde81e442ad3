// SPDX-License-Identifier: MIT
//
// gpu/cuda/flows.hpp: the ports' flow verdict tables (maps/flow.h) as the GPU writes them: registered host
// memory, and in device memory the directory of what stands there, so that finding an entry's place costs
// no crossing of the bus.
#pragma once

#include <optional>
#include <vector>

#include "gpu/cuda/memory.hpp"
#include "gpu/cuda/publish.hpp"

namespace xdpgpu::gpu::cuda {

// Where some shards stand: in the table of a port, `first` being the first of them.
struct Shards {
  const PortTable* table = nullptr;  // device memory
  u32 first = 0;
};

class FlowWriter {
 public:
  // Registers the tables with the GPU, which is the calling thread's current one, and reads what stands in
  // them. The directory is of all shards, at 80 bytes of device memory an entry; what it says holds for the
  // shards of the receive queues that this GPU serves, which nobody else writes from then on. The other
  // shards are other devices', and never written from here. On failure nothing stays.
  static Result<FlowWriter> create(const std::vector<FlowTables>& ports, const Stream& stream);
  FlowWriter() = default;

  // Device memory: XG_MAX_PORTS entries; nullptr without tables.
  const PortTable* device() const noexcept { return reinterpret_cast<const PortTable*>(ports_.get()); }
  // Whole shards of `entries_per_queue` entries; nothing if they are not part of a table.
  std::optional<Shards> find(std::span<const xg_flow_verdict> entries, u32 entries_per_queue) const noexcept;
  void abandon() noexcept;

 private:
  struct Table {
    std::span<const xg_flow_verdict> entries;
    u32 entries_per_queue = 0;
  };

  std::vector<Table> tables_;  // by port, as the host sees them
  std::vector<Registration> registrations_;
  std::vector<DeviceMemory> directories_;
  DeviceMemory ports_;
};

}  // namespace xdpgpu::gpu::cuda
