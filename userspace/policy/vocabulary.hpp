// SPDX-License-Identifier: MIT
//
// userspace/policy/vocabulary.hpp: every key and every word that a policy may use. The parser reads by
// these tables, and a test holds config/policy.schema.json against them.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "maps/tables.h"

namespace xdpgpu::policy {

using Words = std::span<const std::string_view>;

namespace keys {
inline constexpr std::array<std::string_view, 17> kPolicy{
    "$schema",    "version",     "description", "default",
    "on_failure", "on_overload", "fragments",   "overlapping_fragments",
    "malformed",  "management",  "rates",       "lists",
    "rules",      "pipelines",   "io",          "compute",
    "log"};
inline constexpr std::array<std::string_view, 7> kRates{
    "arp", "nd", "dhcp", "lacp", "lldp", "stp", "management_answers"};  // XG_RATE_*
inline constexpr std::array<std::string_view, 2> kRate{"pps", "burst"};
inline constexpr std::array<std::string_view, 2> kKnown{"known", "new"};
inline constexpr std::array<std::string_view, 9> kMatch{
    "src", "dst", "proto", "src_port", "dst_port", "tcp_flags", "vlan", "control", "family"};
inline constexpr std::array<std::string_view, 8> kManagement{"description", "src",      "dst",  "proto",
                                                             "src_port",    "dst_port", "vlan", "family"};
inline constexpr std::array<std::string_view, 6> kList{"description", "type",  "file",
                                                       "prefixes",    "names", "subdomains"};
inline constexpr std::array<std::string_view, 2> kListFile{"description", "file"};
inline constexpr std::array<std::string_view, 2> kListPrefixes{"description", "prefixes"};
inline constexpr std::array<std::string_view, 4> kDomainFile{"description", "type", "file", "subdomains"};
inline constexpr std::array<std::string_view, 3> kDomainNames{"description", "type", "names"};
inline constexpr std::array<std::string_view, 6> kRule{"name",   "description", "match",
                                                       "action", "limit",       "priority"};
inline constexpr std::array<std::string_view, 3> kLimit{"per", "pps", "burst"};
inline constexpr std::array<std::string_view, 2> kAction{"inspect", "mirror"};  // one of them
inline constexpr std::array<std::string_view, 1> kInspect{"inspect"};
inline constexpr std::array<std::string_view, 1> kMirror{"mirror"};
inline constexpr std::array<std::string_view, 3> kPipeline{"description", "inner", "stages"};
inline constexpr std::array<std::string_view, 2> kRoute{"prefix", "next_hop"};
inline constexpr std::array<std::string_view, 1> kRouteFile{"file"};
inline constexpr std::array<std::string_view, 13> kIo{
    "mode",        "ring_size",  "frames_per_queue", "burst",        "link_gbps",        "heartbeat",
    "spin",        "huge_pages", "busy_poll",        "busy_poll_us", "busy_poll_budget", "mirror_slots",
    "mirror_bytes"};
inline constexpr std::array<std::string_view, 8> kCompute{"device", "devices",  "mode",    "frames",
                                                          "batch",  "max_wait", "standby", "retry"};
inline constexpr std::array<std::string_view, 6> kLog{"outputs",    "events",  "rate",
                                                      "alert_rate", "payload", "stats_every"};
inline constexpr std::array<std::string_view, 3> kLogOutput{"file", "socket", "journald"};  // one of them
inline constexpr std::array<std::string_view, 1> kLogFile{"file"};
inline constexpr std::array<std::string_view, 1> kLogSocket{"socket"};
inline constexpr std::array<std::string_view, 1> kLogJournald{"journald"};
}  // namespace keys

namespace words {
inline constexpr std::array<std::string_view, 2> kDo{"pass", "drop"};
inline constexpr std::array<std::string_view, 1> kKnown{"keep"};
inline constexpr std::array<std::string_view, 1> kListTypes{"domain"};
inline constexpr std::array<std::string_view, 5> kFragments{"pass", "drop", "inspect", "track", "reassemble"};
inline constexpr std::array<std::string_view, 2> kOverlapping{"drop", "first"};
inline constexpr std::array<std::string_view, 3> kMalformed{"pass", "drop", "inspect"};
inline constexpr std::array<std::string_view, 2> kAction{"pass",
                                                         "drop"};  // and {"inspect": NAME}, {"mirror": NAME}
inline constexpr std::array<std::string_view, 3> kLimitPer{"src", "dst", "rule"};  // XG_LIMIT_PER_*
inline constexpr std::array<std::string_view, 2> kFamily{"ipv4", "ipv6"};
inline constexpr std::array<std::string_view, 6> kControl{"arp",  "nd",   "dhcp",
                                                          "lacp", "lldp", "stp"};  // XG_CONTROL_*
inline constexpr std::array<std::string_view, 2> kVlan{"none", "priority"};
inline constexpr std::array<std::string_view, 8> kTcpFlags{"fin", "syn", "rst", "psh",
                                                           "ack", "urg", "ece", "cwr"};  // bit by bit
inline constexpr std::array<std::string_view, 4> kIoMode{"auto", "zero-copy", "copy", "generic"};
inline constexpr std::array<std::string_view, 5> kComputeMode{"auto", "inline", "split", "persistent",
                                                              "graph"};
inline constexpr std::array<std::string_view, 3> kComputeFrames{"auto", "in_place", "staged"};
inline constexpr std::array<std::string_view, 2> kStandby{"cpu", "none"};
inline constexpr std::array<std::string_view, 5> kLogEvents{"alert", "drop", "dns", "program", "stats"};
// Named elsewhere for this product, not part of this version.
inline constexpr std::array<std::string_view, 6> kStageAbsent{"pattern", "program", "gtpu",
                                                              "crypto",  "model",   "telemetry"};
}  // namespace words

struct ProtocolName {
  std::string_view name;
  u8 number;
};
inline constexpr std::array<ProtocolName, 10> kProtocols{{{"icmp", 1},
                                                          {"igmp", 2},
                                                          {"tcp", 6},
                                                          {"udp", 17},
                                                          {"gre", 47},
                                                          {"esp", 50},
                                                          {"ah", 51},
                                                          {"icmpv6", 58},
                                                          {"ospf", 89},
                                                          {"sctp", 132}}};

// Whether `word` stands in `among`, and at which place.
std::optional<u32> find_word(Words among, std::string_view word);

// The word of `among` with the smallest edit distance (Damerau-Levenshtein, adjacent swaps count once);
// empty where `among` is empty or nothing comes near (more than half of the letters differ).
std::string_view nearest(Words among, std::string_view word);

// `; did you mean "x"?`, or `; known here: a, b, c` where nothing is near.
std::string suggestion(Words among, std::string_view word);

// "a, b and c" with quotes around each.
std::string quoted_list(Words among);

}  // namespace xdpgpu::policy
