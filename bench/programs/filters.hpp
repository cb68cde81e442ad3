// SPDX-License-Identifier: MIT
//
// bench/programs/filters.hpp: the XDP programs that are measured: what their maps have, the packets that they
// meet, and the stage that does the same.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "bench/stages/stage_case.hpp"
#include "gpu/stages/acl/settings.hpp"
#include "gpu/stages/load_balance/settings.hpp"
#include "userspace/compiler/compiled_policy.hpp"
#include "userspace/compiler/programs/object.hpp"

namespace xdpgpu::bench {

// What packets are looked for by: IPv4 sources, and destination ports of TCP and UDP.
struct Entries {
  std::vector<gpu::Prefix> sources;  // no two alike
  std::vector<u16> ports;            // likewise, host order
};
// whole: addresses; else prefixes of 16 to 32 bits.
Entries random_entries(u32 sources, u32 ports, bool whole);

// Different flows. Of a hundred packets `hits` are made for an entry, half of them for a source.
std::vector<StagePacket> packets_for(const Entries& entries, u32 count, u32 hits);

struct FilledMap {
  std::string name;
  // Keys and values, as long as the map's; of a map of each CPU's, the value on all of them.
  std::vector<std::pair<std::vector<u8>, std::vector<u8>>> entries;
};

struct Filter {
  std::string name;
  std::string object;  // an ELF object's bytes; it has one program
  std::vector<FilledMap> maps;
  Entries entries{};
  // What becomes of a packet that meets an entry: it is dropped, and all others pass; or the other way round.
  bool drops_hits = true;
  // A load balancer of so many services, to which all packets are; they are sent back. 0: it is none, and has
  // entries.
  u32 services = 0;
  u32 flows = 0;  // that it remembers, of its map `flows`
  // What the kernel runs many times on end, and its section, where that is not the object: it answers as that
  // does, and leaves the packet as it was.
  std::string again{}, again_section{};
  double compile_bar = 0.3;  // seconds, from the object to the device's code
  // The stage that does the same.
  const char* stage() const { return services != 0 ? "load_balance" : "acl"; }
};

// filter.bpf.c: it looks, and changes nothing.
Filter own_filter(const Entries& prefixes);
// xdp-filter's, as they are: "alw" allows packets but for hits, "dny" denies them. They count in their maps.
// The error says that there is none in the folder.
gpu::Result<Filter> xdp_filter(const std::string& folder, bool drops_hits, const Entries& addresses);
// config/examples/balancer: flows of its services, each of which it remembers in an LRU hash, go to servers
// inside of IP packets.
Filter balancer(u32 flows);
// Different flows, each to one of its services.
std::vector<StagePacket> packets_to_services(const Filter& balancer, u32 count);
// What does the same for one service: Maglev, affinity by flow, IP in IP.
gpu::LoadBalanceSettings load_balance_of(const Filter& balancer);

// Where xdp-filter's objects are: LIBXDP_OBJECT_PATH, or where distributions have them.
std::string usual_folder();

// A policy whose only pipeline is the program, with its maps' contents in files.
compiler::PolicySource policy_of(const Filter& filter, const programs::ObjectProgram& program);

// A rule for each source, then one for each port.
gpu::AclSettings acl_of(const Filter& filter);
// What that answers to the packets.
std::vector<u32> acl_verdicts(const Filter& filter, const std::vector<StagePacket>& packets);

}  // namespace xdpgpu::bench
