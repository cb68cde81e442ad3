// SPDX-License-Identifier: MIT
#include "gpu/slots.hpp"

#include <fmt/format.h>

#include <bit>

#include "gpu/abilities.hpp"

namespace xdpgpu::gpu {

Result<void> check_queue_options(const QueueOptions& options, const DeviceInfo& info) {
  if (options.batch_capacity < 1 || options.batch_capacity > 65536)
    return tl::unexpected(
        fmt::format("a batch of {} packets is not possible: choose 1 to 65536", options.batch_capacity));
  if (options.depth < 1 || options.depth > 64)
    return tl::unexpected(
        fmt::format("{} batches in flight are not possible: choose 1 to 64", options.depth));
  return check_drive(info.name, abilities_of(info), options.drive);
}

Result<void> check_region(const void* base, u64 bytes, bool registered) {
  if (registered) return tl::unexpected(std::string("the device has a frame region already"));
  if (base == nullptr || bytes == 0 || reinterpret_cast<std::uintptr_t>(base) % 4096 != 0 ||
      bytes % 4096 != 0)
    return tl::unexpected(fmt::format(
        "a frame region of {} bytes at {} cannot be registered: start and size must be multiples of 4096",
        bytes, base));
  return {};
}

Result<void> check_mirror_options(const MirrorOptions& options) {
  for (const MirrorPort& port : options.ports) {
    const bool there = port.records != nullptr && port.states != nullptr && port.verdicts != nullptr &&
                       port.stats != nullptr;
    if (!there || port.rings == 0 || !std::has_single_bit(port.slots) || !std::has_single_bit(port.entries) ||
        port.entries < XG_FLOW_WAYS)
      return tl::unexpected(
          fmt::format("{} rings of {} mirrored packets and shards of {} flow verdicts cannot be: rings and "
                      "shards have powers of two, shards at least {}",
                      port.rings, port.slots, port.entries, XG_FLOW_WAYS));
  }
  return {};
}

}  // namespace xdpgpu::gpu
