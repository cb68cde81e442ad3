// SPDX-License-Identifier: MIT
//
// userspace/control/settle.hpp: what dead attaches left is brought in line with the interfaces that there are
// now, before anybody goes by its names.
#pragma once

#include "userspace/control/leftovers.hpp"

namespace xdpgpu::control {

// Of this network namespace. An interface that was renamed after its attach died has its program still, and
// its pins under the old name, which may be another interface's by now: they get the name that the interface
// has. What belongs to a living process is its own affair.
void settle_names(const RunLock& lock);

// Removes what is left of attaches in network namespaces that are gone: of those, no process lives and no
// pinned program has an interface any more. What a dead attach left in one that is there is for the next one
// in it.
void remove_gone_namespaces();

}  // namespace xdpgpu::control
