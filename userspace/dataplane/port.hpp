// SPDX-License-Identifier: MIT
//
// userspace/dataplane/port.hpp: one interface as the data plane has it: its maps, mapped, and the
// negotiation of its sockets' mode.
#pragma once

#include <memory>
#include <vector>

#include "userspace/dataplane/egress_feed.hpp"
#include "userspace/dataplane/port_queue.hpp"

namespace xdpgpu::dataplane {

// The two registrations of the region, each made with its first socket.
struct Umems {
  std::unique_ptr<Umem> zero_copy, copy;
  bool multi_buffer = false;  // of the copy ports; settled before the first socket
  u32 chunks_per_frame = 1;   // that the zero-copy ports' drivers may use
};

class Port {
 public:
  // Maps the port's memory and checks that the maps are as long as the settings say.
  static Result<std::unique_ptr<Port>> open(u32 index, PortSpec spec, RingSizes rings);

  const PortSpec& spec() const noexcept { return spec_; }
  PortMode mode() const noexcept { return mode_; }

  // Opens the sockets of all queues, zero-copy where the driver has it and the spec allows it, else
  // copy: one mode for the whole port. Then the reinjection pair's, in copy mode.
  Result<void> open_sockets(const FrameRegion& region, Umems& umems);
  // Makes the sockets known to the XDP program, and the other ports as targets of REDIRECT where it holds the
  // map of those. No descriptor by which a map can be changed stays open behind it.
  Result<void> announce(const std::vector<std::unique_ptr<Port>>& ports);
  // Hands queue `queue` over to its worker; what a dead one had is counted as lost first.
  std::unique_ptr<PortQueue> queue(u32 queue);

  // Makes a generation's rewrites known to the XDP program. The half of the map that is its own must not
  // be that of the generation in force, unless they stand there already.
  void write_rewrites(u32 generation, const std::vector<xg_rewrite>& rewrites) noexcept;

  gpu::FlowTables flow_tables() noexcept;
  gpu::MirrorPort mirror() noexcept;
  EgressLogs egress() const noexcept;

  xg_queue_state state(u32 queue) const noexcept;
  xg_worker_counters counters(u32 queue) const noexcept;
  xg_queue_metrics metrics(u32 queue) const noexcept;
  u32 admitted(u32 queue) const noexcept;
  u32 retired(u32 queue) const noexcept;
  u64 beat_timeout_ns() const noexcept { return config_[0].beat_timeout_ns; }

 private:
  Port() = default;
  Result<void> map_mirror();
  Result<void> map_egress();
  Result<std::vector<std::unique_ptr<Socket>>> open_all(Umem& umem, const SocketOptions& like) const;
  Result<std::vector<std::unique_ptr<Socket>>> open_zero_copy(const FrameRegion& region, Umems& umems) const;

  u32 index_ = 0;
  RingSizes rings_;
  PortSpec spec_;
  PortMode mode_ = PortMode::copy;
  kernel::MapView<xg_config> config_;
  kernel::MapView<xg_queue_state> states_;
  kernel::MapView<xg_worker_counters> counters_;
  kernel::MapView<xg_queue_metrics> metrics_;
  kernel::MapView<xg_flow_verdict> flows_;
  kernel::MapView<xg_flow_stats> stats_;
  kernel::MapView<xg_mirror_state> mirror_states_;
  kernel::MapView<xg_mirror_record> mirror_rings_;
  kernel::MapView<xg_egress_record> egress_records_;
  kernel::MapView<xg_egress_head> egress_heads_;
  kernel::MapView<xg_rewrite> rewrites_;
  std::vector<std::unique_ptr<Socket>> sockets_, reinject_;
};

}  // namespace xdpgpu::dataplane
