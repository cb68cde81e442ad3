// SPDX-License-Identifier: MIT
//
// gpu/stages/sample/settings.hpp: what `sample` can be told, and what it does.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "gpu/stages/fields.hpp"

namespace xdpgpu::gpu {

// `sample`: chooses one in so many packets, or flows with all their packets, by a keyed hash, and tells of
// them. Every packet goes on. The hash is SipHash-1-3 of 40 bytes: the flow's two addresses of 16 bytes each,
// IPv4 with zeros behind it, and their two ports of two bytes each, as on the wire and the smaller address's
// first (of equal ones, the smaller port's); the family, 4 or 6; the protocol; two zeros. So both directions
// of a flow are one. Of packets, the receive time in nanoseconds follows, eight bytes, little endian. Chosen
// is what has a hash of at most (2^64 - 1) / one_in, rounded down. Fragments and protocols without ports have
// the ports 0; packets without addresses are never chosen. Verdict's rule: none, as it decides nothing.
//
// The flows of chosen packets are remembered in a table, with the packets that were chosen of each.
struct SampleSettings {
  enum class Per { packet, flow } per = Per::packet;
  u32 one_in = 1000;                           // 1..10^9
  std::string key_file{};                      // where `key` is from
  std::optional<std::array<u64, 2>> key = {};  // none: CompileOptions::hash_key
  u32 idle_ms = 60'000;                        // without a chosen packet, until the flow is forgotten
  TableSettings table{.entries = 4096, .evict = TableSettings::Evict::lru};
  bool operator==(const SampleSettings&) const = default;
};
// What is told of is read from the table again and again: 72 MiB of it at most.
inline constexpr u32 kMaxSampledFlows = 1u << 20;
inline constexpr Named<SampleSettings::Per> kSamplePerNames[] = {{SampleSettings::Per::packet, "packet"},
                                                                 {SampleSettings::Per::flow, "flow"}};

template <class Table>
void fields_of(Table& table, SettingsLike<SampleSettings> auto& s) {
  table.about(
      "Chooses one in so many packets, or one in so many flows with all their packets, and tells of each "
      "flow of which it has chosen something: an event 'sample.sampled'. All packets go on to the next "
      "stage. What stages in front of it decide, and what the kernel deals with by itself, it does not see.");
  table.word("per", s.per, kSamplePerNames,
             "What is chosen: 'packet', each by its flow and its receive time, so that long flows are seen "
             "more often; 'flow', by addresses, ports and protocol, both directions alike.",
             Say{.required = true});
  table.integer("one_in", s.one_in, 1, 1'000'000'000, "How many there are to one that is chosen; 1: all are.",
                Say{.required = true});
  table.secret("key_file", s.key_file, s.key,
               "File of the hash's secret key, 32 hexadecimal digits (openssl rand -hex 16), relative to the "
               "policy. Hosts of the same key choose the same flows, and so does one that is started anew; "
               "without it each process has a key of its own.",
               Say{});
  table.time("idle", s.idle_ms, 1, kMaxTimeoutMs,
             "After so long without a chosen packet a flow is forgotten, 1ms to 168h: one that comes later "
             "is told of anew.",
             Say{});
  table_fields(
      table, s.table, kMaxSampledFlows, "Flows that there is room for, 72 bytes of the device's memory each.",
      "Which flow is forgotten where a new one finds no room; with 'refuse' none is, and the new one "
      "is counted and not told of.");
}

}  // namespace xdpgpu::gpu
