// SPDX-License-Identifier: MIT
//
// gpu/stages/ddos/reference.hpp: what `ddos` knows of its targets (DdosSettings).
#pragma once

#include <map>

#include "gpu/reference/packet.hpp"
#include "gpu/reference/table.hpp"

namespace xdpgpu::gpu::reference {

class Floods {
 public:
  // settings: outlive this object.
  Floods(const DdosSettings& settings, const std::array<u64, 2>& secret)
      : settings_(&settings), secret_(secret) {}
  // From here on by other settings, for the same targets.
  void change(const DdosSettings& settings) { settings_ = &settings; }

  struct Answer {
    bool dropped = false;
    u32 metric = 0;
    u64 milliseconds = 0;  // left of the alarm
  };
  // The packet's target is noted in the table.
  Answer see(const Packet& packet, Table& table);

  // The targets' records, for `places` entries, laid out as devices have them (gpu/stages/ddos/device.h).
  std::vector<u32> words(u64 places) const;

 private:
  // Registers of a HyperLogLog.
  using Registers = std::array<u8, 256>;
  struct Metric {
    u64 now = 0, before = 0;
    u64 until = 0, since = 0, value = 0, peak = 0, dropped = 0;
    u32 alarms = 0;
  };
  struct Top {
    std::array<u8, 16> address{};
    u32 packets = 0;
  };
  struct Target {
    u64 start = 0;
    u64 windows = 0;     // begun since it is known, but for those without a packet
    bool other = false;  // which of its two arrays of registers is the current one
    std::array<Metric, kDdosMetrics> metrics{};
    u32 alarms = 0;
    u32 detections = 0;
    u64 dropped = 0;
    Registers sources{}, flows{}, flows_before{};
    std::array<std::array<u32, 64>, 2> sketch{};
    u32 sketched = 0;
    std::array<Top, 8> top{};
  };
  struct Hashes;

  void advance(Target& target, u64 now) const;
  void count(Target& target, u32 kinds, u32 bytes, const Hashes& hashes) const;
  void judge(Target& target, u32 kinds, u64 now, Table& table) const;
  static u32 count_source(Target& target, std::span<const u8> address, const Hashes& hashes);
  bool watches(u32 metric) const { return settings_->thresholds[metric] != 0; }

  const DdosSettings* settings_;
  std::array<u64, 2> secret_;
  std::map<u64, Target> targets_;  // by place
};

}  // namespace xdpgpu::gpu::reference
