// SPDX-License-Identifier: MIT
//
// gpu/stages/ddos/settings.hpp: what `ddos` can be told, and what it does.
#pragma once

#include <array>
#include <string_view>

#include "gpu/stages/fields.hpp"

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
  static constexpr u32 kRecordWords = 560;                     // that an entry has behind the sets
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
  bool operator==(const DdosSettings&) const = default;
};
inline constexpr u32 kMaxDdosHoldMs = 8 * 3'600'000;
inline constexpr u32 kMaxDdosTargets = 1u << 20;
// A number of events in a window as a metric's threshold has it: a second's, or, for `sources`, itself.
u64 ddos_rate(const DdosSettings& settings, DdosMetric metric, u64 in_window);

inline constexpr Named<DdosSettings::Direction> kDdosDirectionNames[] = {
    {DdosSettings::Direction::in, "in"}, {DdosSettings::Direction::out, "out"}};
inline constexpr Named<DdosSettings::OnDetect> kOnDetectNames[] = {
    {DdosSettings::OnDetect::pass, "pass"},
    {DdosSettings::OnDetect::drop, "drop"},
    {DdosSettings::OnDetect::drop_sources, "drop_sources"}};
inline constexpr std::array<std::string_view, kDdosMetrics> kDdosMetricSentences{
    "TCP packets with SYN and without ACK, per second.",
    "UDP packets per second.",
    "Bytes of UDP packets per second, from the Ethernet header on.",
    "UDP packets from port 53 per second: DNS answers, as amplification makes them.",
    "Their bytes. Fragments behind the first one have no port: those are seen by the UDP thresholds alone.",
    "ICMP and ICMPv6 packets per second.",
    "Packets of any kind per second.",
    "Bytes of any kind per second.",
    "Flows (addresses, ports, protocol) that were not seen in the window before, per second; an estimate, "
    "within 7 % "
    "of all of the target's flows in two of three cases. The alarm concerns TCP packets with SYN and without "
    "ACK, and "
    "whatever is not TCP.",
    "Different sources of a target's packets within a window (with 'out' different destinations); an "
    "estimate, "
    "likewise."};

template <class Table>
void fields_of(Table& table, SettingsLike<DdosSettings> auto& s) {
  using OnDetect = DdosSettings::OnDetect;
  table.about(
      "Detects floods to each destination, or from each source, by thresholds: an alarm begins where a "
      "number in the "
      "sliding window reaches its own, lasts until it has stayed below the release threshold for 'hold', and "
      "meanwhile "
      "drops the packets that it counts. What does not hit an alarm goes on to the next stage.");
  table.word("direction", s.direction, kDdosDirectionNames,
             "Whose numbers: 'in' counts what comes to each destination address, 'out' what each source "
             "address sends. "
             "Thresholds for both directions take two stages.",
             Say{});
  table.integer("prefix4", s.bits4, 1, 32,
                "Bits of a target's IPv4 address that count: 24 watches whole /24 networks.", Say{});
  table.integer("prefix6", s.bits6, 1, 128, "Likewise for IPv6.", Say{});
  table.time("window", s.window_ms, 10, 60'000, "Length of the sliding window, 10ms to 1m.", Say{});
  for (u32 i = 0; i < kDdosMetrics; i++) {
    const bool bytes = kDdosMetricNames[i].ends_with("bytes_per_second");
    table.integer(kDdosMetricNames[i], s.thresholds[i], 1, bytes ? 1'000'000'000'000 : 1'000'000'000,
                  kDdosMetricSentences[i], Say{.shown = s.thresholds[i] != 0});
  }
  table.any_of(Keys(kDdosMetricNames.begin(), kDdosMetricNames.end()),
               "the stage ddos needs a threshold: one or more of \"syn_pps\", \"udp_pps\", "
               "\"udp_bytes_per_second\", \"dns_pps\", \"dns_bytes_per_second\", \"icmp_pps\", "
               "\"pps\", \"bytes_per_second\", \"new_flows_per_second\" and \"sources\"");
  table.integer("release_percent", s.release_percent, 1, 100,
                "Percent of its threshold below which a number has to stay for its alarm to end.", Say{});
  table.time(
      "hold", s.hold_ms, 1, kMaxDdosHoldMs,
      "How long it has to stay there, 1ms to 8h. Unless it is said, 60s, or as long as 'cache' if that is "
      "longer.",
      Say{.derived = true});
  table.word("on_detect", s.on_detect, kOnDetectNames,
             "What becomes of the packets that an alarm counts: 'drop' drops them, 'drop_sources' only those "
             "of sources "
             "that have their share of these packets, 'pass' reports and lets them go on.",
             Say{});
  table.integer(
      "share_percent", s.share_percent, 1, 100,
      "For 'drop_sources': percent of the packets of the alarms' kinds that make a source one to drop. "
      "Shares "
      "below 3 are within the error of the sketch (two rows of 64).",
      Say{.fits = s.on_detect == OnDetect::drop_sources,
          .unless = "only \"on_detect\": \"drop_sources\" looks at what share of the packets a source has: "
                    "take this out, or say that"});
  table.cache(
      s.cache, s.cache_ttl_ms,
      "Whether the kernel drops the rest of the flow itself: true (for what is left of the alarm), at most a "
      "duration from 1ms to 8h, which is not longer than 'hold', or false. Where packets of the same kind "
      "keep "
      "coming up beside what the kernel drops, the alarm goes on; where the kernel drops all of it, it ends, "
      "and what still comes begins it anew.",
      Say{.fits = s.on_detect != OnDetect::pass,
          .unless = "this stage drops nothing, so there is nothing to cache: take this out, or let "
                    "\"on_detect\" drop"});
  table_fields(table, s.table, kMaxDdosTargets,
               "Targets that there is room for, 2,300 bytes of the device's memory each.",
               "Which target is forgotten where a new one finds no room; with 'refuse' none is, and the new "
               "one is not "
               "watched.");
}

}  // namespace xdpgpu::gpu
