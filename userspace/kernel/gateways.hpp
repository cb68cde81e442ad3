// SPDX-License-Identifier: MIT
//
// userspace/kernel/gateways.hpp: the MAC addresses of the default routes' next hops, for the share that they
// have of the control protocols' rates (maps/exempt.h).
#pragma once

#include <array>
#include <compare>
#include <map>
#include <vector>

#include "maps/exempt.h"
#include "userspace/kernel/kernel.hpp"

struct nlmsghdr;

namespace xdpgpu::kernel {

class Gateways {
 public:
  // As the routes of the main table and the neighbour table of the calling thread's network namespace have
  // them. A next hop that the neighbour table has lost keeps the address that it had, until it has another
  // one or is no default route's any more: it may be asked for just now. What cannot be read is not known.
  // Takes some ten system calls, however many routes and neighbours there are.
  xg_gateways look();

 private:
  struct Hop {
    u8 family;
    u32 ifindex;
    std::array<u8, 16> address;
    // NOLINTNEXTLINE(modernize-use-nullptr): it takes the 0 inside of a defaulted <=> for a pointer
    auto operator<=>(const Hop&) const = default;
  };
  static void add_hops(nlmsghdr* header, std::vector<Hop>& hops);
  static void add_hops4(std::vector<Hop>& hops);
  static void add_hops6(std::vector<Hop>& hops);
  static u64 neighbour(const Hop& hop);

  std::map<Hop, u64> known_;
};

// To a port's XDP program.
void tell_gateways(const PortMaps& maps, const xg_gateways& gateways) noexcept;

}  // namespace xdpgpu::kernel
