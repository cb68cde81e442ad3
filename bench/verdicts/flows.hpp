// SPDX-License-Identifier: MIT
//
// bench/verdicts/flows.hpp: IPv6 flows, a packet of each as the XDP program would hand it to a device, and
// what the sequential reference says of them.
#pragma once

#include <memory>
#include <vector>

#include "gpu/flow_table.hpp"
#include "gpu/pipelines.hpp"
#include "maps/control.h"

namespace xdpgpu::bench {

using Packet = std::vector<u8>;

class Flows {
 public:
  // `count` is a multiple of 256. The flows come in on the port of `config` under `generation`.
  Flows(u32 count, const xg_config& config, u32 generation);

  // A load balancer that caches, so that each flow has a backend of its own choice.
  static std::vector<gpu::PipelineSettings> pipelines();
  static gpu::Mac mac_of(u8 backend) { return {2, 0xee, 0, 0, 0, backend}; }

  u32 count() const { return count_; }
  // The packet as it comes in: Ethernet, IPv6, UDP.
  Packet packet(u32 flow) const;
  u8 backend(u32 flow) const { return static_cast<u8>(results_[flow].detail); }
  const xg_result& result(u32 flow) const { return results_[flow]; }
  // What is to be remembered of the flow.
  gpu::FlowVerdict verdict(u32 flow) const;

  // The packets in memory: page-aligned, a 128-byte line each, metadata in front.
  u8* base() const { return memory_.get(); }
  u64 bytes() const { return u64{count_} * kLine; }
  xg_descriptor descriptor(u32 flow) const;
  // All packets are received once more, a nanosecond apart; the last one now.
  void receive_again();

 private:
  static constexpr u64 kLine = 128;
  struct Free {
    void operator()(u8* memory) const;
  };

  u32 count_;
  u32 length_;
  u32 generation_;
  std::unique_ptr<u8, Free> memory_;
  std::vector<xg_flow_key> keys_;
  std::vector<xg_result> results_;
};

}  // namespace xdpgpu::bench
