// SPDX-License-Identifier: MIT
//
// gpu/stages/ddos/settings.hpp: what `ddos` can be told, and what it does.
#pragma once

#include <array>
#include <string_view>

#include "gpu/stages/values.hpp"

namespace xdpgpu::gpu {

// `ddos`: floods to each destination, or from each source: its target. Of each target is counted, for each
// metric below that has a threshold, what came in the sliding window: what came since the last multiple of
// the window's length and, of what came in the window before, the part that the window still covers, in
// 1,024ths. Numbers of different flows and sources are estimates (HyperLogLog of 256 registers: within 7 % in
// two of three cases), and of the two parts the larger one counts. A flow is new that was not seen in the
// window before; in the first window that a target is known for, none is.
//
// Where a value reaches its threshold, an alarm begins. It lasts until the value has not reached
// `release_percent` of the threshold for `hold_ms`. A packet of a kind for which its target has an alarm is
// dropped, or goes on (on_detect): the kinds are those that the metric counts; for new_flows TCP packets with
// SYN and without ACK, and whatever is not TCP. drop_sources: only packets of such sources (of destinations,
// where targets are sources) as have `share_percent` of the packets of the alarms' kinds (of all kinds that
// have a threshold, where no alarm was on), by a count-min sketch of two rows of 64, which is halved from
// window to window: it may take a source for too much by a 64th of all packets.
//
// A target that has no place in the table, or has to give it away, is not watched, and packets without
// addresses go on. Verdict's rule: 1 + the metric. A verdict is cached for what is left of the alarm, and for
// cache_ttl_ms at most, where that is not 0. What the kernel drops is not counted here: the alarm then ends,
// and so do the cached verdicts; what still comes begins it anew.
enum class DdosMetric : u32 {
  syn,        // TCP packets with SYN and without ACK
  udp,        // packets
  udp_bytes,  // from the Ethernet header on
  dns,        // UDP packets from port 53
  dns_bytes,
  icmp,  // ICMP and ICMPv6 packets
  packets,
  bytes,
  new_flows,
  sources,  // different ones in a window; for `out` different destinations
};
inline constexpr u32 kDdosMetrics = 10;
// As policies name them. All but `sources` are rates per second.
inline constexpr std::array<std::string_view, kDdosMetrics> kDdosMetricNames{
    "syn_pps", "udp_pps",          "udp_bytes_per_second", "dns_pps", "dns_bytes_per_second", "icmp_pps",
    "pps",     "bytes_per_second", "new_flows_per_second", "sources"};
struct DdosSettings {
  enum class Direction { in, out } direction = Direction::in;  // targets: destinations, sources
  u8 bits4 = 32;  // bits of a target's address that count: whole prefixes are one target
  u8 bits6 = 128;
  u32 window_ms = 1000;                        // 10..60,000
  std::array<u64, kDdosMetrics> thresholds{};  // by DdosMetric; 0: not watched; to 10^12
  u32 release_percent = 50;                    // 1..100
  u32 hold_ms = 60'000;                        // 1..kMaxDdosHoldMs
  enum class OnDetect { pass, drop, drop_sources } on_detect = OnDetect::drop;
  u32 share_percent = 10;                // 1..100
  bool cache = false;                    // publish drops to the kernel
  u32 cache_ttl_ms = 0;                  // 0: for what is left of the alarm
  TableSettings table{.entries = 4096};  // targets, kMaxDdosTargets at most; about 2,300 bytes each
};
inline constexpr u32 kMaxDdosHoldMs = 8 * 3'600'000;
inline constexpr u32 kMaxDdosTargets = 1u << 20;
// A number of events in a window as a metric's threshold has it: a second's, or, for `sources`, itself.
u64 ddos_rate(const DdosSettings& settings, DdosMetric metric, u64 in_window);

}  // namespace xdpgpu::gpu
