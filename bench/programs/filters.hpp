// SPDX-License-Identifier: MIT
//
// bench/programs/filters.hpp: the XDP programs that are measured: what their maps have, the packets that they
// meet, and the stage `acl` that does the same.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "bench/stages/stage_case.hpp"
#include "gpu/stages/acl/settings.hpp"
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
  Entries entries;
  // What becomes of a packet that meets an entry: it is dropped, and all others pass; or the other way round.
  bool drops_hits = true;
};

// filter.bpf.c: it looks, and changes nothing.
Filter own_filter(const Entries& prefixes);
// xdp-filter's, as they are: "alw" allows packets but for hits, "dny" denies them. They count in their maps.
// The error says that there is none in the folder.
gpu::Result<Filter> xdp_filter(const std::string& folder, bool drops_hits, const Entries& addresses);
// Where xdp-filter's objects are: LIBXDP_OBJECT_PATH, or where distributions have them.
std::string usual_folder();

// A policy whose only pipeline is the program, with its maps' contents in files.
compiler::PolicySource policy_of(const Filter& filter, const programs::ObjectProgram& program);

// A rule for each source, then one for each port.
gpu::AclSettings acl_of(const Filter& filter);
// What that answers to the packets.
std::vector<u32> acl_verdicts(const Filter& filter, const std::vector<StagePacket>& packets);

}  // namespace xdpgpu::bench
