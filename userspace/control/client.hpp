// SPDX-License-Identifier: MIT
//
// userspace/control/client.hpp: the command line's end of the control socket.
#pragma once

#include <chrono>
#include <string>

#include "userspace/control/protocol.hpp"
#include "userspace/kernel/names.hpp"

namespace xdpgpu::control {

// running: a process answers, or does not get to (it is stuck, and clients queue up); ending: its broker is
// dead and its data plane about to end; dead: its socket is there but nobody listens; absent: no socket.
enum class Presence { running, ending, dead, absent };
// Waits some seconds for one that is ending, so never gives `ending`. An error other than these (no
// permission) counts as running and is in `why`.
Presence find_process(const std::string& ifname, std::string* why = nullptr);
// As it is at this moment, in any network namespace.
Presence look_for_process(const std::string& ifname, const kernel::names::Scope& scope,
                          std::string* why = nullptr);

// Sends one request to the process that attached the interface, and waits for its answer, so long at most.
// The error says what to do: "eth0 is not attached; ...".
Result<Response> ask(const std::string& ifname, Request request, std::chrono::milliseconds timeout,
                     const kernel::names::Scope& scope = kernel::names::own_scope());

}  // namespace xdpgpu::control
