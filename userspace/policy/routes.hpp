// SPDX-License-Identifier: MIT
//
// userspace/policy/routes.hpp: the next hops and routes of the stage `forward`, from JSON and from files of
// one route a line: a prefix, blanks, the name of a next hop, "pass" or "drop". '#' or ';' begins a comment;
// blank lines count for nothing.
#pragma once

#include "userspace/policy/reader.hpp"

namespace xdpgpu::policy {

inline constexpr u32 kMaxNextHops = 4096;

// Reads the object of next hops by name, in the order of the text.
std::vector<NextHopSpec> read_next_hops(Report& report, const Place& place);
// Reads the array of routes and of files of routes.
std::vector<RouteSource> read_routes(Report& report, const Place& place,
                                     const std::vector<NextHopSpec>& next_hops, const NamedFileReader& files);

// Where a route leads, as written.
std::string_view route_target(const ForwardStage& stage, u32 next_hop);
u64 count_routes(const ForwardStage& stage);
// Whether some pipeline has such a stage.
bool has_router(const Policy& policy);

}  // namespace xdpgpu::policy
