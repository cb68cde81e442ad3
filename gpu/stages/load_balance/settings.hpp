// SPDX-License-Identifier: MIT
//
// gpu/stages/load_balance/settings.hpp: what `load_balance` can be told, and what it does.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "gpu/stages/fields.hpp"
#include "gpu/stages/load_balance/maglev.hpp"
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
  Prefix address{};  // of one host; with encapsulation, where the outer headers lead; of no bits: none
  std::string to{};  // the interface's name, where a policy gives it
  bool operator==(const Backend&) const = default;
};
struct EncapsulationSettings {
  enum class Type { ipip, gue } type = Type::ipip;
  // The outer source, by the family of the backend's address, which one of them has. Where a prefix is
  // shorter than an address, the flow's hash fills up to 16 of the last bits.
  std::optional<Prefix> source4{}, source6{};
  u16 port = XG_GUE_PORT;  // with gue: the UDP destination, host order, not 0
  u32 mtu = 1500;          // longest outer IP packet, bytes, 576..65535
  std::array<u64, 2> hash_key{};
  bool operator==(const EncapsulationSettings&) const = default;
};
namespace balance_rule {
inline constexpr u32 kTooLong = 1;    // it would not fit inside of the outer headers
inline constexpr u32 kMalformed = 2;  // it cannot be told how long it is
}  // namespace balance_rule
struct AffinitySettings {
  enum class Per { flow, src } per = Per::flow;  // src: all flows of a source address go together
  u32 idle_ms = 300'000;                         // without a packet, after which it is forgotten, 1..2^32-1
  TableSettings table{.entries = 1'048'576};
  bool operator==(const AffinitySettings&) const = default;
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
  // Who sees to it that backends' `down` is true; not asked here.
  std::optional<HealthSettings> health{};
  std::string key_file{};  // where `key` is from
  bool operator==(const LoadBalanceSettings&) const = default;
};
inline constexpr u32 kMaxBackends = 256;
inline constexpr Named<LoadBalanceSettings::Algorithm> kAlgorithmNames[] = {
    {LoadBalanceSettings::Algorithm::hash, "hash"}, {LoadBalanceSettings::Algorithm::maglev, "maglev"}};
inline constexpr Named<AffinitySettings::Per> kAffinityPerNames[] = {{AffinitySettings::Per::flow, "flow"},
                                                                     {AffinitySettings::Per::src, "src"}};
inline constexpr Named<EncapsulationSettings::Type> kEncapsulationNames[] = {
    {EncapsulationSettings::Type::ipip, "ipip"}, {EncapsulationSettings::Type::gue, "gue"}};

template <class Table>
void fields_of(Table& table, SettingsLike<Backend> auto& s) {
  table.text("name", s.name, "What it is told from others by; with 'maglev' each has its own.",
             Say{.derived = true});
  table.mac("mac", s.mac, "The backend's MAC address, or that of the next hop to it.", Say{.required = true});
  table.integer("weight", s.weight, 0, 1000, "Its share of the flows; 0: it drains.", Say{});
  table.flag("drain", s.drains, "It gets no new flows; those that have affinity to it stay.",
             Say{.shown = s.drains});
  table.host(
      "address", s.address,
      "Its own IP address, by which 'health' reaches it from this host, and to which 'encapsulation' leads; "
      "needed there.",
      Say{});
  table.port("to", s.to, s.to_port, s.target,
             "Interface to send out of. Default: the one that the packet came in on.", Say{});
}

template <class Table>
void fields_of(Table& table, SettingsLike<AffinitySettings> auto& s) {
  table.word("per", s.per, kAffinityPerNames,
             "What goes to one backend: a flow, or all flows of a source address.", Say{});
  table.time("idle", s.idle_ms, 1, kMaxTimeoutMs,
             "Time without a packet after which it is forgotten, 1ms to 168h.", Say{});
  table_fields(
      table, s.table, kMaxTableEntries, "How many flows or clients there is room for.",
      "Which of them gives way to a new one where there is no room; with 'refuse' none does, and a flow that "
      "has no room goes where Maglev says.");
}

template <class Table>
void fields_of(Table& table, SettingsLike<HealthSettings> auto& s) {
  table.integer("port", s.port, 1, 65535, "What to connect to.", Say{.required = true});
  table.time("interval", s.interval_ms, 10, 3'600'000,
             "From the beginning of one connect to that of the next, 10ms to 1h.", Say{});
  table.time("timeout", s.timeout_ms, 10, 3'600'000,
             "How long a connect may take, 10ms to 1h, at most the interval.", Say{});
  table.integer("fall", s.fall, 1, 100, "Connects in a row that fail before a backend is down.", Say{});
  table.integer("rise", s.rise, 1, 100, "Connects in a row that succeed before it is up again.", Say{});
}

