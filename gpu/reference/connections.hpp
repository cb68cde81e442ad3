// SPDX-License-Identifier: MIT
//
// gpu/reference/connections.hpp: what `conntrack` takes a packet for (ConntrackSettings).
#pragma once

#include "gpu/reference/packet.hpp"
#include "gpu/reference/table.hpp"

namespace xdpgpu::gpu::reference {

enum class Class : u32 { untracked, fresh, established, related, invalid, no_place };

// What the stages behind do with a packet that goes on.
enum class Fate : u32 { to_host, sent_on, dropped, undecided };

// What a packet asks about the pipeline that it is in.
class Behind {
 public:
  virtual ~Behind() = default;
  // What the stages behind do with it, as far as no table is asked.
  virtual Fate fate() const = 0;
  // Whether some stage behind may send packets on, past the host's stack.
  virtual bool sends() const = 0;
};

// The packet's class; its connection is noted in the table.
Class classify(const ConntrackSettings& settings, const Packet& packet, const Behind& behind, Table& table);

}  // namespace xdpgpu::gpu::reference
