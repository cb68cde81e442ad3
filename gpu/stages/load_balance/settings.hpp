// SPDX-License-Identifier: MIT
//
// gpu/stages/load_balance/settings.hpp: what `load_balance` can be told, and what it does.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "gpu/stages/load_balance/maglev.hpp"
#include "gpu/stages/values.hpp"
#include "maps/encapsulation.h"

namespace xdpgpu::gpu {

// `load_balance`: FNV-1a (32-bit, as the published "XDP on GPU" prototype uses it) over source address,
// destination address, source port, destination port (each in network byte order as in the packet; 4 or
// 16 address bytes) and protocol, modulo the sum of the weights; backend i owns weight_i consecutive
// residues. The ports count as 0 where the packet has none and in all fragments, so that the fragments
// of one packet stay together.
//
// By maglev: the backend that stands in Maglev's lookup table of `table_size` entries
// (gpu/stages/load_balance/maglev.hpp) at the upper 32 bits of the flow's SipHash-1-3 (`key`, or else
// CompileOptions::hash_key), modulo the size; hashed are the forty bytes of the key that `rate_limit` has for
// flows: source and destination in sixteen bytes each, the ports as above, family, protocol, 0, 0. Each
// backend has its own name then, and each a share in the table. Who does not know the key cannot aim at a
// backend, and one that is taken out moves its own flows and few others.
//
// With `affinity` (by maglev only) a table remembers where each flow, or each client, went: while its entry
// lives it goes there, although other backends come and go or weights change. It moves when its backend is
// gone or down. Entries name backends by their names (backend_id), and the table is the same one whatever the
// backends are. Verdicts may be cached all the same, unless another table stands in front: the kernel then
// sends the flow where this table does. The flow must not be forgotten meanwhile, so that cache_ttl_ms is at
// most half of `idle_ms`, and it comes up again in time.
//
// A backend that drains gets no new flows; one that is down gets none at all. Where all that do not drain are
// down, none counts as down: what cannot be reached from here may well be reached from elsewhere.
//
// Sets the backend's MAC as destination and the frame's former destination
// as source. Packets without addresses go on to the next stage. Verdict's rule: 0, or one of balance_rule;
// the result's detail: the backend's position. Rewrite: the backends of stages that cache or encapsulate are
// numbered from XG_REWRITE_FIRST on in the order of the settings; verdicts for those from XG_REWRITE_HALF on
// are not cached, and cannot be where the stage encapsulates.
//
// With `encapsulation` the packet leaves inside of outer headers to the backend's own address
// (maps/encapsulation.h), so that the backend may be any number of routers away. A packet that is malformed,
// and one that would not fit into the MTU, are dropped; the latter with XG_RES_TOO_LONG. The flow's hash in
// the result is the low 16 bits of the SipHash-1-3 of the key that maglev has, by the encapsulation's own
// key: who has the same settings makes the same headers.
struct Backend {
  std::string name;
  Mac mac{};
  u32 weight = 1;        // 1..1000
  bool to_port = false;  // false: TX, out of the port it came in on
  u32 target = 0;        // port index when to_port
  bool drains = false;
  bool down = false;
  Prefix address{};  // of one host; with encapsulation, where the outer headers lead
};
struct EncapsulationSettings {
  enum class Type { ipip, gue } type = Type::ipip;
  // The outer source, by the family of the backend's address, which one of them has. Where a prefix is
  // shorter than an address, the flow's hash fills up to 16 of the last bits.
  std::optional<Prefix> source4{}, source6{};
  u16 port = XG_GUE_PORT;  // with gue: the UDP destination, host order, not 0
  u32 mtu = 1500;          // longest outer IP packet, bytes, 576..65535
  std::array<u64, 2> hash_key{};
};
namespace balance_rule {
inline constexpr u32 kTooLong = 1;    // it would not fit inside of the outer headers
inline constexpr u32 kMalformed = 2;  // it cannot be told how long it is
}  // namespace balance_rule
struct AffinitySettings {
  enum class Per { flow, src } per = Per::flow;  // src: all flows of a source address go together
  u32 idle_ms = 300'000;                         // without a packet, after which it is forgotten, 1..2^32-1
  TableSettings table{.entries = 1'048'576};
};
struct LoadBalanceSettings {
  enum class Algorithm { hash, maglev };
  std::vector<Backend> backends;  // 1..256
  bool cache = false;
  u32 cache_ttl_ms = 0;
  Algorithm algorithm = Algorithm::hash;
  u32 table_size = kMaglevTable;  // with maglev: a prime, kMinMaglevTable..kMaxMaglevTable
  std::optional<AffinitySettings> affinity{};
  // With maglev: balancers of the same key, backends and table_size choose the same backend for a flow.
  std::optional<std::array<u64, 2>> key{};
  std::optional<EncapsulationSettings> encapsulation{};
};

}  // namespace xdpgpu::gpu
