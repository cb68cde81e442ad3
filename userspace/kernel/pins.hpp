// SPDX-License-Identifier: MIT
//
// userspace/kernel/pins.hpp: the maps' pins, in the interface's folder (names.hpp).
#pragma once

#include "userspace/kernel/kernel.hpp"
#include "userspace/kernel/names.hpp"

namespace xdpgpu::kernel {

// Pins every map of the port, for root alone; a root folder of somebody else's is an error. What a dead
// attach left there is removed first; a live one's pins are left alone and it is an error.
Result<void> pin_maps(const std::string& ifname, const PortMaps& maps);
// What is pinned there; nothing unless that is every map.
std::optional<PortMaps> pinned_maps(const std::string& ifname);
// The link that has the program on the interface, beside them. 0, or -errno.
int pin_link(const std::string& ifname, const Fd& link) noexcept;
Fd pinned_link(const std::string& ifname,
               const names::Scope& scope = names::own_scope()) noexcept;  // empty: there is none
// Moves an interface's pins to its new name, over what a dead attach left there; a live one's are an error.
Result<void> rename_pins(const std::string& from, const std::string& to);
// Whether what stands under the interface's name, if anything does, is root's alone, and all that leads
// there. Else it is neither opened nor removed by any of these; the error says what is wrong with it.
Result<void> check_pins(const std::string& ifname, const names::Scope& scope = names::own_scope());
// Nothing happens where check_pins() fails, or for what cannot be an interface's name, such as "" or "../x".
void remove_pins(const std::string& ifname, const names::Scope& scope = names::own_scope()) noexcept;

// Does a worker's heartbeat in this queue_state map say that an attach lives?
bool has_live_worker(int queue_state_fd) noexcept;
// Likewise, but of one that died just now it is not said: waits for another beat, half a second at most.
bool has_beating_worker(int queue_state_fd) noexcept;
// Likewise, of what is pinned for the interface; false where nothing is.
bool has_beating_pins(const std::string& ifname, const names::Scope& scope) noexcept;
// The map `queue_state` of a loaded program; empty: it has none, so it is none of ours.
Fd queue_state_of(int program) noexcept;
// The name that this map `queue_state` is pinned under, whatever its interface is called; empty: under none.
std::string pinned_as(int queue_state_fd, const names::Scope& scope = names::own_scope());

}  // namespace xdpgpu::kernel
