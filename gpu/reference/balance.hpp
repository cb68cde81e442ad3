// SPDX-License-Identifier: MIT
//
// gpu/reference/balance.hpp: which backend `load_balance` chooses for a packet (LoadBalanceSettings).
#pragma once

#include <optional>

#include "gpu/reference/packet.hpp"
#include "gpu/reference/table.hpp"

namespace xdpgpu::gpu::reference {

class Balancer {
 public:
  // settings: outlive this object.
  Balancer(const LoadBalanceSettings& settings, const std::array<u64, 2>& secret);

  // Position of the packet's backend; nothing where the packet has no addresses.
  std::optional<u32> choose(const Packet& packet) const;

 private:
  u32 by_residue(const Packet& packet) const;
  void fill();

  const LoadBalanceSettings& settings_;
  std::array<u64, 2> secret_;
  std::vector<u32> lookup_;  // Maglev's
};

}  // namespace xdpgpu::gpu::reference
