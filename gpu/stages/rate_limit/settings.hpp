// SPDX-License-Identifier: MIT
//
// gpu/stages/rate_limit/settings.hpp: what `rate_limit` can be told, and what it does.
#pragma once

#include "gpu/stages/fields.hpp"

namespace xdpgpu::gpu {

// `rate_limit`: a token bucket for each source, destination, or flow (addresses, ports and protocol). A
// packet that finds too few tokens in it is decided by `excess` and takes none; the others go on. Limits in
// packets and in bytes (from the Ethernet header on) may both be set: then a packet needs both. A key for
// which there is no place is not limited. Packets without addresses go on. In fragments the ports count as 0.
// Verdict's rule: 0.
struct RateLimitSettings {
  enum class Per { src, dst, flow } per = Per::src;
  u8 bits4 = 32;  // bits of the address that count, for src and dst: whole prefixes share a bucket
  u8 bits6 = 128;
  u64 packets_per_second = 0;    // 0: not limited in packets; to 10^9
  u64 burst_packets = 0;         // tokens that a full bucket has, 1..10^9
  u64 bytes_per_second = 0;      // 0: not limited in bytes; 1,000 to 10^12
  u64 burst_bytes = 0;           // 1..10^12; a longer frame never fits
  Action excess = Action::drop;  // drop or pass
  TableSettings table;
  bool operator==(const RateLimitSettings&) const = default;
};
inline constexpr Named<RateLimitSettings::Per> kRatePerNames[] = {{RateLimitSettings::Per::src, "src"},
                                                                  {RateLimitSettings::Per::dst, "dst"},
                                                                  {RateLimitSettings::Per::flow, "flow"}};

template <class Table>
void fields_of(Table& table, SettingsLike<RateLimitSettings> auto& s) {
  constexpr u64 kGiga = 1'000'000'000, kTera = 1'000'000'000'000;
  const auto address = [&] { return s.per != RateLimitSettings::Per::flow; };
  constexpr std::string_view kFlow =
      "a flow has whole addresses: take this out, or limit per \"src\" or \"dst\"";
  table.about(
      "A token bucket for each source, destination or flow: what finds too few tokens in it is decided here "
      "and takes "
      "none. Both rates may be given: then a packet needs both.");
  table.word("per", s.per, kRatePerNames,
             "What shares a bucket. A flow is its addresses, ports and protocol, in one direction.",
             Say{.required = true});
  table.integer(
      "prefix4", s.bits4, 1, 32,
      "Bits of an IPv4 address that count: 24 makes whole /24 networks share a bucket. Not for flows.",
      Say{.fits = address(), .unless = kFlow});
  table.integer("prefix6", s.bits6, 1, 128, "Likewise for IPv6.", Say{.fits = address(), .unless = kFlow});
  table.integer("pps", s.packets_per_second, 1, kGiga, "Packets per second.",
                Say{.shown = s.packets_per_second != 0});
  table.integer("burst", s.burst_packets, 1, kGiga, "Packets that may come at once; a second's unless given.",
                Say{.shown = s.packets_per_second != 0,
                    .derived = true,
                    .needs = "pps",
                    .lacks = "a burst of packets needs a rate: add \"pps\""});
  table.integer("bytes_per_second", s.bytes_per_second, 1000, kTera,
                "Bytes per second, counted from the Ethernet header on.",
                Say{.shown = s.bytes_per_second != 0});
  table.integer("burst_bytes", s.burst_bytes, 1, kTera,
                "Bytes that may come at once; a second's unless given. A longer frame never fits.",
                Say{.shown = s.bytes_per_second != 0,
                    .derived = true,
                    .needs = "bytes_per_second",
                    .lacks = "a burst of bytes needs a rate: add \"bytes_per_second\""});
  table.any_of(Keys{"pps", "bytes_per_second"},
               "the stage rate_limit needs a rate: \"pps\", \"bytes_per_second\" or both");
  table.word("excess", s.excess, kDecisionNames, "What becomes of packets over the limit.", Say{});
  table_fields(
      table, s.table, kMaxTableEntries,
      "Buckets that there is room for, 72 bytes of the device's memory each. A bucket that is full again is "
      "not kept.",
      "Which bucket gives way where a new one finds no room; with 'refuse' none does, and what has no bucket "
      "is not limited.");
}

}  // namespace xdpgpu::gpu
