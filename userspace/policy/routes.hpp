// SPDX-License-Identifier: MIT
//
// userspace/policy/routes.hpp: routes, in place and in files of one route a line: a prefix, blanks, the name
// of a target, "pass" or "drop". '#' or ';' begins a comment; blank lines count for nothing.
#pragma once

#include "userspace/policy/reader.hpp"

namespace xdpgpu::policy {

// Reads the array of routes and of files of routes. targets: the names that routes may lead to, besides
// "pass" and "drop"; a route's next_hop is the position there. Adds to both vectors; more than kMaxPrefixes
// routes are not read to the end: the caller counts, and refuses.
void read_routes(Report& report, const Place& place, const std::vector<std::string_view>& targets,
                 const NamedFileReader& files, std::vector<gpu::Route>& routes,
                 std::vector<gpu::RouteSource>& sources);

}  // namespace xdpgpu::policy
