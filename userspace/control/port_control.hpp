// SPDX-License-Identifier: MIT
//
// userspace/control/port_control.hpp: one port's maps as the control thread uses them: state, policy
// slots, counters. Works on descriptors alone and needs no privilege.
#pragma once

#include <string>
#include <vector>

#include "maps/exempt.h"
#include "userspace/control/result.hpp"
#include "userspace/dataplane/engine.hpp"
#include "userspace/kernel/kernel.hpp"

namespace xdpgpu::control {

class PortControl {
 public:
  // The data plane's looks, and asks the broker for what is to change (userspace/kernel/access.hpp): it maps
  // for reading alone, and keeps no other descriptors than those that it can only look up by. What changes a
  // map is for the broker's.
  enum class Of { broker, data_plane };
  static Result<PortControl> open(std::string ifname, u32 queues, u32 flow_entries_per_queue,
                                  kernel::PortMaps maps, Of of = Of::broker);

  const std::string& ifname() const noexcept { return ifname_; }
  void rename(std::string ifname) { ifname_ = std::move(ifname); }  // the interface has another name
  u32 queues() const noexcept { return queues_; }
  u32 flow_entries_per_queue() const noexcept { return flow_entries_; }
  const kernel::PortMaps& maps() const noexcept { return maps_; }

  // XG_STATE_*
  u32 state() const noexcept;
  void set_state(u32 state) noexcept;  // the broker's

  void set_mac(u64 mac) noexcept;  // the broker's: xg_config.mac

  u32 active_generation() const noexcept;
  u32 active_slot() const noexcept;
  u64 policy_hash() const noexcept;
  u32 on_failure() const noexcept;  // the broker's: XG_DO_*, of the policy in force
  // The broker's. One 64-bit store: packets that come from now on are decided by this slot. The slot is
  // complete.
  void activate(u32 generation, u32 slot, u64 policy_hash) noexcept;
  // The broker's. The slot is not active and no packet is in it any more.
  void write_header(u32 slot, const xg_policy& header) noexcept;
  const xg_policy& header(u32 slot) const noexcept { return policy_[slot]; }

  // Of a queue without a data plane: dataplane::count_lost. Nothing where its counters cannot be reached.
  void count_lost(u32 queue) noexcept;
  // Counters and state of each queue.
  Result<std::vector<dataplane::QueueStatus>> queue_counters() const;

  // Whether the XDP program has these rewrites under that generation.
  bool has_rewrites(u32 generation, const std::vector<xg_rewrite>& rewrites) const noexcept;

  // Sums over CPUs. kernel_counters: by XG_KERNEL_* reason. malformed_counters: by kind, XG_MALFORMED_* - 1.
  Result<std::vector<xg_counter>> kernel_counters() const;
  Result<std::vector<xg_counter>> malformed_counters() const;
  Result<std::vector<xg_exempt_counter>> exempt_counters() const;  // by XG_RATE_*
  Result<std::vector<xg_counter>> rule_counters(u32 slot, u32 rules) const;
  Result<std::vector<xg_rule_shed>> rule_shed(u32 slot, u32 rules) const;
  // The broker's. Both of them.
  Result<void> clear_rule_counters(u32 slot, u32 rules);

  const kernel::MapView<xg_flow_verdict>& flows() const noexcept { return flows_; }
  const kernel::MapView<xg_flow_stats>& flow_stats() const noexcept { return flow_stats_; }

 private:
  std::string ifname_;
  u32 queues_ = 0;
  u32 flow_entries_ = 0;
  kernel::PortMaps maps_;
  kernel::MapView<xg_config> config_;
  kernel::MapView<xg_policy> policy_;
  kernel::MapView<xg_flow_verdict> flows_;
  kernel::MapView<xg_flow_stats> flow_stats_;
  kernel::MapView<xg_rewrite> rewrites_;
};

// Sums of a per-CPU array's entries [first, first + count).
Result<std::vector<xg_counter>> read_percpu_counters(int fd, u32 first, u32 count);

}  // namespace xdpgpu::control
