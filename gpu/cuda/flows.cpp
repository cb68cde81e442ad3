// SPDX-License-Identifier: MIT
#include "gpu/cuda/flows.hpp"

#include <array>
#include <bit>
#include <functional>
#include <memory>

namespace xdpgpu::gpu::cuda {
namespace {

// What stands in the table now.
std::vector<Way> directory_of(const FlowTables& port) {
  std::vector<Way> ways(port.entries.size());
  for (std::size_t i = 0; i < ways.size(); i++)
    ways[i] = {port.entries[i], port.stats[i].published_ns, port.stats[i].publications};
  return ways;
}

}  // namespace

Result<FlowWriter> FlowWriter::create(const std::vector<FlowTables>& ports, const Stream& stream) {
  FlowWriter writer;
  std::array<PortTable, XG_MAX_PORTS> tables{};
  if (ports.size() > tables.size())
    return tl::unexpected(std::string("there are more ports than a verdict can name"));
  const auto add_memory = [&](u64 bytes, const void* from) -> Result<u8*> {
    auto made = DeviceMemory::create(bytes, from, stream);
    if (!made) return tl::unexpected(made.error());
    writer.directories_.push_back(std::move(*made));
    return writer.directories_.back().get();
  };
  const auto add_registration = [&](void* base, u64 bytes) -> Result<u8*> {
    auto made = Registration::create(base, bytes);
    if (!made) return tl::unexpected(made.error());
    writer.registrations_.push_back(std::move(*made));
    return writer.registrations_.back().device();
  };
  for (std::size_t p = 0; p < ports.size(); p++) {
    const FlowTables& port = ports[p];
    PortTable& table = tables[p];
    writer.tables_.push_back({port.entries, port.entries_per_queue});
    table.caches_transmit = port.caches_transmit;
    table.repairs_checksums = port.repairs_checksums;
    if (port.entries.empty()) continue;
    if (port.entries_per_queue < XG_FLOW_WAYS || !std::has_single_bit(port.entries_per_queue) ||
        port.entries.size() % port.entries_per_queue != 0 || port.stats.size() != port.entries.size())
      return tl::unexpected(
          std::string("a flow verdict table is not whole shards of a power of two entries"));
    const std::vector<Way> ways = directory_of(port);
    const auto entries = add_registration(port.entries.data(), port.entries.size_bytes());
    if (!entries) return tl::unexpected(entries.error());
    const auto stats = add_registration(port.stats.data(), port.stats.size_bytes());
    if (!stats) return tl::unexpected(stats.error());
    const auto directory = add_memory(ways.size() * sizeof(Way), ways.data());
    if (!directory) return tl::unexpected(directory.error());
    const auto locks = add_memory(ways.size() / XG_FLOW_WAYS * sizeof(u32), nullptr);
    if (!locks) return tl::unexpected(locks.error());
    table.entries = reinterpret_cast<xg_flow_verdict*>(*entries);
    table.stats = reinterpret_cast<xg_flow_stats*>(*stats);
    table.ways = reinterpret_cast<Way*>(*directory);
    table.locks = reinterpret_cast<u32*>(*locks);
    table.entries_per_queue = port.entries_per_queue;
    table.queues = static_cast<u32>(port.entries.size() / port.entries_per_queue);
  }
  auto made = DeviceMemory::create(sizeof(tables), tables.data(), stream);
  if (!made) return tl::unexpected(made.error());
  writer.ports_ = std::move(*made);
  return writer;
}

std::optional<Shards> FlowWriter::find(std::span<const xg_flow_verdict> entries,
                                       u32 entries_per_queue) const noexcept {
  const std::less_equal<const xg_flow_verdict*> not_behind;
  for (std::size_t p = 0; p < tables_.size(); p++) {
    const Table& table = tables_[p];
    const auto whole = std::to_address(table.entries.end()), wanted = std::to_address(entries.end());
    if (entries.empty() || table.entries_per_queue != entries_per_queue ||
        !not_behind(table.entries.data(), entries.data()) || !not_behind(wanted, whole))
      continue;
    const auto before = static_cast<u64>(entries.data() - table.entries.data());
    if (before % entries_per_queue != 0) continue;
    return Shards{device() + p, static_cast<u32>(before / entries_per_queue)};
  }
  return std::nullopt;
}

void FlowWriter::abandon() noexcept {
  for (Registration& registration : registrations_) registration.abandon();
  for (DeviceMemory& memory : directories_) memory.abandon();
  ports_.abandon();
}

}  // namespace xdpgpu::gpu::cuda
