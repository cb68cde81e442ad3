// SPDX-License-Identifier: MIT
//
// userspace/policy/stage_names.hpp: what a stage's settings name that is not in them: interfaces and lists.
// Found by the stage's table of fields (gpu/stages/fields.hpp).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "userspace/policy/policy.hpp"

namespace xdpgpu::policy {

// Names of lists, without the @.
std::vector<std::string> lists_of(const Stage& stage);
// How many routes it has.
u64 routes_of(const Stage& stage);
// Interfaces, in the order of the table; and where each stands, as a JSON pointer from the stage on.
struct NamedPort {
  std::string name;
  std::string pointer;
};
std::vector<NamedPort> ports_of(const Stage& stage);
// Fills in what the names stand for. port: the index of an interface that ports_of() has named. lists: all
// that lists_of() has named are among them.
void resolve(Stage& stage, const std::function<u32(const std::string& name)>& port,
             const std::map<std::string, List>& lists);

// The longest IP packet that some stage sends inside of outer headers, in bytes, by the name of the
// interface; "": the one that the packet came in on. Empty: no stage encapsulates.
std::map<std::string, u32> outer_mtus(const Policy& policy);
// Whether some stage goes by what the kernel says of a router's frames (maps/router.h).
bool asks_router(const Policy& policy);

}  // namespace xdpgpu::policy
