// SPDX-License-Identifier: MIT
//
// gpu/stages/values.hpp: values that the settings of several stages have. Plain values, no more.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "maps/packet.h"

namespace xdpgpu::gpu {

// Address bytes in network order; IPv4 uses the first four. length in bits.
struct Prefix {
  u8 family = 4;  // 4 or 6
  std::array<u8, 16> address{};
  u8 length = 0;
  bool operator==(const Prefix&) const = default;
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 sees a 0 in there.
  auto operator<=>(const Prefix&) const = default;
};
// Names of domains, a line each, as gpu/domain_names.hpp says. Millions of them are handed on, and not
// copied.
struct DomainNames {
  std::shared_ptr<const std::string> text{};  // nullptr: none
  u64 count = 0;
  bool operator==(const DomainNames& other) const {
    return count == other.count && (text == other.text || (text && other.text && *text == *other.text));
  }
};
// What has become of entries of a list since it was compiled, by their lines: true: they are there, false:
// they are not. And by the list's name.
using NameEntries = std::map<std::string, bool, std::less<>>;
using NameChanges = std::map<std::string, NameEntries, std::less<>>;
struct PortRange {
  u16 first = 0;  // host order, inclusive
  u16 last = 65535;
  bool operator==(const PortRange&) const = default;
};
// VLANs by the outer tag's id, inclusive. From 0 to 0: no tag; from XG_VLAN_PRIORITY to the same: a tag with
// id 0.
struct VlanRange {
  u16 first = 0;
  u16 last = 0;
  bool operator==(const VlanRange&) const = default;
};
using Mac = std::array<u8, 6>;

// What becomes of a packet. next: it goes on to the next stage; refuse: it is dropped, and who sent it is
// told.
enum class Action { next, drop, pass, tx, redirect, refuse };

// Holds for TCP packets in whose flag byte (RFC 9293) the bits in `mask` are those in `value`.
struct TcpFlags {
  u8 mask = 0;
  u8 value = 0;  // no bits outside `mask`
  bool operator==(const TcpFlags&) const = default;
};
// What a packet has to meet: of each condition that is there, one of its values.
struct Conditions {
  std::vector<Prefix> src, dst;
  std::vector<u8> protocols;
  std::vector<PortRange> src_ports, dst_ports;
  std::optional<TcpFlags> tcp_flags;
  std::vector<VlanRange> vlans;
  bool operator==(const Conditions&) const = default;
};

// Where packets to a prefix go.
inline constexpr u32 kRoutePass = ~u32{0};      // to the host
inline constexpr u32 kRouteDrop = ~u32{0} - 1;  // nowhere
struct Route {
  Prefix prefix;
  u32 next_hop = 0;  // position, kRoutePass or kRouteDrop
  bool operator==(const Route&) const = default;
};
// So many routes, one after the other, from one place of a policy.
struct RouteSource {
  std::string file;  // as the policy names it; empty: they stand in the policy, all to one next hop
  u32 count = 0;
  bool operator==(const RouteSource&) const = default;
};

// What a stage remembers of packets, by key: a table of the device's own memory (gpu/stages/table.h). It is
// divided into sets of eight; a key's set is told by the keyed hash of the key (CompileOptions::hash_key),
// and a newcomer to a full set takes the place of one of the eight, or gets none. Packets with timestamps
// that run backwards count as of the latest time that their set has seen.
struct TableSettings {
  enum class Evict {
    fifo,    // the entry that has been there longest
    lru,     // the one not used for longest
    lfu,     // the one used least often
    random,  // any of them, by the newcomer's hash
    refuse,  // none
  };
  u32 entries = 65536;  // 1..67,108,864; rounded up so that there is a power of two of sets; 72 bytes each
  Evict evict = Evict::lru;
  bool operator==(const TableSettings&) const = default;
};

// A TCP connect to a host, again and again.
struct HealthSettings {
  u16 port = 0;
  u32 interval_ms = 2'000;  // from the beginning of one connect to that of the next
  u32 timeout_ms = 1'000;   // at most interval_ms
  u32 fall = 3, rise = 2;   // failures, successes in a row after which the host is down, up
  bool operator==(const HealthSettings&) const = default;
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 sees a 0 in there.
  auto operator<=>(const HealthSettings&) const = default;
};

}  // namespace xdpgpu::gpu
