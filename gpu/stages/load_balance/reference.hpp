// SPDX-License-Identifier: MIT
//
// gpu/stages/load_balance/reference.hpp: which backend `load_balance` chooses for a packet
// (LoadBalanceSettings).
#pragma once

#include <optional>

#include "gpu/reference/packet.hpp"
#include "gpu/reference/table.hpp"

namespace xdpgpu::gpu::reference {

// SipHash-1-3 of the packet's flow, as maglev hashes it. The packet has addresses.
u64 flow_hash(const Packet& packet, const std::array<u64, 2>& key);

class Balancer {
 public:
  // settings: outlive this object.
  Balancer(const LoadBalanceSettings& settings, const std::array<u64, 2>& secret);

  // Position of the packet's backend; nothing where the packet has no addresses. table: of the affinity,
  // which notes where the packet went; nullptr without one.
  std::optional<u32> choose(const Packet& packet, Table* table) const;

 private:
  u32 by_residue(const Packet& packet) const;
  u32 by_affinity(const Packet& packet, u32 otherwise, Table& table) const;
  void fill();

  const LoadBalanceSettings& settings_;
  std::array<u64, 2> secret_;
  std::vector<u32> weights_;  // of new flows, by position
  std::vector<u32> lookup_;   // Maglev's
};

}  // namespace xdpgpu::gpu::reference