template <class Table>
void fields_of(Table& table, SettingsLike<EncapsulationSettings> auto& s) {
  table.word("type", s.type, kEncapsulationNames,
             "'ipip': IP in IP (RFC 2003, 2473, 4213). 'gue': Generic UDP Encapsulation, variant 1: the "
             "packet stands "
             "right behind a UDP header, whose source port is by the flow.",
             Say{.required = true});
  table.group(
      "source", "\"source\"",
      "The outer source address, of the family that each backend's address has. Of a network (IPv4 /16 or "
      "longer, IPv6 /64 or longer) the flow fills the last 16 bits at most, so that the backend's NIC "
      "spreads "
      "flows over its queues.",
      Say{.required = true}, [&](auto& source) {
        source.source("ipv4", s.source4, 4, 16, "For backends with an IPv4 address.", Say{});
        source.source("ipv6", s.source6, 6, 64, "For backends with an IPv6 address.", Say{});
        source.any_of(Keys{"ipv4", "ipv6"},
                      "the outer headers need an address of this host to come from: add \"ipv4\", \"ipv6\" "
                      "or both, as the backends' addresses are");
      });
  table.integer("port", s.port, 1, 65535, "With 'gue': the UDP port that backends listen on.",
                Say{.fits = s.type == EncapsulationSettings::Type::gue,
                    .unless = "only gue has a port: take this out, or make the \"type\" \"gue\""});
  table.integer(
      "mtu", s.mtu, 576, 65535,
      "Longest IP packet on the way to the backends, outer headers included, in bytes. What would be longer "
      "is dropped, and its sender told.",
      Say{});
}

template <class Table>
void fields_of(Table& table, SettingsLike<LoadBalanceSettings> auto& s) {
  const auto maglev = [&] { return s.algorithm == LoadBalanceSettings::Algorithm::maglev; };
  table.about(
      "Sends each flow to one of the backends, by a hash of its addresses, ports and protocol: the backend's "
      "MAC "
      "address becomes the destination, the frame's former destination the source.");
  table.word(
      "algorithm", s.algorithm, kAlgorithmNames,
      "How a flow's backend is chosen. 'hash': FNV-1a of addresses, ports and protocol, modulo the weights' "
      "sum; "
      "anybody can tell where a flow goes, and a change of the backends moves most flows. 'maglev': by a "
      "hash "
      "with a secret key, in Maglev's lookup table; a backend that is taken out moves its own flows and few "
      "others, and the order of the backends does not matter. Then each backend needs a name of its own.",
      Say{});
  table.integer(
      "table_size", s.table_size, kMinMaglevTable, kMaxMaglevTable,
      "With 'maglev': entries of the lookup table, a prime number; at least a hundred times the number of "
      "backends keeps their shares true and what moves small.",
      Say{.fits = maglev(),
          .unless = "only maglev has a lookup table: take this out, or add \"algorithm\": \"maglev\""});
  table.secret(
      "key_file", s.key_file, s.key,
      "With 'maglev': file of the hash's secret key, 32 hexadecimal digits (openssl rand -hex 16), relative "
      "to the policy. Balancers of the same key, backends and table_size send a flow to the same backend, "
      "and "
      "so does one that is started anew; without it each process has a key of its own.",
      Say{.fits = maglev(),
          .unless = "only maglev hashes with a key: take this out, or add \"algorithm\": \"maglev\""});
  table.array("backends", s.backends, 1, kMaxBackends, "a backend", "Where flows go.", Say{.required = true});
  table.record(
      "affinity", s.affinity, "\"affinity\"",
      "With 'maglev': remembers which backend a flow or a client went to. There it stays, although other "
      "backends come and go or weights change, while its backend is there and not down.",
      Say{.fits = maglev(),
          .unless = "affinity knows backends by name, as maglev does: add \"algorithm\": \"maglev\""});
  table.record(
      "health", s.health, "\"health\"",
      "Connects to each backend's address by TCP, again and again. One that is down gets no flows; where all "
      "are down, none counts as down.",
      Say{});
  table.record(
      "encapsulation", s.encapsulation, "\"encapsulation\"",
      "Packets leave inside of outer headers to the backend's own address, so that it may stand behind "
      "routers: its MAC address is then that of the next hop. What is inside arrives there as it came, "
      "addressed to the service.",
      Say{});
  table.cache(s.cache, s.cache_ttl_ms,
              "As in every stage; with 'affinity' at most half of its 'idle', so that the flow comes up in "
              "time to be "
              "remembered.",
              Say{});
}

}  // namespace xdpgpu::gpu
